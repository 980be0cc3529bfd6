"""The axes of a computation: variables that run over ranges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from pegbox.expr.build import index
from pegbox.expr.nodes import Expr, Var

AxisKind: TypeAlias = Literal["spatial", "reduce", "thread"]


class SizeVar(Var):
    """A size that is known only at a call: an extent, or a part of one (see `pegbox.compute.sizes`)."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Range:
    """The integers from `min` to `min + extent - 1`.

    In a computation with size variables `extent` may be an expression of them.
    """

    min: int
    extent: int


class IterVar(Var):
    """A variable that runs over a range; `kind` is "spatial" (an axis of the output) or "reduce"."""

    __slots__ = ("dom", "kind")

    def __init__(self, name: str, dom: Range, kind: AxisKind) -> None:
        super().__init__(name)
        self.dom = dom
        self.kind = kind

    @property
    def extent(self) -> int:
        return self.dom.extent

    @property
    def size(self) -> Expr:
        """The extent as an expression."""
        return self.extent if isinstance(self.extent, Expr) else index(self.extent)

    @property
    def var(self) -> Var:
        """The variable itself, under its name in TVM."""
        return self
