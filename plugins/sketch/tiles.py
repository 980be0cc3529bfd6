"""Tiled stages of a sketch, and places that knobs choose."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Tiles:
    """A tiled stage.

    Attributes:
        structure: one letter per level, S for spatial loops and R for reduce ones.
        levels: the loops of each level, outermost first.
        knobs: the splits of its spatial axes, in order.
        sums: the splits of its reduce axes.
        like: the stage whose knobs these are; "" if they are its own.
    """

    stage: str
    structure: str
    levels: list[list[str]]
    knobs: tuple[str, ...]
    sums: tuple[str, ...] = ()
    like: str = ""

    @property
    def dot(self) -> bool:
        """True if a reduce axis runs along the vectors, not the last spatial one."""
        return self.structure.endswith("R")

    @property
    def register_tile(self) -> tuple[list[str], tuple[str, ...]]:
        """The innermost loops, which are unrolled, the last one along the vectors; and the splits of these loops."""
        if self.dot:
            return [*self.levels[-2], *self.levels[-1]], (*self.knobs, *self.sums)
        return self.levels[-1], self.knobs


@dataclass(frozen=True)
class PlaceKnob:
    """A knob that chooses the loop of its consumer in which a stage is computed.

    Attributes:
        values: the knob's values for the loops; empty if they are the loops themselves.
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
