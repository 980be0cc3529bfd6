"""The timing policy: the duration and number of a candidate's timings."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pegbox.checks import check_float, check_int, check_list
from pegbox.errors import ArgumentError
from pegbox.measure.trial.cache_flush import MOST
from pegbox.shown import value_text

# The FLOP/s below which a candidate is hopeless even without anything faster.
_SLOWEST_SPEED = 2e8


@dataclass(frozen=True, kw_only=True)
class TimingPolicy:
    """The treatment of a candidate, which depends on its cost relative to the best one so far.

    A candidate far behind (`drop` times the best) gets one call; an ordinary one gets `repeats` timings; one near the
    best (`near` times the best, at least by its fastest timing) gets timings until the interval of their median is
    tighter than `tight`, at most `max_repeats`. MetaSchedule gives every candidate the full treatment and spends most
    of its tuning time on hopeless ones. Near ones get no more than that, because a search measures the possible winners
    again at its end, in turns.

    Times are in seconds except `min_repeat_ms`: the milliseconds that one timing must last, over several calls if need
    be. `flush_cache` empties the caches before each timing, which is then a single call; a number lets that many bytes
    of other memory pass through them, as a program does between two calls of a kernel. The inputs named by
    `fresh_inputs` are written after that, as if another kernel had just computed them. `max_seconds` limits the
    ordinary timings of one candidate together (there is always one), `near_seconds` limits those of a candidate near
    the best, and `timeout` limits a whole trial. These count the candidate's computing time, without waits for a core.
    """

    timeout: float = 10.0
    repeats: int = 3
    min_repeat_ms: float = 5.0
    flush_cache: bool | int = False
    fresh_inputs: tuple[str, ...] = ()
    max_repeats: int = 10
    max_seconds: float = 0.5
    near_seconds: float = 0.06
    tight: float = 0.02
    near: float = 1.05
    drop: float = 2.0
    cold_slack: float = 0.005
    hopeless: float = 20.0
    least_limit: float = 0.3
    rounds: int = 10

    @classmethod
    def of(cls, policy: TimingPolicy | None, *, repeats: int, **options: Any) -> TimingPolicy:
        """Return the given policy, or make one with these options that allows so many `repeats`.

        Raises:
            ArgumentError: the given value is not a policy, or an option is outside its domain.
        """
        if policy is None:
            most = max(10, repeats) if isinstance(repeats, int) else 10
            return cls(repeats=repeats, max_repeats=most, **options)
        if not isinstance(policy, TimingPolicy):
            raise ArgumentError(
                f"timing={value_text(policy)} is not a TimingPolicy; make one with pegbox.measure.TimingPolicy(...)"
            )
        return policy

    def __post_init__(self) -> None:
        for name in ("timeout", "max_seconds", "near_seconds", "tight", "least_limit"):
            value = check_float(name, getattr(self, name))
            _require(name, value, value > 0, "above 0")
        for name in ("min_repeat_ms", "cold_slack"):
            check_float(name, getattr(self, name))
        for name in ("near", "drop", "hopeless"):
            check_float(name, getattr(self, name), minimum=1)
        if not isinstance(self.flush_cache, bool):
            check_int("flush_cache", self.flush_cache, minimum=0)
        check_list("fresh_inputs", self.fresh_inputs, "names of inputs", of=str)
        for name in ("repeats", "max_repeats", "rounds"):
            check_int(name, getattr(self, name))
        _require(
            "max_repeats",
            self.max_repeats,
            self.max_repeats >= self.repeats,
            f"at least repeats={value_text(self.repeats)}",
        )

    @property
    def flushed_bytes(self) -> int:
        """The number of bytes that pass through the caches before each timing."""
        return MOST if self.flush_cache is True else int(self.flush_cache)

    def first_call_limit(self, best: float, *, flop: float) -> float:
        """Compute the seconds after which the first call is cut off, enough for every candidate of interest.

        Without a best cost, the bound follows from the work of the task; if that is unknown, it is the whole timeout.
        """
        bound = self.hopeless * best if math.isfinite(best) else (flop / _SLOWEST_SPEED if flop > 0 else math.inf)
        floor = self.least_limit if math.isfinite(best) else max(1.0, self.least_limit)
        return min(self.timeout, max(floor, bound))

    def far_behind(self, seconds: float, best: float, *, cold: bool = False) -> bool:
        """Decide if a call of this length rules the candidate out, with an allowance for a cold call's page faults."""
        return seconds - (self.cold_slack if cold else 0.0) > self.drop * best

    def calls(self, seconds: float) -> int:
        """Count the calls of `seconds` each that make one timing."""
        if self.flush_cache:
            return 1
        return max(1, min(1_000_000, math.ceil(self.min_repeat_ms * 1e-3 / max(seconds, 1e-9))))

    def wants_more(self, costs: Sequence[float], best: float, *, spent: float) -> bool:
        """Decide if another timing is worth its time, after `costs` that took `spent` seconds together."""
        if not costs:
            return True
        if spent >= self.max_seconds or len(costs) >= self.max_repeats:
            return False
        if len(costs) < self.repeats:
            return True
        # The fastest timing decides, because interruptions can only slow a candidate down.
        near = min(costs) <= self.near * best and math.isfinite(best)
        return near and spent < self.near_seconds and half_width(costs) > self.tight


def half_width(costs: Sequence[float]) -> float:
    """Compute half the width of the 95% interval of the median, relative to it; infinite for a single cost.

    The interval comes from the ordered costs (that of the sign test), so that a rare interruption does not widen it.
    With fewer than six costs, it is the whole range.
    """
    count = len(costs)
    if count < 2:
        return math.inf
    ordered = sorted(costs)
    rank = max(0, math.floor((count - 1.96 * math.sqrt(count)) / 2))
    middle = statistics.median(ordered)
    return (ordered[count - 1 - rank] - ordered[rank]) / 2 / middle if middle > 0 else 0.0


def spread(costs: Sequence[float]) -> float:
    """Compute the ratio of slow to fast costs; 1 for one cost, or none.

    With four or more, a quarter at each end is left out, so that a rare interruption does not count.
    """
    ordered = sorted(costs)
    left_out = len(ordered) // 4
    return ordered[-1 - left_out] / ordered[left_out] if ordered and ordered[left_out] > 0 else 1.0


def _require(name: str, value: object, holds: bool, domain: str) -> None:
    if not holds:
        raise ArgumentError(f"{name}={value!r}: must be {domain}")
