"""`pegbox.sweep`: measures a whole space, or a uniform sample of it, into records.

Configurations are measured in random order, so that a drift in the machine's speed is not correlated with any knob. At
the end the fastest are measured again (`pegbox.search.sweep.remeasurement`). Both continue an earlier sweep that was
stopped.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from pegbox.checks import check_flag, check_int, check_seconds
from pegbox.codegen.targets.host import describe_host
from pegbox.errors import ArgumentError, RecordError, SpaceError
from pegbox.measure.pipeline.measurer import Measurer
from pegbox.measure.result import Result
from pegbox.records.history import check_host, load_history, matching, of_code, to_config
from pegbox.records.journal import Journal
from pegbox.records.record import Record
from pegbox.records.recorded_space import RecordedSpace
from pegbox.search.loop.callbacks import CallbackLike, check_callbacks
from pegbox.search.loop.display import progress as progress_callback
from pegbox.search.loop.interrupt import absorb_interrupt
from pegbox.search.loop.options import PriorTrials, SearchOptions
from pegbox.search.loop.recorder import Recorder
from pegbox.search.loop.trial import failure_counts, format_counts
from pegbox.search.loop.tuning import run
from pegbox.search.problem import check_task, local_measurer, measuring_host
from pegbox.search.subject import Subject
from pegbox.search.sweep.remeasurement import MOST, Convergence, Remeasurement, repeat
from pegbox.space.uniform_sample import LISTED, uniform_order
from pegbox.task.speed_text import format_seconds, format_speed
from pegbox.task.task import Task

if TYPE_CHECKING:
    from pegbox.measure.runners.runner import RunnerLike
    from pegbox.space import Config
    from pegbox.task.task import Task

_BATCH = 64


@dataclass(frozen=True)
class SweepResult:
    """The result of a sweep.

    `recorded` is the measured part of the space, None if nothing ran; `trials` counts the measurements of this sweep,
    and `again` the remeasured configurations. `stopped_because` is "done", "budget", or "interrupted".
    """

    results: Mapping[Config, Result]
    recorded: RecordedSpace | None
    wanted: int
    trials: int
    again: int
    elapsed: float
    stopped_because: str

    @property
    def best(self) -> Config | None:
        """The fastest configuration."""
        good = [config for config, result in self.results.items() if result.ok]
        return min(good, key=lambda config: self.results[config].cost, default=None)

    @property
    def failures(self) -> dict[str, int]:
        """The number of failed configurations by kind."""
        return failure_counts(self.results.values())

    def __str__(self) -> str:
        lines = [
            f"{len(self.results):,} of {self.wanted:,} configurations measured, {self.trials:,} of them now in "
            f"{self.elapsed:.0f} s, stopped: {self.stopped_because}"
        ]
        ran = sum(result.ok for result in self.results.values())
        failed = f"; failed: {format_counts(self.failures)}" if self.failures else ""
        lines.append(f"  {ran:,} ran{failed}; {self.again:,} were measured again")
        if self.recorded is None or self.best is None:
            return "\n".join([*lines, "  nothing valid was found"])
        shares = ", ".join(f"{self.recorded.share_within(s):.2%} reach {s:.0%} of it" for s in (0.95, 0.90, 0.75))
        best = self.results[self.best]
        speed = format_speed(best.cost, flop=self.recorded.flop, bytes_moved=self.recorded.bytes_moved)
        speed = f", {speed}" if speed else ""
        return "\n".join([*lines, f"  best: {format_seconds(best.cost)}{speed}; {shares}", f"  config: {self.best}"])


@dataclass
class Sweep:
    """A sweep of `task`.

    `passes` cover everything, before those over the fastest. `known` are earlier results, `before` the number of
    earlier remeasurements of each configuration. `recorder` writes all results; `say` shows a line to a person.
    """

    task: Task
    configs: int | None
    passes: int = 0
    seed: int = 0
    budget_seconds: float | None = None
    known: Mapping[Config, Result] = field(default_factory=dict)
    before: Mapping[Config, int] = field(default_factory=dict)
    recorder: Recorder | None = None
    callbacks: Sequence[CallbackLike] = ()
    say: Callable[[str], object] = lambda line: None

    def __post_init__(self) -> None:
        if self.configs is not None:
            check_int("configs", self.configs)
        check_int("passes", self.passes, minimum=0)
        self._repeated: set[Config] = {config for config, count in self.before.items() if count}

    def run(self, measurer: Measurer) -> SweepResult:
        """Measure the missing configurations, then the fastest again. Raises the errors of `pegbox.search.run`."""
        began, task = measurer.clock(), self.task
        missing = self._missing()
        recorders = [self.recorder] if self.recorder else []
        first = run(
            _ListTuner(missing),
            measurer,
            SearchOptions(
                len(missing),
                self.budget_seconds,
                batch_size=_BATCH,
                finalists=0,
                callbacks=[*recorders, *self.callbacks],
                name="sweep",
            ),
            subject=Subject(task.name, task, task.flop, task.bytes_moved),
            space=task.space,
            prior=PriorTrials(list(self.known.items())),
        )
        results = {**self.known, **{trial.config: trial.result for trial in first.trials}}
        reason = str(first.stopped_because)
        if reason in ("trials", "budget"):
            reason = self._remeasure(measurer, results, began)
        recorded = None
        host, target = measuring_host(measurer) or describe_host(), str(task.target)
        if any(result.ok for result in results.values()):
            where = {"source": str(self.recorder.journal.path), "host": host} if self.recorder else {}
            recorded = RecordedSpace(task.name, task.space, results, flop=task.flop, task=task, target=target, **where)
        return SweepResult(
            results=results,
            recorded=recorded,
            wanted=len(self.known) + len(missing),
            trials=len(first.trials),
            again=len(self._repeated),
            elapsed=measurer.clock() - began,
            stopped_because=reason,
        )

    def _remeasure(self, measurer: Measurer, results: dict[Config, Result], began: float) -> str:
        def time_left() -> bool:
            return self.budget_seconds is None or measurer.clock() - began < self.budget_seconds

        remeasurement = Remeasurement(measurer, results, passes=self.before, listener=self._note, seed=self.seed)
        try:
            convergence = Convergence(remeasurement, say=self.say, common=self.passes, time_left=time_left)
            finished = (
                time_left()
                and repeat(remeasurement, self.passes, say=self.say, time_left=time_left)
                and convergence.run()
            )
            if not finished:
                convergence.confirm_best()
        except KeyboardInterrupt:
            if absorb_interrupt():
                raise
            return "interrupted"
        return "done" if finished else "budget"

    def _note(self, config: Config, result: Result) -> None:
        self._repeated.add(config)
        if self.recorder is not None:
            self.recorder.append(config, result, remeasured=True)

    def _missing(self) -> list[Config]:
        """List the configurations that remain to be measured, in random order."""
        space = self.task.space
        count = space.num_valid()
        if self.configs is None and (count is None or count > LISTED):
            many = "too many valid configurations to count" if count is None else f"{count:,} configurations"
            raise ArgumentError(f"configs=None: the space of {self.task.name} has {many}; give a number: configs=5000")
        wanted = count if self.configs is None else self.configs
        assert wanted is not None
        configs = (space.config(row) for block in uniform_order(space, self.seed) for row in block.tolist())
        unknown = (config for config in configs if config not in self.known)
        missing = list(islice(unknown, max(0, wanted - len(self.known))))
        if not missing and not self.known:
            raise SpaceError(f"the space of {self.task.name} has no valid configuration: there is nothing to sweep")
        return missing


class _ListTuner:
    """A tuner that proposes the given configurations."""

    def __init__(self, configs: Sequence[Config]) -> None:
        self._left = iter(configs)

    def ask(self, n: int) -> list[Config]:
        return list(islice(self._left, n))

    def tell(self, configs: Sequence[Config], results: Sequence[Result]) -> None:
        """Learn nothing."""


_KEPT = 1 << 14
"""The number of builds kept from pass to pass, at about 20 kB each; others are built again."""

_ROUNDS = 3
"""The timings of a configuration in one of several passes.

