"""Checks of a tuner's proposals, with errors that name the tuner.

The mistakes of tuners, and their effects:

- a configuration twice, in one answer or over several: it is measured once, and counted in `dropped`;
- more than requested: the first ones count, the others are counted in `dropped`;
- fewer than requested: they are measured;
- nothing, although the space has more: the search ends with a warning;
- only known ones, several times in a row: `SearchFailure`;
- anything but a configuration of the space, or an exception: `SearchFailure`.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from pegbox.errors import SpaceError
from pegbox.measure.result import Result
from pegbox.origin import explained, origin_of, users_level
from pegbox.search.models.report import ModelReport
from pegbox.search.protocols import CHOOSING, SelfReporting, Tuner
from pegbox.space import Config, ConfigSpace
from pegbox.space.entities import THREADS
from pegbox.task.group import TaskGroup

MAX_STALE_ASKS = 8
"""The number of asks in a row without anything new after which a tuner counts as broken rather than unlucky."""

REPEATED = "repeated"
SURPLUS = "more than requested"


class SearchFailure(Exception):
    """A failure of the tuner or the measurer. Its cause is the original error, if any."""


class Proposer:
    """A tuner with checks that its proposals are valid and new.

    Args:
        name: the name of the tuner in messages.
        space: the space of all configurations, or the group with all spaces; None skips the check.
        searched: the part of the space that the tuner got, if it is smaller.
        first: configurations that precede those of the tuner.
        earlier: the number of configurations that the tuner knows from earlier searches.
    """

    def __init__(
        self,
        tuner: Tuner,
        name: str,
        *,
        space: ConfigSpace | TaskGroup | None = None,
        searched: ConfigSpace | None = None,
        first: Sequence[Config] = (),
        earlier: int = 0,
    ) -> None:
        self._tuner = tuner
        self._earlier = earlier
        self._name = name
        self._space = space
        self._searched = searched or (None if isinstance(space, TaskGroup) else space)
        self._known: dict[Config, Result] = {}
        self._pending: set[Config] = set()
        self._first = frozenset(first)
        self._waiting = list(dict.fromkeys(first))
        self.asks_ahead = bool(getattr(tuner, "asks_ahead", False))
        """True if the tuner may be asked while configurations are measured."""
        self.dropped: Counter[str] = Counter()
        """The number of dropped proposals by reason: `REPEATED`, `SURPLUS`."""

    def ask(self, n: int) -> list[Config]:
        """Propose at most `n` new configurations; none if the tuner proposes none."""
        waiting = [config for config in self._waiting if config not in self._known]
        first, self._waiting = waiting[:n], waiting[n:]
        self._pending.update(first)
        return first if len(first) == n else [*first, *self._of_tuner(n - len(first))]

    def _of_tuner(self, n: int) -> list[Config]:
        for _ in range(MAX_STALE_ASKS):
            proposed = self._ask(n)
            if not proposed:
                seen = self._earlier + len(self._known) + len(self._pending)
                if self._searched is not None and _has_more(self._searched, seen):
                    message = f"proposed nothing after {seen:,} configurations, although the space has more"
                    warnings.warn(f"tuner {self._name!r} {message}", RuntimeWarning, stacklevel=users_level())
                return []
            if fresh := self._fresh(proposed, n):
                self._pending.update(fresh)
                return fresh
            # Tell the tuner the known results again, so that it can move on.
            again = [config for config in dict.fromkeys(proposed) if config in self._known]
            self.tell(again, [self._known[config] for config in again])
        raise SearchFailure(
            f"tuner {self._name!r} proposed only configurations that are already measured or requested, "
            f"{MAX_STALE_ASKS} times in a row (the last: {proposed[0]}); return [] when there is nothing new"
        )

    def tell(self, configs: Sequence[Config], results: Sequence[Result]) -> None:
        """Report results to the tuner; the latest one of a configuration counts."""
        self._known.update(zip(configs, results, strict=True))
        self._pending.difference_update(configs)
        with self._named("tell()"):
            self._tuner.tell(configs, results)

    def knows(self, config: Config) -> bool:
        """Return whether the configuration's result was reported to the tuner."""
        return config in self._known

    @property
    def activity(self) -> str:
        """The tuner's activity while it is asked, in words."""
        with self._named("activity"):
            return str(getattr(self._tuner, "activity", CHOOSING))

    def wait(self) -> None:
        """Wait until the tuner does nothing in the background."""
        if (wait := getattr(self._tuner, "wait", None)) is not None:
            with self._named("wait()"):
                wait()

    def model_report(self) -> ModelReport | None:
        """Get the tuner's report on its model, if it has one."""
        if not isinstance(self._tuner, SelfReporting):
            return None
        with self._named("model_report()"):
            report = self._tuner.model_report()
        if report is None or isinstance(report, ModelReport):
            return report
        raise SearchFailure(f"tuner {self._name!r} gave {report!r} for model_report(); return a ModelReport or None")

    def _ask(self, n: int) -> list[Config]:
        with self._named(f"ask({n})"):
            answer = self._tuner.ask(n)
            proposed = list(answer) if isinstance(answer, Iterable) else None
        if proposed is None:
            raise SearchFailure(
                f"tuner {self._name!r} gave {answer!r} for ask({n}); return a list of configurations, or [] when "
                "there is nothing new"
            )
        if (fault := first_fault(proposed, self._space)) is not None:
            raise SearchFailure(f"tuner {self._name!r} proposed {fault[1]}")
        return proposed

    @contextmanager
    def _named(self, method: str) -> Iterator[None]:
        """Turn errors of the body into a `SearchFailure` that names the tuner and the method."""
        try:
            yield
        except Exception as error:
            where = origin_of(error)
            message = f"tuner {self._name!r} raised {explained(error, f'in {method}')}"
            raise SearchFailure(f"{where}: {message}" if where else message) from error

    def _fresh(self, proposed: Sequence[Config], n: int) -> list[Config]:
        distinct = dict.fromkeys(proposed)
        fresh = [config for config in distinct if config not in self._known and config not in self._pending]
        own = self._first.intersection(distinct).difference(fresh)  # the tuner could not know these
        self.dropped += Counter({REPEATED: len(proposed) - len(fresh) - len(own), SURPLUS: max(0, len(fresh) - n)})
        taken = fresh[:n]
        if taken and THREADS in taken[0].space.knobs:  # for so little work, one thread may be the fastest
            place = list(taken[0].space.knobs).index(THREADS)
            taken.sort(key=lambda config: config.digits[place])
        return taken


