"""Configurations by AutoTVM's names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

import pegbox.space as pegbox_space
from pegbox.errors import SpaceError
from pegbox.plugins.tvm.autotvm.task.entities import KINDS, VirtualAxis
from pegbox.space import Config
from pegbox.task.apply import handle


class Configurable:
    """What spaces and configurations have alike: errors, FLOP, and `cfg.axis`."""

    is_fallback = False
    code_hash: str | None = None
    cost: float | None = None

    def __init__(self) -> None:
        self.errors: list[str] = []
        self.flop = 0.0

    @staticmethod
    def axis(var: Any) -> VirtualAxis:
        """An axis of that extent, or of the extent of that axis."""
        return VirtualAxis(var)

    reduce_axis = axis

    def add_flop(self, flop: float) -> None:
        """Count operations that the computation does not show."""
        self.flop += float(getattr(flop, "value", flop))

    def raise_error(self, msg: str) -> None:
        """Refuse this configuration: the trial fails as "invalid" when the template has ended."""
        self.errors.append(msg)

    def valid(self) -> bool:
        """Whether nothing refused it while the template ran."""
        return not self.errors


class ConfigEntity(Configurable):
    """A configuration: an entity for each knob. `config` is the one of pegbox, where its space is known."""

    def __init__(
        self,
        index: int,
        code_hash: str | None,
        entity_map: Mapping[str, Any],
        constraints: Sequence[Any] = (),
        *,
        config: Config | None = None,
    ) -> None:
        super().__init__()
        self._index = index
        self.code_hash = code_hash
        self._entities = dict(entity_map)
        self.config = config

    @classmethod
    def of(cls, config: Config) -> ConfigEntity:
        """A configuration of pegbox."""
        return cls(-1, None, {}, config=config)

    @property
    def index(self) -> int:
        """Its number in the space."""
        return self._index if self.config is None else self.config.index

    def __getitem__(self, name: str) -> Any:
        """The entity of a knob, which can be applied to a schedule."""
        if self.config is not None and name not in self._entities:
            return handle(self.config[name])
        if name not in self._entities:
            raise SpaceError(f"no knob {name!r} in this configuration: it has {', '.join(self._entities) or 'none'}")
        return self._entities[name]

    def __setitem__(self, name: str, entity: Any) -> None:
        """Take this entity instead, in templates that run with this object."""
        self._entities[name] = entity

    def __iter__(self) -> Iterator[str]:
        return iter(dict(self._items()))

    def _items(self) -> Iterator[tuple[str, Any]]:
        if self.config is not None:
            yield from ((name, self._entities.get(name, entity)) for name, entity in self.config.items())
        else:
            yield from self._entities.items()

    def define_split(self, name: str, *_: Any, **__: Any) -> list[str]:
        """Declared already; names for the loops."""
        return [f"{name}.{place}" for place in range(len(self[name].size))]

    def define_reorder(self, name: str, axes: Sequence[Any], *_: Any, **__: Any) -> list[str]:
        """Declared already; names for the loops."""
        return [f"{name}.{place}" for place in range(len(axes))]

    define_annotate = define_reorder

    def define_knob(self, name: str, *_: Any, **__: Any) -> list[str]:
        """Declared already."""
        return []

    def multi_filter(self, filter: Callable[[Any], bool]) -> None:
        """Declared already."""

    def to_json_dict(self) -> dict[str, Any]:
        """As it stands in a log: index, code hash, and name, kind and value of each entity."""
        entity = [(name, entity.tag, entity.value()) for name, entity in self._items()]
        return {"index": int(self.index), "code_hash": self.code_hash, "entity": entity}

    @staticmethod
    def from_json_dict(json_dict: Mapping[str, Any]) -> ConfigEntity:
        """What `to_json_dict` wrote."""
        entities = {str(name): KINDS[kind](value) for name, kind, value in json_dict["entity"]}
        return ConfigEntity(json_dict["index"], json_dict.get("code_hash"), entities)

    def in_space(self, space: pegbox_space.ConfigSpace) -> Config:
        """The same in a task's space. Raises `SpaceError` where it does not belong there."""
        if self.config is not None and not self._entities and self.config.space is space:
            return self.config
        form = self.to_json_dict()
        return space.from_json({"index": form["index"], "entity": [list(entity) for entity in form["entity"]]})

    def get_flatten_feature(self) -> np.ndarray[Any, Any]:
        """The values as numbers in a row, as pegbox encodes them for cost models."""
        if self.config is None:
            raise SpaceError("get_flatten_feature: this configuration was read without its task; take it from a task")
        encoded = self.config.space.encode(np.array([self.config.digits], dtype=np.int64))
        return np.asarray(encoded[0])

    def get_other_option(self) -> dict[str, Any]:
        """The values of `define_knob`, by name."""
        return {name: entity.val for name, entity in self._items() if entity.tag == "ot"}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ConfigEntity) and self.to_json_dict() == other.to_json_dict()

    def __hash__(self) -> int:
        return hash(str(self))

    def __repr__(self) -> str:
        shown = ", ".join(f"({name!r}, {entity})" for name, entity in self._items())
        return f"[{shown}],{self.code_hash},{self.index}"
