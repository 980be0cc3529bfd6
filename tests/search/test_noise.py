"""The watch on noise warns where timings of one configuration differ by many times, once, and only there."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence

import pytest

from pegbox.measure.result import Ok, Result
from pegbox.search import run
from pegbox.search.loop.noise import NoiseWatch
from pegbox.search.testing import small_space
from pegbox.space import Config
from pegbox.tuners.grid import GridTuner

QUIET, NOISY = (1e-3, 1.1e-3, 1.05e-3), (1e-4, 8e-3, 8e-3)
NEIGHBOUR = (0.499e-3, 1.382e-3, 0.529e-3, 1.36e-3, 0.569e-3, 1.39e-3, 0.543e-3)
STEADY, UNSTEADY = (1.04e-3, 1.05e-3, 1.06e-3) * 3, (0.5e-3, 1.4e-3) * 5


class Measurer:
    """Gives these costs, one configuration after the other."""

    def __init__(self, costs: Sequence[tuple[float, ...]], again: Sequence[tuple[float, ...]] = ()) -> None:
        self.costs = iter(costs)
        self.again = iter(again)

    def measure(self, configs: Sequence[Config]) -> Iterator[tuple[Config, Result]]:
        for config in configs:
            yield config, Ok(next(self.costs))

    def remeasure(self, configs: Sequence[Config]) -> list[Result]:
        return [Ok(next(self.again)) for _ in configs]


def warned(costs: Sequence[tuple[float, ...]], threads: int = 2, again: Sequence[tuple[float, ...]] = ()) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tuner = GridTuner(small_space())
        watch = [NoiseWatch(threads)]
        run(tuner, Measurer(costs, again), trials=len(costs), callbacks=watch, finalists=len(again))
    assert {warning.filename for warning in caught} <= {__file__}  # the user's line, not one of pegbox
    return [str(warning.message) for warning in caught]


def test_timings_that_differ_by_many_times_are_told_once_with_a_remedy() -> None:
    (message,) = warned([QUIET, NOISY, NOISY, NOISY, NOISY])
    assert "takes 100 us to 8 ms" in message
    assert "3 of 4 configurations differ more than 2 times" in message
    assert "-num-cores 1" in message


def test_a_kernel_of_one_thread_is_not_told_to_use_one() -> None:
    (message,) = warned([NOISY] * 3, threads=1)
    assert "num-cores" not in message


@pytest.mark.parametrize(
    "costs", [[QUIET] * 8, [NOISY, NOISY, QUIET, QUIET], [*[QUIET] * 17, *[NOISY] * 3], [(1e-3,), (8e-3,)] * 4]
)
def test_interruptions_of_a_few_are_not_told(costs: list[tuple[float, ...]]) -> None:
    assert warned(costs) == []


def test_a_neighbour_on_the_core_is_told() -> None:
    (message,) = warned([QUIET, NEIGHBOUR, NEIGHBOUR, QUIET, NEIGHBOUR])
    assert "takes 499 us to 1.39 ms" in message


@pytest.mark.parametrize(
    ("again", "told"),
    [
        ([UNSTEADY, STEADY], "takes 500 us to 1.4 ms when measured again at the end, and 1 of 2"),
        ([tuple(0.5 * cost for cost in STEADY), STEADY], "took 1.05 ms in the search and 525 us when measured again"),
        ([tuple(2 * cost for cost in STEADY)] * 2, "took 1.05 ms in the search and 2.1 ms when measured again"),
    ],
)
def test_finalists_that_differ_from_themselves_or_from_the_search_are_told(
    again: list[tuple[float, ...]], told: str
) -> None:
    (message,) = warned([QUIET, QUIET], again=again)
    assert told in message
    assert "End them" in message


def test_steady_finalists_are_not_told_and_nothing_is_told_twice() -> None:
    interrupted = (*STEADY[:-1], 20 * STEADY[-1])
    assert warned([QUIET] * 4, again=[STEADY, interrupted, STEADY, STEADY]) == []
    assert len(warned([NOISY] * 4, again=[UNSTEADY] * 4)) == 1
