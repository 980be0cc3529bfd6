"""Calls of a measurer in a search, whose failures become `SearchFailure`, so that the loop can keep earlier results."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, TypeVar

from pegbox.errors import MeasureError
from pegbox.measure.pipeline.measurer import Measurer
from pegbox.measure.result import Result
from pegbox.origin import explained
from pegbox.search.loop.proposals import SearchFailure
from pegbox.search.loop.state import PhaseClock
from pegbox.search.loop.trial import validated

if TYPE_CHECKING:
    from pegbox.measure.baselines.baseline import Baseline
    from pegbox.space import Config

_T = TypeVar("_T")


class CheckedMeasurer:
    """A measurer whose errors become `SearchFailure`."""

    def __init__(self, measurer: Measurer, clock: PhaseClock) -> None:
        self._measurer = measurer
        self._clock = clock

    @property
    def machines(self) -> int:
        """The number of configurations measured at the same time."""
        return self._called(lambda: self._measurer.machines)

    @property
    def where(self) -> str:
        """The machines that measure, in words; empty if it is this one."""
        return self._called(lambda: self._measurer.where)

    @property
    def compiles(self) -> bool:
        """True if a candidate is compiled first."""
        return self._called(lambda: self._measurer.compiles)

    @property
    def uneven(self) -> str:
        """A reason why trials and finalists may disagree, in words, or empty."""
        return self._called(lambda: self._measurer.uneven)

    @property
    def baseline(self) -> Callable[[float], Baseline | None] | None:
        """The method that measures baselines. Its errors do not end a search."""
        return self._measurer.baseline if self._called(lambda: self._measurer.compares) else None

    def wait_until_quiet(self) -> bool:
        """Wait for a moment without other programs; False if that is pointless, as in a simulation."""
        return self._called(self._measurer.wait_until_quiet, "in wait_until_quiet()")

    def beside(self) -> AbstractContextManager[None] | None:
        """Return the context for work during measurements; None if no work is allowed."""
        given = self._called(self._measurer.beside, "in beside()")
        return None if given is None else self._inside(given, "in beside()")

    @contextlib.contextmanager
    def results(self, batch: Sequence[Config]) -> Iterator[Iterator[tuple[Config, Result]]]:
        """Yield the results of a batch, each as soon as it is available. The time spent waiting counts as measuring."""
        with self._clock.phase("measure"):
            stream = self._called(lambda: iter(self._measurer.measure(batch)))
        with self._inside(self._closing(stream), "at the end of measure()"):
            yield self._each(stream)

    def remeasure(self, configs: Sequence[Config]) -> Sequence[Result]:
        """Measure a few configurations again."""
        when = "measuring the best again"
        results = self._called(lambda: [validated(result) for result in self._measurer.remeasure(configs)], when)
        given, wanted = len(results), len(configs)
        if given != wanted:
            raise SearchFailure(f"the measurer gave {given} results measuring {wanted} configurations again")
        return results

    def _each(self, stream: Iterator[tuple[Config, Result]]) -> Iterator[tuple[Config, Result]]:
        def following() -> tuple[Config, Result] | None:
            item = next(stream, None)
            return None if item is None else (item[0], validated(item[1]))

        while True:
            with self._clock.phase("measure"):
                item = self._called(following)
            if item is None:
                return
            yield item

    @contextlib.contextmanager
    def _closing(self, stream: object) -> Iterator[None]:
        """Close a generator after the body, which stops its workers; leave a plain iterator alone."""
        try:
            yield
        finally:
            with self._clock.phase("measure"):
                getattr(stream, "close", lambda: None)()

    @contextlib.contextmanager
    def _inside(self, manager: AbstractContextManager[object], when: str) -> Iterator[None]:
        """Enter a context manager of the measurer; an error of the body takes precedence over one raised on leaving."""
        self._called(lambda: manager.__enter__(), when)
        try:
            yield
        except BaseException:
            with contextlib.suppress(Exception):
                manager.__exit__(*sys.exc_info())
            raise
        self._called(lambda: manager.__exit__(None, None, None), when)

    def _called(self, call: Callable[[], _T], when: str = "") -> _T:
        try:
            return call()
        except MeasureError as error:  # its message already explains the fault and its place
            raise SearchFailure(str(error)) from error
        except Exception as error:
            raise SearchFailure(f"the measurer raised {explained(error, when)}") from error
