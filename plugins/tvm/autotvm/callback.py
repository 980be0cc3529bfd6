"""`tvm.autotvm.callback`: callbacks of a search."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pegbox.plugins.tvm.autotvm.measure import MeasureInput, MeasureResult
from pegbox.plugins.tvm.autotvm.record import record_of
from pegbox.plugins.tvm.autotvm.task.task import logger
from pegbox.records import Journal

Inputs = Sequence[MeasureInput]
Results = Sequence[MeasureResult]


class LogToFile:
    """A log; a search appends each of its trials, and the measurements that are repeated at its end."""

    def __init__(self, file_out: str | os.PathLike[str]) -> None:
        self.journal = Journal(file_out)

    def __call__(self, tuner: object, inputs: Inputs, results: Results) -> None:
        """Append trials by hand."""
        for inp, result in zip(inputs, results, strict=True):
            self.journal.append(record_of(inp, result))


log_to_file = LogToFile


class Monitor:
    """The FLOP a second and the times of all trials."""

    def __init__(self) -> None:
        self.scores: list[float] = []
        self.timestamps: list[float] = []

    def __call__(self, tuner: object, inputs: Inputs, results: Results) -> None:
        self.scores += map(flops, inputs, results)
        self.timestamps += [result.timestamp for result in results]

    def trial_scores(self) -> np.ndarray[Any, Any]:
        """Return the FLOP a second of each trial, 0 for a failure."""
        return np.array(self.scores)

    def trial_timestamps(self) -> np.ndarray[Any, Any]:
        """Return the seconds since the epoch at the end of each trial."""
        return np.array(self.timestamps)


def progress_bar(total: int, prefix: str = "") -> Callable[..., None]:
    """Make a callback that shows the progress of a search on one line, unless its trials are logged."""
    began, done = time.monotonic(), 0

    def callback(tuner: Any, inputs: Inputs, results: Results) -> None:
        nonlocal done
        done += len(inputs)
        if logger.getEffectiveLevel() > logging.DEBUG:
            now, best = (speed / 1e9 for speed in (max(map(flops, inputs, results), default=0.0), tuner.best_flops))
            sys.stdout.write(
                f"\r{prefix} Current/Best: {now:7.2f}/{best:7.2f} GFLOPS | Progress: ({done}/{total}) "
                f"| {time.monotonic() - began:.2f} s{' Done.' + chr(10) if done >= total else ''}"
            )
            sys.stdout.flush()

    return callback


def flops(inp: MeasureInput, result: MeasureResult) -> float:
    """Return the FLOP a second of a trial, 0 for a failure."""
    return 0.0 if result.error_no else inp.task.flop / result.cost
