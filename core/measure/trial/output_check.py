"""The check of an output: its error, and whether it is wrong or only less accurate than the task allows."""

from __future__ import annotations

import math
from typing import NamedTuple

from pegbox.expr import dtypes
from pegbox.measure.result import FailureKind
from pegbox.measure.trial.check import Array, Tolerance, difference, largest_error, largest_finite_error


class Check(NamedTuple):
    """The outcome of a check.

    Attributes:
        fault: what is wrong, for people; empty if nothing is.
        kind: the kind of the failure.
        error: the largest error, relative to the largest magnitude of its output.
    """

    fault: str = ""
    kind: FailureKind = FailureKind.WRONG_RESULT
    error: float = 0.0


def check_output(name: str, got: Array, expected: Array, tolerance: Tolerance, magnitude: float) -> Check:
    """Check an output, given the largest magnitude of its expected values.

    Errors beyond the accuracy are inaccurate up to the square root of the type's epsilon, half of its digits: larger
    ones, and values that are missing, are wrong.
    """
    if not dtypes.is_float(str(got.dtype)):
        return Check(difference(name, got, expected, tolerance) or "")
    largest = largest_error(got, expected)
    if largest <= tolerance.absolute(magnitude):
        return Check(error=largest / magnitude)
    fault = difference(name, got, expected, tolerance, magnitude=magnitude)
    if fault is None:  # infinities where they belong, or an error that `rtol` allows
        return Check(error=largest_finite_error(got, expected) / magnitude)
    error = largest / magnitude
    if math.isnan(error) or error > math.sqrt(dtypes.EPSILON[str(got.dtype)]):
        return Check(fault)
    allowed = f"accuracy {error:.2g} of output {name!r}, the task allows {tolerance.accuracy:.2g}"
    return Check(f"{allowed}; give accuracy={_above(error)} to allow it", FailureKind.INACCURATE, error)


def _above(error: float) -> str:
    """Write the next number of one digit that is at least an error, such as 4e-05."""
    power = 10.0 ** math.floor(math.log10(error))
    return f"{math.ceil(error / power) * power:.0e}"
