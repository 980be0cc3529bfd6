"""`run`: ask the tuner, measure, tell the callbacks at once and the tuner per batch.

Nothing already measured is ever lost. Every result reaches the trial list and the essential callbacks (records) before
anything else sees it, Ctrl-C is held back meanwhile, and whatever breaks afterwards (the tuner, a callback, the
measurer) ends the run with a `TuningError` that carries the `TuneResult`.
"""

from __future__ import annotations

import contextlib
import math
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pegbox.checks import check_instance, check_int, check_list, check_text
from pegbox.errors import ArgumentError, TuningError
from pegbox.measure.result import Result
from pegbox.measure.yardstick import Yardstick
from pegbox.origin import users_level
from pegbox.search.loop.callbacks import CallbackFailure, CallbackLike, CallbackList
from pegbox.search.loop.finalists import MAX_ROUNDS, pick_finalists, winner_of
from pegbox.search.loop.interrupt import absorb_interrupt, defer_interrupt
from pegbox.search.loop.measurements import CheckedMeasurer
from pegbox.search.loop.outcome import BestTrial, Gain, StopReason, Trial, TuneResult, gflops_of
from pegbox.search.loop.proposals import Proposer, SearchFailure
from pegbox.search.loop.remarks import slowed_threads, threads_of
from pegbox.search.loop.state import Limits, PhaseClock, SearchState
from pegbox.search.protocols import Measurer, Tuner
from pegbox.shown import value_text
from pegbox.space import ConfigSpace

if TYPE_CHECKING:
    from pegbox.space import Config
    from pegbox.task.task import Task

DEFAULT_BATCH = 16
COMPILING, MEASURING = "compiling", "measuring"
DEFAULT_FINALISTS = 6


def run(
    tuner: Tuner,
    measurer: Measurer,
    *,
    trials: int | None = None,
    budget_seconds: float | None = None,
    early_stopping: int | None = None,
    batch_size: int | None = None,
    callbacks: Iterable[CallbackLike] = (),
    history: Iterable[tuple[Config, Result]] = (),
    history_trials: Mapping[Config, Result] | None = None,
    space: ConfigSpace | None = None,
    searched: ConfigSpace | None = None,
    flop: float = 0.0,
    bytes_moved: float = 0.0,
    unit: str = "s",
    name: str | None = None,
    finalists: int = DEFAULT_FINALISTS,
    yardstick: bool = False,
    recorded_yardstick: Yardstick | None = None,
    task: Task | None = None,
    subject: str = "",
) -> TuneResult:
    """Search until a limit is reached, the space is exhausted, a callback says stop, or Ctrl-C.

    `trials` counts new measurements, `history` is told to the tuner first, may win, and is never measured again by the
    search. Where it holds what was measured again, `history_trials` are the results of the trials themselves, for the
    result: they compare with those of new trials. `early_stopping` is a number of trials without improvement.
    `batch_size` defaults to the tuner's own `batch_size`, else 16; where the measurer measures more at the same time
    (`machines`), to as many. Given `space`, a configuration from elsewhere is an
    error; `searched` is the part of it that the tuner was given, where that is less. `flop` (per call) turns seconds
    into GFLOP/s, `bytes_moved` into GB/s where there is no arithmetic; `unit` is that of the costs, for people. `name`
    stands for the tuner in messages. The `finalists` fastest within noise are measured again at the end and the winner
    is picked from them; 0 leaves that out. With `yardstick` the measurer is asked at the end what costs are compared
    with, if it can say; where nothing was, `recorded_yardstick` is that of the history. `task` and its name, `subject`,
    are for the result, which shows the task's programs. Time is that of the measurer's `clock` if it has one, as a
    simulation has.

    Raises `ArgumentError` for limits that make no sense and `TuningError`, with everything measured in its `result`,
    when the tuner, an essential callback or the measurer breaks. Raises `KeyboardInterrupt` at a second Ctrl-C that
    follows the one that ended the search before, so that a loop of searches ends.
    """
    for place, given in (("space", space), ("searched", searched)):
        if given is not None:
            check_instance(place, given, ConfigSpace, "a pegbox.ConfigSpace")
    pairs = "(config, result) of each trial"
    listed = check_list("history", history, pairs, of=tuple)
    if any(len(pair) != 2 for pair in listed):
        raise ArgumentError(f"history={value_text(listed)}: give {pairs}")
    name = check_text("name", type(tuner).__name__ if name is None else name) or type(tuner).__name__
    check_text("unit", unit)
    clock: Callable[[], float] = getattr(measurer, "clock", time.monotonic)
    wanted = batch_size if batch_size is not None else getattr(tuner, "batch_size", DEFAULT_BATCH)
    phases = PhaseClock(clock)
    loop = _Loop(
        Proposer(tuner, name, space=space, searched=searched),
        CheckedMeasurer(measurer, phases),
        SearchState(
            name,
            Limits(trials, budget_seconds, early_stopping),
            flop,
            clock,
            bytes_moved=bytes_moved,
            unit=unit,
        ),
        CallbackList(callbacks),
        phases,
        batch_size=check_int("batch_size", wanted),
        batch_given=batch_size is not None,
        finalists=check_int("finalists", finalists, minimum=0),
        with_yardstick=yardstick,
        recorded_yardstick=recorded_yardstick,
        task=task,
        subject=subject,
        history_trials={} if history_trials is None else history_trials,
    )
    return loop.run(listed)


