"""Comparisons over suites: runs that break are named and the rest goes on; a killed one continues from its log."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import pegbox as pb
from pegbox.comparison import Comparison, compare
from pegbox.comparison.run_log import RunLog, longest_runs
from pegbox.errors import ArgumentError, ComparisonError, RecordError, UnknownName
from pegbox.records.journal import RecordWarning
from pegbox.search.testing import small_space
from pegbox.space import Config, ConfigSpace
from pegbox.suites import Missing, Problem, Suite


def bowl(config: Config) -> float:
    return 1.0 + (config.index - 20) ** 2


def hill(config: Config) -> float:
    return 50.0 - config.index / 2


def suite(*, missing: tuple[Missing, ...] = ()) -> Suite:
    """A suite of two functions over 44 configurations."""
    problems = [
        Problem(name, pb.Objective(function, small_space(), name=name, pure=True), f"digest of {name}", optimum=optimum)
        for name, function, optimum in (("bowl", bowl, 1.0), ("hill", hill, None))
    ]
    return Suite("pair", tuple(problems), missing)


class Plain:
    """Random search."""

    def __init__(self, space: ConfigSpace, *, seed: int = 0) -> None:
        self.inner = pb.create_tuner("random", space, seed=seed)

    def ask(self, n: int) -> Sequence[Config]:
        return self.inner.ask(n)

    def tell(self, configs: Sequence[Config], results: Sequence[Any]) -> None:
        self.inner.tell(configs, results)


class Raises(Plain):
    """Raises where the costs are those of the hill."""

    def tell(self, configs: Sequence[Config], results: Sequence[Any]) -> None:
        if any(result.cost == hill(config) for config, result in zip(configs, results, strict=True)):
            raise ZeroDivisionError("too steep")
        super().tell(configs, results)


class Hangs(Plain):
    def ask(self, n: int) -> Sequence[Config]:
        time.sleep(60.0)
        return super().ask(n)


class Outside(Plain):
    """Proposes configurations of another space."""

    def __init__(self, space: ConfigSpace, *, seed: int = 0) -> None:
        other = ConfigSpace()
        other.define_knob("x", range(9))
        super().__init__(other, seed=seed)


def made(tuners: Any = ("random", "grid"), **options: Any) -> Comparison:
    options = {"trials": 6, "seeds": 2, "keep_going": True, **options}
    return compare(options.pop("tasks", None) or suite(), tuners, **options)


def test_a_suite_is_compared_as_its_problems_are() -> None:
    report = made()
    assert [task.name for task in report.tasks] == ["bowl", "hill"]
    assert (report.setup.suite, report.setup.suite_digest) == ("pair", suite().digest)
    assert report.best_known("bowl") == 1.0
    assert report.best_known("hill") == hill(small_space().get(65))
    assert f"suite pair, digest {suite().digest[:12]}" in str(report)
    assert "over 2 spaces, 6 trials:" in str(report)


def test_the_report_is_the_same_from_its_file(tmp_path: Path) -> None:
    report = made({"random": "random", "raises": Raises})
    assert report.broken
    report.save(tmp_path / "report.json")
    assert Comparison.load(tmp_path / "report.json") == report


def test_a_tuner_that_raises_is_named_and_the_rest_goes_on() -> None:
    report = made({"raises": Raises, "random": "random"})
    assert {(run.task, run.tuner) for run in report.broken} == {("hill", "raises")}
    assert [run.reason for run in report.broken if "too steep" not in run.reason] == []
    assert {(run.task, run.tuner) for run in report.runs} == {
        ("bowl", "raises"),
        ("bowl", "random"),
        ("hill", "random"),
    }
    assert report.setup.note == "2 of 8 runs broke or were left out"
    assert "missing: 2 runs of raises on 1 task; the first is hill, seed 0: " in str(report)


def test_without_keep_going_the_first_broken_run_ends_the_comparison() -> None:
    with pytest.raises(ComparisonError, match="too steep"):
        made({"raises": Raises}, keep_going=False)


def test_configurations_of_another_space_are_named() -> None:
    report = made({"outside": Outside, "random": "random"})
    assert len(report.broken) == 4
    assert len(report.runs) == 4


def test_a_tuner_that_hangs_is_killed_and_left_out_after_two_runs() -> None:
    report = made({"hangs": Hangs, "random": "random"}, seeds=4, trials=3, run_timeout=3.0, jobs=2)
    reasons = [run.reason for run in report.broken]
    assert len(report.runs) == 8
    assert len(reasons) == 8
    assert sum(reason.startswith("the run took longer than 3 s") for reason in reasons) >= 2
    assert [reason for reason in reasons if "took longer than" not in reason and "took too long" not in reason] == []


def test_problems_that_cannot_be_opened_are_in_the_table() -> None:
    report = made(tasks=suite(missing=(Missing("gone", "there is no file 'gone.jsonl'"),)))
    assert "missing from the suite: gone: there is no file 'gone.jsonl'" in str(report)


def test_an_unknown_tuner_is_an_error_before_the_first_run() -> None:
    with pytest.raises(UnknownName, match="rndom"):
        made(["rndom", "random"])
    with pytest.raises(ArgumentError, match="population_size"):
        made(["ga:population_size=3"])


def test_runs_of_the_log_are_not_made_again(tmp_path: Path) -> None:
    log = tmp_path / "runs.jsonl"
    first = made(["random"], log=log)
    made_now: list[str] = []
    again = made(["random", "grid"], log=log, on_run=lambda run, *_: made_now.append(run.tuner))
    assert made_now == ["grid"] * 4
    assert again.runs_of("bowl")["random"] == first.runs_of("bowl")["random"]
    assert len(log.read_text().splitlines()) == 8


def test_other_settings_or_content_are_other_runs(tmp_path: Path) -> None:
    log = tmp_path / "runs.jsonl"
    made(["random"], log=log)
    assert len(made(["random"], log=log, trials=7).runs[0].curve) == 7
    changed = suite().problems[0]
    other = Suite("pair", (Problem("bowl", changed.task, "another digest"),))
    made_now: list[int] = []
    made(["random"], tasks=other, log=log, on_run=lambda run, *_: made_now.append(run.seed))
    assert made_now == [0, 1]


def test_longest_runs_are_those_of_unchanged_problems(tmp_path: Path) -> None:
    log = tmp_path / "runs.jsonl"
    made(["random"], log=log, trials=9)
    problem = suite().problems[1]
    changed = Suite("pair", (suite().problems[0], Problem("hill", problem.task, "another digest")))
    for trials in (5, 7):
        report = made(["random"], tasks=changed, log=log, trials=trials)
    runs = longest_runs(log, report.setup, (5, 7, 9))
    lengths = {(run.task, run.seed): len(run.curve) for run in runs}
    assert lengths == {("bowl", 0): 9, ("bowl", 1): 9, ("hill", 0): 7, ("hill", 1): 7}
    assert longest_runs(tmp_path / "none.jsonl", report.setup, (5, 7, 9)) == []


def test_a_torn_line_is_skipped_and_the_next_one_is_whole(tmp_path: Path) -> None:
    log = tmp_path / "runs.jsonl"
    made(["random"], log=log)
    text = log.read_text()
    log.write_text(text[:-40])
    with pytest.warns(RecordWarning, match="line 4 is torn"):
        report = made(["random"], log=log)
    assert len(report.runs) == 4
    lines = log.read_text().splitlines()
    assert len(lines) == 5
    assert json.loads(lines[-1])["run"]["seed"] in (0, 1)


@pytest.mark.parametrize("text", ["hello\n", '{"input": 1}\n'])
def test_a_file_of_something_else_is_no_log(tmp_path: Path, text: str) -> None:
    log = tmp_path / "runs.jsonl"
    log.write_text(text)
    with pytest.raises(ArgumentError, match="is not a log of runs"):
        made(["random"], log=log)
    assert log.read_text() == text


def test_a_damaged_run_is_an_error_that_names_the_line(tmp_path: Path) -> None:
    log = tmp_path / "runs.jsonl"
    log.write_text('{"key": "a", "run": {"task": 3}}\n')
    with pytest.raises(RecordError, match=r"line 1: not a run.*remove that line"):
        made(["random"], log=log)


def test_the_api_opens_suites(tmp_path: Path) -> None:
    report = pb.compare(suite=suite(), tuners=["random"], trials=2, seeds=1, progress=False)
    assert len(report.runs) == 2
    with pytest.raises(ArgumentError, match="leave the tasks out"):
        pb.compare([], ["random"], suite="hard")
    with pytest.raises(ArgumentError, match="give tasks, or suite="):
        pb.compare(tuners=["random"])


def test_times_grow_with_the_trials() -> None:
    recorded = pb.recorded_space("matmul-512x512x512")
    (run,) = pb.compare(recorded, ["random"], trials=5, seeds=1, progress=False).runs
    assert len(run.times) == 5
    assert list(run.times) == sorted(run.times)
    assert math.isclose(run.seconds, run.times[-1], rel_tol=0.2)


def test_the_log_finds_nothing_in_an_empty_file(tmp_path: Path) -> None:
    (tmp_path / "runs.jsonl").touch()
    from pegbox.comparison.benchmark import open_benchmark
    from pegbox.comparison.experiment import Experiment, Plan

    problem = suite().problems[0]
    benchmark = open_benchmark("bowl", problem.task, measurer=None, runner="local", problem_of_suite=problem)
    experiment = Experiment(Plan({"random": "random"}, (0,)), {"bowl": benchmark})
    assert RunLog(tmp_path / "runs.jsonl", experiment).find(experiment.specs("bowl")[0]) is None


_KILLED = """
import os, sys, time
import pegbox as pb
from pegbox.suites import Problem, Suite

