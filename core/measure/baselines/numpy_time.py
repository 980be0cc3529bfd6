"""The time that NumPy takes for the same computation."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from pegbox.measure.machine.run_delay import on_core
from pegbox.measure.trial.bench import Bench
from pegbox.measure.trial.check import Tolerance, difference

if TYPE_CHECKING:
    from pegbox.compute.numpy_program import NumpyProgram

_REPEATS, _REPEAT_SECONDS, _MOST_SECONDS = 6, 5e-3, 0.25
_CALLS = 100


def time_program(program: NumpyProgram, bench: Bench) -> tuple[float, ...] | None:
    """Time a warm call in seconds, several times, or once if it is slow; None if its answer is wrong."""
    run, outputs = program.prepare(bench.inputs)
    usual = Tolerance.of(bench.expected, flop=bench.flop)  # NumPy may be less accurate than kernels
    tolerance = replace(bench.tolerance, accuracy=max(bench.tolerance.accuracy, usual.accuracy))
    with np.errstate(all="ignore"):
        run()
        for output, expected in zip(outputs, bench.expected, strict=True):
            if difference("NumPy's output", output, expected, tolerance) is not None:
                return None
        costs = [_seconds(run, 1)]
        number = max(1, math.ceil(_REPEAT_SECONDS / max(costs[0], 1e-7)))
        for _ in range(min(_REPEATS, int(_MOST_SECONDS / (number * costs[0])))):
            costs.append(_seconds(run, number))
    return tuple(costs[1:] or costs)


def call_overhead() -> float:
    """Time an addition of one element, in seconds: the least that a call of NumPy from Python takes."""
    one = np.zeros(1, dtype=np.float32)
    return min(_seconds(lambda: np.add(one, one, out=one), _CALLS) for _ in range(_REPEATS))


def _seconds(run: Callable[[], object], number: int) -> float:
    """Time one call, without waits for the core, as kernels are timed."""

    def spent() -> int:
        began = time.perf_counter_ns()
        for _ in range(number):
            run()
        return time.perf_counter_ns() - began

    return max(on_core(spent) * 1e-9 / number, 1e-12)
