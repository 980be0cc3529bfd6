"""Configurations with equal programs, which share one measurement."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Collection, Hashable
from concurrent.futures import Future
from typing import TYPE_CHECKING

from pegbox.measure.result import Result

if TYPE_CHECKING:
    from pegbox.codegen import Program
    from pegbox.measure.pipeline.candidate import Candidate
    from pegbox.space import Config


class Twins:
    """Results, there or on their way, by program."""

    def __init__(self) -> None:
        self._first: dict[Hashable, tuple[Config, Future[Result]]] = {}

    def of(self, config: Config, program: Program) -> Future[Result] | None:
        """The result of another configuration with the same program. One that comes again wants a new measurement."""
        first = self._first.get(_key(program))
        return None if first is None or first[0] == config else first[1]

    def add(self, config: Config, program: Program, result: Future[Result]) -> None:
        """Note that the result is that of all configurations with this program."""
        self._first[_key(program)] = config, result

    def forget(self, results: Collection[Future[Result]]) -> None:
        """Results that were given up say nothing of the program."""
        self._first = {key: first for key, first in self._first.items() if first[1] not in results}


def follow(twin: Future[Result], candidate: Candidate, future: Future[Result]) -> None:
    """Give a candidate the result of its twin. Its phases are its own: nothing was built or run for it."""
    if (error := twin.exception()) is not None:
        future.set_exception(error)
    else:
        future.set_result(candidate.finish(dataclasses.replace(twin.result(), phases={})))


def _key(program: Program) -> Hashable:
    text = hashlib.sha256(program.ll.encode()).digest()
    return text, program.workspace_bytes, program.num_threads, program.foreign
