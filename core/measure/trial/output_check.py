"""The check of an output, which distinguishes wrong ones from those less accurate than the task allows."""

from __future__ import annotations

import math
from typing import NamedTuple

from pegbox.expr import dtypes
from pegbox.measure.result import FailureKind
from pegbox.measure.trial.check import Array, Tolerance, difference, largest_error, largest_finite_error


class Check(NamedTuple):
    """The outcome of a check.

    Attributes:
        fault: the fault, for people; empty if there is none.
        kind: the kind of the failure.
        error: the largest error, relative to the largest magnitude of its output.
    """

    fault: str = ""
    kind: FailureKind = FailureKind.WRONG_RESULT
    error: float = 0.0


def check_output(name: str, got: Array, expected: Array, tolerance: Tolerance, magnitude: float) -> Check:
    """Check an output, given the largest magnitude of its expected values.

    An output with errors beyond the accuracy is inaccurate up to the square root of the type's epsilon, half of its
    digits; with larger ones, or missing values, it is wrong.
    """
    if not dtypes.is_float(str(got.dtype)):
        return Check(difference(name, got, expected, tolerance) or "")
    largest = largest_error(got, expected)
    if largest <= tolerance.absolute(magnitude):
        return Check(error=largest / magnitude)
    fault = difference(name, got, expected, tolerance, magnitude=magnitude)
    if fault is None:  # expected infinities, or an error that `rtol` allows
        return Check(error=largest_finite_error(got, expected) / magnitude)
    error = largest / magnitude
    if math.isnan(error) or error > math.sqrt(dtypes.EPSILON[str(got.dtype)]):
        return Check(fault)
    allowed = f"accuracy {error:.2g} of output {name!r}, the task allows {tolerance.accuracy:.2g}"
    return Check(f"{allowed}; give accuracy={_above(error)} to allow it", FailureKind.INACCURATE, error)


def _above(error: float) -> str:
    """Round an error up to one digit, such as 4e-05."""
    power = 10.0 ** math.floor(math.log10(error))
    return f"{math.ceil(error / power) * power:.0e}"
