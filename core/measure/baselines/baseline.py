"""`Baseline`: the values to compare a kernel's cost with."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pegbox.measure.baselines.roofline import Roofline
from pegbox.measure.trial.timing import spread
from pegbox.task.speed_text import format_seconds

MOST = 1.05
"""The share of a limit beyond which the limit was measured too low, and is not reported."""

NEAR = 0.95
"""The share of a limit from which the limit may have been measured too low, and is measured again."""

UNSTEADY = 1.5
"""The ratio of slow timings to fast ones (`spread`) beyond which two medians are not comparable."""

MOST_RUN_QUEUE_WAIT = 0.1
"""The share of run-queue wait beyond which other programs determine the costs of several threads."""

RANGE = (0.1, 0.9)
"""The quantiles of the ratios of all pairs of timings that bound a range of speeds."""

_FEWEST = 3
"""The smallest number of timings of each that has such quantiles."""

CALLS = 4.0
"""The ratio of NumPy's time to that of an empty call (`Baseline.numpy_call`) from which work dominates the time."""


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """NumPy's time for the same computation, and the machine's limits, both with `cores` cores.

    `numpy` is in seconds per call, None if NumPy cannot express the computation plainly or takes too long. It is the
    median of `numpy_costs`, the single timings, which are empty if unknown. `flop`, `read` and `written` (bytes) are
    the least that one call needs. `slow` names operations that take far longer than a multiply-add and are not few,
    such as "exp": the limits do not include their time. `numpy_call` is the time in seconds to call NumPy from Python,
    which is part of its time but not of the kernel's; 0 if unknown. `numpy_missing` is the reason why `numpy` is None.
    """

    cores: int
    flop: float
    read: float
    written: float
    slow: tuple[str, ...] = ()
    numpy: float | None = None
    roofline: Roofline | None = None
    numpy_costs: tuple[float, ...] = ()
    numpy_call: float = 0.0
    numpy_missing: str = ""

    def speedup(self, seconds: float) -> float | None:
        """Compute NumPy's time divided by that of a call."""
        return None if self.numpy is None or not 0 < seconds < math.inf else self.numpy / seconds

    def speedup_range(self, costs: Sequence[float]) -> tuple[float, float] | None:
        """Compute the `RANGE` of NumPy's time divided by the kernel's, over all pairs of their timings.

        None if either has too few timings.
        """
        if min(len(costs), len(self.numpy_costs)) < _FEWEST:
            return None
        ratios = sorted(numpy / cost for numpy in self.numpy_costs for cost in costs)
        low, high = (ratios[round(share * (len(ratios) - 1))] for share in RANGE)
        return low, high

    def is_comparable(self, costs: Sequence[float] = (), run_queue_wait: float = 0.0) -> bool:
        """Decide if the medians are comparable: the timings of NumPy and of the kernel each differ by less than a
        factor of `UNSTEADY`, and several threads waited for cores for at most `MOST_RUN_QUEUE_WAIT` of the time.
        """
        return not self._waits(run_queue_wait) and max(spread(costs), spread(self.numpy_costs)) <= UNSTEADY

    @property
    def is_call(self) -> bool:
        """True if NumPy's time is mostly the call from Python."""
        return self.numpy is not None and self.numpy < CALLS * self.numpy_call

    @property
    def bound(self) -> str | None:
        """The limit of the computation on this machine: "multiply-add" or "memory"; None if unknown."""
        limits = self._limits()
        return max(limits, key=lambda name: limits[name]) if limits else None

    def share(self, seconds: float) -> float | None:
        """Compute the share of the limit that a call reaches; None if no limit is known, or is exceeded by 5%.

        A smaller excess means that the limit was measured a little low, and the share is 1.
        """
        found = self.measured_share(seconds)
        return None if found is None or found > MOST else min(found, 1.0)

    def measured_share(self, seconds: float) -> float | None:
        """Compute `share`, even if it cannot be right."""
        limits = self._limits()
        return max(limits.values()) / seconds if limits and 0 < seconds < math.inf else None

    def text(self, seconds: float, costs: Sequence[float] = (), run_queue_wait: float = 0.0) -> str:
        """Describe a call that takes `seconds`, for people; empty if nothing is known.

        `costs` are the timings with the median `seconds`, and `run_queue_wait` is that of `Ok`. If other programs
        disturbed these or NumPy's timings (`is_comparable`), the ratio is a range.
        """
        found = [beside] if (beside := self._beside_numpy(seconds, costs, run_queue_wait)) else []
        if self.numpy is None and self.numpy_missing:
            found.append(f"no NumPy baseline: {self.numpy_missing}")
        if (share := self.share(seconds)) is not None:
            found.append(f"{share:.{0 if share >= 0.1 else 1}%} of the {self._limit_text()}")
        return f"{'; '.join(found)} ({self.cores} core{'s' if self.cores != 1 else ''})" if found else ""

    def to_json(self) -> dict[str, Any]:
        """Return plain values for records."""
        return asdict(self)

    @classmethod
    def from_json(cls, form: Mapping[str, Any]) -> Baseline:
        """Read the result of `to_json`. Raises `ValueError` for anything else."""
        try:
            slow = form.get("slow", ())
            form = {**form, "slow": tuple(slow)}
            roofline = None if form.get("roofline") is None else Roofline(**form["roofline"])
            made = cls(**{**form, "roofline": roofline, "numpy_costs": tuple(form.get("numpy_costs", ()))})
            numbers = [made.cores, made.flop, made.read, made.written, *made.numpy_costs, made.numpy_call]
            optional = [made.numpy]
            if roofline is not None:
                numbers += [roofline.cores, roofline.read, roofline.copy]
                optional.append(roofline.gflops)
            numbers += [value for value in optional if value is not None]
            if not all(isinstance(value, int | float) and 0 <= value < math.inf for value in numbers):
                raise TypeError("numbers of at least 0")
            if not isinstance(made.numpy_missing, str):
                raise TypeError("a reason")
            if isinstance(slow, str) or not all(isinstance(name, str) for name in made.slow):
                raise TypeError("names of operations")
        except (TypeError, AttributeError) as error:
            raise ValueError(f"baseline={form!r} has the wrong form: {error}") from None
        return made

    def _limits(self) -> dict[str, float]:
        """Compute the least seconds of a call by limit; empty if a limit that may bind is unknown."""
        if self.roofline is None or (self.flop and not self.roofline.gflops):
            return {}
        limits = {"memory": self.roofline.seconds(read=self.read, written=self.written)}
        if self.flop and self.roofline.gflops:
            limits["multiply-add"] = self.flop / self.roofline.gflops * 1e-9
        return limits

    def _waits(self, run_queue_wait: float) -> bool:
        return self.cores > 1 and run_queue_wait > MOST_RUN_QUEUE_WAIT

    def _beside_numpy(self, seconds: float, costs: Sequence[float], run_queue_wait: float) -> str:
        speedup = self.speedup(seconds)
        if self.numpy is None or speedup is None:
            return ""
        text = f"NumPy {_range_text(self.numpy, self.numpy_costs)}"
        if self.is_call:
            return f"{text}, mostly the overhead of the Python call, which the kernel's time excludes; not compared"
        if self.is_comparable(costs, run_queue_wait):
            return f"{text}: {speedup:.2f}x"
        if (found := self.speedup_range(costs)) is None:
            waits = f"the kernel's threads spent {run_queue_wait:.0%} of the time waiting for a core"
            return f"{text}; not compared: {waits if self._waits(run_queue_wait) else 'timings differ too much'}"
        low, high = map(_ratio_text, found)
        return f"{text}: about {low if low == high else f'{low} to {high}'} times NumPy's speed"

    def _limit_text(self) -> str:
        assert self.roofline is not None
        if self.bound == "multiply-add":
            return f"multiply-add peak, {self.roofline.gflops:.4g} GFLOP/s{self._slow_text('one operation')}"
        moved = self.read + self.written
        rate = moved / self.roofline.seconds(read=self.read, written=self.written) * 1e-9
        return f"memory bandwidth, {rate:.3g} GB/s{self._slow_text('nothing')}"

    def _slow_text(self, counted: str) -> str:
        *others, last = self.slow or ("",)
        names = f"{', '.join(others)} and {last}" if others else last
        return f", {names} counted as {counted}" if last else ""


def _range_text(middle: float, costs: Sequence[float]) -> str:
    if spread(costs) <= UNSTEADY:
        return format_seconds(middle)
    return f"{format_seconds(min(costs))} to {format_seconds(max(costs))}"


def _ratio_text(ratio: float) -> str:
    return f"{ratio:.{1 if ratio < 10 else 0}f}" if ratio >= 0.95 else f"{ratio:.2g}"
