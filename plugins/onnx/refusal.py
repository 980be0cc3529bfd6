"""`Refusal`, a part of a model that cannot be read, and the error that lists all of a model's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pegbox.errors import GraphError

_SHOWN = 10


@dataclass(frozen=True)
class Refusal:
    """A part of a model that cannot be read.

    Attributes:
        what: the node or the value, as in "Loop 'loop_1'" or "input 'x'".
        reason, remedy: texts.
        inputs: the inputs of the model whose values would have to be known.
    """

    what: str
    reason: str
    remedy: str = ""
    inputs: tuple[str, ...] = ()

    @property
    def why(self) -> str:
        return f"{self.reason}; {self.remedy}" if self.remedy else self.reason


class RefusedModel(GraphError):
    """A model cannot be read; `refusals` has every reason, the message the first ten."""

    def __init__(self, model: str, refusals: Sequence[Refusal]) -> None:
        super().__init__(_message(model, refusals))
        self.refusals = tuple(refusals)


class DataDependent(RefusedModel):
    """A model cannot be read without the values of some inputs, because they decide shapes."""

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of these inputs."""
        return tuple(dict.fromkeys(name for each in self.refusals for name in each.inputs))


def refused(model: str, refusals: Sequence[Refusal]) -> RefusedModel:
    """Make the error for a model that cannot be read."""
    kind = DataDependent if all(each.inputs for each in refusals) else RefusedModel
    return kind(model, refusals)


def _message(model: str, refusals: Sequence[Refusal]) -> str:
    groups: dict[str, list[Refusal]] = {}
    for each in refusals:
        groups.setdefault(each.why, []).append(each)
    lines = []
    for why, members in list(groups.items())[:_SHOWN]:
        others = f" and {len(members) - 1} more" if len(members) > 1 else ""
        lines.append(f"{members[0].what}{others}: {why}")
    if len(lines) == 1:
        return f"{model} cannot be read: {lines[0]}"
    rest = [f"and {len(groups) - _SHOWN} other reasons"] if len(groups) > _SHOWN else []
    return "\n    ".join([f"{model} cannot be read, for {len(groups)} reasons:", *lines, *rest])
