"""Limits of sketches: conditions on the values of several knobs, which rule out slow or huge programs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from pegbox.expr import quoted
from pegbox.loops import literal
from pegbox.plugins.sketch.steps import SketchKnob

WRITTEN_OUT = "_written_out"
"""The default name of the function in the code of `Limit.text`."""


@dataclass(frozen=True)
class TileLimit:
    """A limit of a register tile: enough vectors of accumulators to hide the latency of additions, but few enough to
    fit the registers together with a row of vectors and one more value.

    Attributes:
        knobs: the splits of its axes, the one along the vectors last.
        lanes: the elements in a vector.
        least: the smallest number of vectors of accumulators.
        registers: the target's number of registers.
        message: the reason for refusing a configuration.
    """

    knobs: tuple[str, ...]
    lanes: int
    least: int
    registers: int
    message: str

    def renamed(self, names: Mapping[str, str]) -> TileLimit:
        """Return the same limit for knobs with other names."""
        return replace(self, knobs=tuple(names[knob] for knob in self.knobs))

    def holds(self, config: Any) -> bool:
        """Decide if the values of a configuration satisfy it."""
        *others, last = (config[knob].size[-1] for knob in self.knobs)
        rows, vectors = math.prod(others), vectors_of(last, self.lanes)
        return bool(self.least <= rows * vectors and (rows + 1) * vectors < self.registers)

    def text(self, function: str = WRITTEN_OUT) -> str:
        """Write the condition on a configuration `c` as Python."""
        *others, last = (f"c[{quoted(knob)}].size[-1]" for knob in self.knobs)
        rows, vectors = " * ".join(others) or "1", f"({last} // {self.lanes} + ({last} % {self.lanes}).bit_count())"
        least = f"{self.least} <= {rows} * {vectors} and " if self.least > 1 else ""
        return f"{least}({rows} + 1) * {vectors} < {self.registers}"


@dataclass(frozen=True)
class Extent:
    """The iterations of a loop, a level of a split.

    Attributes:
        lanes: the number of iterations in one step, as lanes of vectors.
        most: the length beyond which a loop is not unrolled, and adds nothing to a body.
    """

    knob: str
    level: int
    lanes: int = 1
    most: int | None = None

    def value(self, config: Any) -> int:
        size = config[self.knob].size[self.level]
        return 0 if self.most is not None and size > self.most else -(-size // self.lanes)

    def text(self) -> str:
        """Return the same as Python, of a configuration `c`."""
        size = f"c[{quoted(self.knob)}].size[{self.level}]"
        steps = size if self.lanes == 1 else f"-(-{size} // {self.lanes})"
        return steps if self.most is None else f"({steps} if {size} <= {self.most} else 0)"


@dataclass(frozen=True)
class BodyLimit:
    """A limit of the instructions in the innermost unrolled body of a stage.

    Attributes:
        unroll: the knob with the largest number of unrolled steps.
        tile: the loops that are always unrolled, and the lanes.
        loops: those around them, from the inside out.
        cost: the instructions of one step.
        most: the largest number of instructions of the body.
        message: the reason for refusing a configuration.
    """

    unroll: str
    tile: tuple[Extent | int, ...]
    loops: tuple[Extent | int, ...]
    cost: int
    most: int
    message: str

    @property
    def knobs(self) -> tuple[str, ...]:
        """The knobs on which it depends."""
        sizes = (loop.knob for loop in (*self.tile, *self.loops) if isinstance(loop, Extent))
        return tuple(dict.fromkeys([self.unroll, *sizes]))

    def may_fail(self, knobs: Mapping[str, SketchKnob]) -> bool:
        """Decide if a configuration may break it, by the extents of these knobs."""
        tile, loops = _bound(self.tile, knobs), _bound((*self.tile, *self.loops), knobs)
        unroll: int = max(knobs[self.unroll].candidates)
        return self.cost * max(tile, min(loops, unroll)) > self.most

    def renamed(self, names: Mapping[str, str]) -> BodyLimit:
        """Return the same limit for knobs with other names."""

        def other(loops: Sequence[Extent | int]) -> tuple[Extent | int, ...]:
            return tuple(replace(x, knob=names[x.knob]) if isinstance(x, Extent) else x for x in loops)

        return replace(self, unroll=names[self.unroll], tile=other(self.tile), loops=other(self.loops))

    def holds(self, config: Any) -> bool:
        """Decide if the values of a configuration satisfy it."""
        tile = math.prod(_value(loop, config) for loop in self.tile)
        steps = written_out(config[self.unroll].val, tile, *(_value(loop, config) for loop in self.loops))
        return steps * self.cost <= self.most

    def text(self, function: str = WRITTEN_OUT) -> str:
        """Write the condition on a configuration `c` as Python; the function is `written_out`."""
        tile = " * ".join(map(_text, self.tile)) or "1"
        loops = "".join(f", {_text(loop)}" for loop in self.loops)
        return f"{function}(c[{quoted(self.unroll)}].val, {tile}{loops}) * {self.cost} <= {self.most}"


@dataclass(frozen=True)
class SketchLimit:
    """A limit of some sketches, if others have the same knobs."""

    limit: TileLimit | BodyLimit
    choice: str
    sketches: tuple[str, ...]

    @property
    def knobs(self) -> tuple[str, ...]:
        return (self.choice, *self.limit.knobs)

    @property
    def message(self) -> str:
        return self.limit.message

    def holds(self, config: Any) -> bool:
        """Decide if the values of a configuration satisfy it."""
        return config[self.choice].val not in self.sketches or self.limit.holds(config)

    def text(self, function: str = WRITTEN_OUT) -> str:
        """Write the condition on a configuration `c` as Python."""
        others = f"c[{quoted(self.choice)}].val not in {literal(self.sketches)}"
        return f"{others} or {self.limit.text(function)}"


Limit: TypeAlias = TileLimit | BodyLimit


def vectors_of(extent: int, lanes: int) -> int:
    """Count the vectors into which a loop is cut: whole ones, and powers of two for the rest."""
    return extent // lanes + (extent % lanes).bit_count()


def written_out(unroll: int, tile: int, *loops: int) -> int:
    """Count the steps of a body with those of a tile, and of the loops around it while they are at most `unroll`."""
    steps = tile
    for extent in loops:
        if steps * extent > unroll:
            break
        steps *= extent
    return steps


def _bound(loops: Sequence[Extent | int], knobs: Mapping[str, SketchKnob]) -> int:
    """Bound the iterations of loops: all loops of a split together have at most its extent."""
    splits = {loop.knob for loop in loops if isinstance(loop, Extent)}
    extents = (knobs[split].extent or 1 for split in splits)
    return math.prod(extents) * math.prod(loop for loop in loops if isinstance(loop, int))


def _value(loop: Extent | int, config: Any) -> int:
    return loop if isinstance(loop, int) else loop.value(config)


def _text(loop: Extent | int) -> str:
    return str(loop) if isinstance(loop, int) else loop.text()
