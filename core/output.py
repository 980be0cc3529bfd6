"""Writing files: an output replaces only a file of its own kind, and only when it is complete.

A `Content` says how a kind of file begins.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pegbox.checks import check_path
from pegbox.errors import ArgumentError, PegboxError

_HEAD = 1024
"""The number of first bytes that show a file's kind."""

PROBE = b"\n" * 4096
"""Bytes that are written as a test that a disk has room."""

MAKE_ROOM = "free the disk, check the folder and its permissions, or choose another file"
"""The remedy for a file that cannot be written."""


@dataclass(frozen=True)
class Content:
    """A kind of file: its name with the article, and a pattern for its first bytes."""

    name: str
    begins: re.Pattern[bytes]


def check_output(path: str | os.PathLike[str] | None, content: Content | None = None) -> None:
    """Raise `ArgumentError`, before hours of measuring, if the file cannot be written or would replace another kind.

    As a test, a file next to it is written and removed. A file that does not exist or is empty may be written; None
    means no file.

    Args:
        content: the kind of the file; by default it may replace any kind.
    """
    if path is None:
        return
    file, shown = check_path("path", path), os.fspath(path)
    check_place(file)
    if content is not None and (head := _head(file)) and not content.begins.match(head):
        raise ArgumentError(
            f"{shown!r} exists and is not {content.name}, which would replace it; choose another name, or remove the "
            "file first"
        )
    with _beside(path, ArgumentError) as part:
        if part is not None:
            part.write_bytes(PROBE)


def check_place(file: Path, *, error: type[PegboxError] = ArgumentError) -> None:
    """Raise `error` if the file's folder does not exist, or the file is a folder."""
    shown, folder = os.fspath(file), os.fspath(file.parent)
    with contextlib.suppress(OSError):  # writing the file raises the same error
        if not file.parent.is_dir():
            raise error(f"{shown!r} cannot be written: there is no folder {folder!r}; make it first")
        if file.is_dir():
            raise error(f"{shown!r} cannot be written: it is a folder; name a file in it")


def check_distinct(files: Mapping[str, str | os.PathLike[str] | None]) -> None:
    """Raise `ArgumentError` if two of the files are the same, even under two names; the keys are their uses."""
    seen: dict[object, str] = {}
    for use, path in files.items():
        if path is None:
            continue
        first = seen.setdefault(_identity(path), use)
        if first != use:
            raise ArgumentError(
                f"{first} and {use} are the same file, {os.fspath(path)!r}: one would replace the other; name two files"
            )


@contextlib.contextmanager
def written_beside(path: str | os.PathLike[str], *, error: type[PegboxError] = ArgumentError) -> Iterator[Path]:
    """Let the body write under another name in the same folder, and rename that file to `path` when it is complete.

    If the body raises, a file that was at `path` is still there, and the new one is removed. `path` may be a link,
    which is kept, or a device, which is written to. Raises `error` if the system refuses.
    """
    file = Path(os.path.realpath(path))
    with _beside(path, error) as part:
        yield part or Path(path)
        if part is not None:
            if file.exists():
                shutil.copymode(file, part)
            part.replace(file)


@contextlib.contextmanager
def _beside(path: str | os.PathLike[str], error: type[PegboxError]) -> Iterator[Path | None]:
    """Yield the name of a file in the same folder, which is removed at the end; None for a device."""
    file = Path(os.path.realpath(path))
    try:
        if os.path.exists(path) and not os.path.isfile(path):  # a pipe's real path does not exist
            yield None
            return
        part = file.with_name(f".pegbox-{secrets.token_hex(8)}{file.suffix}")
        try:
            yield part
        finally:
            with contextlib.suppress(OSError):  # after the renaming it no longer exists
                part.unlink(missing_ok=True)
    except OSError as problem:
        why = problem.strerror or str(problem)
        raise error(f"{os.fspath(path)!r} cannot be written: {why}; {MAKE_ROOM}") from problem


def write_file(path: str | os.PathLike[str], content: str | bytes, *, error: type[PegboxError] = ArgumentError) -> None:
    """Write a file, text as UTF-8, as `written_beside` does."""
    # Text read from files may contain halves of surrogate pairs, which UTF-8 cannot encode.
    data = content.encode("utf-8", "backslashreplace") if isinstance(content, str) else content
    with written_beside(path, error=error) as part:
        part.write_bytes(data)


def _identity(path: str | os.PathLike[str]) -> object:
    """Compute a value that is equal for all names of one file, links included."""
    try:
        found = os.stat(path)
    except OSError:  # it does not exist yet
        return os.path.realpath(path)
    return found.st_dev, found.st_ino


def _head(file: Path) -> bytes:
    """Read the first bytes of a regular file; empty if there is no file, or for a device."""
    if not os.path.isfile(file):
        return b""
    try:
        with file.open("rb") as opened:
            return opened.read(_HEAD)
    except OSError as error:
        raise ArgumentError(f"{os.fspath(file)!r} cannot be read to find out its kind: {error.strerror}") from error
