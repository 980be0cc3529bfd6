"""`tvm.autotvm.tuner.callback`: callbacks of a search."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pegbox.checks import check_choice
from pegbox.plugins.tvm.autotvm.env import logger
from pegbox.plugins.tvm.autotvm.measure.measure import MeasureInput, MeasureResult
from pegbox.plugins.tvm.autotvm.record import record_of
from pegbox.plugins.tvm.autotvm.utils import format_si_prefix
from pegbox.records.journal import Journal

Inputs = Sequence[MeasureInput]
Results = Sequence[MeasureResult]


class _Log:
    """Writes each trial to a log, and what was measured again at the end."""

    def __init__(self, file_out: Any) -> None:
        self._file = file_out if hasattr(file_out, "write") else Journal(file_out)

    def __call__(self, tuner: Any, inputs: Inputs, results: Results) -> None:
        for inp, result in zip(inputs, results, strict=True):
            self._write(tuner, inp, result)

    def remeasured(self, tuner: Any, inp: MeasureInput, result: MeasureResult) -> None:
        """One of the best was measured again."""
        self._write(tuner, inp, result, remeasured=True)

    def _write(self, tuner: Any, inp: MeasureInput, result: MeasureResult, **options: Any) -> None:
        record = record_of(inp, result, tuner="" if tuner is None else type(tuner).__name__, **options)
        if isinstance(self._file, Journal):
            self._file.append(record)
        else:
            self._file.write(record.to_line() + "\n")


def log_to_file(file_out: Any, protocol: str = "json") -> Callable[..., None]:
    """A callback that appends a line for each trial to a file, by name or open.

    The lines are records of pegbox: its commands, `apply_history_best` and `pegbox.tune(records=...)` read them.
    """
    check_choice("protocol", protocol, ["json"])
    return _Log(file_out)


def log_to_database(db: Any) -> Callable[..., None]:
    """A callback that calls db.save(input, result) for each trial."""

    def callback(_: Any, inputs: Inputs, results: Results) -> None:
        for inp, result in zip(inputs, results, strict=True):
            db.save(inp, result)

    return callback


class Monitor:
    """Keeps the FLOP a second and the times of all trials."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget them."""
        self.scores: list[float] = []
        self.timestamps: list[float] = []

    def __call__(self, tuner: Any, inputs: Inputs, results: Results) -> None:
        self.scores += [_flops(inp, result) for inp, result in zip(inputs, results, strict=True)]
        self.timestamps += [result.timestamp for result in results]

    def trial_scores(self) -> np.ndarray[Any, Any]:
        """FLOP a second of each trial, 0 for a failure."""
        return np.array(self.scores)

    def trial_timestamps(self) -> np.ndarray[Any, Any]:
        """Seconds since the epoch at the end of each trial."""
        return np.array(self.timestamps)


def progress_bar(total: int, prefix: str = "", si_prefix: str = "G") -> Callable[..., None]:
    """A callback that shows on one line how far the search is; nothing while the trials are logged."""
    format_si_prefix(0, si_prefix)
    began, done = time.monotonic(), 0

    def callback(tuner: Any, inputs: Inputs, results: Results) -> None:
        nonlocal done
        done += len(inputs)
        if logger.getEffectiveLevel() <= logging.DEBUG:
            return
        speed = max(map(_flops, inputs, results), default=0.0)
        now, best = (format_si_prefix(value, si_prefix) for value in (speed, tuner.best_flops))
        sys.stdout.write(
            f"\r{prefix} Current/Best: {now:7.2f}/{best:7.2f} {si_prefix}FLOPS | Progress: ({done}/{total}) "
            f"| {time.monotonic() - began:.2f} s{' Done.' if done >= total else ''}"
        )
        if done >= total:
            sys.stdout.write("\n")
        sys.stdout.flush()

    return callback


def _flops(inp: MeasureInput, result: MeasureResult) -> float:
    return 0.0 if result.error_no else float(inp.task.flop / result.cost)
