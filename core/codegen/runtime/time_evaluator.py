"""`kernel.time_evaluator(number=10)(a, b, c).mean`: timing a kernel on given arrays.

For candidates of a search see `pegbox.measure`, which runs them in separate processes.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pegbox.checks import check_float, check_int

MOST_CALLS = 1_000_000_000
"""The largest number of calls of a kernel that are timed together."""


@dataclass(frozen=True)
class TimeResult:
    """The seconds of one call, averaged over each repeat."""

    results: tuple[float, ...]

    @property
    def mean(self) -> float:
        return statistics.fmean(self.results)

    @property
    def median(self) -> float:
        return statistics.median(self.results)

    @property
    def min(self) -> float:
        return min(self.results)

    @property
    def max(self) -> float:
        return max(self.results)

    @property
    def std(self) -> float:
        """The standard deviation of the repeats (zero for a single one)."""
        return statistics.pstdev(self.results)

    def __str__(self) -> str:
        return (
            f"mean {self.mean * 1e3:.4f} ms, median {self.median * 1e3:.4f}, min {self.min * 1e3:.4f}, "
            f"max {self.max * 1e3:.4f}, std {self.std * 1e3:.4f}, {len(self.results)} repeat(s)"
        )


@dataclass(frozen=True)
class TimeEvaluator:
    """A timer of a kernel's calls; `time_ns(arrays, number)` gives the nanoseconds of that many calls."""

    time_ns: Callable[[Sequence[Any], int], int]
    number: int = 10
    repeat: int = 1
    min_repeat_ms: float = 0.0

    def __post_init__(self) -> None:
        for name in ("number", "repeat"):
            check_int(f"time_evaluator: {name}", getattr(self, name), maximum=MOST_CALLS)
        check_float("time_evaluator: min_repeat_ms", self.min_repeat_ms)

    def __call__(self, *arrays: Any) -> TimeResult:
        """Time the kernel, after one untimed call.

        Raises:
            ArgumentError: the arrays are not what the kernel was built for.
        """
        self.time_ns(arrays, 1)
        number = self.number
        times: list[float] = []
        while len(times) < self.repeat:
            elapsed = self.time_ns(arrays, number)
            if elapsed < self.min_repeat_ms * 1e6 and number < MOST_CALLS:
                # The repeat is too short to be exact: start again with more calls.
                wanted = math.ceil(number * self.min_repeat_ms * 1e6 * 1.1 / max(elapsed, 1))
                number = min(max(wanted, number + 1), number * 1000, MOST_CALLS)
                times.clear()
            else:
                times.append(elapsed * 1e-9 / number)
        return TimeResult(tuple(times))