@dataclass
class _Loop:
    """One run in progress."""

    proposer: Proposer
    measurer: CheckedMeasurer
    state: SearchState
    callbacks: CallbackList
    clock: PhaseClock
    batch_size: int
    finalists: int
    batch_given: bool = False
    history: list[Trial] = field(default_factory=list)
    remeasured: list[Trial] = field(default_factory=list)
    ahead: list[Config] = field(default_factory=list)
    with_yardstick: bool = False
    recorded_yardstick: Yardstick | None = None
    task: Task | None = None
    subject: str = ""
    history_trials: Mapping[Config, Result] = field(default_factory=dict)

    def run(self, history: Sequence[tuple[Config, Result]]) -> TuneResult:
        broken: Exception | None = None
        leave = False
        try:
            self._begin(history)
            reason = self._search()
            self._measure_finalists()
        except KeyboardInterrupt:
            leave = absorb_interrupt()
            reason = "interrupted"
        except (CallbackFailure, SearchFailure) as error:
            reason, broken = "error", error
        result = self._result(reason)
        try:
            self.callbacks.end(result)
        except CallbackFailure as error:
            broken = broken or error
        if leave:
            raise KeyboardInterrupt("a second Ctrl-C")
        if broken:
            raise TuningError(f"{broken}; {self._measured(result)}", result, reason=str(broken)) from (
                broken.__cause__ or broken
            )
        return result

    def _begin(self, history: Sequence[tuple[Config, Result]]) -> None:
        for number, (config, result) in enumerate(history, start=-len(history)):
            again = self.history_trials.get(config, result) != result
            trial = Trial(number, config, result, gflops_of(result, self.state.flop), remeasured=again)
            self.history.append(trial)
            self.state.consider(trial)
        with self.clock.phase("callbacks"):
            self.callbacks.start(self.state)
        if history:
            with self._phase("learn", "learning from the records"):
                self.proposer.tell([config for config, _ in history], [result for _, result in history])

    def _search(self) -> StopReason:
        while True:
            if reason := self._stop():
                return reason
            batch, self.ahead = self.ahead or self._propose(), []
            if not batch:
                return "exhausted"
            if reason := self._measure(batch):
                return reason

    def _propose(self, *, outstanding: int = 0) -> list[Config]:
        """Another batch, beside trials that are `outstanding`; none where the limit leaves no more."""
        room = self.state.room(self._batch_size(), outstanding=outstanding)
        if not room:
            return []
        # What a tuner starts in the background when it is first asked goes on beside the first trials.
        aside = self.measurer.beside() if outstanding or not self.state.trials else None
        with self._phase("propose", self.proposer.activity), aside or contextlib.nullcontext():
            return self.proposer.ask(room)

    def _batch_size(self) -> int:
        """As many as are measured at the same time, where these are more than the tuner takes by itself."""
        return self.batch_size if self.batch_given else max(self.batch_size, self.measurer.machines)

    def _stop(self) -> StopReason | None:
        return self.callbacks.stop or self.state.limits.reached(self.state)

    def _measure(self, batch: Sequence[Config]) -> StopReason | None:
        """Measure a batch and tell the tuner; a limit reached on the way leaves the rest of the batch unmeasured.

        A tuner that asks ahead is told the first half, and asked for the next batch, while the others are measured.
        Where they are measured in silence it is not, and does nothing in the background either.
        """
        first, untold = len(self.state.trials), batch
        measured: dict[Config, Result] = {}
        half = batch
        if self.measurer.beside() is None:
            with self._phase("learn", self.proposer.activity):
                self.proposer.wait()
        elif self.proposer.asks_ahead:
            half = batch[: -(-len(batch) // 2)]
        self._now(COMPILING if self.measurer.compiles else self._measuring())
        with self.measurer.results(batch) as results:
            for config, result in results:
                try:
                    self._now(self._measuring())
                finally:
                    self._commit(config, result)
                measured[config] = result
                if (reason := self._stop()) and reason != "trials":
                    return reason
                if untold is batch and len(measured) < len(batch) and measured.keys() >= set(half):
                    self._tell(half, measured)
                    untold = batch[len(half) :]
                    self.ahead = self._propose(outstanding=len(untold))
        fresh = self.state.trials[first:]
        self._check_complete(batch, fresh)
        self._tell(untold, measured)
        with self.clock.phase("learn"):
            self.state.model = self.proposer.model_report()
        with self.clock.phase("callbacks"):
            self.callbacks.batch(fresh, self.state)
        return None

    @contextlib.contextmanager
    def _phase(self, name: str, activity: str) -> Iterator[None]:
        """Count the body's time towards `name`, and let callbacks know what is going on."""
        self._now(activity)
        with self.clock.phase(name):
            yield

    def _measuring(self) -> str:
        where = self.measurer.where
        return f"{MEASURING} {where}" if where else MEASURING

    def _now(self, activity: str) -> None:
        if activity != self.state.activity and not self.state.simulated:  # nothing is compiled or measured then
            self.state.activity = activity
            self.callbacks.activity(self.state)

    def _tell(self, batch: Sequence[Config], measured: Mapping[Config, Result]) -> None:
        # In the order of asking, whatever the order of finishing: the same measurements then give the same proposals.
        with self.clock.phase("learn"):
            self.proposer.tell(batch, [measured[config] for config in batch])

    def _commit(self, config: Config, result: Result) -> None:
        state = self.state
        trial = Trial(len(state.trials), config, result, gflops_of(result, state.flop), state.elapsed)
        with defer_interrupt(), self.clock.phase("callbacks"):
            state.add(trial)
            self.callbacks.trial(trial, state)

    def _check_complete(self, batch: Sequence[Config], fresh: Sequence[Trial]) -> None:
        missing = set(batch) - {trial.config for trial in fresh}
        if missing:
            raise SearchFailure(f"the measurer gave {len(fresh)} results for {len(batch)} configurations")

    def _measure_yardstick(self, cost: float) -> None:
        """Ask what costs are compared with."""
        measure = self.measurer.yardstick
        if not self.with_yardstick or measure is None or cost == math.inf:
            return
        with self._phase("yardstick", "timing NumPy for comparison"):
            try:
                self.state.yardstick = measure(cost)
            except Exception as error:  # what was found stands without it
                self.with_yardstick = False
                warnings.warn(f"nothing to compare the result with: {error}", RuntimeWarning, stacklevel=users_level())

    def _measure_finalists(self) -> None:
        if not self.state.trials:
            return  # nothing new: what the history says of its best stands
        trials = [*self.history, *self.state.trials]
        self._measure_yardstick(min(trial.cost for trial in trials))
        for _ in range(MAX_ROUNDS):
            chosen = pick_finalists(trials, self.finalists, known=self.remeasured)
            if not chosen:
                return
            if not self.remeasured:
                chosen += self._second_chance(trials, chosen)
            with self._phase("remeasure", "measuring the best again"):
                results = self.measurer.remeasure([trial.config for trial in chosen])
            # Asked on both sides of the finalists, it meets their noise; it comes before their records, which keep it.
            self._measure_yardstick(min(result.cost for result in results))
            with defer_interrupt(), self.clock.phase("callbacks"):
                for trial, result in zip(chosen, results, strict=True):
                    self._commit_remeasured(trial, result)

    def _second_chance(self, trials: Sequence[Trial], chosen: Sequence[Trial]) -> list[Trial]:
        """Wait for a quiet moment if other programs slowed down trials of several threads.

        Return the fastest trial with more threads than the best, unless it is `chosen` anyway.
        """
        wait, threads = self.measurer.wait_until_quiet, threads_of(chosen[0])
        if wait is None or not threads or slowed_threads(trials) is None:
            return []
        with self._phase("remeasure", "waiting for a quiet moment"):
            wait()
        slowed = slowed_threads(trials, above=threads)
        return [] if slowed is None or slowed in chosen else [slowed]

    def _commit_remeasured(self, trial: Trial, result: Result) -> None:
        speed = gflops_of(result, self.state.flop)
        again = Trial(trial.number, trial.config, result, speed, self.state.elapsed, remeasured=True)
        self.remeasured.append(again)
        self.callbacks.remeasured(again, self.state)

    def _result(self, reason: StopReason) -> TuneResult:
        state = self.state
        phases = dict(self.clock.seconds)
        return TuneResult(
            best=self._best(phases),
            trials=tuple(state.trials),
            elapsed=state.elapsed,
            phases=phases,
            stopped_because=reason,
            tuner=state.tuner,
            flop=state.flop,
            finalists=tuple(self.remeasured),
            model=state.model,
            simulated=state.simulated,
            dropped=dict(self.proposer.dropped),
            bytes_moved=state.bytes_moved,
            unit=state.unit,
            task=self.task,
            history=tuple(self._recorded_trials()),
            subject=self.subject,
            untold=tuple(t for t in (*self.history, *state.trials) if not self.proposer.knows(t.config)),
        )

    def _measured(self, result: TuneResult) -> str:
        good = sum(trial.ok for trial in result.trials)
        where = " and in the records" if self.callbacks.essential else ""
        return f"the {len(result.trials)} trials measured so far ({good} ok) are kept in error.result{where}"

    def _recorded_trials(self) -> Iterator[Trial]:
        for trial in self.history:
            result = self.history_trials.get(trial.config, trial.result)
            yield Trial(trial.number, trial.config, result, gflops_of(result, self.state.flop))

    def _best(self, phases: dict[str, float]) -> BestTrial | None:
        winner = winner_of(self.remeasured)
        if winner is None and self.remeasured:
            messages = "; ".join(str(getattr(trial.result, "message", "")) for trial in self.remeasured)
            told = f"none of the best ran when measured again: {messages}"
            warnings.warn(told, RuntimeWarning, stacklevel=users_level())
        state, found = self.state, winner or self.state.best
        gain = Gain.of([*self._recorded_trials(), *state.trials]) if state.unit == "s" else None
        return BestTrial.of(
            found,
            phases=phases if state.trials else None,  # else they took no time
            bytes_moved=state.bytes_moved,
            unit=state.unit,
            yardstick=state.yardstick or self.recorded_yardstick,
            gain=gain,
            recorded=len(self.history),
        )