space = pb.ConfigSpace()
space.define_knob("x", range(50))

class Slow:
    def __init__(self, space, *, seed=0):
        self.inner = pb.create_tuner("random", space, seed=seed)
    def ask(self, n):
        time.sleep(float(os.environ["SECONDS_TO_ASK"]))
        return self.inner.ask(n)
    def tell(self, configs, results):
        self.inner.tell(configs, results)

if __name__ == "__main__":
    objective = pb.Objective(lambda config: 1.0 + config["x"].val, space, name="x", pure=True)
    report = pb.compare(suite=Suite("one", (Problem("x", objective, "digest"),)), tuners=[Slow], trials=2, seeds=4,
                        start=0, batch_size=1, log=sys.argv[1], progress=True)
    print(len(report.runs))
"""


def test_a_killed_comparison_continues(tmp_path: Path) -> None:
    script, log = tmp_path / "script.py", tmp_path / "runs.jsonl"
    script.write_text(_KILLED)
    first = subprocess.Popen([sys.executable, script, log], env={**os.environ, "SECONDS_TO_ASK": "0.5"})
    ends = time.monotonic() + 120
    while not (log.is_file() and log.read_bytes().count(b"\n") >= 1) and time.monotonic() < ends:
        time.sleep(0.05)
    first.send_signal(signal.SIGKILL)
    first.wait()
    kept = log.read_bytes().count(b"\n")
    assert 1 <= kept < 4
    quick = {**os.environ, "SECONDS_TO_ASK": "0"}
    command = [sys.executable, script, log]
    again = subprocess.run(command, env=quick, capture_output=True, text=True, check=True, timeout=200)
    assert again.stdout == "4\n"
    assert len(again.stderr.splitlines()) == 4 - kept  # only the others were made
