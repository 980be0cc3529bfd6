"""`Trial`, a configuration with its result, and counts of results."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pegbox.measure.result import Failed, FailureKind, Ok, Result

if TYPE_CHECKING:
    from pegbox.space import Config


@dataclass(frozen=True, slots=True)
class Trial:
    """A measured configuration. `number` counts from 0; trials of the history have negative numbers.

    `elapsed` is the time of its result, in seconds since the run began. `remeasured` marks the careful measurements at
    the end of a run, which repeat the configuration of an earlier trial under the same number.
    """

    number: int
    config: Config
    result: Result
    gflops: float = 0.0
    elapsed: float = 0.0
    remeasured: bool = False

    @property
    def ok(self) -> bool:
        return self.result.ok

    @property
    def not_recorded(self) -> bool:
        """True if a simulation had no recorded result, which says nothing about the configuration."""
        return isinstance(self.result, Failed) and self.result.kind is FailureKind.NOT_RECORDED

    @property
    def cost(self) -> float:
        """The seconds of one call; infinity for a failed trial."""
        return self.result.cost


def failure_counts(results: Iterable[Result]) -> dict[str, int]:
    """Count the failures among the results by kind, the most frequent first."""
    return dict(Counter(str(result.kind) for result in results if isinstance(result, Failed)).most_common())


def format_counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items())


def validated(result: Result) -> Result:
    """Return the measurer's result, or a failure if its costs are NaN, infinite or missing.

    Comparisons with NaN are false: as the first trial it would stay the best, and a cost model would learn it.
    """
    if not isinstance(result, Ok) or 0.0 < result.cost < math.inf:
        return result
    message = f"the measurer gave {result.cost!r} seconds as the cost; a cost is finite and above 0"
    return Failed(FailureKind.RUN_ERROR, message, result.total_seconds, result.timestamp, result.phases)
