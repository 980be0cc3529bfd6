"""`best`, and the configuration that --records chooses."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import pegbox as pb
from pegbox.measure.baselines.baseline import Baseline
from pegbox.measure.baselines.roofline import Roofline
from pegbox.measure.result import Failed, FailureKind, Ok
from pegbox.plugins.cli.arguments import choose_config
from pegbox.records import Journal, Record
from pegbox.space import ConfigSpace


class Task:
    """The part of a task that records need."""

    name = "fake"
    args = (64, 32)
    kwargs: dict[str, Any] = {"dtype": "float64"}  # noqa: RUF012
    workload = ("fake", {"N": 64, "M": 32, "dtype": "float64"})
    target = "llvm"
    code = ""

    def __init__(self) -> None:
        self.space = ConfigSpace()
        self.space.define_split("tile", 16, num_outputs=2)

    @property
    def fingerprint(self) -> str:
        return self.space.fingerprint


FAILED = Failed(FailureKind.CRASH, "signal 11")


@pytest.fixture
def task() -> Task:
    return Task()


@pytest.fixture
def journal(tmp_path: Path, task: Task) -> Journal:
    """Three trials; the second is the best, the third failed."""
    journal = Journal(tmp_path / "fake.jsonl")
    for index, result in enumerate([Ok((3e-3,)), Ok((2e-3,)), FAILED]):
        journal.append(Record.of(task, task.space.get(index), result, tuner="grid"))
    return journal


def test_best_shows_the_fastest_trial_and_counts(pegbox: Any, journal: Journal, task: Task) -> None:
    ran = pegbox("best", "fake.jsonl")
    assert ran.code == 0
    assert "fake(64, 32, dtype='float64') on llvm: 3 trials, 1 failed\n" in ran.out
    assert "best: 2 ms (grid, on " in ran.out
    assert f"config 1: tile={list(task.space.get(1)['tile'].size)}" in ran.out


def test_best_says_how_good_it_is(pegbox: Any, journal: Journal, task: Task) -> None:
    known = Baseline(cores=1, flop=4e6, read=1.0, written=1.0, numpy=3e-3, roofline=Roofline(1, 10.0, 1.0, 1.0))
    journal.append(Record.of(task, task.space.get(1), Ok((2e-3,)), remeasured=True, baseline=known))
    out = pegbox("best", "fake.jsonl").out
    assert "best: 2 ms, 2.0 GFLOP/s" in out
    assert "  NumPy 3 ms: 1.50x; 20% of the multiply-add peak, 10 GFLOP/s (1 core)\n" in out
    assert "  1.50x as fast as the first trial\n" in out
    (found,) = json.loads(pegbox("best", "fake.jsonl", "--json").out)
    assert found["baseline"]["numpy"] == 3e-3


def test_machines_are_not_compared_with_each_other(pegbox: Any, journal: Journal, task: Task) -> None:
    known = Baseline(cores=1, flop=4e6, read=1.0, written=1.0, numpy=3e-3, roofline=Roofline(1, 10.0, 1.0, 1.0))
    slower = Record.of(task, task.space.get(1), Ok((9e-3,)), remeasured=True, baseline=known)
    faster = Record.of(task, task.space.get(0), Ok((1e-3,)))
    journal.append(replace(slower, host="another machine"))
    journal.append(faster)
    out = pegbox("best", "fake.jsonl").out
    assert "best: 1 ms, 4.0 GFLOP/s" in out
    assert "NumPy" not in out
    assert "GFLOP/s (1 core)" not in out


def test_best_takes_several_files_as_one(pegbox: Any, journal: Journal, task: Task, tmp_path: Path) -> None:
    other = Journal(tmp_path / "tuesday.jsonl")
    other.append(Record.of(task, task.space.get(2), Ok((1e-3,)), tuner="ga"))
    ran = pegbox("best", "fake.jsonl", "tuesday.jsonl")
    assert ran.code == 0
    assert "on llvm: 4 trials, 1 failed\n  best: 1 ms (ga, on " in ran.out
    missing = pegbox("best", "fake.jsonl", "wednesday.jsonl")
    assert missing.code == 2
    assert "wednesday.jsonl" in missing.err


def test_best_as_json(pegbox: Any, journal: Journal, task: Task) -> None:
    (found,) = json.loads(pegbox("best", "fake.jsonl", "--json").out)
    assert found["cost"] == 2e-3
    assert found["config"] == json.loads(json.dumps(task.space.get(1).to_json()))
    assert (found["task"], found["args"], found["kwargs"]) == ("fake", [64, 32], {"dtype": "float64"})
    assert (found["trials"], found["failed"], found["tuner"]) == (3, 1, "grid")


def test_best_keeps_tasks_and_targets_apart(pegbox: Any, journal: Journal, task: Task) -> None:
    record = Record.of(task, task.space.get(3), Ok((1e-3,)))
    journal.append(replace(record, target="llvm -mcpu=znver4"))
    journal.append(replace(record, workload=("other", {}), name="other", result=FAILED))
    ran = pegbox("best", "fake.jsonl")
    assert ran.code == 0
    assert "on llvm: 3 trials" in ran.out
    assert "on llvm -mcpu=znver4: 1 trials" in ran.out
    assert ran.out.endswith("1 trials, 1 failed\n  nothing valid\n")
    assert [found["cost"] for found in json.loads(pegbox("best", "fake.jsonl", "--json").out)] == [2e-3, 1e-3, None]


def test_measuring_again_is_no_further_trial(pegbox: Any, journal: Journal, task: Task) -> None:
    journal.append(Record.of(task, task.space.get(1), Ok((2.5e-3,)), remeasured=True))
    (found,) = json.loads(pegbox("best", "fake.jsonl", "--json").out)
    assert found["trials"] == 3
    assert found["cost"] == 2.5e-3


def test_best_leaves_out_seconds_of_whole_models(pegbox: Any, journal: Journal, task: Task, tmp_path: Path) -> None:
    alone = pegbox("best", "fake.jsonl").out
    record = Record.of(task, task.space.get(0), Ok((1e-3,)))
    variant = replace(record, name="model_variant", args=("net",), workload=("model_variant", {"tasks": "0a1b"}))
    journal.append(variant)
    assert pegbox("best", "fake.jsonl").out == alone
    Journal(tmp_path / "variants.jsonl").append(variant)
    ran = pegbox("best", "variants.jsonl")
    assert (ran.code, "no valid record in variants.jsonl" in ran.err) == (1, True)


def test_best_of_failures_only_exits_with_one(pegbox: Any, tmp_path: Path, task: Task) -> None:
    Journal(tmp_path / "failed.jsonl").append(Record.of(task, task.space.get(0), FAILED))
    ran = pegbox("best", "failed.jsonl")
    assert ran.code == 1
    assert "no valid record" in ran.err
    (tmp_path / "empty.jsonl").touch()
    assert pegbox("best", "empty.jsonl").code == 1


@pytest.mark.parametrize("content", [None, '{"not": "a record"}\n{"nor": "this"}\n', "\0\0\n\0\n"])
def test_a_file_that_cannot_be_read_is_bad_input(pegbox: Any, tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "bad.jsonl").write_text(content)
    ran = pegbox("best", "bad.jsonl")
    assert ran.code == 2
    assert "bad.jsonl" in ran.err


def test_records_choose_the_best_config_of_the_task(
    pegbox: Any, journal: Journal, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = []
    monkeypatch.setattr(pb, "create_task", lambda *args, **kwargs: task)
    monkeypatch.setattr(pb, "export", lambda task, config, *args, **kwargs: chosen.append(config))
    words = ("build", "fake", "--records", "fake.jsonl", "--out", "k.so")
    assert pegbox(*words).code == 0
    assert chosen == [task.space.get(1)]
    task.workload = ("fake", {"N": 65})
    assert pegbox(*words).code == 1
    assert len(chosen) == 1


def test_records_of_another_space_are_refused(
    pegbox: Any, journal: Journal, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Task()
    other.space.define_knob("unroll", [0, 1])
    monkeypatch.setattr(pb, "create_task", lambda *args, **kwargs: other)
    ran = pegbox("build", "fake", "--records", "fake.jsonl", "--out", "k.so")
    assert ran.code == 2
    assert task.space.fingerprint[:12] in ran.err


def test_first_valid_config_respects_constraints(task: Task) -> None:
    task.space.add_constraint(lambda config: config["tile"].size[-1] > 2, reads=("tile",), message="too small")
    config = choose_config(argparse.Namespace(config=None, records=None), cast(pb.Task, task))
    assert config["tile"].size[-1] > 2
    assert task.space.is_valid(np.array([config.digits])).all()
