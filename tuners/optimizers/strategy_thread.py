"""`StrategyThread`: a function that requests costs itself, run in a thread that callers ask for points.

The two threads take turns: one waits while the other runs. So the function can have its own states of Python's and
NumPy's global random generators: it is reproducible, and leaves those of the program unchanged.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

Point: TypeAlias = "tuple[float | int, ...]"
Evaluate: TypeAlias = Callable[[Sequence[Point]], list[float]]
"""A function that returns the costs of points, and raises `Stopped` to end its caller."""

FRUITLESS = 1_000
"""The number of calls in a row without a new point after which the function is stopped, as it goes in circles."""


class Stopped(BaseException):
    """The end of the function's thread, which no `except Exception` may stop."""


class StrategyThread:
    """A thread that runs `search(evaluate)`, which returns when it has no more points to evaluate.

    `costs` are the known costs by point; `evaluate` waits only for others. The thread holds no reference to the owner
    of this object, which calls `stop` when it no longer needs the function.
    """

    def __init__(self, search: Callable[[Evaluate], object], seed: int) -> None:
        self.costs: dict[Point, float] = {}
        self.error: Exception | None = None
        """The exception that ended the function."""

        self._search = search
        self._wanted: list[Point] = []
        self._ended = self._stopped = False
        self._fruitless = 0
        self._run, self._wait = threading.Semaphore(0), threading.Semaphore(0)
        self._states = random.Random(seed).getstate(), np.random.RandomState(seed % 2**32).get_state()
        self._thread = threading.Thread(target=self._body, name="pegbox-strategy", daemon=True)
        self._thread.start()

    def wanted(self) -> list[Point]:
        """Let the function run as far as possible; return the points for which it waits, none if it has ended."""
        if not self._missing and not self._ended:
            ours = random.getstate(), np.random.get_state()
            _set_states(self._states)
            try:
                self._run.release()
                self._wait.acquire()
                self._states = random.getstate(), np.random.get_state()
            finally:
                _set_states(ours)
        return self._missing

    def stop(self) -> None:
        """End the thread."""
        self._stopped = True
        self._run.release()

    @property
    def _missing(self) -> list[Point]:
        return [point for point in self._wanted if point not in self.costs]

    def _body(self) -> None:
        self._run.acquire()
        try:
            if not self._stopped:
                self._search(self._evaluated)
        except Stopped:
            pass
        except Exception as error:  # foreign code may raise anything
            self.error = error
        self._wanted, self._ended = [], True
        self._wait.release()

    def _evaluated(self, points: Sequence[Point]) -> list[float]:
        self._wanted = list(dict.fromkeys(points))
        self._fruitless = 0 if self._missing else self._fruitless + 1
        if self._fruitless > FRUITLESS:
            raise Stopped
        if self._missing:
            self._wait.release()
            self._run.acquire()
            if self._stopped:
                raise Stopped
        return [self.costs[point] for point in points]


def _set_states(states: tuple[object, object]) -> None:
    """Set the states of the global generators of Python and NumPy."""
    random.setstate(states[0])  # type: ignore[arg-type]
    np.random.set_state(states[1])  # type: ignore[arg-type]
