"""A disk without room: what was written before is whole, nothing half written is left, and the error names the file."""

from __future__ import annotations

import ast
import contextlib
import importlib
import io
import os
import re
import resource
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import comparisons
import pytest

import pegbox as pb
from pegbox import te
from pegbox.codegen import Target, emit, write_object, write_shared_library
from pegbox.errors import ArgumentError, ComparisonError, PegboxError, RecordError, TuningError
from pegbox.loops.passes import lower_function
from pegbox.output import MAKE_ROOM, write_file, written_beside
from pegbox.plugins import tvm
from pegbox.plugins.cli import main
from pegbox.plugins.tvm.autotvm.record import pick_best
from pegbox.schedule.te.replay import lower_te
from pegbox.search.loop.recorder import Recorder
from pegbox.search.models.experience import shipped_sources, write_experience

SHIPPED = Path(pb.__file__).parent / "records" / "shipped"
ONE_CORE = Target("llvm -num-cores 1")
ROOM = 16
"""The bytes that fit in a file."""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    return tmp_path


@contextlib.contextmanager
def full_disk() -> Iterator[None]:
    """A limit of the size of files stands for the full disk: write() fails in the same way."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (ROOM, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def _result() -> Any:
    space = pb.ConfigSpace()
    space.define_knob("a", [1, 2])
    return pb.minimize(lambda cfg: cfg["a"].val, space, trials=2, tuner="random", progress=False)


def _report() -> Any:
    return comparisons.made({"a": [[3.0, 2.0]], "b": [[4.0, 1.0]]})


def _program(name: str = "main") -> Any:
    A = te.placeholder((4,), name="A")
    B = te.compute((4,), lambda i: A[i] + 1, name="B")
    return emit(lower_function(lower_te(te.create_schedule(B.op), [A, B], name)), ONE_CORE)


def _recorded() -> str:
    shutil.copy(SHIPPED / "conv2d-512x7x7-nchw.jsonl.xz", "records.jsonl.xz")
    return "records.jsonl.xz"


def _exported(name: str) -> Callable[[], object]:
    task = pb.create_task("matmul", args=(4, 4, 4), target="llvm -num-cores 1")
    return lambda: pb.export(task, 0, name)


def _module() -> Any:
    A = te.placeholder((4,), name="A")
    B = te.compute((4,), lambda i: A[i] + 1, name="B")
    return tvm.build(te.create_schedule(B.op), [A, B], "llvm -num-cores 1")


def _commanded(words: str) -> Callable[[], None]:
    def run() -> None:
        error = io.StringIO()
        with contextlib.redirect_stderr(error):
            if main(words.split()):
                raise RecordError(error.getvalue())

    return run


WRITERS: dict[str, tuple[str, bytes, Callable[[], Callable[[], object]]]] = {
    "text": ("a.txt", b"", lambda: lambda: write_file("a.txt", "x" * 100)),
    "page of a search": ("a.html", b"<!doctype html>", lambda: partial(_result().to_html, "a.html")),
    "picture of a search": ("a.png", b"\x89PNG", lambda: partial(_result().plot, "a.png")),
    "vector picture": ("a.svg", b"<svg", lambda: partial(_result().plot, "a.svg")),
    "page of a comparison": ("a.html", b"<!doctype html>", lambda: partial(_report().to_html, "a.html")),
    "picture of a comparison": ("a.pdf", b"%PDF", lambda: partial(_report().plot, "a.pdf")),
    "report of a comparison": ("a.json", b'{"kind": "pegbox comparison"', lambda: partial(_report().save, "a.json")),
    "packed records": ("a.jsonl.gz", b"\x1f\x8b", lambda: partial(pb.pack_space, _recorded(), "a.jsonl.gz")),
    "object": ("a.o", b"\x7fELF", lambda: partial(write_object, _program(), "a.o")),
    "object of two": ("a.o", b"\x7fELF", lambda: partial(write_object, [_program("f"), _program("g")], "a.o")),
    "library": ("a.so", b"\x7fELF", lambda: partial(write_shared_library, _program(), "a.so")),
    "exported object": ("a.o", b"\x7fELF", lambda: _exported("a.o")),
    "experience": ("a.npz", b"", lambda: partial(write_experience, Path("a.npz"), ["a"], shipped_sources()[:1])),
    "sketch": ("a.py", b"", lambda: _commanded("sketch matmul 4 4 4 --out a.py --force")),
    "best records": ("a.log", b"", lambda: partial(pick_best, _recorded(), "a.log")),
    "LLVM's text": ("a.ll", b"", lambda: partial(_module().save, "a.ll")),
    "archive": ("a.tar", b"", lambda: partial(_module().export_library, "a.tar")),
}
"""Name of the file, first bytes of an older one, and what makes the function that writes it."""


@pytest.mark.parametrize("older", [True, False])
@pytest.mark.parametrize("writer", WRITERS)
def test_a_full_disk_leaves_the_older_file_alone_and_the_error_names_the_new_one(older: bool, writer: str) -> None:
    name, begins, made = WRITERS[writer]
    write = made()
    if older:
        Path(name).write_bytes(begins + b" of older days")
    held = {path.name: path.read_bytes() for path in Path().iterdir()}
    with full_disk(), pytest.raises(PegboxError) as caught:
        write()
    # The library of an archive is a temporary file.
    named = f"({re.escape(name)}|tmp.*lib.so)'? .*(File too large|File size limit).*; {re.escape(MAKE_ROOM)}"
    assert re.search(named, str(caught.value))
    assert {path.name: path.read_bytes() for path in Path().iterdir()} == held
    write()
    assert Path(name).stat().st_size > ROOM
    assert {path.name for path in Path().iterdir()} - {*held, name} <= {"a.h"}  # a header of the exported object


def test_a_header_is_written_like_the_object() -> None:
    write = _exported("a.o")
    write()
    held = Path("a.h").read_bytes()
    with full_disk(), pytest.raises(PegboxError):
        write()
    assert Path("a.h").read_bytes() == held


@contextlib.contextmanager
def disk_that_fills(monkeypatch: pytest.MonkeyPatch, name: str) -> Iterator[None]:
    """Leave no room once the probe of this module has passed."""
    probe = f"pegbox.{name}"
    module = importlib.import_module(probe.rpartition(".")[0])
    checked = getattr(module, probe.rpartition(".")[2])
    with contextlib.ExitStack() as stack:

        def check(*args: Any, **kwargs: Any) -> Any:
            found = checked(*args, **kwargs)
            stack.enter_context(full_disk())
            return found

        monkeypatch.setattr(probe, check)
        yield


def test_a_comparison_whose_report_finds_no_room_gives_it_in_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    space = pb.recorded_space("conv2d-512x7x7-nchw")
    settings = {"tuners": ["random", "ga"], "trials": 2, "seeds": 2, "start": 1, "progress": False, "save": "a.json"}
    with full_disk(), pytest.raises(ArgumentError, match=rf"^'a\.json' cannot be written: .*; {MAKE_ROOM}"):
        pb.compare(space, **settings)
    broken = pytest.raises(ComparisonError, match=r"'a\.json' cannot be written")
    with disk_that_fills(monkeypatch, "comparison.progress.check_output"), broken as caught:
        pb.compare(space, **settings)
    assert len(caught.value.result.runs) == 1
    assert "and in a.json" not in str(caught.value)
    assert not os.listdir()


def test_a_full_disk_is_found_before_a_search() -> None:
    space = pb.ConfigSpace()
    space.define_knob("a", [1, 2])
    with full_disk(), pytest.raises(RecordError, match=r"^cannot write records to 'a\.jsonl': File too large"):
        pb.minimize(_never_called, space, trials=2, records="a.jsonl", progress=False)
    assert not Path("a.jsonl").exists()


def _never_called(cfg: object) -> float:
    raise AssertionError


TUNE = "tune ops.py:scale 8 --trials 2 --tuner random -q"


def test_records_without_room_end_the_search_with_the_file_and_the_command_that_goes_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("ops.py").write_text(
        "from pegbox import te\n"
        "def scale(cfg, n):\n"
        "    A = te.placeholder((n,), name='A')\n"
        "    B = te.compute((n,), lambda i: A[i] * 2.0, name='B')\n"
        "    cfg.define_knob('unused', [1, 2])\n"
        "    return te.create_schedule(B.op), [A, B]\n"
    )
    monkeypatch.setattr(Recorder, "append", _no_room)
    assert main(TUNE.split()) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith(f"pegbox tune: error: cannot write records to 'scale-8.jsonl': full; {MAKE_ROOM}; then go")
    assert error.endswith(f"go on: pegbox {TUNE} --resume")
    said = (
        r"^cannot write records to 'b\.jsonl': .* are kept in error\.result; then resume=True goes on from the records$"
    )
    with pytest.raises(TuningError, match=said):
        pb.tune(pb.create_task("ops.py:scale", args=(8,)), trials=2, records="b.jsonl", progress=False)


def _no_room(recorder: Recorder, *_: object, **__: object) -> None:
    raise RecordError(f"cannot write records to {str(recorder.journal.path)!r}: full; {MAKE_ROOM}")


def test_an_interruption_removes_the_piece(folder: Path) -> None:
    Path("a.txt").write_text("older")
    with contextlib.suppress(KeyboardInterrupt), written_beside("a.txt") as part:
        part.write_text("a piece")
        raise KeyboardInterrupt
    assert [(path.name, path.read_text()) for path in folder.iterdir()] == [("a.txt", "older")]


def test_links_and_modes_stay_and_devices_are_written_to(folder: Path) -> None:
    (folder / "there").mkdir()
    held, link = folder / "there" / "held.txt", folder / "link.txt"
    held.write_text("older")
    held.chmod(0o640)
    link.symlink_to("there/held.txt")
    write_file(link, "new \ud800")
    assert (os.readlink(link), held.read_text(), held.stat().st_mode & 0o777) == (
        "there/held.txt", "new \\ud800", 0o640,
    )  # fmt: skip
    write_file(os.devnull, "x")
    assert Path(os.devnull).is_char_device()
    with pytest.raises(RecordError, match=f"'none/a.txt' cannot be written: No such file or directory; {MAKE_ROOM}"):
        write_file("none/a.txt", "x", error=RecordError)


def test_long_names_are_written() -> None:
    write_file("a" * 250 + ".txt", "x")
    assert os.listdir() == ["a" * 250 + ".txt"]


DIRECTLY = {
    "core/output.py": {"write_bytes"},
    "core/comparison/run_log.py": {"open"},
    "core/measure/trial/bench.py": {"open"},
    "core/workers/serve.py": {"open"},
    "core/codegen/runtime/export.py": {"write_bytes"},
    "core/codegen/runtime/elf_objects.py": {"open"},
    "plugins/tvm/runtime/module.py": {"open"},
}
"""Modules that write files without `write_file`: temporary files, devices, log files, files of `written_beside`."""


def test_files_are_written_by_one_function() -> None:
    root = Path(__file__).parents[1]
    found: dict[str, set[str]] = {}
    for path in (file for room in ("core", "templates", "tuners", "plugins") for file in (root / room).rglob("*.py")):
        text = path.read_text()
        for node in ast.walk(ast.parse(text)) if re.search(r"\b(write_\w+|save\w*|tofile|open)\(", text) else ():
            if isinstance(node, ast.Call) and (name := _writes(node)):
                found.setdefault(str(path.relative_to(root)), set()).add(name)
    assert found == DIRECTLY


def _writes(call: ast.Call) -> str:
    """The name of a function that writes a file, "" for all others."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if name in ("write_text", "write_bytes", "savefig", "savez", "savez_compressed", "tofile"):
        in_memory = (
            call.args and isinstance(call.args[0], ast.Name) and call.args[0].id in ("file", "archive", "picture")
        )
        return "" if in_memory else name
    if name == "save":
        return name if isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value) == "np" else ""
    modes = [*call.args[:2], *(keyword.value for keyword in call.keywords if keyword.arg == "mode")]
    words = [str(mode.value) for mode in modes if isinstance(mode, ast.Constant)]
    return name if name == "open" and any(re.fullmatch("[rbt]*[wax+][rbt+]*", word) for word in words) else ""
