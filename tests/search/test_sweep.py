"""Sweeps: which configurations, in which order, and that the best is not just the luckiest."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pegbox as pb
from pegbox.errors import ArgumentError, RecordError, SpaceError, TuningError
from pegbox.measure import Failed, FailureKind, Measurer, Ok, Result
from pegbox.records import Journal, history
from pegbox.search import problem
from pegbox.search.loop.display import LineProgress
from pegbox.search.sweep import remeasurement
from pegbox.search.sweep.remeasurement import Convergence, Remeasurement, repeat
from pegbox.search.sweep.sweep import Sweep
from pegbox.space import Config

TEMPLATES = str(Path(__file__).parents[1] / "helpers" / "task_templates.py")
WORST_LUCK = 0.3


@pytest.fixture(scope="module")
def task() -> Any:
    return pb.create_task(f"{TEMPLATES}:rows", args=(8, 4))


def true_cost(config: Config) -> float:
    return 1e-3 * (1 + config.index % 61 / 20)


class Noisy(Measurer):
    """Single measurements are up to 30% too fast; what is measured again is right, within a percent."""

    host = ""

    def __init__(self, *, stop_after: int | None = None, fails: Any = lambda config: False) -> None:
        self.rng = np.random.default_rng(0)
        self.measured: list[Config] = []
        self.groups: list[list[Config]] = []
        self.stop_after, self.fails = stop_after, fails

    def __enter__(self) -> Noisy:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def measure(self, configs: Sequence[Config]) -> Iterator[tuple[Config, Result]]:
        for config in configs:
            if len(self.measured) == self.stop_after:
                raise KeyboardInterrupt
            self.measured.append(config)
            yield config, self.result(config, 1 - WORST_LUCK * self.rng.random())

    def remeasure(self, configs: Sequence[Config]) -> list[Result]:
        self.groups.append(list(configs))
        return [self.result(config, 1 + 0.004 * self.rng.random()) for config in configs]

    def result(self, config: Config, luck: float) -> Result:
        if self.fails(config):
            return Failed(FailureKind.COMPILE_ERROR, "too much code", 0.1)
        return Ok((true_cost(config) * luck,), 0.5, 1.0, {"build": 0.4, "timing": 0.1}, host=self.host)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Noisy:
    made = Noisy()
    monkeypatch.setattr(problem, "LocalMeasurer", lambda task, **options: made)
    return made


def test_as_many_as_asked_for_all_different_in_no_order(task: Any, tmp_path: Path, machine: Noisy) -> None:
    result = pb.sweep(task, records=tmp_path / "s.jsonl", configs=100, progress=False)
    assert result.stopped_because == "done"
    assert len(set(machine.measured)) == len(machine.measured) == result.trials == 100
    indices = [config.index for config in machine.measured]
    assert abs(np.corrcoef(indices, range(100))[0, 1]) < 0.3


def test_a_whole_space(task: Any, tmp_path: Path, machine: Noisy) -> None:
    result = pb.sweep(task, records=tmp_path / "s.jsonl", configs=None, progress=False)
    assert set(machine.measured) == set(task.space.iterate())
    assert result.recorded is not None
    assert result.recorded.space is task.space


def test_more_than_there_are_is_all_of_them(task: Any, tmp_path: Path, machine: Noisy) -> None:
    result = pb.sweep(task, records=tmp_path / "s.jsonl", configs=10**6, progress=False)
    assert result.trials == result.wanted == task.space.num_valid()


def test_the_best_recorded_is_not_the_luckiest(task: Any, tmp_path: Path, machine: Noisy) -> None:
    result = pb.sweep(task, records=tmp_path / "s.jsonl", configs=200, progress=False)
    assert result.best is not None
    found = pb.recorded_space(tmp_path / "s.jsonl")
    truth = min(map(true_cost, machine.measured))
    assert truth * 0.99 < found.best_cost < truth * 1.01
    assert true_cost(result.best) == truth
    assert result.recorded is not None
    assert result.recorded.results == found.results
    # Whatever noise may have hidden the truth of is measured again, and nothing else.
    assert 0 < result.again < 150


def test_those_measured_again_take_turns_in_changing_company(task: Any, tmp_path: Path, machine: Noisy) -> None:
    pb.sweep(task, records=tmp_path / "s.jsonl", configs=200, progress=False)
    assert all(len(group) <= remeasurement.GROUP for group in machine.groups)
    company: dict[Config, set[frozenset[Config]]] = {}
    for group in machine.groups:
        for config in group:
            company.setdefault(config, set()).add(frozenset(group))
    assert max(len(groups) for groups in company.values()) >= remeasurement.LEAST_PASSES


def test_a_sweep_goes_on_where_it_was_stopped(task: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "s.jsonl"
    for machine in (whole := Noisy(), first := Noisy(stop_after=30), second := Noisy()):
        monkeypatch.setattr(problem, "LocalMeasurer", lambda task, machine=machine, **options: machine)
        records = tmp_path / "whole.jsonl" if machine is whole else file
        result = pb.sweep(task, records=records, configs=80, progress=False)
        if machine is first:
            assert result.stopped_because == "interrupted"
            assert (result.trials, result.wanted) == (30, 80)
            assert machine.groups == []
    assert result.trials == 50
    assert first.measured + second.measured == whole.measured


def test_a_finished_sweep_measures_nothing_and_a_larger_one_the_rest(task: Any, tmp_path: Path, machine: Noisy) -> None:
    file = tmp_path / "s.jsonl"
    pb.sweep(task, records=file, configs=80, progress=False)
    before, groups = list(machine.measured), len(machine.groups)
    again = pb.sweep(task, records=file, configs=80, progress=False)
    assert (again.trials, len(machine.groups)) == (0, groups)
    assert again.again > 0
    pb.sweep(task, records=file, configs=90, progress=False)
    assert machine.measured[:80] == before
    assert len(set(machine.measured)) == 90


def test_a_random_search_counts_as_part_of_the_sample(task: Any, tmp_path: Path, machine: Noisy) -> None:
    file = tmp_path / "s.jsonl"
    journal = Journal(file)
    for config in list(task.space.iterate())[:25]:
        journal.append(pb.records.Record.of(task, config, Ok((1.0,)), tuner="random", seed=7))
    result = pb.sweep(task, records=file, configs=40, progress=False)
    assert result.trials == 15
    assert len(pb.recorded_space(file)) == 40


def test_what_a_tuner_chose_is_no_sample(task: Any, tmp_path: Path, machine: Noisy) -> None:
    file = tmp_path / "s.jsonl"
    Journal(file).append(pb.records.Record.of(task, task.space.get(0), Ok((1.0,)), tuner="xgb:plan_size=32"))
    with pytest.raises(RecordError, match=r"s\.jsonl.*'xgb' chose: they are not a uniform sample"):
        pb.sweep(task, records=file, configs=40, progress=False)
    pb.sweep(task, records=file, configs=None, progress=False)


def test_another_machine_is_refused_before_anything_is_measured(
    task: Any, tmp_path: Path, machine: Noisy, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "s.jsonl"
    pb.sweep(task, records=file, configs=5, progress=False)
    monkeypatch.setattr(history, "describe_host", lambda: "elsewhere (a CPU)")
    with pytest.raises(RecordError, match=r"this machine is 'elsewhere \(a CPU\)'.*sweep into another file"):
        pb.sweep(task, records=file, configs=10, progress=False)
    machine.host = "EPYC, 16 cores"
    with pytest.raises(RecordError, match=r"the cluster is 'EPYC, 16 cores'.*sweep into another file"):
        pb.sweep(task, records=file, configs=10, progress=False)
    assert len(machine.measured) == 5


def test_a_sweep_names_the_machines_that_measured(task: Any, tmp_path: Path, machine: Noisy) -> None:
    machine.host = "EPYC, 16 cores"
    result = pb.sweep(task, records=tmp_path / "s.jsonl", configs=5, progress=False)
    assert result.recorded is not None
    assert result.recorded.host == "EPYC, 16 cores"


def test_a_budget_ends_a_sweep(task: Any, tmp_path: Path, machine: Noisy) -> None:
    result = pb.sweep(task, records=tmp_path / "s.jsonl", configs=50, budget="0s", progress=False)
    assert result.stopped_because == "budget"


def test_a_sweep_that_its_budget_ends_measures_its_best_again(
    task: Any, tmp_path: Path, machine: Noisy, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(machine, "clock", lambda: now[0], raising=False)
    single = machine.result

    def slow(config: Config, luck: float) -> Result:
        now[0] += 1.0
        return single(config, luck)

    monkeypatch.setattr(machine, "result", slow)
    result = pb.sweep(task, records=tmp_path / "s.jsonl", configs=50, budget=30.0, progress=False)
    assert result.stopped_because == "budget"
    assert len(machine.measured) < 50
    assert result.best in [config for group in machine.groups for config in group]


def test_without_time_the_fastest_is_measured_until_it_stays_the_fastest(task: Any) -> None:
    configs = [task.space.get(index) for index in range(40)]
    lucky, behind = configs[:30], configs[30:]
    results: dict[Config, Result] = {c: Ok((1.0,)) for c in lucky} | {c: Ok((1.3,)) for c in behind}

    class Machine(Noisy):
        def result(self, config: Config, luck: float) -> Result:
            return Ok((2.0 if config in lucky else 1.3,))

    machine = Machine()
    convergence = Convergence(
        Remeasurement(machine, results, passes={}, listener=lambda *_: None), say=lambda line: None
    )
    convergence.confirm_best()
    assert len(machine.groups) == 4
    best = min(results, key=lambda config: results[config].cost)
    assert best in behind
    assert any(best in group for group in machine.groups)


def test_ctrl_c_while_measuring_again_keeps_what_there_is(
    task: Any, tmp_path: Path, machine: Noisy, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(configs: Sequence[Config]) -> list[Result]:
        raise KeyboardInterrupt

    monkeypatch.setattr(machine, "remeasure", interrupted)
    result = pb.sweep(task, records=tmp_path / "s.jsonl", configs=50, progress=False)
    assert result.stopped_because == "interrupted"
    assert len(pb.recorded_space(tmp_path / "s.jsonl")) == 50


def test_a_sweep_without_a_single_success(task: Any, tmp_path: Path, machine: Noisy) -> None:
    machine.fails = lambda config: True
    result = pb.sweep(task, records=tmp_path / "s.jsonl", configs=10, progress=False)
    assert result.recorded is None
    assert result.best is None
    assert result.failures == {"compile error": 10}
    assert "nothing valid was found" in str(result)


def test_the_summary(task: Any, tmp_path: Path, machine: Noisy) -> None:
    machine.fails = lambda config: config.index % 10 == 0
    text = str(pb.sweep(task, records=tmp_path / "s.jsonl", configs=100, progress=False))
    assert "100 of 100 configurations measured, 100 of them now" in text
    assert "failed: " in text
    assert "compile error" in text
    assert "reach 95% of it" in text
    assert "GFLOP/s" in text


def test_progress_tells_the_time_left(task: Any) -> None:
    stream = io.StringIO()
    Sweep(task, 150, callbacks=[LineProgress(stream)]).run(Noisy())
    lines = [line for line in stream.getvalue().splitlines() if not line.endswith("...")]
    assert " left" in lines[0]
    assert " left" not in lines[-1]


def test_a_broken_machine_loses_nothing(task: Any, tmp_path: Path, machine: Noisy) -> None:
    def broken(config: Config) -> bool:
        if len(machine.measured) == 20:
            raise OSError("no machine")
        return False

    machine.fails = broken
    with pytest.raises(TuningError, match="no machine"):
        pb.sweep(task, records=tmp_path / "s.jsonl", configs=50, progress=False)
    assert len(Journal(tmp_path / "s.jsonl").read()) == 19


# --- bad input --------------------------------------------------------------------------------------------------------


def test_a_whole_space_must_be_one_that_can_be_listed(tmp_path: Path, machine: Noisy) -> None:
    huge = pb.create_task(f"{TEMPLATES}:rows", args=(2**40, 2**40))
    with pytest.raises(ArgumentError, match=r"configs=None: the space of test_rows has .*give a number: configs=5000"):
        pb.sweep(huge, records=tmp_path / "s.jsonl", configs=None, progress=False)


def test_options_outside_their_domain(task: Any, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="configs=0"):
        pb.sweep(task, records=tmp_path / "s.jsonl", configs=0)
    with pytest.raises(ArgumentError, match="'matmul' is not a task"):
        pb.sweep("matmul", records=tmp_path / "s.jsonl")  # type: ignore[arg-type]
    with pytest.raises(RecordError, match="cannot be written: there is no folder"):
        pb.sweep(task, records=tmp_path / "no folder" / "s.jsonl")
    with pytest.raises(RecordError, match=r"s\.jsonl\.xz', which is compressed"):
        pb.sweep(task, records=tmp_path / "s.jsonl.xz")


def test_a_space_without_valid_configurations(task: Any) -> None:
    empty = pb.create_task(f"{TEMPLATES}:rows", args=(8, 4))
    empty.space.add_constraint(lambda config: False, reads=["unroll"], message="never")
    with pytest.raises(SpaceError, match="no valid configuration"):
        Sweep(empty, 5).run(Noisy())


# --- settling ---------------------------------------------------------------------------------------------------------


def settled(
    costs: dict[int, float], passes: Any, task: Any, **options: Any
) -> tuple[dict[Config, Result], list[tuple[int, Result]]]:
    """Configs measured again by index, and what was heard; `passes` gives the cost of a config at its n-th time."""
    heard: list[tuple[int, Result]] = []
    times: dict[int, int] = {}

    class Machine(Measurer):
        def measure(self, configs: Sequence[Config]) -> Iterator[tuple[Config, Result]]:
            return iter(())

        def remeasure(self, configs: Sequence[Config]) -> list[Result]:
            results = []
            for config in configs:
                times[config.index] = times.get(config.index, 0) + 1
                results.append(passes(config.index, times[config.index]))
            return results

    results: dict[Config, Result] = {task.space.get(index): Ok((cost,)) for index, cost in costs.items()}
    remeasurement = Remeasurement(
        Machine(),
        results,
        passes=options.pop("known", {}),
        listener=lambda config, result: heard.append((config.index, result)),
    )
    repeat(remeasurement, options.get("common", 0), say=lambda line: None)
    Convergence(remeasurement, say=lambda line: None, **options).run()
    return results, heard


def test_only_what_is_near_the_best_is_measured_again(task: Any) -> None:
    _, heard = settled({0: 1.0, 1: 1.1, 2: 1.4, 3: 3.0}, lambda index, time: Ok(({0: 1.0, 1: 1.1}[index],)), task)
    assert sorted(index for index, _ in heard) == [0, 0, 1, 1]


def test_when_the_luckiest_fall_back_those_behind_get_their_chance(task: Any) -> None:
    results, heard = settled({0: 1.0, 1: 1.5}, lambda index, time: Ok(({0: 1.45, 1: 1.4}[index],)), task)
    assert {index for index, _ in heard} == {0, 1}
    assert {config.index: result.cost for config, result in results.items()} == {0: 1.45, 1: 1.4}


def test_nobody_is_timed_alone_where_there_is_company(task: Any) -> None:
    _, heard = settled({0: 1.0, 1: 1.25, 2: 1.25}, lambda index, time: Ok((1.0 + 0.25 * (index > 0),)), task)
    assert {index for index, _ in heard[:3]} == {0, 1, 2}


def test_timings_of_all_passes_count_together(task: Any) -> None:
    _, heard = settled({0: 1.0}, lambda index, time: Ok((1.0 + time / 1000,)), task)
    assert [result.costs for _, result in heard if isinstance(result, Ok)] == [(1.001,), (1.001, 1.002)]


def test_the_unsteady_near_the_best_are_timed_more_often_but_not_for_ever(task: Any) -> None:
    _, heard = settled({0: 1.0, 1: 1.1}, lambda index, time: Ok((1.0 + 0.1 * index + 0.02 * (time % 2),)), task)
    counts = [sum(1 for index, _ in heard if index == which) for which in (0, 1)]
    assert counts == [remeasurement.MOST_PASSES, remeasurement.LEAST_PASSES]


def test_passes_of_an_earlier_sweep_count(task: Any) -> None:
    _, heard = settled({0: 1.0}, lambda index, time: Ok((1.0,)), task, known={task.space.get(0): 1})
    assert len(heard) == 1
    assert isinstance(heard[0][1], Ok)
    assert len(heard[0][1].costs) == 2


def test_one_that_fails_when_measured_again_is_out(task: Any) -> None:
    crash = Failed(FailureKind.CRASH, "killed")
    results, _ = settled({0: 1.0, 1: 1.1}, lambda index, time: crash if index == 0 else Ok((1.1,)), task)
    assert results[task.space.get(0)] is crash


def test_no_more_than_the_most(task: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remeasurement, "MOST", 5)
    _, heard = settled(dict.fromkeys(range(20), 1.0), lambda index, time: Ok((1.0,)), task)
    assert len({index for index, _ in heard}) == 5


# --- passes over all --------------------------------------------------------------------------------------------------


def test_passes_over_all_count_for_all_but_settle_nothing(task: Any) -> None:
    results, heard = settled({0: 1.0, 1: 5.0}, lambda index, time: Ok((1.0 + index + time / 1000,)), task, common=3)
    timings = {config.index: len(result.costs) for config, result in results.items() if isinstance(result, Ok)}
    assert timings == {0: 3 + remeasurement.LEAST_PASSES, 1: 3}
    assert sorted(index for index, _ in heard[:6]) == [0, 0, 0, 1, 1, 1]


def test_passes_go_on_where_they_were_stopped(task: Any) -> None:
    known = {task.space.get(0): 2, task.space.get(1): 1}
    _, heard = settled({0: 1.0, 1: 5.0}, lambda index, time: Ok((1.0 + index,)), task, common=2, known=known)
    assert [index for index, _ in heard] == [1] + [0] * remeasurement.LEAST_PASSES


def test_every_pass_is_in_other_company(task: Any, tmp_path: Path, machine: Noisy) -> None:
    result = pb.sweep(task, records=tmp_path / "s.jsonl", configs=40, passes=2, progress=False)
    groups = [frozenset(group) for group in machine.groups[:10]]
    assert len(set(groups)) == 10
    assert all(sum(config in group for group in groups) == 2 for config in machine.measured)
    assert result.again == 40
    again = pb.sweep(task, records=tmp_path / "s.jsonl", configs=40, passes=2, progress=False)
    assert (again.trials, again.results) == (0, result.results)


def test_a_pass_that_goes_on_has_other_company_than_the_one_before(
    task: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups: list[frozenset[Config]] = []
    for passes in (1, 2, 3):
        machine = Noisy()
        monkeypatch.setattr(problem, "LocalMeasurer", lambda task, machine=machine, **options: machine)
        pb.sweep(task, records=tmp_path / "s.jsonl", configs=40, passes=passes, progress=False)
        groups += [frozenset(group) for group in machine.groups[:5]]
    assert len(set(groups)) == len(groups) == 15


def test_a_budget_ends_the_passes(task: Any, tmp_path: Path, machine: Noisy, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(machine, "clock", lambda: now[0], raising=False)
    calm = machine.remeasure

    def slow(configs: Sequence[Config]) -> list[Result]:
        now[0] += 1.0
        return calm(configs)

    monkeypatch.setattr(machine, "remeasure", slow)
    options: dict[str, Any] = {"records": tmp_path / "s.jsonl", "configs": 40, "passes": 4, "progress": False}
    result = pb.sweep(task, **options, budget=7.0)
    assert (result.stopped_because, len(machine.groups)) == ("budget", 7)
    assert pb.sweep(task, **options).stopped_because == "done"
    assert all(sum(config in group for group in machine.groups) >= 4 for config in machine.measured)


def test_what_is_said_of_measuring_counts_in_passes_too(
    task: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[str, Any] = {}

    def opened(task: Any, **options: Any) -> Noisy:
        given.update(options)
        return Noisy()

    monkeypatch.setattr(problem, "LocalMeasurer", opened)
    options = {"repeats": 7, "flush_cache": True}
    pb.sweep(task, records=tmp_path / "s.jsonl", configs=8, passes=1, measure_options=options, progress=False)
    assert {"repeats", "flush_cache", "rounds"} < set(given)
    assert "timing" not in given


def test_what_failed_is_not_measured_again(task: Any, tmp_path: Path, machine: Noisy) -> None:
    machine.fails = lambda config: config.index % 2 == 0
    pb.sweep(task, records=tmp_path / "s.jsonl", configs=40, passes=1, progress=False)
    assert {config.index % 2 for group in machine.groups for config in group} == {1}


@pytest.mark.parametrize("passes", [-1, 1.5, True])
def test_passes_that_cannot_be(task: Any, tmp_path: Path, machine: Noisy, passes: Any) -> None:
    with pytest.raises(ArgumentError, match=rf"passes={passes}"):
        pb.sweep(task, records=tmp_path / "s.jsonl", configs=40, passes=passes, progress=False)
    assert not machine.measured


@pytest.mark.parametrize(
    ("option", "value"),
    [("configs", 10**30), ("passes", [10**5000]), ("passes", np.zeros(2)), ("seed", 2.5), ("progress", np.zeros(2))],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_odd_options_are_refused_by_name(option: str, value: object, tmp_path: Path) -> None:
    task = pb.create_task("matmul", args=(8, 8, 8), target="llvm -num-cores 1")
    with pytest.raises(ArgumentError, match=option):
        pb.sweep(task, records=tmp_path / "trials.jsonl", **{option: value})  # type: ignore[arg-type]
