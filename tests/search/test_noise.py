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


class Measurer:
    """Gives these costs, one configuration after the other."""

    def __init__(self, costs: Sequence[tuple[float, ...]]) -> None:
        self.costs = iter(costs)

    def measure(self, configs: Sequence[Config]) -> Iterator[tuple[Config, Result]]:
        for config in configs:
            yield config, Ok(next(self.costs))

    def remeasure(self, configs: Sequence[Config]) -> list[Result]:
        return [Ok(QUIET) for _ in configs]


def warned(costs: Sequence[tuple[float, ...]], threads: int = 2) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tuner = GridTuner(small_space())
        run(tuner, Measurer(costs), trials=len(costs), callbacks=[NoiseWatch(threads)], finalists=0)
    return [str(warning.message) for warning in caught]


def test_timings_that_differ_by_many_times_are_told_once_with_a_remedy() -> None:
    (message,) = warned([QUIET, NOISY, NOISY, NOISY, NOISY])
    assert "takes 100 us to 8 ms" in message
    assert "3 of 4 configurations differ more than 3 times" in message
    assert "-num-cores 1" in message


def test_a_kernel_of_one_thread_is_not_told_to_use_one() -> None:
    (message,) = warned([NOISY] * 3, threads=1)
    assert "num-cores" not in message


@pytest.mark.parametrize(
    "costs", [[QUIET] * 8, [NOISY, NOISY, QUIET, QUIET], [*[QUIET] * 17, *[NOISY] * 3], [(1e-3,), (8e-3,)] * 4]
)
def test_interruptions_of_a_few_are_not_told(costs: list[tuple[float, ...]]) -> None:
    assert warned(costs) == []
