"""The arguments of a comparison, read and checked: tuners, tasks, seeds."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from pegbox.checks import check_int, check_list
from pegbox.errors import ArgumentError
from pegbox.hooks.refs import Spec
from pegbox.records.record import call
from pegbox.search.factory import check_factory, tuner_label
from pegbox.search.problem import check_task
from pegbox.search.protocols import SearchTask, TunerFactory
from pegbox.shown import value_text
from pegbox.suites import Suite, load_suite
from pegbox.task.group import TaskGroup

TunerLike: TypeAlias = str | Spec | TunerFactory
Tuners: TypeAlias = Sequence[TunerLike] | Mapping[str, TunerLike]

MOST_SEEDS = 100_000

SUITE_TIMEOUT = 600.0
"""The default limit in seconds of a run of a suite."""


def check_suite(tasks: Any, suite: str | os.PathLike[str] | Suite | None) -> Any:
    """Return the opened suite, or the tasks without one. Raises `ArgumentError` for both, or neither."""
    if suite is None:
        if tasks is None:
            raise ArgumentError("compare: give tasks, or suite= with the name or the folder of a suite")
        return tasks
    if tasks is not None:
        raise ArgumentError(f"suite={value_text(suite)} has its own problems; leave the tasks out, and name tuners=...")
    return load_suite(suite)


def read_tuners(tuners: Tuners) -> dict[str, TunerLike]:
    """Name all tuners: a spec is its own name, a bound factory reads "MyTuner(alpha=2)", a mapping has names.

    Raises `ArgumentError` for no tuners, two with one name, or anything but a tuner.
    """
    if isinstance(tuners, (str, Spec)) or callable(tuners):
        raise ArgumentError(f"tuners={tuners!r} is one tuner; give a list of them, such as ['random', 'xgb']")
    if isinstance(tuners, Mapping):
        named = [(str(name), tuner) for name, tuner in tuners.items()]
    else:
        listed = check_list("tuners", tuners, "a list of tuners, such as ['random', 'xgb']")
        named = [(tuner_label(tuner), tuner) for tuner in listed]
    entries: dict[str, TunerLike] = {}
    for name, tuner in named:
        if not isinstance(tuner, str | Spec):
            check_factory(tuner)
        if name in entries:
            raise ArgumentError(
                f"tuner {name!r} is in the list twice; leave one out, or give different names, as in "
                f"{{'a': {name!r}, 'b': {name!r}}}"
            )
        entries[name] = tuner
    if not entries:
        raise ArgumentError(f"tuners={tuners!r}: give at least one tuner")
    return entries


def read_seeds(seeds: int | Sequence[int]) -> tuple[int, ...]:
    """Return the seeds; a count means 0, 1, ..."""
    if isinstance(seeds, int):
        return tuple(range(check_int("seeds", seeds, maximum=MOST_SEEDS)))
    listed = check_list("seeds", seeds, "the number of seeds, or a list of them")
    chosen = tuple(check_int("seeds", seed, minimum=0) for seed in listed)
    if not chosen or len(set(chosen)) != len(chosen):
        raise ArgumentError(f"seeds={chosen!r}: give at least one seed, each once")
    return chosen


def read_tasks(
    tasks: SearchTask | TaskGroup | Sequence[SearchTask | TaskGroup],
) -> dict[str, SearchTask | TaskGroup]:
    """Name all tasks for the report, with their arguments if they have any."""
    listed = list(tasks) if isinstance(tasks, Sequence) and not isinstance(tasks, str) else [tasks]
    if not listed:
        raise ArgumentError("tasks=[]: give at least one task")
    names = []
    for task in listed:
        check_task(task)
        args, kwargs = getattr(task, "args", ()), getattr(task, "kwargs", {})
        names.append(call(task.name, kwargs, args) if args or kwargs else task.name)
    if len(set(names)) != len(names):
        names = [f"{name} on {getattr(task, 'target', '?')}" for name, task in zip(names, listed, strict=True)]
    if len(set(names)) != len(names):
        raise ArgumentError(f"tasks={names!r}: give each task once")
    return dict(zip(names, listed, strict=True))
