"""The time that NumPy takes for the same computation."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from pegbox.measure.bench import Bench
from pegbox.measure.check import difference

if TYPE_CHECKING:
    from pegbox.compute.numpy_program import NumpyProgram

_REPEATS, _REPEAT_SECONDS, _MOST_SECONDS = 6, 5e-3, 0.25


def time_program(program: NumpyProgram, bench: Bench) -> tuple[float, ...] | None:
    """Seconds of a warm call, several times over, once where it takes long. None where the answer is wrong."""
    run, outputs = program.prepare(bench.inputs)
    with np.errstate(all="ignore"):
        run()
        for output, expected in zip(outputs, bench.expected, strict=True):
            if difference("NumPy's output", output, expected, bench.tolerance) is not None:
                return None
        costs = [_seconds(run, 1)]
        number = max(1, math.ceil(_REPEAT_SECONDS / max(costs[0], 1e-7)))
        for _ in range(min(_REPEATS, int(_MOST_SECONDS / (number * costs[0])))):
            costs.append(_seconds(run, number))
    return tuple(costs[1:] or costs)


def _seconds(run: Callable[[], None], number: int) -> float:
    began = time.perf_counter()
    for _ in range(number):
        run()
    return (time.perf_counter() - began) / number
