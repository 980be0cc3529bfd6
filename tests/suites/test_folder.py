"""Folders as suites: what `suite.json` lists, results files without one, and what is named when it cannot be opened."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import pegbox as pb
from pegbox.errors import ArgumentError
from pegbox.records.recorded_space import RecordedSpace
from pegbox.suites import Suite, load_suite, shipped_suites

OBJECTIVES = '''
import pegbox as pb

def bowl(width=4, pure=True):
    """A bowl."""
    space = pb.ConfigSpace()
    space.define_knob("x", range(width))
    return pb.Objective(lambda config: 1.0 + (config["x"].val - 2) ** 2, space, pure=pure)

def broken():
    raise ZeroDivisionError("no such luck")

value = 3
'''

T4 = {
    "schema_version": "1.0.0",
    "metadata": {"timeunit": "milliseconds"},
    "results": [
        {
            "configuration": {"block": block},
            "times": {"compilation_time": 1.0},
            "invalidity": "correct",
            "measurements": [{"name": "time", "value": 1.0 + block, "unit": "ms"}],
        }
        for block in (1, 2, 4)
    ],
}


def suite_of(folder: Path, *spaces: Any, **more: Any) -> Path:
    """Write a suite with these problems."""
    (folder / "functions.py").write_text(OBJECTIVES)
    (folder / "suite.json").write_text(json.dumps({"suite": "mine", "spaces": list(spaces), **more}))
    return folder


def reasons(suite: Suite) -> dict[str, str]:
    return {missing.name: missing.reason for missing in suite.missing}


BOWL = {"name": "bowl", "objective": "functions.py:bowl"}


def test_a_suite_lists_files_and_functions(tmp_path: Path) -> None:
    (tmp_path / "gemm.json").write_text(json.dumps(T4))
    suite = load_suite(
        suite_of(
            tmp_path,
            {"name": "gemm", "file": "gemm.json", "optimum": 2e-3, "description": "A product."},
            {**BOWL, "options": {"width": 8}, "optimum": 1.0},
            {"name": "small", "file": "matmul-512x512x512"},
            description="Mine.",
        )
    )
    assert (suite.name, suite.description, suite.missing) == ("mine", "Mine.", ())
    gemm, bowl, small = suite.problems
    assert (gemm.name, gemm.task.name, gemm.description) == ("gemm", "gemm", "A product.")
    assert isinstance(gemm.task, RecordedSpace)
    assert (bowl.task.name, bowl.task.space.size, bowl.optimum) == ("bowl", 8, 1.0)
    assert small.task.name == "small"


def test_a_folder_without_a_list_is_a_suite_of_its_results(tmp_path: Path) -> None:
    for application in ("gemm", "hotspot"):
        (tmp_path / application).mkdir()
        for device in ("A100", "MI250X"):
            (tmp_path / application / f"{device}_T4.json").write_text(json.dumps(T4))
    (tmp_path / "gemm" / "gemm-CAFF.json").write_text('{"ConfigurationSpace": {}}')  # what is tuned, no results
    suite = load_suite(tmp_path)
    assert [problem.name for problem in suite] == [
        "gemm/A100_T4", "gemm/MI250X_T4", "hotspot/A100_T4", "hotspot/MI250X_T4"
    ]  # fmt: skip
    assert list(reasons(suite)) == ["gemm/gemm-CAFF"]


@pytest.mark.parametrize(
    ("space", "reason"),
    [
        ({"name": "bad", "file": "gone.jsonl"}, "there is no file"),
        ({"name": "bad", "file": "torn.jsonl.xz"}, "damaged"),
        ({"name": "bad", "file": "gemm.json", "optimum": 5.0}, "its best cost is 0.002, but the suite declares 5.0"),
        ({"name": "bad", "objective": "functions.py:broken"}, "ZeroDivisionError: no such luck"),
        ({"name": "bad", "objective": "functions.py:value"}, "is not a function"),
        ({"name": "bad", "objective": "functions.py:gone"}, "is not a function"),
        ({"name": "bad", "objective": "gone.py:bowl"}, "gone.py"),
        ({"name": "bad", "objective": "bowl"}, "write it as 'file.py:function'"),
        ({"name": "bad", "objective": "no.such.module:bowl"}, "cannot be imported"),
        ({"name": "bad", "objective": "functions.py:bowl", "options": {"pure": False}}, "pure=True"),
        ({"name": "bad", "objective": "functions.py:bowl", "options": {"depth": 3}}, "depth"),
        ({"name": "bad", "optimum": -1.0, **{"file": "gemm.json"}}, "above 0"),
        ({"name": "bad"}, "give 'file'"),
        ({"name": "bad", "fle": "gemm.json"}, "'fle' is unknown"),
        ({"name": "bowl", "objective": "functions.py:bowl"}, "has the same name"),
        ("bad", "instead of dict"),
    ],
)
def test_a_problem_that_cannot_be_opened_is_named_and_the_rest_is_there(
    tmp_path: Path, space: Any, reason: str
) -> None:
    (tmp_path / "gemm.json").write_text(json.dumps(T4))
    (tmp_path / "torn.jsonl.xz").write_bytes(b"\xfd7zXZ\0 and no more")
    suite = load_suite(suite_of(tmp_path, BOWL, space))
    assert [problem.name for problem in suite] == ["bowl"]
    (missing,) = suite.missing
    assert missing.name in ("bad", "bowl", "problem 2")
    assert reason in missing.reason


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "cannot be read as a suite"),
        ("[]", "instead of dict"),
        ('{"suite": "mine"}', "the field 'spaces' is missing"),
        ('{"suite": 3, "spaces": []}', "instead of str"),
        ('{"suite": "mine", "spaces": []}', "none of its problems can be opened"),
    ],
)
def test_a_damaged_list_is_an_error(tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / "suite.json").write_text(text)
    with pytest.raises(ArgumentError, match=reason):
        load_suite(tmp_path)


def test_a_name_that_is_neither_a_folder_nor_shipped_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=r"ships with pegbox \(hard, knobs, sketches, templates\).*did you mean"):
        load_suite("templatse")
    with pytest.raises(ArgumentError, match="holds no results file"):
        load_suite(tmp_path)


def test_the_name_of_a_shipped_suite_means_that_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "knobs").mkdir()
    suite_of(tmp_path / "knobs", BOWL)
    monkeypatch.chdir(tmp_path)
    assert load_suite("knobs").problems[0].name == "compressor"
    assert load_suite("./knobs").problems[0].name == "bowl"


def test_the_digest_is_that_of_the_content(tmp_path: Path) -> None:
    one = load_suite(suite_of(tmp_path, BOWL, {"name": "small", "file": "matmul-512x512x512"}))
    assert one.digest == load_suite(suite_of(tmp_path, {"name": "small", "file": "matmul-512x512x512"}, BOWL)).digest
    other = load_suite(
        suite_of(tmp_path, {**BOWL, "options": {"width": 5}}, {"name": "small", "file": "matmul-512x512x512"})
    )
    assert one.digest != other.digest


def test_a_repacked_space_has_the_same_digest(tmp_path: Path) -> None:
    source = Path(pb.recorded_space("matmul-512x512x512").source)
    shutil.copy(source, tmp_path / "a.jsonl.xz")
    pb.pack_space(source, tmp_path / "b.jsonl.gz")
    one, other = load_suite(tmp_path).problems
    assert one.digest == other.digest


def test_an_open_suite_stays_one(tmp_path: Path) -> None:
    suite = load_suite(suite_of(tmp_path, BOWL))
    assert load_suite(suite) is suite
    assert str(suite) == f"mine: 1 problems, digest {suite.digest[:12]}"


@pytest.mark.parametrize("name", shipped_suites())
def test_every_shipped_suite_is_whole(name: str) -> None:
    suite = load_suite(name)
    assert suite.name == name
    assert suite.missing == ()
    assert all(problem.description for problem in suite)
