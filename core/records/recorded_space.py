"""A space that has been measured: a task's configurations with the cost of each.

Tuners search `space`, which holds the recorded configurations and no others. Answers come from `results`, one for each
configuration; see `pegbox.records.simulation`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from pegbox.checks import check_float, check_instance, check_list, check_text
from pegbox.errors import RecordError
from pegbox.measure.result import Failed, Ok, Result
from pegbox.shown import value_text
from pegbox.space import Config, ConfigSpace, ListedSpace
from pegbox.task.speed_text import format_speed

if TYPE_CHECKING:
    from pegbox.records.record import Record
    from pegbox.task.task import Task

COMPILING = frozenset({"lower", "build", "compile"})
"""The phases of a trial that make the candidate; all others run it."""

_MOST_POINTS = 100_000
"""The valid configurations of a space are counted only if it has at most this many points for each recorded one.

Counting those of a large space with constraints takes minutes, and only a part of it was recorded.
"""


@dataclasses.dataclass(eq=False, repr=False)
class RecordedSpace:
    """A space of configurations with their results, which searches and comparisons take in place of a task.

    Attributes:
        name: its name in tables.
        space: the space of the configurations. Tuners search it: it becomes the list of the recorded ones unless every
            valid configuration is recorded.
        results: the result of each.
        flop: floating-point operations of one call, 0 if unknown.
        task: the task that was measured; None if it has no template (results of other tools).
        source, host, target: the file, and the machine and target of the measurements, for people.
        whole: the whole space, of which the recorded configurations are a part.
        best_cost: seconds of the fastest configuration.

    Raises:
        RecordError: no configuration ran.
    """

    name: str
    space: ConfigSpace
    results: Mapping[Config, Result]
    _: dataclasses.KW_ONLY
    flop: float = 0.0
    task: Task | None = None
    source: str = ""
    host: str = ""
    target: str = ""
    full_space: ConfigSpace = dataclasses.field(init=False)
    best_cost: float = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        for what in ("name", "source", "host", "target"):
            check_text(f"recorded space: {what}", getattr(self, what), error=RecordError)
        name, space, results = self.name, self.space, self.results
        wanted = "a pegbox.ConfigSpace, whose configurations the results are of"
        check_instance(f"recorded space {value_text(name)}: space", space, ConfigSpace, wanted, error=RecordError)
        wanted = "results by configuration, as in {config: Ok((1e-3,))}"
        if not isinstance(results, Mapping):
            raise RecordError(
                f"recorded space {value_text(name)}: results={value_text(results)} is not a mapping; give {wanted}"
            )
        check_list(f"recorded space {name!r}: results", results, wanted, error=RecordError, of=Config)
        check_list(f"recorded space {name!r}: results", results.values(), wanted, error=RecordError, of=(Ok, Failed))
        self.full_space, self.results = space, dict(results)
        self.best_cost = min((result.cost for result in self.results.values()), default=math.inf)
        if not math.isfinite(self.best_cost):
            failed = next((each for each in self.results.values() if isinstance(each, Failed)), None)
            raise RecordError(
                f"{self.source or name}: none of its {len(results):,} configurations ran, so that there is nothing to "
                f"search{f'; the first failed with {failed.kind}: {failed.message}' if failed else ''}"
            )
        rows = np.array([config.digits for config in self.results], dtype=np.int64)
        countable = space.size <= len(rows) * _MOST_POINTS
        complete = countable and space.num_valid() == len(rows) and space.is_valid(rows).all()
        self.space = space if complete else ListedSpace(space, rows)

    @property
    def workload(self) -> tuple[Any, ...] | None:
        """The workload of the task, None without one."""
        return None if self.task is None else self.task.workload

    @property
    def bytes_moved(self) -> float:
        """The least number of bytes that one call moves, 0 without a task."""
        return 0.0 if self.task is None else self.task.bytes_moved

    @property
    def num_ok(self) -> int:
        """The number of configurations that ran."""
        return sum(result.ok for result in self.results.values())

    def share_within(self, share: float) -> float:
        """Compute the share of the recorded configurations that reach at least `share` of the best one's speed."""
        bound = self.best_cost / check_float("share", share, minimum=1e-9, maximum=1)
        return sum(result.cost <= bound for result in self.results.values()) / len(self.results)

    def __len__(self) -> int:
        return len(self.results)

    def __str__(self) -> str:
        speed = format_speed(self.best_cost, flop=self.flop, bytes_moved=self.bytes_moved)
        best = speed or f"{self.best_cost:.4g} s"
        where = f", measured on {self.host}" if self.host else ""
        return f"{self.name}: {len(self):,} configurations, {self.num_ok:,} of them ran, the best at {best}{where}"

    def __repr__(self) -> str:
        return f"<RecordedSpace {self}>"


def seconds_of(result: Result) -> tuple[float, float]:
    """Compute the seconds that a trial took to compile and to run."""
    compiling = sum(seconds for phase, seconds in result.phases.items() if phase in COMPILING)
    total = result.total_seconds or sum(result.phases.values())
    return compiling, max(0.0, total - compiling)


def latest_results(records: Iterable[Record], keys: Iterable[bytes]) -> dict[bytes, Result]:
    """Find the latest result of each key, in the order of first appearance.

    A remeasured one has the costs of the remeasurement, but the trial's seconds, since a search compiles and runs a
    configuration once.
    """
    found: dict[bytes, Result] = {}
    trials: dict[bytes, Result] = {}
    for record, key in zip(records, keys, strict=True):
        result = record.result
        if not record.remeasured:
            trials[key] = result
        elif key in trials:
            trial = trials[key]
            result = dataclasses.replace(result, total_seconds=trial.total_seconds, phases=trial.phases)
        found[key] = result
    return found
