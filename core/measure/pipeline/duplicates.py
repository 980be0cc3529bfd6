"""`DuplicatePrograms`: configurations with equal programs share one measurement."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Collection
from concurrent.futures import Future
from typing import TYPE_CHECKING

from pegbox.measure.result import Result

if TYPE_CHECKING:
    from pegbox.measure.pipeline.candidate import Candidate
    from pegbox.space import Config


class DuplicatePrograms:
    """The results, known or on their way, by the key of a program. A config that comes again is measured again."""

    def __init__(self) -> None:
        self._first: dict[bytes, tuple[Config, Future[Result]]] = {}
        self._lock = threading.Lock()

    def claim(self, config: Config, key: bytes, result: Future[Result]) -> Future[Result] | None:
        """Return the result of another config with this program; without one, `result` is that of all such configs."""
        with self._lock:
            first = self._first.get(key)
            if first is not None and first[0] != config:
                return first[1]
            self._first[key] = config, result
            return None

    def share(self, config: Config, key: bytes, run: Callable[[], Result], given_up: threading.Event) -> Result:
        """Run a program, unless an equal one has run, or runs: then wait for its result, whose phases are not ours."""
        own: Future[Result] = Future()
        if (original := self.claim(config, key, own)) is not None:
            return dataclasses.replace(original.result(), phases={})
        try:
            own.set_result(run())
        except BaseException as error:
            own.set_exception(error)
        if given_up.is_set() or own.exception() is not None:
            self.forget([own])
        return own.result()

    def forget(self, results: Collection[Future[Result]]) -> None:
        """Drop results that were given up: they say nothing about the program."""
        with self._lock:
            self._first = {key: first for key, first in self._first.items() if first[1] not in results}


def follow(original: Future[Result], candidate: Candidate, future: Future[Result]) -> None:
    """Give a candidate the result of its duplicate. Its phases are its own: nothing was built or run for it."""
    if (error := original.exception()) is not None:
        future.set_exception(error)
    else:
        future.set_result(candidate.finish(dataclasses.replace(original.result(), phases={})))
