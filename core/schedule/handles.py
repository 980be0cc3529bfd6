"""What users hold of a program: loops by their variable, blocks by their name."""

from __future__ import annotations

from dataclasses import dataclass

from pegbox.expr.nodes import Var


@dataclass(frozen=True, slots=True)
class LoopRef:
    """A loop of one program. It stays good until a primitive replaces the loop (split, fuse, compute_at ...)."""

    var: Var

    @property
    def name(self) -> str:
        return self.var.name

    def __repr__(self) -> str:
        return f"LoopRef({self.var.name})"


@dataclass(frozen=True, slots=True)
class BlockRef:
    """A block of any program that has one of this name."""

    name: str
