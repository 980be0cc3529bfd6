"""Tiled stages of a sketch, and places that knobs choose."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Tiles:
    """A tiled stage.

    Attributes:
        structure: a letter a level, S for spatial loops and R for reduce ones.
        levels: the loops of each level, outermost first.
        knobs: the splits of its spatial axes, in their order.
        sums: those of its reduce axes that are split.
        like: the stage whose knobs these are; "" where they are its own.
    """

    stage: str
    structure: str
    levels: list[list[str]]
    knobs: tuple[str, ...]
    sums: tuple[str, ...] = ()
    like: str = ""

    @property
    def dot(self) -> bool:
        """Does a reduce axis run along the vectors, not the last spatial one?"""
        return self.structure.endswith("R")

    @property
    def register_tile(self) -> tuple[list[str], tuple[str, ...]]:
        """The innermost loops, which are written out, the last one along the vectors; and the splits of these loops."""
        if self.dot:
            return [*self.levels[-2], *self.levels[-1]], (*self.knobs, *self.sums)
        return self.levels[-1], self.knobs


@dataclass(frozen=True)
class PlaceKnob:
    """A knob that says in which loop of its consumer a stage is computed.

    Attributes:
        values: those of the knob for the loops; empty: the loops themselves.
    """

    knob: str
    stage: str
    consumer: str
    loops: tuple[str, ...]
    values: tuple[str, ...] = ()

    @property
    def choices(self) -> list[tuple[str, str]]:
        """The values of the knob, each with its loop."""
        return list(zip(self.values or self.loops, self.loops, strict=True))
