"""Simulated searches: answers and seconds from records."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pegbox as pb
from pegbox.errors import ArgumentError, RecordError, TuningError
from pegbox.measure import Failed, FailureKind, Ok, Result
from pegbox.records import Journal
from pegbox.records.recorded_space import RecordedSpace
from pegbox.records.simulation import SimulatedMeasurer, VirtualClock, recorded_space_for
from pegbox.search.loop.display import status_line
from pegbox.space import Config

TEMPLATES = str(Path(__file__).parents[1] / "helpers" / "task_templates.py")
COMPILE, RUN = 3.0, 1.0


@pytest.fixture(scope="module")
def task() -> Any:
    return pb.create_task(f"{TEMPLATES}:rows", args=(8, 4))


def cost(config: Config) -> float:
    return 1e-3 * (1 + config.index % 37)


@pytest.fixture
def recorded(task: Any) -> RecordedSpace:
    """Every second configuration; a trial took four seconds."""
    phases = {"lower": 1.0, "build": COMPILE - 1.0, "timing": RUN}
    results: dict[Config, Result] = {
        config: Ok((cost(config),), COMPILE + RUN, 1.0, phases) for config in list(task.space.iterate())[::2]
    }
    return RecordedSpace("rows", task.space, results, flop=100.0, task=task, host="here", source="rows.jsonl")


class Foreign:
    """Proposes configurations of the whole space, in order."""

    def __init__(self, space: Any, *, seed: int = 0) -> None:
        self.space, self.next = space, 0

    def ask(self, n: int) -> Sequence[Config]:
        self.next += n
        return [Config(self.space, tuple(row)) for row in ALL[self.next - n : self.next]]

    def tell(self, configs: Sequence[Config], results: Sequence[Result]) -> None:
        pass


ALL: list[list[int]] = []


@pytest.fixture(autouse=True)
def whole_space(task: Any) -> None:
    ALL[:] = [list(config.digits) for config in task.space.iterate()]


def test_answers_are_the_recorded_ones(recorded: RecordedSpace) -> None:
    result = pb.tune(recorded, tuner="random", trials=30, progress=False)
    assert result.simulated
    assert len(result.trials) == 30
    assert all(trial.result is recorded.results[trial.config] for trial in result.trials)
    assert result.best is not None
    assert result.best.cost == min(trial.cost for trial in result.trials)


def test_recorded_seconds_pass_on_a_virtual_clock(recorded: RecordedSpace) -> None:
    result = pb.tune(recorded, tuner="random", trials=30, progress=False)
    assert 30 * (COMPILE + RUN) <= result.phases["measure"] < 30 * (COMPILE + RUN) + 20
    # What is measured again at the end is not compiled again.
    assert len(result.finalists) * RUN <= result.phases["remeasure"] < len(result.finalists) * RUN + 20
    assert sum(result.phases.values()) == pytest.approx(result.elapsed, rel=0.05)
    assert result.trials_per_second < 0.25
    assert [trial.elapsed for trial in result.trials] == sorted(trial.elapsed for trial in result.trials)
    assert "s of recorded time" in str(result)


def test_a_budget_is_one_of_the_virtual_clock(recorded: RecordedSpace) -> None:
    result = pb.tune(recorded, tuner="random", trials=None, budget="60s", progress=False)
    assert result.stopped_because == "budget"
    assert 10 <= len(result.trials) <= 15  # of four seconds, less what the tuner takes


def test_a_runner_stands_in_for_any_task_of_the_workload(recorded: RecordedSpace) -> None:
    task = pb.create_task(f"{TEMPLATES}:rows", args=(8, 4), target="llvm -mcpu=skylake -num-cores 7")
    result = pb.tune(task, runner=pb.SimulatedRunner(recorded), tuner="random", trials=5, progress=False)
    assert len(result.trials) == 5
    other = pb.create_task(f"{TEMPLATES}:rows", args=(16, 4))
    with pytest.raises(RecordError, match=r"rows\.jsonl: recorded for test_rows\(n=8.*the task is test_rows\(n=16"):
        pb.tune(other, runner=pb.SimulatedRunner(recorded), progress=False)


def test_a_runner_opens_its_file_once(tmp_path: Path, task: Any) -> None:
    journal = Journal(tmp_path / "space.jsonl")
    record = pb.records.Record.of(task, task.space.get(0), Ok((1.0,)))
    journal.append(record)
    runner = pb.SimulatedRunner(journal.path)
    first = runner.recorded(task)
    journal.path.unlink()
    assert runner.recorded(task) is first


def test_what_was_not_recorded_is_counted_apart(recorded: RecordedSpace) -> None:
    lines: list[str] = []

    class Watch(pb.search.Callback):
        def on_batch(self, trials: Any, state: Any) -> None:
            lines.append(status_line(state))

    result = pb.tune(recorded, tuner=Foreign, trials=10, progress=False, callbacks=[Watch()])
    assert result.not_recorded == 5
    assert result.failures == {}
    missing = next(trial.result for trial in result.trials if trial.not_recorded)
    assert isinstance(missing, Failed)
    assert missing.kind is FailureKind.NOT_RECORDED
    assert "is not among the" in missing.message
    assert "not recorded: 5 trials; the first: config" in str(result)
    assert "failed" not in str(result)
    assert "not recorded: 5" in lines[-1]
    assert "simulated" in lines[-1]


def test_no_time_is_charged_for_what_was_not_recorded(recorded: RecordedSpace, task: Any) -> None:
    measurer = SimulatedMeasurer(recorded)
    list(measurer.measure([config for config in task.space.iterate() if config not in recorded.results]))
    assert measurer.clock.charged == 0


def test_a_configuration_that_the_space_excludes_breaks_the_run_as_a_live_one(task: Any) -> None:
    space = pb.ConfigSpace()
    space.define_knob("a", [1, 2, 3])
    space.add_constraint(lambda config: bool(config["a"].val != 3), reads=["a"], message="a is not 3")
    recorded = RecordedSpace("a", space, {space.get(0): Ok((1.0,))})
    ALL[:] = [[2]]
    with pytest.raises(TuningError, match="the space excludes"):
        pb.tune(recorded, tuner=Foreign, trials=3, progress=False)


def test_nothing_simulated_is_written_into_records(recorded: RecordedSpace, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=r"new\.jsonl.*nothing to record"):
        pb.tune(recorded, tuner="random", records=tmp_path / "new.jsonl", progress=False)
    with pytest.raises(ArgumentError, match="resume"):
        pb.tune(recorded, tuner="random", resume=True, progress=False)
    assert not (tmp_path / "new.jsonl").exists()


def test_options_of_measuring_and_other_runners_are_refused(recorded: RecordedSpace) -> None:
    with pytest.raises(ArgumentError, match=r"measure_options=\{'repeats': 5\}.*measures nothing"):
        pb.tune(recorded, tuner="random", measure_options={"repeats": 5}, progress=False)
    with pytest.raises(ArgumentError, match=r"runner='other'.*costs from records"):
        pb.tune(recorded, tuner="random", runner="other", progress=False)


def test_a_live_search_is_left_alone(task: Any) -> None:
    assert recorded_space_for(task, "local") is None


def test_chosen_spaces_take_no_second_choice(recorded: RecordedSpace) -> None:
    with pytest.raises(ArgumentError, match="host='here'"):
        pb.SimulatedRunner(recorded, host="here")


def test_the_same_seed_gives_the_same_trials(recorded: RecordedSpace) -> None:
    runs = [pb.tune(recorded, tuner="ga", trials=60, seed=3, progress=False) for _ in range(2)]
    assert [trial.config for trial in runs[0].trials] == [trial.config for trial in runs[1].trials]


def test_comparing_on_recorded_spaces(recorded: RecordedSpace, task: Any) -> None:
    report = pb.compare(recorded, ["random", "grid"], trials=20, seeds=2)
    again = pb.compare(task, ["random", "grid"], trials=20, seeds=2, runner=pb.SimulatedRunner(recorded))
    assert [run.curve for run in report.runs] == [run.curve for run in again.runs]
    (info,) = report.tasks
    assert info.simulated
    assert info.recorded_best == recorded.best_cost
    assert all(run.seconds > 20 * (COMPILE + RUN) for run in report.runs)


def test_a_comparison_counts_what_was_not_recorded_apart(recorded: RecordedSpace) -> None:
    report = pb.compare(recorded, [Foreign, "random"], trials=11, seeds=1, start=1)
    found = {run.tuner: run for run in report.runs}
    assert found["Foreign"].not_recorded > 0
    assert found["Foreign"].invalid == 0
    assert found["random"].not_recorded == 0


def test_a_clock_that_is_charged() -> None:
    now = iter([10.0, 11.0, 11.0])
    clock = VirtualClock(lambda: next(now))
    assert clock() == 10.0
    assert clock() == 11.0
    clock.charge(60)
    assert clock() == 71.0


def test_tuners_stay_inside_what_was_recorded(recorded: RecordedSpace) -> None:
    for tuner in ("random", "grid", "ga"):
        result = pb.tune(recorded, tuner=tuner, trials=len(recorded) + 5, progress=False)
        assert result.not_recorded == 0
        assert len(result.trials) == len(recorded)
        assert result.stopped_because == "exhausted"
    assert recorded.space.is_valid(np.array([list(config.digits) for config in recorded.results])).all()
