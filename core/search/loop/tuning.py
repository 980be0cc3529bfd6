"""`run`: ask the tuner, measure, report to the callbacks at once and to the tuner per batch.

Nothing already measured is ever lost. Every result goes to the trial list and the essential callbacks (records) first,
while Ctrl-C is held back; a later failure (of the tuner, a callback, the measurer) ends the run with a `TuningError`
that carries the `TuneResult`.
"""

from __future__ import annotations

import contextlib
import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from pegbox.checks import check_instance, check_int
from pegbox.errors import ArgumentError, RecordError, TuningError
from pegbox.measure.pipeline.measurer import Measurer, check_measurer
from pegbox.measure.result import Result
from pegbox.origin import users_level
from pegbox.search.loop.best_trial import BestTrial, Gain
from pegbox.search.loop.callbacks import CallbackFailure, CallbackList
from pegbox.search.loop.finalists import MAX_ROUNDS, pick_finalists, winner_of
from pegbox.search.loop.interrupt import absorb_interrupt, defer_interrupt
from pegbox.search.loop.keeper import Keeper
from pegbox.search.loop.measurements import CheckedMeasurer
from pegbox.search.loop.options import PriorTrials, SearchOptions
from pegbox.search.loop.outcome import StopReason, TuneResult
from pegbox.search.loop.proposals import Proposer, SearchFailure, first_fault
from pegbox.search.loop.remarks import slowed_threads, threads_of
from pegbox.search.loop.state import PhaseClock, SearchState
from pegbox.search.loop.trial import Trial
from pegbox.search.protocols import Tuner
from pegbox.search.subject import Subject
from pegbox.space import ConfigSpace
from pegbox.task.group import TaskGroup

if TYPE_CHECKING:
    from pegbox.space import Config

DEFAULT_BATCH = 16
COMPILING, MEASURING = "compiling", "measuring"


def run(
    tuner: Tuner,
    measurer: Measurer,
    options: SearchOptions,
    *,
    subject: Subject = Subject(),
    space: ConfigSpace | TaskGroup | None = None,
    searched: ConfigSpace | None = None,
    prior: PriorTrials = PriorTrials(),
) -> TuneResult:
    """Search until a limit is reached, the space is exhausted, a callback stops the search, or Ctrl-C is pressed.

    The measurer's `clock` gives the time.

    Args:
        subject: the computation or function, which names the task in the result and turns costs into speeds.
        space: if it is given, a configuration from elsewhere is an error; a group has several spaces.
        searched: the part of the space that the tuner got, if it is smaller.
        prior: trials of an earlier search.

    Raises:
        ArgumentError: a configuration in `first` does not belong to the space.
        TuningError: the tuner, an essential callback or the measurer broke; everything measured is in its `result`.
        KeyboardInterrupt: a second Ctrl-C soon followed the one that ended the previous search, to end a loop of
            searches.
    """
    check_instance("options", options, SearchOptions, "a pegbox.search.SearchOptions")
    check_instance("subject", subject, Subject, "a pegbox.search.Subject")
    check_instance("prior", prior, PriorTrials, "a pegbox.search.PriorTrials")
    for place, given in (("space", space), ("searched", searched)):
        if given is not None and not (given is space and isinstance(given, TaskGroup)):
            check_instance(place, given, ConfigSpace, "a pegbox.ConfigSpace")
    if (fault := first_fault(options.first, space)) is not None:
        raise ArgumentError(f"first[{fault[0]}] is {fault[1]}")
    return _Loop(tuner, measurer, options, subject, space, searched, prior).run()


