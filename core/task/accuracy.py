"""The accuracy of a task: the largest error of its kernels, relative to the largest magnitude of the output."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from pegbox.checks import check_float
from pegbox.errors import ArgumentError
from pegbox.expr import dtypes
from pegbox.shown import value_text

ROUNDINGS = 16
"""The factor of the default. The errors of a sum in another order add up like a random walk; the largest of millions of
elements is about five times the standard deviation. The rest leaves room for algorithms that trade accuracy for speed:
Winograd's F(4x4, 3x3) needs a ninth of the default for 64 to 512 channels, F(6x6, 3x3) a quarter."""

SHORTEST = 4.0
"""The smallest √K to assume, since functions such as exp round several times."""


def default_accuracy(dtypes_of_outputs: Iterable[str], *, flop: float, elements: int) -> float:
    """Return the accuracy of a task that declares none: 16 ε max(4, √K); 0 if all outputs are integers.

    ε is the distance from 1 to the next number of the type with the fewest digits, and K the number of products in an
    element of the outputs. A kernel that forgets one term of K has an error of about 1 / (4 √K).

    Args:
        flop: the operations of one call.
        elements: the number of elements of all outputs.
    """
    eps = max((dtypes.EPSILON[each] for each in dtypes_of_outputs if dtypes.is_float(each)), default=0.0)
    return ROUNDINGS * eps * max(SHORTEST, math.sqrt(max(1.0, flop / (2.0 * max(1, elements)))))


def check_accuracy(given: Any) -> float:
    """Return the accuracy if it is valid. Raises `ArgumentError` otherwise."""
    accuracy = check_float("accuracy", given)
    if accuracy == 0.0 or accuracy > 1.0:
        raise ArgumentError(
            f"accuracy={value_text(given)}: give the largest error relative to the largest magnitude of the output, "
            "above 0 and at most 1, such as 1e-5"
        )
    return accuracy
