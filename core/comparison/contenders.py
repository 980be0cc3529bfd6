"""The arguments of a comparison, read and checked: tuners, tasks, seeds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from pegbox.checks import check_int, check_list
from pegbox.errors import ArgumentError
from pegbox.hooks.spec import Spec
from pegbox.records.record import call
from pegbox.search.factory.create import check_factory, tuner_label
from pegbox.search.problem import check_task
from pegbox.search.protocols import SearchTask, TunerFactory

TunerLike: TypeAlias = str | Spec | TunerFactory
Tuners: TypeAlias = Sequence[TunerLike] | Mapping[str, TunerLike]

MOST_SEEDS = 100_000


@dataclass(frozen=True)
class Contender:
    """A tuner under the name that the report gives it."""

    name: str
    tuner: TunerLike


def read_tuners(tuners: Tuners) -> list[Contender]:
    """Names for all: a spec is its own name, a bound factory reads "MyTuner(alpha=2)", a mapping gives names.

    Raises `ArgumentError` for no tuners, two of one name, or something that is not a tuner.
    """
    if isinstance(tuners, (str, Spec)) or callable(tuners):
        raise ArgumentError(f"tuners={tuners!r} is one tuner; give a list of them, such as ['random', 'xgb']")
    if isinstance(tuners, Mapping):
        found = [Contender(str(name), _checked(tuner)) for name, tuner in tuners.items()]
    else:
        listed = check_list("tuners", tuners, "a list of tuners, such as ['random', 'xgb']")
        found = [Contender(tuner_label(_checked(tuner)), tuner) for tuner in listed]
    if not found:
        raise ArgumentError(f"tuners={tuners!r}: give at least one tuner")
    twice = [name for name, count in Counter(contender.name for contender in found).items() if count > 1]
    if twice:
        raise ArgumentError(
            f"tuner {twice[0]!r} stands twice in the list; leave one out, or give names to tell them apart, as in "
            f"{{'a': {twice[0]!r}, 'b': {twice[0]!r}}}"
        )
    return found


def read_seeds(seeds: int | Sequence[int]) -> tuple[int, ...]:
    """A count means 0, 1, ...; otherwise the seeds themselves."""
    if isinstance(seeds, int):
        return tuple(range(check_int("seeds", seeds, maximum=MOST_SEEDS)))
    listed = check_list("seeds", seeds, "how many seeds, or a list of them")
    chosen = tuple(check_int("seeds", seed, minimum=0) for seed in listed)
    if not chosen or len(set(chosen)) != len(chosen):
        raise ArgumentError(f"seeds={chosen!r}: give at least one seed, and none twice")
    return chosen


def read_tasks(tasks: SearchTask | Sequence[SearchTask]) -> dict[str, SearchTask]:
    """Tasks by the name that the report gives them, which shows their arguments where they have some."""
    listed = list(tasks) if isinstance(tasks, Sequence) and not isinstance(tasks, str) else [tasks]
    if not listed:
        raise ArgumentError("tasks=[]: give at least one task")
    for task in listed:
        check_task(task)
    names = [_label(task) for task in listed]
    if len(set(names)) != len(names):
        names = [f"{name} on {getattr(task, 'target', '?')}" for name, task in zip(names, listed, strict=True)]
    if len(set(names)) != len(names):
        raise ArgumentError(f"tasks={names!r}: give each task once")
    return dict(zip(names, listed, strict=True))


def interleaving(contenders: Sequence[Contender], seeds: Sequence[int]) -> Iterator[tuple[Contender, int]]:
    """All tuners of one seed, then of the next; who goes first changes with the seed."""
    for turn, seed in enumerate(seeds):
        first = turn % len(contenders)
        for contender in (*contenders[first:], *contenders[:first]):
            yield contender, seed


def _checked(tuner: Any) -> TunerLike:
    return tuner if isinstance(tuner, str | Spec) else check_factory(tuner)


def _label(task: SearchTask) -> str:
    args, kwargs = getattr(task, "args", ()), getattr(task, "kwargs", {})
    return call(task.name, kwargs, args) if args or kwargs else task.name
