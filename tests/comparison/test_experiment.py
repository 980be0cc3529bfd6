"""A comparison runs: same budget, same start, interleaved, winners measured again together, nothing lost."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
from comparisons import FakeTask, InOrder, by_index, compared

from pegbox.comparison.runs import run_line
from pegbox.errors import ArgumentError, ComparisonError, SpaceError, UnknownName
from pegbox.measure.result import Failed, FailureKind, Ok, Result
from pegbox.records.recorded_space import RecordedSpace
from pegbox.search import BaseTuner, Comparison, ComparisonInterrupted
from pegbox.search.testing import ArtificialMeasurer, result_of, small_space
from pegbox.space import Config, ConfigSpace

WALKS = ("walk", "walk:backwards=yes")


class Bound(BaseTuner):
    """A tuner that is given with its options."""

    def __init__(self, space: ConfigSpace, *, seed: int = 0, backwards: bool = False) -> None:
        self.inner = InOrder(space, seed=seed, backwards=backwards)

    def ask(self, n: int) -> list[Config]:
        return self.inner.ask(n)

    def tell(self, configs: Sequence[Config], results: Sequence[Result]) -> None:
        self.inner.tell(configs, results)


class Breaks(InOrder):
    """Raises in the second run: the first of seed 1."""

    def __init__(self, space: ConfigSpace, *, seed: int = 0) -> None:
        super().__init__(space, seed=seed)
        self.seed = seed

    def ask(self, n: int) -> list[Config]:
        if self.seed:
            raise ZeroDivisionError("out of ideas")
        return super().ask(n)


def test_every_tuner_gets_the_same_trials_and_seeds() -> None:
    runs = compared().runs
    assert [(run.tuner, run.seed, len(run.curve)) for run in runs] == [
        (walk, seed, 5) for walk in WALKS for seed in (0, 1)
    ]


def test_runs_are_interleaved_and_take_turns_at_going_first() -> None:
    order: list[tuple[str, int]] = []

    def watch(task: str, tuner: str, seed: int) -> list[Any]:
        order.append((tuner, seed))
        return []

    compared(callbacks=watch)
    assert order == [(WALKS[0], 0), (WALKS[1], 0), (WALKS[1], 1), (WALKS[0], 1)]


@pytest.mark.parametrize("start", [0, 1, 3, 5])
def test_all_tuners_start_from_the_same_random_trials_which_they_are_told_of(start: int) -> None:
    trials: dict[tuple[str, int], list[Config]] = {}

    def watch(task: str, tuner: str, seed: int) -> list[Any]:
        return [lambda trial: trials.setdefault((tuner, seed), []).append(trial.config)]

    compared(callbacks=watch, start=start, batch_size=2)
    for seed in (0, 1):
        first, second = (trials[walk, seed] for walk in WALKS)
        assert first[:start] == second[:start]
        assert len(set(first)) == len(first) == 5  # what they were told of they do not propose
        assert start == 5 or first[start:] != second[start:]
    assert start == 0 or trials[WALKS[0], 0][:start] != trials[WALKS[0], 1][:start]


def test_the_start_is_the_same_in_every_comparison() -> None:
    assert compared(start=5).runs[0].curve == compared(start=5, tuners=["walk"]).runs[0].curve


def test_winners_are_measured_again_together_and_those_numbers_count() -> None:
    sessions: list[int] = []

    class Honest(ArtificialMeasurer):
        def remeasure(self, configs: Sequence[Config]) -> list[Result]:
            sessions.append(len(configs))
            return [result_of(2.0 * by_index(config)) for config in configs]

    report = compared(measurer=lambda task: Honest(by_index))
    winners = {str(run.config) for run in report.runs}
    assert sessions[-1] == len(winners)
    last = report.runs[-1]
    assert last.final_cost == pytest.approx(2.0 * last.curve[-1])


def test_a_comparison_on_a_cluster_names_its_machines() -> None:
    class Cluster(ArtificialMeasurer):
        def measure(self, configs: Sequence[Config]) -> Iterator[tuple[Config, Result]]:
            for config in configs:
                yield config, Ok((by_index(config),), host="EPYC, 16 cores")

    (task,) = compared(measurer=lambda task: Cluster(by_index)).tasks
    assert task.host == "EPYC, 16 cores"


def test_a_recorded_space_is_answered_from_its_records() -> None:
    space = small_space()
    configs = list(space.iterate())[::2]
    results = {config: Ok((by_index(config),), total_seconds=7.0) for config in configs}
    recorded = RecordedSpace("recorded", space, results, flop=1e9, source="/some/where/space.jsonl", host="there")
    report = compared(tasks=recorded, measurer=None)
    (task,) = report.tasks
    assert (task.simulated, task.source, task.host, task.configurations) == (True, "space.jsonl", "there", len(configs))
    assert report.best_known("recorded") == min(map(by_index, configs))
    for run in report.runs:
        assert run.seconds > 35  # five trials on the virtual clock
        assert run.tuner_seconds < 5
        assert run.final_cost == run.curve[-1]


def test_what_a_simulation_has_no_answer_for_is_counted_apart() -> None:
    class Roams(InOrder):
        def __init__(self, space: ConfigSpace, *, seed: int = 0) -> None:
            super().__init__(whole, seed=seed)

    whole = small_space()
    configs = list(whole.iterate())
    recorded = RecordedSpace("recorded", whole, {config: Ok((1.0,)) for config in configs[-20:]})
    (summary,) = compared([Roams], recorded, measurer=None).summaries()
    assert summary.not_recorded == pytest.approx(0.8)
    assert summary.invalid == 0.0


def test_without_records_something_has_to_measure() -> None:
    with pytest.raises(ArgumentError, match="it has no records, and no measurer was given"):
        compared(measurer=None)


def test_tuners_are_specs_classes_bound_factories_or_have_names_of_their_own() -> None:
    bound = Bound.with_options(backwards=True)
    given = ["walk:backwards=no", InOrder, Bound, bound, functools.partial(InOrder, backwards=True)]
    names = ["walk:backwards=no", "InOrder", "Bound", "Bound(backwards=True)", "InOrder(backwards=True)"]
    assert list(compared(given).setup.tuners) == names
    assert list(compared({"mine": bound, "theirs": "walk"}).setup.tuners) == ["mine", "theirs"]


def test_tasks_are_named_with_their_arguments() -> None:
    def job(*args: int) -> FakeTask:
        task = FakeTask()
        task.args = args  # type: ignore[attr-defined]
        return task

    report = compared(tasks=[job(1, 2), job(3, 4)])
    assert [task.name for task in report.tasks] == ["job(1, 2)", "job(3, 4)"]
    assert str(report).count("best known") == 2


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"tuners": []}, "at least one tuner"),
        ({"tuners": ["walk", "walk"]}, "'walk' is in the list twice"),
        ({"tuners": "walk"}, "is one tuner; give a list"),
        ({"tuners": InOrder}, "is one tuner; give a list"),
        ({"tuners": [3]}, "3 is neither the name of a tuner nor a factory"),
        ({"tuners": [InOrder(small_space())]}, "for one space and one seed; every run needs a new one"),
        ({"tuners": ["walk:backwards=perhaps"]}, "cannot read backwards='perhaps' as .*; write yes or no"),
        ({"tuners": ["walk:speed=9"]}, "no option 'speed'"),
        ({"seeds": 0}, "seeds=0"),
        ({"seeds": []}, "at least one seed"),
        ({"seeds": [1, 1]}, "each once"),
        ({"trials": 0}, "trials=0"),
        ({"trials": 10**30}, "give an integer from 1 to 1000000"),
        ({"start": -1}, "start=-1"),
        ({"start": 6}, "start=6"),
        ({"tasks": [FakeTask(), FakeTask()]}, "give each task once"),
        ({"tasks": ["matmul"]}, "'matmul' is not a task"),
        ({"save": "no/such/folder/report.json"}, "there is no folder 'no/such/folder'"),
    ],
)
def test_what_cannot_be_compared_is_refused_before_anything_is_measured(wrong: dict[str, Any], said: str) -> None:
    def never(task: object) -> Any:
        raise AssertionError("it was measured")

    with pytest.raises(ArgumentError, match=said):
        compared(**{"measurer": never, **wrong})


def test_an_unknown_tuner_at_the_end_of_the_list_is_found_before_the_first_run() -> None:
    with pytest.raises(UnknownName, match="no_such_tuner"):
        compared(["random", "no_such_tuner"], measurer=lambda task: 1 / 0)


def test_a_space_without_a_valid_configuration_is_named() -> None:
    space = small_space()
    space.add_constraint(lambda config: False, reads=("layout",), message="never")
    with pytest.raises(SpaceError, match="job: "):
        compared(tasks=FakeTask(space=space))


@pytest.mark.parametrize("cost", [math.inf, math.nan, 0.0, -1.0])
def test_costs_that_no_call_can_have_are_failures(cost: float) -> None:
    class Odd(ArtificialMeasurer):
        def measure(self, configs: Sequence[Config]) -> Iterator[tuple[Config, Result]]:
            for config in configs:
                yield config, Ok((cost,)) if config.index % 2 else Ok((by_index(config),))

    report = compared(measurer=lambda task: Odd(by_index), trials=20)
    for run in report.runs:
        assert run.failures["run error"] > 0
        assert 0 < run.final_cost < 1.1
    assert "nan" not in str(report)


def test_a_comparison_in_which_nothing_ran_is_a_report_all_the_same(tmp_path: Path) -> None:
    report = compared(measurer=lambda task: ArtificialMeasurer(lambda config: math.inf))
    assert "job: nothing valid was found" in str(report)
    assert [summary.invalid for summary in report.summaries()] == [1.0, 1.0]
    assert not any(verdict.decided for verdict in report.verdicts())
    report.to_html(tmp_path / "report.html")


def test_a_tuner_that_breaks_does_not_cost_the_finished_runs(tmp_path: Path) -> None:
    with pytest.raises(ComparisonError, match="out of ideas; the report of the 2 of 6 runs") as broken:
        compared(["walk", Breaks], seeds=3, save=tmp_path / "r.json")
    report = broken.value.result
    assert [(run.tuner, run.seed) for run in report.runs] == [("walk", 0), ("Breaks", 0)]
    assert report.setup.planned == 6
    message = (
        r"incomplete: 2 of 6 runs are finished: job, seed 1, Breaks: \S+:\d+: tuner .Breaks. raised ZeroDivisionError"
    )
    assert re.search(message, str(report))
    assert "error.result" not in broken.value.reason  # for the command line, which prints the report
    assert broken.value.reason.endswith(f"out of ideas; 2 of 6 runs are finished, and kept in {tmp_path / 'r.json'}")
    assert Comparison.load(tmp_path / "r.json") == report
    assert broken.value.__cause__.result.trials  # type: ignore[union-attr]  # of the run that broke: the common start


def test_configurations_from_elsewhere_end_the_comparison_likewise() -> None:
    class Foreign(InOrder):
        def ask(self, n: int) -> list[Config]:
            other = ConfigSpace()
            other.define_knob("x", [1, 2])
            return [other.get(0)]

    with pytest.raises(ComparisonError, match="configuration of another space") as broken:
        compared(["walk", Foreign])
    assert [run.tuner for run in broken.value.result.runs] == ["walk"]


def test_the_winners_of_finished_runs_are_measured_again_although_a_later_run_broke() -> None:
    class Honest(ArtificialMeasurer):
        def remeasure(self, configs: Sequence[Config]) -> list[Result]:
            return [result_of(3.0 * by_index(config)) for config in configs]

    with pytest.raises(ComparisonError) as broken:
        compared(["walk", Breaks], measurer=lambda task: Honest(by_index))
    run = broken.value.result.runs[0]
    assert run.final_cost == pytest.approx(3.0 * run.curve[-1])


def test_ctrl_c_ends_the_comparison_and_keeps_the_finished_runs() -> None:
    opened: list[int] = []

    class Interrupted(ArtificialMeasurer):
        def measure(self, configs: Sequence[Config]) -> Iterator[tuple[Config, Result]]:
            if len(opened) == 3:
                raise KeyboardInterrupt
            yield from super().measure(configs)

    def opens(task: object) -> ArtificialMeasurer:
        opened.append(1)
        return Interrupted(by_index)

    with pytest.raises(ComparisonInterrupted) as stopped:
        compared(measurer=opens)
    assert isinstance(stopped.value, KeyboardInterrupt)
    assert len(stopped.value.result.runs) == 2
    assert "2 of 4 runs are finished: interrupted" in str(stopped.value.result)


def test_the_report_so_far_is_saved_after_every_run(tmp_path: Path) -> None:
    path, counts = tmp_path / "r.json", []

    def look(*_: object) -> None:
        counts.append(len(Comparison.load(path).runs) if path.exists() else 0)

    report = compared(on_run=look, save=path)
    assert counts == [0, 1, 2, 3]
    assert Comparison.load(path) == report
    assert report.setup.note == ""


def test_each_finished_run_has_a_line() -> None:
    lines: list[str] = []
    compared(on_run=lambda *args: lines.append(run_line(*args)))
    assert len(lines) == 4
    assert lines[0].startswith("[1/4] job, seed 0, walk: ")
    assert "GFLOP/s); 5 trials, " in lines[0]


def test_a_tuner_that_exhausts_the_space_is_compared_with_others() -> None:
    report = compared(trials=60)
    assert {(len(run.curve), run.stopped_because) for run in report.runs} == {(44, "exhausted")}
    assert all(summary.share == 1.0 for summary in report.summaries())
    assert "walk ended early in 2 of 2 runs (exhausted), at the earliest after 44 trials." in report.words("job")


def test_proposals_that_were_left_out_are_counted_and_reported(tmp_path: Path) -> None:
    class Stutters(InOrder):
        def ask(self, n: int) -> list[Config]:
            return [config for config in super().ask(n) for _ in range(2)]

    report = compared(["walk", Stutters], trials=5, start=1, batch_size=2)
    assert [run.dropped for run in report.runs] == [0, 0, 4, 4]
    assert "8 proposals of Stutters were not measured: repetitions, or more than requested." in report.words("job")
    report.save(tmp_path / "report.json")
    assert Comparison.load(tmp_path / "report.json").runs == report.runs


def test_models_report_themselves() -> None:
    from pegbox.search import ModelReport

    class Knows(InOrder):
        def model_report(self) -> ModelReport:
            return ModelReport(5, 10, 0.8)

    walk, knows = compared(["walk", Knows]).summaries()
    assert (knows.accuracy, knows.correlation) == (0.8, pytest.approx(0.6))
    assert walk.accuracy is None


def test_program_features_are_made_only_for_tuners_that_ask_for_them() -> None:
    made: list[str] = []

    class Curious(InOrder):
        def __init__(self, space: ConfigSpace, *, seed: int = 0, program: Any = None) -> None:
            super().__init__(space, seed=seed)
            assert program == "features of job"

    def program(task: Any) -> Any:
        made.append(task.name)
        return f"features of {task.name}"

    compared(["walk"], program=program)
    assert made == []
    compared(["walk", Curious], program=program)
    assert made == ["job"]


def test_a_failure_of_the_measurer_at_the_end_keeps_the_runs() -> None:
    class Dies(ArtificialMeasurer):
        def remeasure(self, configs: Sequence[Config]) -> list[Result]:
            if len(configs) > 1:
                raise OSError("the board is gone")
            return super().remeasure(configs)

    with pytest.raises(ComparisonError, match="the board is gone") as broken:
        compared(measurer=lambda task: Dies(by_index))
    assert len(broken.value.result.runs) == 4


def test_a_winner_that_fails_when_measured_again_has_no_final_cost() -> None:
    class Fickle(ArtificialMeasurer):
        def remeasure(self, configs: Sequence[Config]) -> list[Result]:
            if len(configs) == 1:
                return super().remeasure(configs)
            return [Failed(FailureKind.CRASH, "gone") for _ in configs]

    report = compared(measurer=lambda task: Fickle(by_index))
    assert all(run.final_cost == math.inf for run in report.runs)
    assert "nothing valid" in str(report)


# --- experience -------------------------------------------------------------------------------------------------------


class Experienced(InOrder):
    """Is given experience, and writes it down; with `alone` it leaves it aside."""

    given: ClassVar[list[object]] = []

    def __init__(self, space: ConfigSpace, *, seed: int = 0, experience: object = None, alone: bool = False) -> None:
        super().__init__(space, seed=seed)
        self.given.append(experience)
        self.experienced = not alone


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> object:
    """Return records of other workloads."""
    monkeypatch.setattr("pegbox.comparison.experiment.shipped_experience", lambda task: "experience")
    monkeypatch.setattr(Experienced, "given", [])
    return "experience"


def test_the_report_says_which_tuners_began_with_experience(known: object) -> None:
    tuners = {"with": Experienced, "without": functools.partial(Experienced, alone=True), "walk": "walk"}
    report = compared(tuners, seeds=2)
    assert {(run.tuner, run.experienced) for run in report.runs} == {
        ("with", True),
        ("without", False),
        ("walk", False),
    }
    assert set(Experienced.given) == {known}
    (said,) = [words for words in report.words("job") if "experience" in words]
    assert said.startswith("with began with experience, measurements of other workloads; without and walk did not.")
    assert "--no-experience" in said


@pytest.mark.usefixtures("known")
def test_tuners_are_compared_without_experience_on_request(tmp_path: Path) -> None:
    report = compared({"with": Experienced, "walk": "walk"}, seeds=2, experience=False)
    assert set(Experienced.given) == {None}
    assert not any(run.experienced for run in report.runs)
    assert report.table().endswith("all tuners begin with the same random trial, and none with experience.")
    report.save(tmp_path / "report.json")
    assert Comparison.load(tmp_path / "report.json") == report


def test_experience_is_yes_or_no() -> None:
    with pytest.raises(ArgumentError, match="experience='no' is of the type str; give True, or False"):
        compared(experience="no")
