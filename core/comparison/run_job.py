"""Jobs of a process that makes runs of a comparison (the child side): take the payload once, then make runs.

See `pegbox.workers.serve`. Replies are pickles, because only the user's own tuners run here.
"""

from __future__ import annotations

import contextlib
import io
import os
import pickle
import traceback
import warnings
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from pegbox.comparison.experiment import Experiment, RunSpec, reason_of
from pegbox.comparison.payload import unpack
from pegbox.comparison.runs import Run
from pegbox.errors import MeasureError

ONE_THREAD = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
"""Variables that libraries read when the first tuner that needs them loads them."""

Notice: TypeAlias = tuple[str, type[Warning], str, int]
"""A warning of a run: its text, category, file and line, the arguments of `warnings.warn_explicit`."""

_experiment: Experiment | None = None


@dataclass(frozen=True)
class CompletedRun:
    """The `run`, or the reason why it broke, with the `traceback` and the earlier `result`.

    `printed` and `notices` are its output and its warnings.
    """

    run: Run | None
    reason: str = ""
    traceback: str = ""
    result: Any = None
    printed: str = ""
    notices: tuple[Notice, ...] = ()


def prepare(payload: bytes) -> None:
    """Load the experiment, so that all runs of this process share the recorded spaces."""
    global _experiment
    for name in ONE_THREAD:
        os.environ.setdefault(name, "1")
    _experiment = unpack(payload)


def run(spec: RunSpec) -> bytes:
    """Make a run; return the pickle of a `CompletedRun`."""
    if _experiment is None:
        raise MeasureError("a run came before its experiment: call prepare first")
    printed = io.StringIO()
    with (
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(printed),
        warnings.catch_warnings(record=True) as caught,
    ):
        warnings.simplefilter("default")
        try:
            completed = CompletedRun(_experiment.run(spec))
        except Exception as error:
            trace = "".join(traceback.format_exception(error))
            completed = CompletedRun(None, reason_of(error), trace, getattr(error, "result", None))
    notices = tuple((str(each.message), each.category, each.filename, each.lineno) for each in caught)
    return _encoded(replace(completed, printed=printed.getvalue(), notices=notices))


def _encoded(completed: CompletedRun) -> bytes:
    """Pickle the reply, without parts that cannot be pickled: results and warnings of a tuner's own classes."""
    own = tuple((text, RuntimeWarning, file, line) for text, _, file, line in completed.notices)
    for attempt in (completed, replace(completed, result=None, notices=own)):
        with contextlib.suppress(Exception):
            packed = pickle.dumps(attempt, protocol=pickle.HIGHEST_PROTOCOL)
            pickle.loads(packed)
            return packed
    return pickle.dumps(CompletedRun(None, "the outcome of the run cannot be sent to another process"))
