"""Refusals: reasons that a program cannot be changed as asked."""

from __future__ import annotations

from dataclasses import dataclass

from pegbox.expr.nodes import Var


@dataclass(frozen=True, slots=True)
class Refusal:
    """A reason, a remedy, and the loops and blocks concerned."""

    reason: str
    remedy: str
    place: tuple[Var | str, ...] = ()
