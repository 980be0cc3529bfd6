"""`VariantChoice`: the choice of a model's variant by records of whole models' seconds."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, cast

from pegbox.codegen.targets.target import Target
from pegbox.digest import sha256
from pegbox.graph.graph import Graph
from pegbox.measure.result import Ok
from pegbox.model.model_task import task_keys
from pegbox.records.history import best, latest
from pegbox.records.record import VARIANT, Record
from pegbox.space import ConfigSpace

if TYPE_CHECKING:
    from pegbox.task.task import Task

_KNOB = "variant"


@dataclass(frozen=True, eq=False)
class VariantChoice:
    """The variants of a model. For records and the store, it is a task with the variants as configurations.

    Models with equal tasks share their records, regardless of their names.

    Attributes:
        model: the name of the model.
        variants: the graphs by their names.
        target: the processor.
        records: the seconds of modules of variants, oldest first.
    """

    model: str
    variants: Mapping[str, Graph]
    target: Target
    records: list[Record] = field(default_factory=list)
    name: ClassVar[str] = VARIANT
    kwargs: ClassVar[Mapping[str, Any]] = {}
    code: ClassVar[str] = ""

    @property
    def args(self) -> tuple[str]:
        """The name of the model, for people."""
        return (self.model,)

    @cached_property
    def workload(self) -> tuple[str, dict[str, Any]]:
        """The key of the records."""
        counts = {name: sorted(task_keys(graph).items()) for name, graph in self.variants.items()}
        return self.name, {"tasks": sha256(str(counts).encode()).hexdigest()[:16]}

    @cached_property
    def space(self) -> ConfigSpace:
        """The space of one knob, the name of the variant."""
        space = ConfigSpace()
        space.define_knob(_KNOB, list(self.variants))
        return space

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the space."""
        return self.space.fingerprint

    @property
    def as_task(self) -> Task:
        """The choice in place of a task."""
        return cast("Task", self)

    def graph(self, number: int) -> Graph:
        """Return the graph of a variant by its number."""
        return list(self.variants.values())[number]

    @property
    def number(self) -> int | None:
        """The number of the fastest variant; None if none was timed."""
        found = best(self.records)
        return None if found is None else self.space.from_json(found.choices).index

    @property
    def seconds(self) -> dict[str, float]:
        """The latest seconds of each timed variant by its name."""
        found = {self.space.from_json(each.choices).index: each.cost for each in latest(self.records)}
        return {name: found[number] for number, name in enumerate(self.variants) if number in found}

    def add(self, seconds: Mapping[int, float], winner: int) -> list[Record]:
        """Add records of variants that ran in turns, the winner's last, and return them.

        Args:
            seconds: the seconds of a call of each variant, by its number.
            winner: the variant that won. Records before its own lose.
        """
        now, task = time.time(), self.as_task
        made = [
            Record.of(task, self.space.get(number), Ok((cost,), 0.0, now), remeasured=True)
            for number, cost in seconds.items()
            if number != winner
        ]
        later = math.nextafter(now, math.inf)  # all that precedes a winner's record loses to it, regardless of seconds
        result = Ok((seconds[winner],), 0.0, later)
        made.append(Record.of(task, self.space.get(winner), result, remeasured=True, in_model=True))
        self.records.extend(made)
        return made
