"""Jobs of a process that makes runs of a comparison (the child side): take the parcel once, then make runs.

See `pegbox.workers.serve`. Replies are pickles: it is the user's own tuners that run here.
"""

from __future__ import annotations

import contextlib
import io
import os
import pickle
import traceback
import warnings
from dataclasses import dataclass, replace
from typing import Any

from pegbox.comparison.contest import Contest, Finish, RunSpec, reason_of
from pegbox.comparison.parcel import unpack
from pegbox.errors import MeasureError

ONE_THREAD = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
"""Libraries read them when they are loaded, as the first tuner that needs them is."""

_contest: Contest | None = None


@dataclass(frozen=True)
class Notice:
    """A warning of a run."""

    text: str
    category: type[Warning]
    file: str
    line: int


@dataclass(frozen=True)
class Answer:
    """What came of a run: its `finish`, or why it broke, with the `traceback` and the `result` until then.

    `printed` and `notices` are what it wrote and warned of.
    """

    finish: Finish | None
    reason: str = ""
    traceback: str = ""
    result: Any = None
    printed: str = ""
    notices: tuple[Notice, ...] = ()


def prepare(parcel: bytes) -> None:
    """Take the contest in: the recorded spaces are there once for all runs of this process."""
    global _contest
    for name in ONE_THREAD:
        os.environ.setdefault(name, "1")
    _contest = unpack(parcel)


def run(entry: RunSpec) -> bytes:
    """Make a run; the pickle of an `Answer`."""
    if _contest is None:
        raise MeasureError("a run came before its contest: call prepare first")
    printed = io.StringIO()
    with (
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(printed),
        warnings.catch_warnings(record=True) as caught,
    ):
        warnings.simplefilter("default")
        answer = _made(_contest, entry)
    notices = tuple(Notice(str(each.message), each.category, each.filename, each.lineno) for each in caught)
    return _encoded(replace(answer, printed=printed.getvalue(), notices=notices))


def _made(contest: Contest, entry: RunSpec) -> Answer:
    try:
        return Answer(contest.run(entry))
    except Exception as error:
        result = getattr(error, "result", None)
        return Answer(None, reason_of(error), "".join(traceback.format_exception(error)), result)


def _encoded(answer: Answer) -> bytes:
    """The pickle, without what does not travel: results of a tuner's own, warnings of its own classes."""
    own = tuple(replace(each, category=RuntimeWarning) for each in answer.notices)
    for attempt in (answer, replace(answer, result=None, notices=own)):
        with contextlib.suppress(Exception):
            packed = pickle.dumps(attempt, protocol=pickle.HIGHEST_PROTOCOL)
            pickle.loads(packed)
            return packed
    return pickle.dumps(Answer(None, "what came of the run cannot be sent to another process"))
