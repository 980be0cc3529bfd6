"""The protocol of callbacks of a search, and the handling of their errors.

Records, progress and whatever a user wants to watch are callbacks. A callback that breaks must not cost a
measurement: every other callback still hears of the trial. An essential one (records) then ends the run with
everything measured kept; any other is dropped with a warning and the run goes on.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar, TypeAlias

from pegbox.checks import check_callable, check_list
from pegbox.origin import explained, users_level
from pegbox.search.loop.outcome import StopReason, Trial, TuneResult
from pegbox.search.loop.state import SearchState


class StopSearch(Exception):
    """Raised by a callback that wants the search to end; the result is kept as at any other end."""


class Callback:
    """Hears what a search does; override what you need."""

    essential: ClassVar[bool] = False
    """Whether the run must end when this callback breaks, because going on would lose something."""

    def on_start(self, state: SearchState) -> None:
        """The run begins; history has been taken in."""

    def on_activity(self, state: SearchState) -> None:
        """Something else goes on now: `state.activity`, such as "compiling" or "measuring the best again"."""

    def on_trial(self, trial: Trial, state: SearchState) -> None:
        """A result came. Called at once for each, before the tuner hears of it."""

    def on_batch(self, trials: Sequence[Trial], state: SearchState) -> None:
        """A batch that the tuner proposed has been measured and told to it."""

    def on_remeasured(self, trial: Trial, state: SearchState) -> None:
        """One of the best was measured again at the end, with more care (`trial.remeasured` is True)."""

    def on_end(self, result: TuneResult) -> None:
        """The run is over, for whatever reason."""


CallbackLike: TypeAlias = Callback | Callable[[Trial], object]
"""A callback, or simply a function that is called with each trial."""


class FunctionCallback(Callback):
    """A plain function that hears each trial."""

    def __init__(self, function: Callable[[Trial], object]) -> None:
        self.function = function

    def on_trial(self, trial: Trial, state: SearchState) -> None:
        self.function(trial)

    def __repr__(self) -> str:
        return getattr(self.function, "__qualname__", repr(self.function))


def check_callbacks(callbacks: object) -> list[CallbackLike]:
    """`callbacks` as a list. Raises `ArgumentError` for what is none, and for members that cannot be called."""
    wanted = "a list of callbacks: functions of a trial, or objects of classes that derive from pegbox.Callback"
    listed = check_list("callbacks", callbacks, wanted)
    return [each if isinstance(each, Callback) else check_callable("callbacks", each, wanted) for each in listed]


class CallbackFailure(Exception):
    """An essential callback raised. The error itself is the cause."""


class CallbackList:
    """Calls each callback, essential ones first, and keeps their errors apart."""

    def __init__(self, callbacks: Iterable[CallbackLike]) -> None:
        listed = check_callbacks(callbacks)
        wrapped = [c if isinstance(c, Callback) else FunctionCallback(c) for c in listed]
        self._callbacks = sorted(wrapped, key=lambda callback: not callback.essential)
        self.stop: StopReason | None = None

    @property
    def essential(self) -> bool:
        """True if any of them is essential: then trials are recorded."""
        return any(callback.essential for callback in self._callbacks)

    def start(self, state: SearchState) -> None:
        self._call("on_start", lambda callback: callback.on_start(state))

    def activity(self, state: SearchState) -> None:
        self._call("on_activity", lambda callback: callback.on_activity(state))

    def trial(self, trial: Trial, state: SearchState) -> None:
        self._call("on_trial", lambda callback: callback.on_trial(trial, state))

    def batch(self, trials: Sequence[Trial], state: SearchState) -> None:
        self._call("on_batch", lambda callback: callback.on_batch(trials, state))

    def remeasured(self, trial: Trial, state: SearchState) -> None:
        self._call("on_remeasured", lambda callback: callback.on_remeasured(trial, state))

    def end(self, result: TuneResult) -> None:
        self._call("on_end", lambda callback: callback.on_end(result))

    def _call(self, event: str, call: Callable[[Callback], None]) -> None:
        broken: list[tuple[Callback, Exception]] = []
        for callback in tuple(self._callbacks):
            try:
                call(callback)
            except StopSearch:
                self.stop = "stopped by a callback"
            except Exception as error:
                broken.append((callback, error))
                self._callbacks.remove(callback)
        self._report(event, broken)

    def _report(self, event: str, broken: Sequence[tuple[Callback, Exception]]) -> None:
        essential: tuple[str, Exception] | None = None
        for callback, error in broken:
            message = f"callback {_name(callback)} raised {explained(error, f'in {event}')}"
            if callback.essential:
                essential = essential or (message, error)
            else:
                warnings.warn(f"{message}; the search goes on without it", RuntimeWarning, stacklevel=users_level())
        if essential:
            raise CallbackFailure(essential[0]) from essential[1]


def _name(callback: Callback) -> str:
    if isinstance(callback, FunctionCallback):
        return repr(callback)
    return f"{type(callback).__module__}.{type(callback).__qualname__}"
