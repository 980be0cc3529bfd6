"""Folders private to this user, under the folder for temporary files that all users of a machine share."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
import weakref
from pathlib import Path

from pegbox.ownership import is_own
from pegbox.workers.watchdog import guard, release

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

_fallbacks: dict[str, ProcessFolder] = {}


def private_folder(name: str) -> Path:
    """Return the folder `pegbox-NAME-UID`, whose files later processes of this user find again. Make it if necessary.

    No other user can look into it or ever could write there. If the name is taken (by a file, a link, another user's
    folder), return a folder of this process, which is removed when the process ends.

    Raises `OSError` if there is no folder for temporary files, or no room in it.
    """
    path = Path(tempfile.gettempdir()) / f"pegbox-{name}-{os.getuid()}"
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=0o700)
    if _made_private(path):
        return path
    fallback = _fallbacks.get(name)
    if fallback is None or not fallback.path.is_dir():  # a fork may outlive the process that removes the folder
        fallback = _fallbacks[name] = ProcessFolder(name)
    return fallback.path


class ProcessFolder:
    """A folder `pegbox-NAME-UID-*` of this process, at `path`; it is removed by `close`, or else when the process ends.

    If the process is killed, its watchdog removes the folder. If the watchdog was killed, too, the next process that
    makes such a folder removes it. A lock on the folder shows that its process, or a fork of it, is alive.

    Args:
        name: the use of the folder.
        parent: where to make it, by default among the temporary files.

    Raises `OSError` if there is no room for it.
    """

    def __init__(self, name: str, *, parent: str | os.PathLike[str] | None = None) -> None:
        folder = Path(tempfile.gettempdir() if parent is None else parent)
        prefix = f"pegbox-{name}-{os.getuid()}-"
        for left in folder.glob(f"{prefix}*"):
            _remove_if_dead(left)
        self.path, lock = _made_and_locked(prefix, folder)
        guard(self.path)
        self._finalizer = weakref.finalize(self, _remove, self.path, lock, os.getpid())

    def close(self) -> None:
        """Remove the folder; harmless when done twice."""
        self._finalizer()


def _made_private(path: Path) -> bool:
    """Close this user's folder to others; return whether no other user could write there before."""
    try:
        descriptor = os.open(path, _FOLDER)
    except OSError:
        return False
    try:
        info = os.fstat(descriptor)
        if not is_own(info):
            return False
        if stat.S_IMODE(info.st_mode) != stat.S_IRWXU:
            os.fchmod(descriptor, stat.S_IRWXU)
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)


def _made_and_locked(prefix: str, parent: Path) -> tuple[Path, int]:
    while True:
        path = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        with contextlib.suppress(FileNotFoundError):
            descriptor = os.open(path, _FOLDER)
            with contextlib.suppress(OSError):  # some network file systems have no locks: nothing is removed there
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            if path.is_dir():
                return path, descriptor
            os.close(descriptor)  # another process took it for a dead process's before it was locked


def _remove_if_dead(path: Path) -> None:
    with contextlib.suppress(OSError):
        descriptor = os.open(path, _FOLDER)
        try:
            if os.fstat(descriptor).st_uid == os.getuid():
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path, ignore_errors=True)
        finally:
            os.close(descriptor)


def _remove(path: Path, lock: int, process: int) -> None:
    if os.getpid() == process:  # not in its forks
        shutil.rmtree(path, ignore_errors=True)
        release(path)
    with contextlib.suppress(OSError):
        os.close(lock)
