"""An honest comparison of tuners: the same budget, several seeds, interleaved runs, winners measured again together.

Every tuner gets each task with each seed and the same number of trials. Runs of one seed stand next to each other and
their order rotates from seed to seed, so that a machine that warms up or slows down favours nobody. A run's own
minimum is the luckiest of many; therefore all winners of a task are measured again at the end, side by side, and the
final numbers are those. Medians and quartiles follow the advice of Hoefler and Belli, "Scientific Benchmarking of
Parallel Computing Systems" (SC 2015).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, TypeAlias

from pegbox.errors import ArgumentError
from pegbox.hooks import registry
from pegbox.measure.result import Result
from pegbox.search.callbacks import CallbackLike
from pegbox.search.checks import check_int
from pegbox.search.comparison import Comparison, Run
from pegbox.search.create import make_tuner
from pegbox.search.loop import run
from pegbox.search.outcome import TuneResult
from pegbox.search.protocols import Lookup, Measurer, SearchTask

if TYPE_CHECKING:
    from pegbox.space import Config

MeasurerFactory: TypeAlias = Callable[[Any], AbstractContextManager[Measurer]]
"""Opens a measurer for a task, e.g. `LocalMeasurer`; leaving the context stops its workers."""


def compare(
    tasks: SearchTask | Sequence[SearchTask],
    tuners: Sequence[str],
    *,
    measurer: MeasurerFactory,
    trials: int = 64,
    seeds: int | Sequence[int] = 3,
    batch_size: int | None = None,
    callbacks: Callable[[str, str, int], Sequence[CallbackLike]] | None = None,
    lookup: Lookup = registry.resolve,
    clock: Callable[[], float] = time.monotonic,
) -> Comparison:
    """Run every tuner on every task with every seed.

    `tuners` are specs such as "random" or "xgb:plan_size=32". `seeds` is a count (0, 1, ...) or the seeds themselves.
    `measurer` opens a measurer for a task; each run gets a fresh one. `callbacks(task name, tuner, seed)` makes the
    callbacks of one run. Raises `ArgumentError` for an empty list or two equal tuners, and whatever a run raises.
    """
    listed = _tasks(tasks)
    specs = _distinct(tuners)
    chosen = _seeds(seeds)
    check_int("trials", trials)
    runs: list[Run] = []
    for task in listed:
        results: dict[tuple[str, int], TuneResult] = {}
        for spec, seed in _interleaved(specs, chosen):
            tuner = make_tuner(spec, task.space, seed=seed, lookup=lookup)
            with measurer(task) as opened:
                results[spec, seed] = run(
                    tuner,
                    opened,
                    trials=trials,
                    batch_size=batch_size,
                    callbacks=callbacks(task.name, spec, seed) if callbacks else (),
                    space=task.space,
                    flop=task.flop,
                    name=spec,
                    finalists=1,
                    clock=clock,
                )
            if results[spec, seed].stopped_because == "interrupted":
                raise KeyboardInterrupt
        finals = _final_costs(task, results, measurer)
        runs += [_run(task, spec, seed, results[spec, seed], finals) for spec in specs for seed in chosen]
    return Comparison(
        trials=trials, seeds=chosen, runs=tuple(sorted(runs, key=lambda r: (r.task, specs.index(r.tuner))))
    )


def _interleaved(specs: Sequence[str], seeds: Sequence[int]) -> Iterator[tuple[str, int]]:
    """All tuners of one seed, then of the next; who goes first changes with the seed."""
    for turn, seed in enumerate(seeds):
        first = turn % len(specs)
        for spec in (*specs[first:], *specs[:first]):
            yield spec, seed


def _final_costs(
    task: SearchTask, results: dict[tuple[str, int], TuneResult], measurer: MeasurerFactory
) -> dict[Config, float]:
    """Seconds of each distinct winner, all measured again in one session."""
    winners = list(dict.fromkeys(result.best.config for result in results.values() if result.best is not None))
    if not winners:
        return {}
    with measurer(task) as opened:
        again: Sequence[Result] = opened.remeasure(winners)
    return {config: result.cost for config, result in zip(winners, again, strict=True)}


def _run(task: SearchTask, spec: str, seed: int, result: TuneResult, finals: Mapping[Config, float]) -> Run:
    best = result.best
    return Run(
        task=task.name,
        tuner=spec,
        seed=seed,
        flop=task.flop,
        curve=tuple(result.best_costs()),
        final_cost=math.inf if best is None else finals[best.config],
        config=None if best is None else best.config.to_json(),
        failures=result.failures,
        seconds=result.elapsed,
        tuner_seconds=sum(result.phases.get(phase, 0.0) for phase in ("propose", "learn")),
    )


def _tasks(tasks: SearchTask | Sequence[SearchTask]) -> list[SearchTask]:
    listed = list(tasks) if isinstance(tasks, Sequence) else [tasks]
    names = [task.name for task in listed]
    if not listed or len(set(names)) != len(names):
        raise ArgumentError(f"tasks={names!r}: give at least one task, each with a name of its own")
    return listed


def _distinct(tuners: Sequence[str]) -> list[str]:
    if isinstance(tuners, str):
        raise ArgumentError(f"tuners={tuners!r} is one string; give a list of names such as ['random', 'xgb']")
    specs = list(tuners)
    if not specs or len(set(specs)) != len(specs):
        raise ArgumentError(f"tuners={specs!r}: give at least one tuner, and none twice")
    return specs


def _seeds(seeds: int | Sequence[int]) -> tuple[int, ...]:
    if isinstance(seeds, int):
        return tuple(range(check_int("seeds", seeds)))
    chosen = tuple(seeds)
    if not chosen or len(set(chosen)) != len(chosen):
        raise ArgumentError(f"seeds={chosen!r}: give at least one seed, and none twice")
    return chosen
