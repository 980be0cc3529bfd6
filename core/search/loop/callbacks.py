"""The protocol of callbacks of a search, and the handling of their errors.

Records, progress and a user's own observers are callbacks. A callback that breaks must not lose a measurement: every
other callback is still called. An essential one (records) then ends the run, and all measurements are kept; any other
is dropped with a warning, and the run continues.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar, TypeAlias

from pegbox.checks import check_callable, check_list
from pegbox.errors import RecordError
from pegbox.origin import explained, users_level
from pegbox.search.loop.outcome import StopReason, TuneResult
from pegbox.search.loop.state import SearchState
from pegbox.search.loop.trial import Trial


class StopSearch(Exception):
    """An exception with which a callback ends the search; the result is kept as usual."""


class Callback:
    """A listener to a search, whose methods do nothing; override those that you need."""

    essential: ClassVar[bool] = False
    """True if the run must end when this callback breaks, because results would be lost."""

    def on_start(self, state: SearchState) -> None:
        """React to the beginning of the run; the history is already loaded."""

    def on_activity(self, state: SearchState) -> None:
        """React to a change of `state.activity`, such as to "compiling" or "measuring the best again"."""

    def on_trial(self, trial: Trial, state: SearchState) -> None:
        """React to a result at once, before it is reported to the tuner."""

    def on_batch(self, trials: Sequence[Trial], state: SearchState) -> None:
        """React when a batch of the tuner has been measured and reported to it."""

    def on_remeasured(self, trial: Trial, state: SearchState) -> None:
        """React to the careful measurement of one of the best at the end (`trial.remeasured` is True)."""

    def on_end(self, result: TuneResult) -> None:
        """React to the end of the run, for any reason."""


CallbackLike: TypeAlias = Callback | Callable[[Trial], object]
"""A callback, or simply a function of each trial."""


class FunctionCallback(Callback):
    """A plain function that is called with each trial."""

    def __init__(self, function: Callable[[Trial], object]) -> None:
        self.function = function

    def on_trial(self, trial: Trial, state: SearchState) -> None:
        self.function(trial)

    def __repr__(self) -> str:
        return getattr(self.function, "__qualname__", repr(self.function))


def check_callbacks(callbacks: object) -> list[CallbackLike]:
    """List the callbacks. Raises `ArgumentError` if this is not a list, or a member is not callable."""
    wanted = "a list of callbacks: functions of a trial, or objects of classes that derive from pegbox.search.Callback"
    listed = check_list("callbacks", callbacks, wanted)
    return [each if isinstance(each, Callback) else check_callable("callbacks", each, wanted) for each in listed]


class CallbackFailure(Exception):
    """A failure of an essential callback. The error itself is the cause."""


class CallbackList:
    """The callbacks of a search, essential ones first, whose errors are kept apart."""

    def __init__(self, callbacks: Iterable[CallbackLike]) -> None:
        listed = check_callbacks(callbacks)
        wrapped = [c if isinstance(c, Callback) else FunctionCallback(c) for c in listed]
        self._callbacks = sorted(wrapped, key=lambda callback: not callback.essential)
        self.stop: StopReason | None = None

    @property
    def essential(self) -> bool:
        """True if any of them is essential, which means that trials are recorded."""
        return any(callback.essential for callback in self._callbacks)

    def call(self, event: str, *args: object) -> None:
        """Call each callback's method of this name, such as "on_trial"."""
        essential: tuple[str, Exception] | None = None
        dropped = []
        for callback in tuple(self._callbacks):
            try:
                getattr(callback, event)(*args)
            except StopSearch:
                self.stop = "stopped by a callback"
            except Exception as error:
                self._callbacks.remove(callback)
                kind = f"{type(callback).__module__}.{type(callback).__qualname__}"
                name = repr(callback) if isinstance(callback, FunctionCallback) else kind
                message = f"callback {name} raised {explained(error, f'in {event}')}"
                if callback.essential:
                    own = isinstance(error, RecordError)  # it names the file, which is more useful than the callback
                    essential = essential or (str(error) if own else message, error)
                else:
                    dropped.append(message)
        try:
            for message in dropped:  # only after all were called, since warnings may raise
                warnings.warn(f"{message}; the search goes on without it", RuntimeWarning, stacklevel=users_level())
        finally:
            if essential:
                raise CallbackFailure(essential[0]) from essential[1]
