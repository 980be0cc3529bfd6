"""The space of configurations known only by their JSON form: it has the values that occur in them, and no others.

Records of a function (`pegbox.minimize`) hold configurations, but not the space, which the user's program declares.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from pegbox.errors import SpaceError
from pegbox.space.config import Config
from pegbox.space.entities import AnnotateEntity, Entity, OtherEntity, ReorderEntity, SplitEntity
from pegbox.space.knob import Floats, ListedKnob, one_hot, preview
from pegbox.space.option import value_key
from pegbox.space.space import ConfigSpace


@dataclass(frozen=True, eq=False)
class SeenKnob(ListedKnob):
    """A knob of any kind with the values that occur, in their order."""

    kind: ClassVar[str] = "seen"
    tag: ClassVar[str] = ""

    def content(self) -> list[Any]:
        return [entity.value() for entity in self.entities]

    def features(self) -> tuple[list[str], Floats]:
        return [f"{self.name}={entity}" for entity in self.entities], one_hot(range(len(self)), len(self))

    def coordinates(self) -> Floats | None:
        return None

    def lookup_key(self, value: Any) -> object:
        return value_key(value)

    def detail(self) -> str:
        return preview(self.entities)


class SeenConfig(Config):
    """A configuration with the index that it has in the whole space, and the names of the knobs that exist in it."""

    __slots__ = ("_index", "names")

    def __init__(self, space: ConfigSpace, digits: tuple[int, ...], index: int, names: frozenset[str]) -> None:
        super().__init__(space, digits)
        self._index = index
        self.names = names

    @property
    def index(self) -> int:
        return self._index


class SeenSpace(ConfigSpace):
    """The knobs of configurations as `Config.to_json` writes them, and these configurations, as `configs`.

    Raises:
        SpaceError: a configuration has a knob of an unknown kind.
    """

    def __init__(self, forms: Sequence[Mapping[str, Any]]) -> None:
        super().__init__()
        chosen = [{name: _entity(name, tag, value) for name, tag, value in form.get("entity", ())} for form in forms]
        order: list[str] = []
        for each in chosen:
            place = 0
            for name in each:
                if name not in order:  # a knob that only some configurations have follows its predecessor there
                    order.insert(place, name)
                place = order.index(name) + 1
        for name in order:
            self._add(SeenKnob(name, tuple(dict.fromkeys(each[name] for each in chosen if name in each))))
        digits = {name: {value: at for at, value in enumerate(knob.entities)} for name, knob in self.knobs.items()}
        self.configs: list[Config] = []
        for form, each in zip(forms, chosen, strict=True):
            row = tuple(places[each[name]] if name in each else 0 for name, places in digits.items())
            self.configs.append(SeenConfig(self, row, form.get("index", 0), frozenset(each)))

    def exists(self, config: Config, name: str) -> bool:
        return super().exists(config, name) and (not isinstance(config, SeenConfig) or name in config.names)


def _entity(name: str, tag: str, value: Any) -> Entity:
    for kind in (SplitEntity, ReorderEntity, AnnotateEntity):
        if tag == kind.tag:
            return kind(tuple(value))
    if tag == OtherEntity.tag:
        return OtherEntity(value_key(value), value)
    raise SpaceError(f"knob {name!r} is of the kind {tag!r}, which this version of pegbox does not know; update pegbox")
