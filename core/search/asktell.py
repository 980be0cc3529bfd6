"""Ask and tell: drive a tuner with your own measurements. See docs/ask-tell.md."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

from pegbox.checks import check_int, check_list
from pegbox.errors import ArgumentError, TuningError
from pegbox.measure.result import Failed, FailureKind, Ok, Result
from pegbox.search.factory import tuner_label
from pegbox.search.loop.best_trial import BestTrial
from pegbox.search.loop.outcome import TuneResult
from pegbox.search.loop.proposals import Proposer, SearchFailure, first_fault
from pegbox.search.loop.trial import Trial
from pegbox.search.models.inputs import tuner_over
from pegbox.search.models.report import ModelReport
from pegbox.search.objective import number_of
from pegbox.search.problem import is_task
from pegbox.search.protocols import SearchTask, Tuner, TunerFactory
from pegbox.search.subject import Subject
from pegbox.shown import value_text
from pegbox.space import Config, ConfigSpace
from pegbox.task.speed_text import format_speed

Cost: TypeAlias = float | Result | None
"""A cost in seconds, or a result; infinity and None mean that the configuration failed."""


def create_tuner(
    tuner: str | TunerFactory, over: ConfigSpace | SearchTask, *, seed: int = 0, transfer: Any = None, **options: Any
) -> AskTell:
    """Make a tuner to be driven by hand.

    Args:
        tuner: a name, with options if any ("xgb:plan_size=32"), "file.py:Class", or a factory.
        over: the space to search, or a task or recorded space that has one.
        seed: the same seed and answers give the same proposals.
        transfer: as for `tune`; needs a task.
        options: the tuner's options.

    Raises:
        ArgumentError: an option is outside its domain, or `over` is neither a space nor a task.
        UnknownName, PluginError: there is no such tuner, or its factory does not make one.
        SpaceError: no configuration of the space is valid.
    """
    if not isinstance(over, ConfigSpace) and not is_task(over):
        raise ArgumentError(
            f"create_tuner(..., {value_text(over)}): not a space or a task; make one with pegbox.ConfigSpace() or "
            "pegbox.create_task(...)"
        )
    made = tuner_over(tuner, over, seed=seed, transfer=transfer, options=options)
    return AskTell(
        made,
        over if isinstance(over, ConfigSpace) else over.space,
        name=tuner_label(tuner),
        flop=getattr(over, "flop", 0.0),
        bytes_moved=getattr(over, "bytes_moved", 0.0),
    )


class AskTell:
    """A tuner with checks of its proposals and of the calls to it.

    All reported results are kept in order in `trials`, even if the tuner fails. If a configuration is reported again,
    the latest result counts. `flop` (per call) turns seconds into GFLOP/s, and `bytes_moved` into GB/s without
    arithmetic.
    """

    def __init__(
        self, tuner: Tuner, space: ConfigSpace, *, name: str | None = None, flop: float = 0.0, bytes_moved: float = 0.0
    ) -> None:
        self.tuner = tuner
        self.name = name or type(tuner).__name__
        self.space = space
        self._subject = Subject(flop=flop, bytes_moved=bytes_moved)
        self.trials: list[Trial] = []
        self._fingerprint = space.fingerprint
        self._proposer = Proposer(tuner, self.name, space=space)
        self._started = time.monotonic()

    def ask(self, n: int = 1) -> list[Config]:
        """Propose at most `n` new configurations; [] if the space has no more.

        Raises `TuningError` if the tuner breaks, or proposes anything but a valid configuration of the space.
        """
        check_int("n", n)
        if self.space.fingerprint != self._fingerprint:
            raise ArgumentError(f"{self.name}: the space has new knobs since the tuner was made; make a new tuner")
        before = set(self._proposer.dropped)
        try:
            with self._answerable():
                return self._proposer.ask(n)
        finally:
            for reason in sorted(set(self._proposer.dropped) - before):
                warnings.warn(f"tuner {self.name!r}: proposals not measured: {reason}", RuntimeWarning, stacklevel=2)

    def tell(self, configs: Config | Sequence[Config], costs: Cost | Sequence[Cost]) -> None:
        """Report the costs of configurations: seconds, or results; infinity and None for those that failed.

        `configs` is one or several, whether asked for or not, with as many costs. All are checked before any of them
        counts.

        Raises:
            ArgumentError: a cost or a configuration is invalid, or there are not as many costs as configurations.
            TuningError: the tuner broke; the results are kept.
        """
        several = [configs] if isinstance(configs, Config) else configs
        listed = check_list("tell: configs", several, "a configuration, or a list of them")
        if (fault := first_fault(listed, self.space)) is not None:
            raise ArgumentError(f"tell: configs[{fault[0]}] is {fault[1]}")
        results = [_result(place, cost) for place, cost in enumerate(_costs(listed, costs))]
        for config, result in zip(listed, results, strict=True):
            number, speed = len(self.trials), self._subject.gflops(result)
            self.trials.append(Trial(number, config, result, speed, time.monotonic() - self._started))
        latest = dict(zip(listed, results, strict=True))
        with self._answerable():
            self._proposer.tell(list(latest), list(latest.values()))

    @property
    def best(self) -> tuple[Config, float] | None:
        """The fastest configuration and its seconds; None while none has succeeded."""
        best = self._best()
        return None if best is None else (best.config, best.cost)

    @property
    def model(self) -> ModelReport | None:
        """The quality of the tuner's model on unseen trials; None without a model or a test."""
        with self._answerable():
            return self._proposer.model_report()

    def __repr__(self) -> str:
        best = self.best
        speed = format_speed(best[1], flop=self._subject.flop, bytes_moved=self._subject.bytes_moved) if best else ""
        found = f", best {best[1]:.4g} s{f' ({speed})' if speed else ''} at {best[0]}" if best else ""
        return f"<AskTell {self.name}: {len(self.trials)} trials{found}>"

    def _best(self) -> Trial | None:
        latest = {trial.config: trial for trial in self.trials}
        return min((trial for trial in latest.values() if trial.ok), key=lambda trial: trial.cost, default=None)

    @contextmanager
    def _answerable(self) -> Iterator[None]:
        """Turn errors of the tuner into a `TuningError` with the trials so far."""
        try:
            yield
        except SearchFailure as error:
            winner = BestTrial.of(self._best(), subject=self._subject)
            elapsed = time.monotonic() - self._started
            result = TuneResult(winner, tuple(self.trials), elapsed, {}, "error", self.name, self._subject)
            message = f"{error}; the {len(self.trials)} trials reported so far are kept in .trials"
            raise TuningError(message, result) from (error.__cause__ or error)