class _Loop:
    """A run in progress."""

    def __init__(
        self,
        tuner: Tuner,
        measurer: Measurer,
        options: SearchOptions,
        subject: Subject,
        space: ConfigSpace | TaskGroup | None,
        searched: ConfigSpace | None,
        prior: PriorTrials,
    ) -> None:
        name, clock = options.name or type(tuner).__name__, check_measurer(measurer).clock
        wanted = options.batch_size if options.batch_size is not None else getattr(tuner, "batch_size", DEFAULT_BATCH)
        self.options, self.prior = options, prior
        self.batch_size = check_int("batch_size", wanted)
        self.with_baseline = options.baseline
        self.clock = PhaseClock(clock)
        self.proposer = Proposer(
            tuner, name, space=space, searched=searched, first=options.first, earlier=prior.earlier
        )
        self.measurer = CheckedMeasurer(measurer, self.clock)
        self.state = SearchState(name, options.limits, subject, clock)
        keepers = [Keeper(options.store, subject.task)] if options.store and subject.task else []
        self.callbacks = CallbackList([*options.callbacks, *keepers])
        self.history: list[Trial] = []
        self.remeasured: list[Trial] = []
        self.ahead: list[Config] = []

    def run(self) -> TuneResult:
        broken: Exception | None = None
        leave = False
        try:
            self._begin()
            reason = self._search()
            self._measure_finalists()
        except KeyboardInterrupt:
            leave = absorb_interrupt()
            reason = "interrupted"
        except (CallbackFailure, SearchFailure) as error:
            reason, broken = "error", error
        result = self._result(reason)
        try:
            self.callbacks.call("on_end", result)
        except CallbackFailure as error:
            broken = broken or error
        if leave:
            raise KeyboardInterrupt("a second Ctrl-C")
        if broken:
            good = sum(trial.ok for trial in result.trials)
            where = " and in the records" if self.callbacks.essential else ""
            kept = f"the {len(result.trials)} trials measured so far ({good} ok) are kept in error.result{where}"
            cause = broken.__cause__ or broken
            if isinstance(cause, RecordError):
                kept += "; then resume=True goes on from the records"
            raise TuningError(f"{broken}; {kept}", result, reason=str(broken)) from cause
        return result

    def _begin(self) -> None:
        history = self.prior.results
        for number, (config, result) in enumerate(history, start=-len(history)):
            again = self.prior.trials.get(config, result) != result
            trial = self._trial(number, config, result, 0.0, remeasured=again)
            self.history.append(trial)
            self.state.consider(trial)
        with self.clock.phase("callbacks"):
            self.callbacks.call("on_start", self.state)
        if history:
            with self._phase("learn", "learning from the records"):
                self.proposer.tell([config for config, _ in history], [result for _, result in history])

    def _trial(self, number: int, config: Config, result: Result, elapsed: float, *, remeasured: bool = False) -> Trial:
        return Trial(number, config, result, self.state.subject.gflops(result), elapsed, remeasured)

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
        """Ask for another batch while trials are `outstanding`; empty if the limit allows no more."""
        wanted = self.batch_size
        if self.options.batch_size is None:
            wanted = max(wanted, self.measurer.machines)
        room = self.state.room(wanted, outstanding=outstanding)
        if not room:
            return []
        # A tuner's background work, begun at its first ask, continues during the first trials.
        aside = self.measurer.beside() if outstanding or not self.state.trials else None
        with self._phase("propose", self.proposer.activity), aside or contextlib.nullcontext():
            return self.proposer.ask(room)

    def _stop(self) -> StopReason | None:
        return self.callbacks.stop or self.state.limits.reached(self.state)

    def _measure(self, batch: Sequence[Config]) -> StopReason | None:
        """Measure a batch and report it to the tuner; a limit reached on the way leaves the rest of it unmeasured.

        A tuner with `asks_ahead` gets the first half, and is asked for the next batch, while the others are measured.
        If measuring needs an idle machine, it does not, and nothing runs in the background either.
        """
        state = self.state
        first, unreported = len(state.trials), batch
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
                    trial = self._trial(len(state.trials), config, result, state.elapsed)
                    with defer_interrupt(), self.clock.phase("callbacks"):
                        state.add(trial)
                        self.callbacks.call("on_trial", trial, state)
                measured[config] = result
                if (reason := self._stop()) and reason != "trials":
                    return reason
                if unreported is batch and len(measured) < len(batch) and measured.keys() >= set(half):
                    self._report(half, measured)
                    unreported = batch[len(half) :]
                    self.ahead = self._propose(outstanding=len(unreported))
        fresh = state.trials[first:]
        if set(batch) - {trial.config for trial in fresh}:
            raise SearchFailure(f"the measurer gave {len(fresh)} results for {len(batch)} configurations")
        self._report(unreported, measured)
        with self.clock.phase("learn"):
            state.model = self.proposer.model_report()
        with self.clock.phase("callbacks"):
            self.callbacks.call("on_batch", fresh, state)
        return None

    @contextlib.contextmanager
    def _phase(self, name: str, activity: str) -> Iterator[None]:
        """Count the body's time towards `name`, and report the activity to callbacks."""
        self._now(activity)
        with self.clock.phase(name):
            yield

    def _measuring(self) -> str:
        where = self.measurer.where
        return f"{MEASURING} {where}" if where else MEASURING

    def _now(self, activity: str) -> None:
        if activity != self.state.activity and not self.state.simulated:  # a simulation compiles and measures nothing
            self.state.activity = activity
            self.callbacks.call("on_activity", self.state)

    def _report(self, batch: Sequence[Config], measured: Mapping[Config, Result]) -> None:
        # Report in the order of asking, not of finishing, so that the same measurements give the same proposals.
        with self.clock.phase("learn"):
            self.proposer.tell(batch, [measured[config] for config in batch])

    def _measure_baseline(self, cost: float) -> None:
        measure = self.measurer.baseline
        if not self.with_baseline or measure is None or cost == math.inf:
            return
        with self._phase("baseline", "timing NumPy for comparison"):
            try:
                self.state.baseline = measure(cost)
            except Exception as error:  # the result is useful without it
                self.with_baseline = False
                warnings.warn(f"the result is not compared: {error}", RuntimeWarning, stacklevel=users_level())

    def _measure_finalists(self) -> None:
        if not self.state.trials:
            return  # nothing new: the history already has its best
        trials = [*self.history, *self.state.trials]
        self._measure_baseline(min(trial.cost for trial in trials))
        for _ in range(MAX_ROUNDS):
            chosen = pick_finalists(trials, self.options.finalists, known=self.remeasured, always=self.options.first)
            if not chosen:
                return
            if not self.remeasured:
                chosen += self._second_chance(trials, chosen)
            with self._phase("remeasure", "measuring the best again"):
                results = self.measurer.remeasure([trial.config for trial in chosen])
            # Measured around the finalists, the baseline meets the same noise; it precedes their records, which keep
            # it.
            self._measure_baseline(min(result.cost for result in results))
            with defer_interrupt(), self.clock.phase("callbacks"):
                for trial, result in zip(chosen, results, strict=True):
                    again = self._trial(trial.number, trial.config, result, self.state.elapsed, remeasured=True)
                    self.remeasured.append(again)
                    self.callbacks.call("on_remeasured", again, self.state)

    def _second_chance(self, trials: Sequence[Trial], chosen: Sequence[Trial]) -> list[Trial]:
        """Wait for a quiet moment if other programs slowed down trials with several threads.

        Return the fastest trial with more threads than the best, unless it is already `chosen`.
        """
        threads = threads_of(chosen[0])
        if not threads or slowed_threads(trials) is None:
            return []
        with self._phase("remeasure", "waiting for a quiet moment"):
            if not self.measurer.wait_until_quiet():
                return []
        slowed = slowed_threads(trials, above=threads)
        return [] if slowed is None or slowed in chosen else [slowed]

    def _result(self, reason: StopReason) -> TuneResult:
        state, prior = self.state, self.prior.trials
        phases = dict(self.clock.seconds)
        recorded = [self._trial(t.number, t.config, prior.get(t.config, t.result), 0.0) for t in self.history]
        winner = winner_of(self.remeasured)
        if winner is None and self.remeasured:
            messages = "; ".join(str(getattr(trial.result, "message", "")) for trial in self.remeasured)
            message = f"none of the finalists ran when measured again: {messages}"
            warnings.warn(message, RuntimeWarning, stacklevel=users_level())
        found = winner or state.best
        best = BestTrial.of(
            found,
            phases=phases if state.trials else None,  # without trials, no phase took time
            subject=state.subject,
            baseline=state.baseline or self.prior.baseline,
            gain=Gain.of([*recorded, *state.trials], found) if state.subject.unit == "s" else None,
            recorded=len(self.history),
        )
        return TuneResult(
            best=best,
            trials=tuple(state.trials),
            elapsed=state.elapsed,
            phases=phases,
            stopped_because=reason,
            tuner=state.tuner,
            subject=state.subject,
            finalists=tuple(self.remeasured),
            model=state.model,
            simulated=state.simulated,
            dropped=dict(self.proposer.dropped),
            history=tuple(recorded),
            uneven=self.measurer.uneven,
            untold=tuple(t for t in (*self.history, *state.trials) if not self.proposer.knows(t.config)),
        )
