"""Validation of what a measurer gives: a cost that no call can have is a failed trial, not the best one."""

from __future__ import annotations

import math

from pegbox.measure.result import Failed, FailureKind, Ok, Result


def validated(result: Result) -> Result:
    """`result`, or a failure where it succeeded with NaN, infinitely many or no seconds as its cost.

    NaN compares with nothing: as the first trial it would stay the best, and a cost model would learn it.
    """
    if not isinstance(result, Ok) or 0.0 < result.cost < math.inf:
        return result
    message = f"the measurer gave {result.cost!r} seconds as the cost; a cost is finite and above 0"
    return Failed(FailureKind.RUN_ERROR, message, result.total_seconds, result.timestamp, result.phases)
