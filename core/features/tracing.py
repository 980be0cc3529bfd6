"""The `cfg` of a traced run of a template: its numbers are traced."""

from __future__ import annotations

from collections.abc import Callable, Set
from functools import partial
from typing import Any

import numpy as np

from pegbox.features.graph import LISTED, NumberGraph
from pegbox.features.traced import TraceRecorder
from pegbox.space import Config, ConfigSpace
from pegbox.space.entities import Entity, OtherEntity, SplitEntity


class TracedNumbers:
    """The integers in the values of the knobs of a space, as nodes."""

    def __init__(self, space: ConfigSpace) -> None:
        self.graph = NumberGraph([len(knob) for knob in space.knobs.values()])
        self.nodes: dict[int, list[int]] = {}
        """The nodes by position of the knob; knobs with values other than integers, or with too many, are missing."""
        for position, knob in enumerate(space.knobs.values()):
            if len(knob) > LISTED:
                continue
            rows = [integers(entity) for entity in knob.entities]
            if len({None if row is None else len(row) for row in rows}) == 1 and rows[0] is not None:
                table = np.array(rows, dtype=np.float64).reshape(len(rows), -1)
                self.nodes[position] = [self.graph.table(position, column.copy()) for column in table.T]


def integers(entity: Entity) -> tuple[int, ...] | None:
    """List the integers of a value: itself, those in a flat list, or the extents of a split."""
    match entity:
        case SplitEntity(sizes):
            return sizes
        case OtherEntity(raw=raw):
            values = tuple(raw) if isinstance(raw, list | tuple) else (raw,)
            return values if all(type(value) is int for value in values) else None
        case _:
            return None


class TracedOption(OtherEntity):
    """A value whose text, used for comparisons, is a question about the knob."""

    __slots__ = ("_ask", "_text")
    _ask: Callable[[], None]
    _text: str

    def __init__(self, text: str, raw: Any, ask: Callable[[], None]) -> None:
        for name, value in {"_text": text, "raw": raw, "_ask": ask}.items():
            object.__setattr__(self, name, value)

    @property
    def key(self) -> str:
        self._ask()
        return self._text

    def __reduce__(self) -> tuple[Any, ...]:
        return OtherEntity, (self.key, self.raw)


class TracedConfig(Config):
    """A configuration of traced values; other values, and pinned knobs, become guards on the knob's digit."""

    __slots__ = ("_config", "_numbers", "_pinned", "_recorder")

    def __init__(
        self, config: Config, numbers: TracedNumbers, recorder: TraceRecorder, pinned: Set[int] = frozenset()
    ) -> None:
        self.space = config.space
        self._config = config
        self._numbers = numbers
        self._recorder = recorder
        self._pinned = pinned

    @property
    def digits(self) -> tuple[int, ...]:  # type: ignore[override]
        """The digits of all knobs; reading them, or the index, is a question about every knob."""
        for position in range(len(self._config.digits)):
            self._guard(position)
        return self._config.digits

    def __getitem__(self, name: str) -> Any:
        entity = self._config[name]
        position = self.space.positions[name]
        values = integers(entity)
        nodes = None if position in self._pinned else self._numbers.nodes.get(position)
        if nodes is None or values is None:
            self._guard(position)
            return entity
        traced = [self._recorder.number(node, value) for node, value in zip(nodes, values, strict=True)]
        if isinstance(entity, SplitEntity):
            return SplitEntity(tuple(traced))
        raw = type(entity.raw)(traced) if isinstance(entity.raw, list | tuple) else traced[0]
        return TracedOption(entity.key, raw, partial(self._guard, position))

    def _guard(self, position: int) -> None:
        self._recorder.guard(self._recorder.graph.digit(position), self._config.digits[position])

    def exists(self, name: str) -> bool:
        self._guard_parents(name)
        return self._config.exists(name)

    def __contains__(self, name: object) -> bool:
        return name in self._config

    def __str__(self) -> str:
        return str(self._config)  # used in messages, on which no program depends

    def _guard_parents(self, name: str) -> None:
        """Record a question about a knob's existence as one about its parents."""
        when = self.space.knobs[name].when
        for parent, _ in when.parents if when is not None else ():
            self._guard(self.space.positions[parent])
            self._guard_parents(parent)
