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


class DuplicatePrograms:
    """Results, known or on their way, by program."""

    def __init__(self) -> None:
        self._first: dict[Hashable, tuple[Config, Future[Result]]] = {}

    def find(self, config: Config, program: Program) -> Future[Result] | None:
        """Return the result of another config with the same program. A config that comes again is measured again."""
        first = self._first.get(_key(program))
        return None if first is None or first[0] == config else first[1]

    def add(self, config: Config, program: Program, result: Future[Result]) -> None:
        """Note that the result is that of all configs with this program."""
        self._first[_key(program)] = config, result

    def forget(self, results: Collection[Future[Result]]) -> None:
        """Drop results that were given up: they say nothing about the program."""
        self._first = {key: first for key, first in self._first.items() if first[1] not in results}


def follow(original: Future[Result], candidate: Candidate, future: Future[Result]) -> None:
    """Give a candidate the result of its duplicate. Its phases are its own: nothing was built or run for it."""
    if (error := original.exception()) is not None:
        future.set_exception(error)
    else:
        future.set_result(candidate.finish(dataclasses.replace(original.result(), phases={})))


def _key(program: Program) -> Hashable:
    text = hashlib.sha256(program.ll.encode()).digest()
    return text, program.workspace_bytes, program.num_threads, program.foreign
