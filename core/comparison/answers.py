"""The answers of a pool that makes runs: in the order of finishing, with what they printed and warned of."""

from __future__ import annotations

import pickle
import sys
import warnings
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait

from pegbox.comparison.contest import Finish, RunSpec
from pegbox.comparison.pool import RunPool
from pegbox.comparison.run_job import Answer, Notice
from pegbox.errors import MeasureError, TuningError

_LOOK_SECONDS = 1.0
"""Between looks at how many runs the pool makes at the same time: machines of a cluster come and go."""


class RunTraceback(Exception):
    """The traceback of an error in another process, as text."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


class Answers:
    """The answers to all of `entries`, in the order of finishing.

    After one that broke no other run begins, those that have begun are finished, and the one that broke comes last:
    where there are several, the first of `entries`. It is the one that would have been the first without a pool.

    Iterating raises `MeasureError` where the pool's cluster is gone, after what it has answered.
    """

    def __init__(self, pool: RunPool, entries: Sequence[RunSpec]) -> None:
        self._pool, self._entries = pool, list(entries)
        self._queue = deque(entries)
        self._asked: dict[Future[bytes], RunSpec] = {}
        self.jobs = 1
        """How many runs were made at the same time, at most."""

    def __iter__(self) -> Iterator[tuple[RunSpec, Answer]]:
        broken: dict[RunSpec, Answer] = {}
        while self._queue or self._asked:
            gone = self._ask()
            seconds = 0.0 if gone else _LOOK_SECONDS
            for future in wait(self._asked, timeout=seconds, return_when=FIRST_COMPLETED).done:
                entry, answer = self._asked.pop(future), _answer(future)
                if answer.finish is not None:
                    yield entry, answer
                else:
                    broken[entry] = answer
                    self._end()
            if gone:
                raise gone
        if broken:
            first = min(broken, key=self._entries.index)
            yield first, broken[first]

    def _ask(self) -> MeasureError | None:
        """Ask for as many runs as the pool makes, and as many again, so that each has the next one at hand."""
        try:
            jobs = self._pool.jobs
            while self._queue and len(self._asked) < 2 * jobs:
                asked = self._pool.submit(self._queue[0])
                self._asked[asked] = self._queue.popleft()
        except MeasureError as error:
            return error
        self.jobs = max(self.jobs, jobs)
        return None

    def _end(self) -> None:
        """Let no other run begin."""
        self._queue.clear()
        self._asked = {future: entry for future, entry in self._asked.items() if not future.cancel()}


def finish_of(answer: Answer) -> Finish:
    """Give the outcome of the run. Raises `TuningError` where it broke."""
    if answer.finish is not None:
        return answer.finish
    cause = RunTraceback(answer.traceback) if answer.traceback else None
    raise TuningError(answer.reason, answer.result) from cause


def tell_of(answer: Answer, told: set[Notice]) -> None:
    """Print what the run printed, on standard error, and warn of what it warned of and no other run before: `told`."""
    if answer.printed:
        print(answer.printed, end="", file=sys.stderr, flush=True)
    for each in answer.notices:
        if each not in told:
            told.add(each)
            warnings.warn_explicit(each.text, each.category, each.file, each.line)


def _answer(future: Future[bytes]) -> Answer:
    try:
        answer: Answer = pickle.loads(future.result())
    except MeasureError as error:
        return Answer(None, str(error))
    return answer
