"""The answers of a pool that makes runs: in the order of finishing, with what they printed and warned of."""

from __future__ import annotations

import pickle
import sys
import warnings
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait

from pegbox.comparison.contest import Entry, Finish
from pegbox.comparison.pool import RunPool
from pegbox.comparison.run_job import Answer, Notice
from pegbox.errors import MeasureError, TuningError

_LOOK_SECONDS = 1.0
"""Between looks at how many runs the pool makes at the same time: machines of a cluster come and go."""


class RunTraceback(Exception):
    """The traceback of an error in another process, as text."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


def answers(pool: RunPool, entries: Sequence[Entry]) -> Iterator[tuple[Entry, Answer]]:
    """The answers to all of `entries`, in the order of finishing.

    After one that broke no other run begins, those that have begun are finished, and the one that broke comes last:
    where there are several, the first of `entries`. It is the one that would have been the first without a pool.
    """
    queue, asked = deque(entries), dict[Future[bytes], Entry]()
    broken: dict[Entry, Answer] = {}
    while queue or asked:
        while queue and len(asked) < 2 * pool.jobs:  # each has the next one at hand
            entry = queue.popleft()
            asked[pool.submit(entry)] = entry
        for future in wait(asked, timeout=_LOOK_SECONDS, return_when=FIRST_COMPLETED).done:
            entry, answer = asked.pop(future), _answer(future)
            if answer.finish is not None:
                yield entry, answer
                continue
            broken[entry] = answer
            queue.clear()
            asked = {other: entry for other, entry in asked.items() if not other.cancel()}
    if broken:
        first = min(broken, key=list(entries).index)
        yield first, broken[first]


def finish_of(answer: Answer) -> Finish:
    """What came of the run. Raises `TuningError` where it broke."""
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
