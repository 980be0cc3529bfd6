"""Folders of this user alone, where all users of a machine keep temporary files."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from pegbox import private_folder as module
from pegbox.private_folder import ProcessFolder, private_folder

NAME = f"pegbox-c-{os.getuid()}"
PRINTED = "from pegbox.private_folder import private_folder; print(private_folder('c'), flush=True)"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(module.tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(module, "_fallbacks", {})
    return tmp_path


def mode(path: Path) -> int:
    return path.lstat().st_mode & 0o777


def test_the_folder_is_the_same_each_time_and_closed_to_others(folder: Path) -> None:
    old = os.umask(0)
    try:
        path = private_folder("c")
    finally:
        os.umask(old)
    (path / "file").touch()
    assert path == private_folder("c") == folder / NAME
    assert mode(path) == 0o700
    assert [file.name for file in path.iterdir()] == ["file"]


def test_a_folder_that_others_could_look_into_is_closed_to_them(folder: Path) -> None:
    (folder / NAME).mkdir(mode=0o755)
    assert private_folder("c") == folder / NAME
    assert mode(folder / NAME) == 0o700


def _elsewhere(path: Path) -> None:
    path.with_name("elsewhere").mkdir(mode=0o700)
    path.symlink_to(path.with_name("elsewhere"))


def _open_to_all(path: Path) -> None:
    path.mkdir()
    path.chmod(0o777)


def _of_another_user(path: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can make another user's folder")
    path.mkdir(mode=0o700)
    os.chown(path, 65534, -1)


TAKEN: dict[str, Callable[[Path], object]] = {
    "a file": Path.touch,
    "a link to nowhere": lambda path: path.symlink_to("nowhere"),
    "a link to itself": lambda path: path.symlink_to(path),
    "a link to a folder of the user": _elsewhere,
    "a FIFO": os.mkfifo,
    "a folder in which all may write": _open_to_all,
    "a folder of another user": _of_another_user,
}


@pytest.mark.parametrize("take", TAKEN.values(), ids=TAKEN)
def test_a_name_that_is_taken_gives_a_folder_of_the_process(folder: Path, take: Callable[[Path], object]) -> None:
    take(folder / NAME)
    before, was = sorted(folder.iterdir()), (folder / NAME).lstat()
    path = private_folder("c")
    assert path == private_folder("c")  # the same for the whole process
    assert (path.parent, mode(path)) == (folder, 0o700)
    assert path != folder / NAME
    done = subprocess.run(
        [sys.executable, "-c", PRINTED],
        env={**os.environ, "TMPDIR": str(folder)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() not in (str(path), str(folder / NAME))
    assert sorted(folder.iterdir()) == sorted([*before, path])  # the other process left nothing
    assert (folder / NAME).lstat() == was
    if (folder / "elsewhere").exists():
        assert not list((folder / "elsewhere").iterdir())


def test_a_folder_of_a_process_goes_when_it_is_closed_or_forgotten(folder: Path) -> None:
    first, second = ProcessFolder("bench"), ProcessFolder("bench")
    (first.path / "file").touch()
    assert sorted(folder.iterdir()) == sorted([first.path, second.path])
    first.close()
    first.close()
    assert list(folder.iterdir()) == [second.path]
    del second
    assert not list(folder.iterdir())


def test_the_folder_of_a_killed_process_is_removed_by_the_next_and_that_of_a_living_one_is_not(folder: Path) -> None:
    program = "from pegbox.private_folder import *; f = ProcessFolder('bench'); print(f.path, flush=True); input()"
    other = {"env": {**os.environ, "TMPDIR": str(folder)}, "stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    processes = [subprocess.Popen([sys.executable, "-c", program], **other) for _ in range(2)]
    paths = [Path(process.stdout.readline().decode().strip()) for process in processes]
    foreign = folder / f"pegbox-bench-{os.getuid()}-file"
    foreign.touch()
    processes[0].send_signal(signal.SIGKILL)
    processes[0].wait(20)
    own = ProcessFolder("bench")
    assert sorted(folder.iterdir()) == sorted([paths[1], own.path, foreign])
    processes[1].communicate(b"\n", timeout=20)
    processes[0].communicate()
    assert sorted(folder.iterdir()) == sorted([own.path, foreign])


def test_a_fork_leaves_the_folder_to_its_process(folder: Path) -> None:
    own = ProcessFolder("bench")
    if (pid := os.fork()) == 0:
        own.close()
        os._exit(0)
    os.waitpid(pid, 0)
    assert list(folder.iterdir()) == [own.path]


def test_a_folder_may_be_made_elsewhere(folder: Path) -> None:
    (folder / "there").mkdir()
    own = ProcessFolder("bench", parent=folder / "there")
    assert own.path.parent == folder / "there"


def test_a_folder_that_is_removed_before_it_is_locked_is_made_anew(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    true_lock, made = module.fcntl.flock, []

    def late(descriptor: int, how: int) -> None:
        if not made:
            made.extend(folder.iterdir())
            shutil.rmtree(made[0])
        true_lock(descriptor, how)

    monkeypatch.setattr(module.fcntl, "flock", late)
    own = ProcessFolder("bench")
    assert list(folder.iterdir()) == [own.path] != made


def test_without_a_folder_for_temporary_files_the_error_is_the_systems(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.tempfile, "tempdir", tempfile.gettempdir() + "/there/is/none")
    with pytest.raises(FileNotFoundError):
        private_folder("c")
