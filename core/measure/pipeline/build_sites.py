"""`BuildSites`: where programs are compiled, on this machine and on a cluster."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from pegbox.measure.pipeline.builder import GIVEN_UP, Builder
from pegbox.workers.process import GivenUp

if TYPE_CHECKING:
    from pegbox.codegen import CompiledProgram, Program
    from pegbox.measure.result import Failed
    from pegbox.measure.runners.runner import Runner

_LOOK_SECONDS = 0.2
"""How often those who wait look again whether the cluster has room: machines come and go."""


class Site(Protocol):
    """What compiles a program."""

    def build(self, program: Program) -> CompiledProgram | Failed:
        """Build a program as `Builder.build` does."""
        ...


class BuildSites:
    """The builders of this machine, and where all of them work, those of `cluster`, which may be set at any time.

    Args:
        here: the builders of this machine.
        timeout: seconds that one compilation may take on the cluster.
    """

    def __init__(self, here: Builder, *, timeout: float) -> None:
        self._here, self._timeout = here, timeout
        self.cluster: Runner | None = None
        self._changed = threading.Condition()
        self._taken = {True: 0, False: 0}
        self._turn: object = object()
        self._closed = False

    @property
    def size(self) -> int:
        """The number of programs that can be compiled at the same time now."""
        return self._here.size + self._room()

    @contextlib.contextmanager
    def free(self) -> Iterator[Site]:
        """A site that compiles nothing else in the body; waits for one."""
        turn = self._turn
        here = self._take()
        try:
            yield self._site(here, lambda: self._closed or turn is not self._turn)
        finally:
            with self._changed:
                self._taken[here] -= 1
                self._changed.notify()

    def interrupt(self) -> None:
        """Give up what waits for a site, or at one for the machines to time: such builds come back as `Failed`."""
        self._turn = object()

    def close(self) -> None:
        """Give up what waits, and what comes later."""
        self._closed = True

    def _site(self, here: bool, given_up: Callable[[], bool]) -> Site:
        if self.cluster is None:
            return self._here
        quiet = _Quiet(self.cluster, self._here, given_up)
        return quiet if here else _Remote(self.cluster, quiet, self._timeout)

    def _take(self) -> bool:
        """Decide whether this machine builds the next program.

        The cluster is asked for its room without the lock, since a scheduler that hangs may take long.
        """
        here = self._place(0, 0.0)
        while here is None:
            here = self._place(self._room(), _LOOK_SECONDS)
        return here

    def _room(self) -> int:
        return 0 if self.cluster is None else self.cluster.builders

    def _place(self, room: int, seconds: float) -> bool | None:
        """A place here, or one of `room` on the cluster, taken within so many seconds."""
        with self._changed:
            self._changed.wait_for(lambda: self._free(room) is not None, seconds)
            here = self._free(room)
            if here is not None:
                self._taken[here] += 1
            return here

    def _free(self, room: int) -> bool | None:
        if self.cluster is None or self._taken[True] < self._here.size:
            return True
        return False if self._taken[False] < room else None


@dataclass(frozen=True)
class _Quiet:
    """The builders of this machine, if it may be one of the cluster's that time."""

    cluster: Runner
    here: Builder
    given_up: Callable[[], bool]

    def build(self, program: Program) -> CompiledProgram | Failed:
        try:
            with self.cluster.building_here(self.given_up):
                return GIVEN_UP if self.given_up() else self.here.build(program)
        except GivenUp:
            return GIVEN_UP


@dataclass(frozen=True)
class _Remote:
    """The cluster; what it cannot compile is compiled here."""

    cluster: Runner
    quiet: _Quiet
    timeout: float

    def build(self, program: Program) -> CompiledProgram | Failed:
        if self.quiet.given_up():
            return GIVEN_UP
        built = self.cluster.build(program, timeout=self.timeout)
        return self.quiet.build(program) if built is None else built