def first_fault(configs: Sequence[object], space: ConfigSpace | TaskGroup | None) -> tuple[int, str] | None:
    """Find the place of the first invalid configuration, and its fault; None if all are valid.

    In a group, each must belong to the space of an implementation.
    """
    listed: list[Config] = []
    for place, config in enumerate(configs):
        if not isinstance(config, Config):
            return place, f"{config!r}, which is not a Config; take them from space.config(digits) or space.get(index)"
        listed.append(config)
    if isinstance(space, TaskGroup):
        owners = {task.space.fingerprint: task.space for task in space.tasks.values()}
        other = space.first.space  # its message names the space that the configuration belongs to
        faults = [first_fault([config], owners.get(config.space.fingerprint, other)) for config in listed]
        return next(((place, fault[1]) for place, fault in enumerate(faults) if fault is not None), None)
    if space is None or not listed:
        return None
    for place, config in enumerate(listed):
        if config.space is not space and config.space.fingerprint != space.fingerprint:
            return place, f"a configuration of another space: {_shown(config)}"
        if len(config.digits) != len(space.knobs):
            return place, f"a configuration with {len(config.digits)} digits for {len(space.knobs)} knobs"
    rows = np.array([config.digits for config in listed], dtype=np.int64).reshape(len(listed), -1)
    good = space.is_valid(rows)
    good[good] = (space.canonical(rows[good]) == rows[good]).all(axis=1)
    if good.all():
        return None
    place = int(np.flatnonzero(~good)[0])
    return place, f"a configuration that the space excludes: {_shown(listed[place])}{_why(listed[place], space)}"


def _has_more(space: ConfigSpace, seen: int) -> bool:
    """Decide if the space has more than `seen` valid configurations, by drawing a sample of that size."""
    try:
        return len(space.sample(seen + 1, np.random.default_rng(0))) > seen
    except SpaceError:  # the space has no valid configuration
        return False


def _shown(config: Config) -> str:
    try:
        return str(config)
    except Exception:  # digits outside the knobs, which a space never makes
        return f"digits {config.digits}"


def _why(config: Config, space: ConfigSpace) -> str:
    try:
        broken = space.violated(config)
    except Exception:
        return " (outside its knobs)"
    return f" ({'; '.join(broken)})" if broken else " (knobs that do not exist in it must have digit 0)"