def _costs(configs: Sequence[Config], costs: Any) -> list[Any]:
    several = isinstance(costs, Iterable) and not isinstance(costs, str) and getattr(costs, "ndim", 1) > 0
    listed = list(costs) if several else [costs]
    if len(listed) != len(configs):
        shown = ", ".join(map(repr, listed[:4])) + (", ..." if len(listed) > 4 else "")
        raise ArgumentError(f"tell: {len(configs)} configs but {len(listed)} costs ({shown}); give one for each")
    return listed


def _result(place: int, cost: Any) -> Result:
    """Make the result for a reported cost. Raises `ArgumentError` for a value that cannot be a cost."""
    if isinstance(cost, Failed):
        return cost
    seconds = cost.costs if isinstance(cost, Ok) else (_seconds(place, cost),)
    if not isinstance(cost, Ok) and seconds == (math.inf,):
        return Failed(FailureKind.RUN_ERROR, "reported as failed", timestamp=time.time())
    if not seconds or not all(0.0 < value < math.inf for value in seconds):
        raise ArgumentError(
            f"tell: costs[{place}]={cost!r} cannot be a cost; give seconds above 0, and None or infinity for a failure"
        )
    return cost if isinstance(cost, Ok) else Ok(seconds, timestamp=time.time())


def _seconds(place: int, cost: Any) -> float:
    seconds = math.inf if cost is None else number_of(cost)
    if seconds is None:
        raise ArgumentError(
            f"tell: costs[{place}]={cost!r} of type {type(cost).__name__} is not a number of seconds; give a float, "
            "None for a failure, or a result (pegbox.measure.Ok(costs) holds several repeats)"
        )
    return seconds
