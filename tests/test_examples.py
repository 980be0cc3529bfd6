"""The programs in examples/ run as a user would run them, only smaller."""

from __future__ import annotations

import json
import re
import runpy
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from pegbox.search.models import prediction
from pegbox.search.models.prediction import lowered_predictions, predicted_configs

EXAMPLES = Path(__file__).parents[1] / "examples"
ARGUMENTS = {
    "my_matmul.py": ["--size", "48", "--trials", "4"],
    "ask_tell.py": ["--rows", "64", "--trials", "8"],
    "minimize_matmul.py": ["--size", "32", "--trials", "6", "--tuner", "ga"],
    "auto_schedule_matmul.py": ["--size", "48", "--trials", "3"],
    "kmeans.py": ["--points", "50", "--centers", "5", "--dimensions", "3", "--rounds", "2", "--trials", "0"],
    "torch_layer.py": ["--rows", "3", "--size", "20", "--trials", "0"],
    "tune_model.py": ["--size", "8", "--channels", "4", "--trials", "8"],
    "packed_weights.py": ["--rows", "5", "--size", "40", "--trials", "2"],
}


Here = Callable[..., str]


@pytest.fixture
def run_here(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Here:
    """Run an example as the main program of this process; one in a process of its own is enough."""

    def run_here(name: str) -> str:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", [name, *ARGUMENTS[name]])
        monkeypatch.syspath_prepend(str(EXAMPLES))
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        return capsys.readouterr().out

    return run_here


def run(*words: object, cwd: Path) -> str:
    done = subprocess.run([sys.executable, *map(str, words)], capture_output=True, text=True, check=False, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_example_is_run_here() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(ARGUMENTS)


def test_my_matmul_tunes_builds_and_agrees_with_numpy(tmp_path: Path) -> None:
    out = run(EXAMPLES / "my_matmul.py", *ARGUMENTS["my_matmul.py"], "--records", "trials.jsonl", cwd=tmp_path)
    for words in ("tile_y", "GFLOP/s", "the same as NumPy", "def my_matmul(A: float32[48, 48]", "in vectorized range("):
        assert words in out
    records = [json.loads(line) for line in (tmp_path / "trials.jsonl").read_text().splitlines()]
    measured = {str(record["config"]) for record in records}
    assert len(measured) == 4
    assert all(record["input"][1] == "my_matmul" for record in records)


def test_my_matmul_is_a_template_for_the_command_line(tmp_path: Path) -> None:
    template = f"{EXAMPLES / 'my_matmul.py'}:my_matmul"
    out = run("-m", "pegbox", "show", template, 16, 16, 16, "--config", 0, "--emit", "ir", cwd=tmp_path)
    assert "def my_matmul(A: float32[16, 16], B: float32[16, 16], C: float32[16, 16]):" in out


def test_auto_schedule_matmul_derives_a_space_and_checks_its_kernel(run_here: Here, tmp_path: Path) -> None:
    out = run_here("auto_schedule_matmul.py")
    assert "s = te.create_schedule([out])" in out
    assert "checked; " in out
    records = [json.loads(line) for line in (tmp_path / "matmul_add.jsonl").read_text().splitlines()]
    assert all(record["input"][1] == "matmul_add@sketch" for record in records)


def test_ask_tell_tunes_something_that_is_no_kernel(run_here: Here) -> None:
    out = run_here("ask_tell.py")
    measured = [line for line in out.splitlines() if " ms  #" in line]
    assert len(measured) == len(set(measured)) == 8
    assert out.splitlines()[-1].startswith("best: ")


def test_minimize_matmul_calls_a_function_and_names_the_best(run_here: Here) -> None:
    out = run_here("minimize_matmul.py")
    assert out.startswith("6 trials in ")
    assert "order=" in out


def test_packed_weights_packs_once_and_agrees_with_numpy(run_here: Here) -> None:
    out = run_here("packed_weights.py")
    for words in ("weights (40, 40) packed into panels", "the same as NumPy", "packed ahead: "):
        assert words in out


@pytest.fixture
def few_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    """First calls of operators compare few configurations."""
    monkeypatch.setattr(prediction, "predicted_configs", partial(predicted_configs, candidates=8))
    monkeypatch.setattr(prediction, "lowered_predictions", partial(lowered_predictions, candidates=8))


def test_kmeans_agrees_with_numpy_and_prints_both_times(run_here: Here, few_candidates: None) -> None:
    out = run_here("kmeans.py").splitlines()
    assert out[0] == "the centers agree with NumPy's"
    assert re.fullmatch(r"NumPy: 3 lines, [\d.]+ ms for each assignment", out[1])
    assert re.fullmatch(r"operator: \d+ lines, [\d.]+ ms for each assignment", out[2])


def test_torch_layer_agrees_with_torch(run_here: Here, few_candidates: None) -> None:
    pytest.importorskip("torch")
    out = run_here("torch_layer.py").splitlines()
    assert out[0] == "the same as torch"
    assert out[1].startswith("torch: ")


def test_tune_model_compares_the_tuned_model_with_the_predicted_one(run_here: Here, few_candidates: None) -> None:
    pytest.importorskip("onnx")
    out = run_here("tune_model.py")
    for words in ("digits: 7 operators", "predicted kernels give", "all calls"):
        assert words in out
