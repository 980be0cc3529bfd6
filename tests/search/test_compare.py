"""The honest comparison: same budget, interleaved, winners measured again together, plain data."""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from pegbox.errors import ArgumentError
from pegbox.measure.result import Result
from pegbox.search import Comparison, Run, compare
from pegbox.search.testing import ArtificialMeasurer, result_of, small_space
from pegbox.space import Config, ConfigSpace


@dataclass
class FakeTask:
    name: str = "job"
    space: ConfigSpace = field(default_factory=small_space)
    flop: float = 1e9


class InOrder:
    """The space from the front, or from the back."""

    def __init__(self, space: ConfigSpace, *, seed: int = 0, backwards: bool = False) -> None:
        configs = list(space.iterate())
        self.walk: Iterator[Config] = iter(configs[::-1] if backwards else configs)

    def ask(self, n: int) -> list[Config]:
        return [config for _, config in zip(range(n), self.walk, strict=False)]

    def tell(self, configs: Sequence[Config], results: Sequence[Result]) -> None:
        pass


def lookup(kind: str, name: str) -> Any:
    return {"walk": InOrder}[name]


def by_index(config: Config) -> float:
    return 1.0 / (1 + config.index)


def opened(task: FakeTask) -> ArtificialMeasurer:
    return ArtificialMeasurer(by_index)


def compared(**options: Any) -> Comparison:
    settings: dict[str, Any] = {
        "trials": 5,
        "seeds": 2,
        "lookup": lookup,
        "measurer": lambda task: ArtificialMeasurer(by_index),
    }
    return compare(FakeTask(), ["walk", "walk:backwards=yes"], **{**settings, **options})


def test_every_tuner_gets_the_same_trials_and_seeds() -> None:
    comparison = compared()
    assert [(run.tuner, run.seed, len(run.curve)) for run in comparison.runs] == [
        ("walk", 0, 5),
        ("walk", 1, 5),
        ("walk:backwards=yes", 0, 5),
        ("walk:backwards=yes", 1, 5),
    ]


def test_runs_are_interleaved_and_take_turns_at_going_first() -> None:
    order: list[tuple[str, int]] = []

    def watch(task: str, tuner: str, seed: int) -> list[Any]:
        order.append((tuner, seed))
        return []

    compared(callbacks=watch)
    assert order == [("walk", 0), ("walk:backwards=yes", 0), ("walk:backwards=yes", 1), ("walk", 1)]


def test_winners_are_measured_again_together_and_those_numbers_count() -> None:
    sessions: list[int] = []

    class Honest(ArtificialMeasurer):
        def remeasure(self, configs: Sequence[Config]) -> list[Result]:
            sessions.append(len(configs))
            return [result_of(2.0 * by_index(config)) for config in configs]

    comparison = compared(measurer=lambda task: Honest(by_index))
    assert sessions[-1] == 2
    last = comparison.runs[-1]
    assert last.final_cost == pytest.approx(2.0 * last.curve[-1])


def test_a_summary_tells_quality_and_speed_of_convergence() -> None:
    walk, backwards = compared().summaries()
    assert backwards.relative == 1.0
    assert walk.relative < 0.5
    assert backwards.trials_to[0.9] == 1
    assert walk.trials_to[0.9] is None
    assert walk.cost[0] <= walk.cost[1] <= walk.cost[2]


def test_the_result_goes_to_json_and_to_a_table() -> None:
    comparison = compared(
        measurer=lambda task: ArtificialMeasurer(lambda config: math.inf if config.index < 9 else 1e-3)
    )
    plain = json.loads(json.dumps(comparison.to_json(), allow_nan=False))
    assert plain["runs"][0]["curve"] == [None] * 5
    assert plain["runs"][0]["failures"] == {"compile error": 5}
    table = comparison.table()
    assert "nothing valid" in table
    assert table.splitlines()[0].startswith("task")


def test_quartiles_and_medians_of_known_numbers() -> None:
    runs = [Run("t", "a", seed, 1e9, (float(cost),), float(cost)) for seed, cost in enumerate((5, 1, 3, 2, 4))]
    summary = Comparison(1, tuple(range(5)), runs).summaries()[0]
    assert summary.cost == (2.0, 3.0, 4.0)
    assert summary.relative == pytest.approx(1 / 3)


def test_a_run_that_exhausted_its_space_keeps_its_best_in_the_median_curve() -> None:
    runs = [Run("t", "a", 0, 1e9, (4.0, 2.0), 2.0), Run("t", "a", 1, 1e9, (4.0, 4.0, 4.0), 4.0)]
    assert Comparison(3, (0, 1), runs).median_curve("t", "a") == [4.0, 3.0, 3.0]


@pytest.mark.parametrize(
    "wrong",
    [{"tuners": []}, {"tuners": ["walk", "walk"]}, {"tuners": "walk"}, {"seeds": 0}, {"seeds": []}, {"trials": 0}],
)
def test_refuses_what_would_compare_nothing(wrong: dict[str, Any]) -> None:
    arguments: dict[str, Any] = {
        "tuners": ["walk"],
        "measurer": lambda task: ArtificialMeasurer(),
        "lookup": lookup,
        **wrong,
    }
    with pytest.raises(ArgumentError):
        compare(FakeTask(), **arguments)


def test_ctrl_c_ends_the_whole_comparison() -> None:
    class Interrupted(ArtificialMeasurer):
        def measure(self, configs: Sequence[Config]) -> Iterator[tuple[Config, Result]]:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compared(measurer=lambda task: Interrupted())