Noise lasts longer than ten timings, so that many short visits tell more than a few long ones.
"""

_UNIFORM = ("sweep", "random")
"""The tuners whose configurations count as part of a uniform sample."""


def sweep(
    task: Task,
    *,
    records: str | os.PathLike[str] | Journal,
    configs: int | None = 5000,
    passes: int = 0,
    seed: int = 0,
    budget: float | str | None = None,
    runner: RunnerLike = "local",
    timeout: float | str = 10.0,
    callbacks: Iterable[CallbackLike] = (),
    progress: bool = True,
    measure_options: Mapping[str, Any] | None = None,
) -> SweepResult:
    """Measure a uniform sample of the task's space, in random order, and its fastest again until they are steady.

    Everything is written to `records` at once, and the same call continues a stopped sweep: the task's records in the
    file count as part of the sample.

    Args:
        records: the file.
        configs: the number of configurations; None for the whole space.
        passes: the number of times to measure all that ran again, in new groups each time, before the fastest. A single
            measurement on a noisy machine is often 5% off; the costs of many short ones are not.
        seed: the seed of the sample and its order.
        budget: the time after which to stop: seconds, or text such as "60s", "5m", "1m30s". The fastest is measured
            again even then.
        runner, timeout, callbacks, progress, measure_options: as for `tune`.

    Ctrl-C ends the sweep early; the result says so.

    Raises:
        ArgumentError: an option is outside its domain, or the whole space is too large.
        RecordError: the file cannot be written, is damaged, or holds records of the task that were measured on another
            machine or chosen by a tuner.
        TuningError: the records or the measuring broke.
    """
    if not isinstance(task, Task):
        check_task(task)
        why = "is recorded already; to measure it" if isinstance(task, RecordedSpace) else "is not a task; to sweep one"
        raise ArgumentError(f"{task!r} {why}, give the task: pegbox.create_task(...)")
    configs = None if configs is None else check_int("configs", configs, maximum=sys.maxsize)
    passes, seed = check_int("passes", passes, minimum=0, maximum=sys.maxsize), check_int("seed", seed, minimum=0)
    progress = check_flag("progress", progress)
    budget_seconds = None if budget is None else check_seconds("budget", budget)
    defaults = {"kept_builds": _KEPT, "rounds": _ROUNDS} if passes else {"kept_builds": MOST}
    measurer = local_measurer(
        measure_options, timeout=timeout, runner=runner, seed=seed, reserved=["best"], defaults=defaults
    )
    listeners = check_callbacks(callbacks)
    journal = records if isinstance(records, Journal) else Journal(records)
    own, known, before = _known(journal, task, whole=configs is None)
    plan = Sweep(
        task,
        configs,
        passes=passes,
        seed=seed,
        budget_seconds=budget_seconds,
        known=known,
        before=before,
        recorder=Recorder(journal, task, "sweep", seed, "sweep"),
        callbacks=[*([progress_callback()] if progress else []), *listeners],
        say=partial(print, file=sys.stderr, flush=True) if progress else lambda line: None,
    )
    journal.check_writable()
    best = min((result.cost for result in known.values() if result.ok), default=float("inf"))
    with measurer(task, best=best) as opened:
        check_host(own, str(journal.path), measuring_host(opened), remedy="sweep into another file", exact=True)
        return plan.run(opened)


def _known(journal: Journal, task: Task, *, whole: bool) -> tuple[list[Record], dict[Any, Any], Counter[Any]]:
    """Read the task's records: all of them, the latest results, and the number of remeasurements of each."""
    configs, results = load_history(journal, task)
    source = str(journal.path)
    own = of_code(matching(journal.read(), task, source=source), task, source=source) if configs else []
    tuners = {record.tuner.partition(":")[0].partition("(")[0] for record in own}
    if not whole and (chosen := sorted(tuners - set(_UNIFORM))):
        raise RecordError(
            f"{source!r} holds records of this task that {' and '.join(map(repr, chosen))} chose: they are not a "
            "uniform sample of the space; sweep into another file"
        )
    again = Counter(to_config(record, task, source=source) for record in own if record.remeasured)
    return own, dict(zip(configs, results, strict=True)), again
