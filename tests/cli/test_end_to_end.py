"""The main job as a user runs it: separate processes, real measuring, on a matrix so small that it takes seconds."""

from __future__ import annotations

import ctypes
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import pegbox as pb
from pegbox.errors import ArgumentError
from pegbox.plugins.cli import main

MATMUL = ("matmul", "64", "64", "64")
TEMPLATES = '''
import pegbox as pb
from pegbox import te

@pb.template("twice")
def twice(cfg, N):
    """y = 2 x"""
    x = te.placeholder((N,), name="x")
    y = te.compute((N,), lambda i: x[i] * 2.0, name="y")
    s = te.create_schedule(y.op)
    (axis,) = s[y].op.axis
    cfg.define_split("tile", axis, num_outputs=2)
    cfg["tile"].apply(s, y, axis)
    return s, [x, y]

def raises(cfg, N):
    raise ZeroDivisionError("in the template")

def returns_nothing(cfg, N):
    pass

def impossible(cfg, N):
    made = twice(cfg, N)
    cfg.add_constraint(lambda c: False, reads=("tile",), message="tiles are never right")
    return made
'''


def pegbox(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pegbox", *words]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, check=False, timeout=300)


Here = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def pegbox_here(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Here:
    """Run `pegbox` in this process, for tests in which processes play no part."""

    def run(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
        monkeypatch.chdir(cwd)
        code = main(list(words))
        captured = capsys.readouterr()
        return subprocess.CompletedProcess(words, code, captured.out, captured.err)

    return run


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the records of four trials of a small matmul."""
    folder = tmp_path_factory.mktemp("tuned")
    (folder / "mine.py").write_text(TEMPLATES)
    ran = pegbox("tune", *MATMUL, "--tuner", "random", "--trials", "4", "--seed", "1", cwd=folder)
    assert ran.returncode == 0, ran.stderr
    assert "records: matmul-64x64x64.jsonl" in ran.stdout
    return folder


def test_tune_writes_one_json_line_per_trial(tuned: Path) -> None:
    lines = (tuned / "matmul-64x64x64.jsonl").read_text().splitlines()
    assert len(lines) >= 4
    assert all(len(json.loads(line)["result"]) == 4 for line in lines)


def test_resume_measures_nothing_twice(tuned: Path, tmp_path: Path, pegbox_here: Here) -> None:
    records = tmp_path / "copy.jsonl"
    records.write_bytes((tuned / "matmul-64x64x64.jsonl").read_bytes())
    words = ("--tuner", "random", "--trials", "6", "--seed", "1", "--resume", "--records", str(records))
    ran = pegbox_here("tune", *MATMUL, *words, cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    indices = {json.loads(line)["config"]["index"] for line in records.read_text().splitlines()}
    assert len(indices) == 6


def test_best_prints_the_fastest(tuned: Path, pegbox_here: Here) -> None:
    ran = pegbox_here("best", "matmul-64x64x64.jsonl", cwd=tuned)
    assert ran.returncode == 0, ran.stderr
    assert "matmul" in ran.stdout
    (found,) = json.loads(pegbox_here("best", "matmul-64x64x64.jsonl", "--json", cwd=tuned).stdout)
    costs = [
        min(record["result"][0])
        for record in map(json.loads, (tuned / "matmul-64x64x64.jsonl").read_text().splitlines())
        if record["result"][1] == 0
    ]
    assert found["cost"] >= min(costs)
    assert found["trials"] >= 4


@pytest.mark.parametrize(
    ("emit", "contained"), [("space", "tile"), ("schedule", ""), ("ir", "for"), ("ll", "define"), ("asm", "ret")]
)
def test_show_prints_every_stage_of_a_candidate(tuned: Path, emit: str, contained: str, pegbox_here: Here) -> None:
    ran = pegbox_here("show", *MATMUL, "--emit", emit, "--records", "matmul-64x64x64.jsonl", cwd=tuned)
    assert ran.returncode == 0, ran.stderr
    assert contained in ran.stdout
    assert len(ran.stdout.strip().splitlines()) > 1


def test_built_library_holds_the_symbol_that_its_header_declares(tuned: Path, pegbox_here: Here) -> None:
    ran = pegbox_here("build", *MATMUL, "--records", "matmul-64x64x64.jsonl", "--out", "matmul.so", cwd=tuned)
    assert ran.returncode == 0, ran.stderr
    assert "matmul(" in (tuned / "matmul.h").read_text()
    assert ctypes.CDLL(str(tuned / "matmul.so")).matmul


def test_built_object_is_an_object_file(tuned: Path, pegbox_here: Here) -> None:
    ran = pegbox_here("build", *MATMUL, "--out", "matmul.o", "--no-header", cwd=tuned)
    assert ran.returncode == 0, ran.stderr
    assert (tuned / "matmul.o").read_bytes()[:4] == b"\x7fELF"


def test_template_in_a_file_is_tuned_by_its_path(tuned: Path, tmp_path: Path, pegbox_here: Here) -> None:
    records = str(tmp_path / "twice.jsonl")
    words = ("--trials", "3", "--tuner", "grid", "--records", records)
    ran = pegbox_here("tune", "mine.py:twice", "4096", *words, cwd=tuned)
    assert ran.returncode == 0, ran.stderr
    found = [json.loads(line) for line in Path(records).read_text().splitlines()]
    assert [record["result"][1] for record in found[:3]] == [0, 0, 0]


def test_tune_writes_a_page_and_a_picture(tmp_path: Path, pegbox_here: Here) -> None:
    simulated = ("tune", "--simulate", "matmul-512x512x512", "--tuner", "random", "--trials", "12", "--quiet")
    ran = pegbox_here(*simulated, "--html", "search.html", "--plot", "search.svg", cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert "wrote search.html\nwrote search.svg\n" in ran.stdout
    assert "<svg" in (tmp_path / "search.html").read_text(encoding="utf-8")
    assert "<svg" in (tmp_path / "search.svg").read_text(encoding="utf-8")
    refused = pegbox_here(*simulated, "--html", "missing/search.html", cwd=tmp_path)
    assert refused.returncode == 2
    assert "missing" in refused.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("tune", "matmull", "64", "64", "64"), "matmul"),
        (("tune", *MATMUL, "--tuner", "xbg"), "xgb"),
        (("tune", *MATMUL, "--tuner", "xgb:plan_sice=3"), "plan_size"),
        (("tune", *MATMUL, "--runner", "locale"), "local"),
        (("tune", *MATMUL, "--target", "llvm -mcpu=no-such-cpu"), "no-such-cpu"),
        (("tune", "matmul", "64"), "matmul"),
        (("tune", "matmul", "64", "64", "sixtyfour"), "sixtyfour"),
        (("tune", "mine.py:raises", "64"), "in the template"),
        (("tune", "mine.py:returns_nothing", "64"), "returns_nothing"),
        (("tune", "mine.py:absent", "64"), "twice"),
        (("tune", "absent.py:f", "64"), "absent.py"),
        (("tune", "mine.py", "64"), "write 'mine.py:NAME'"),
        (("best", "absent.jsonl"), "absent.jsonl"),
        (("build", *MATMUL, "--records", "absent.jsonl", "--out", "k.so"), "absent.jsonl"),
        (("build", *MATMUL, "--out", "no/folder/k.so"), "there is no folder 'no/folder'"),
        (("build", *MATMUL, "--out", "no/folder/k.o"), "there is no folder 'no/folder'"),
        (("show", *MATMUL, "--emit", "ir", "--config", "9" * 30), "9" * 30),
        (("tune", *MATMUL, "--records", "/no/such/folder/a.jsonl", "--trials", "1"), "/no/such/folder"),
    ],
)
def test_bad_input_is_reported_without_a_traceback(
    tuned: Path, words: tuple[str, ...], said: str, pegbox_here: Here
) -> None:
    ran = pegbox_here(*words, cwd=tuned)
    assert ran.returncode == 2, ran.stderr
    assert said in ran.stderr
    assert "Traceback" not in ran.stderr


def test_records_without_a_valid_trial_exit_with_one(tuned: Path, tmp_path: Path, pegbox_here: Here) -> None:
    record = json.loads((tuned / "matmul-64x64x64.jsonl").read_text().splitlines()[0])
    record["result"] = [[1e9], 4, *record["result"][2:]]
    (tmp_path / "failed.jsonl").write_text(json.dumps(record) + "\n")
    assert pegbox_here("best", "failed.jsonl", cwd=tmp_path).returncode == 1
    assert pegbox_here("build", *MATMUL, "--records", "failed.jsonl", "--out", "k.so", cwd=tmp_path).returncode == 1


@pytest.mark.parametrize("tuner", ["random", "grid", "ga", "xgb"])
def test_a_space_without_a_valid_config_exits_with_one_and_names_the_constraint(
    tuned: Path, tuner: str, pegbox_here: Here
) -> None:
    ran = pegbox_here("tune", "mine.py:impossible", "64", "--trials", "2", "--tuner", tuner, "--no-records", cwd=tuned)
    assert ran.returncode == 1, ran.stderr
    assert "the space has no valid config" in ran.stderr
    assert "tiles are never right" in ran.stderr
    assert "raised" not in ran.stderr


def test_tune_takes_a_task_and_says_how_to_make_one() -> None:
    with pytest.raises(ArgumentError, match=r"'matmul' is not a task; make one with pegbox.create_task\('matmul'"):
        pb.tune("matmul")  # type: ignore[arg-type]


def test_ctrl_c_keeps_what_was_measured_and_prints_the_best_of_it(tuned: Path, tmp_path: Path) -> None:
    records = tmp_path / "cut.jsonl"
    words = ("tune", *MATMUL, "--tuner", "random", "--trials", "100000", "--records", str(records))
    command = [sys.executable, "-m", "pegbox", *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tuned)
    try:
        while process.poll() is None and (not records.exists() or records.read_text().count("\n") < 3):
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 0, err
    assert "stopped: interrupted" in out
    assert "config: #" in out
    lines = records.read_text().splitlines()
    assert len(lines) >= 3
    assert f"{len(lines)} trials in" in out
    assert "Traceback" not in err
