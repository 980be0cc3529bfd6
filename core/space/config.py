"""`Config`: one point of a space, as a vector of digits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pegbox.checks import near_names
from pegbox.errors import SpaceError
from pegbox.shown import value_text
from pegbox.space.digits import index_of
from pegbox.space.entities import Entity

if TYPE_CHECKING:
    from pegbox.space.space import ConfigSpace


def not_a_config(value: object, wanted: str) -> SpaceError:
    """Return the error for a `value` that is not a configuration; `wanted` ends the message: "give <wanted>"."""
    if hasattr(value, "best") and value.best is None:
        return SpaceError(f"{value!r} found no configuration that runs; give {wanted}")
    written = "; space.from_json makes one of what config.to_json() writes: {'entity': [[name, kind, value], ...]}"
    remedy = written if isinstance(value, Mapping) else ""
    return SpaceError(f"{value_text(value)} is not a configuration; give {wanted}{remedy}")


class Config:
    """One choice per knob. A space makes it (`space.get`, `space.config`, `space.from_json`), always canonical.

    Two configs are equal when their digits and the fingerprints of their spaces are.
    """

    __slots__ = ("digits", "space")

    def __init__(self, space: ConfigSpace, digits: tuple[int, ...]) -> None:
        self.space = space
        self.digits = digits

    @property
    def index(self) -> int:
        """Number of this config in its space, a Python int of any size."""
        lengths = [len(knob) for knob in self.space.knobs.values()]
        # Knobs that were declared after this config was made have no digit here.
        return index_of(self.digits, lengths[: len(self.digits)])

    def __getitem__(self, name: str) -> Any:
        """Return the entity chosen for a knob; its type depends on the knob: `.size`, `.val`, `.perm` or `.anns`.

        A knob that does not exist in this config (its condition does not hold) gives its first entity.

        Raises:
            SpaceError: the space has no such knob.
        """
        position = self.space.positions.get(name) if isinstance(name, str) else None
        if position is None or position >= len(self.digits):
            raise SpaceError(f"no knob {value_text(name)} in this config{near_names(name, self.space.knobs)}")
        return self.space.knobs[name].entities[self.digits[position]]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.space.positions.get(name, len(self.digits)) < len(self.digits)

    def exists(self, name: str) -> bool:
        """Decide if the knob's condition holds here; a knob without a condition always exists."""
        if name not in self:
            raise SpaceError(f"no knob {value_text(name)} in this config{near_names(name, self.space.knobs)}")
        return self.space.exists(self, name)

    def items(self) -> Iterator[tuple[str, Entity]]:
        """List the name and entity of every knob that exists in this config, in declaration order."""
        for name in self.space.knobs:
            if name in self and self.exists(name):
                yield name, self[name]

    def to_json(self) -> dict[str, Any]:
        """Return `{"index": ..., "entity": [[name, "sp" | "ot" | "re" | "an", value], ...]}`, as in AutoTVM.

        Knobs that do not exist in this config are left out.
        """
        return {"index": self.index, "entity": [[name, entity.tag, entity.value()] for name, entity in self.items()]}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Config):
            return NotImplemented
        same_space = self.space is other.space or self.space.fingerprint == other.space.fingerprint
        return same_space and self.digits == other.digits

    def __hash__(self) -> int:
        return hash(self.digits)

    def __str__(self) -> str:
        return f"#{self.index} " + ", ".join(f"{name}={entity}" for name, entity in self.items())

    def __repr__(self) -> str:
        return f"<Config {self}>"
