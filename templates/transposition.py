"""Computations with inputs in another order of elements than the output, such as transpositions of images.

`TranspositionGenerator` is the space generator `transposition`. The output is written along its last axis, vector by
vector; an input whose neighbours lie along another axis is read along that one. A tile has a vector of the one and as
many steps of the other: code generation loads its rows as vectors and transposes them in registers.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pegbox as pb
from pegbox import te
from pegbox.codegen import Target, lanes_of
from pegbox.compute import ComputeOp, Tensor, body_loads, count_flop, flat_index
from pegbox.errors import TemplateError
from pegbox.expr import Linear, linear
from pegbox.task import Space
from pegbox.templates import threads
from pegbox.templates.register_tile import write_out
from pegbox.templates.tensor_space import TensorSpace

_TILES = (4, 2, 1)
"""The vectors that a tile reads of a row: longer pieces of a row suit caches, whose rows are far apart."""

_ORDERS = ("across", "down")

_MOST_STEPS = 64
"""The largest number of steps of a tile, which are all unrolled."""

_MOVE = 16
"""The number of operations that take as long as moving one element."""


@dataclass(frozen=True)
class JoinedAxes:
    """Neighbouring axes of the output that all inputs traverse like a single one.

    Attributes:
        start, stop: the first of the axes, and the one after the last.
        extent: the number of elements.
        steps: the elements of each input between neighbours.
    """

    start: int
    stop: int
    extent: int
    steps: tuple[int, ...]


@dataclass(frozen=True)
class Crossing:
    """A computation of elements, some inputs of which have another axis as their last one.

    Attributes:
        out: the output.
        runs: its axes, joined.
        down: the index in `runs` of the run along which an input is contiguous; the output is so along the last one.
    """

    out: ComputeOp
    runs: tuple[JoinedAxes, ...]
    down: int


@dataclass(frozen=True)
class TranspositionGenerator:
    """The space generator `transposition`."""

    def __call__(self, tensors: Sequence[Tensor], target: Target) -> Space:
        """Derive the space of a computation of elements that are read along another axis than they are written.

        Raises:
            TemplateError: something is reduced, there are several stages, or inputs have the output's order.
        """
        return TensorSpace(tuple(tensors), crossing_of(tensors), _declare, _schedule)


def crossing_of(tensors: Sequence[Tensor]) -> Crossing:
    """Find the axes along which a computation reads and writes neighbours.

    Raises what `TranspositionGenerator` raises.
    """
    made = [tensor.op for tensor in tensors if isinstance(tensor.op, ComputeOp)]
    if len(made) != 1 or type(made[0]) is not ComputeOp or len(made[0].outputs) > 1:
        raise TemplateError("transposition: give one output, computed from placeholders; use space='sketch'")
    out = made[0]
    if out.reduce is not None or any(isinstance(tensor.op, ComputeOp) for tensor in out.inputs):
        raise TemplateError(f"transposition: {out.name} is not a function of the inputs' elements; use space='sketch'")
    indices = [linear(flat_index(load.buffer.shape, load.indices)) for load in body_loads(out.body)]
    runs = tuple(_runs(out, indices))
    if not runs:
        raise TemplateError(f"transposition: {out.name} has no axes; use space='sketch'")
    crossed = [n for n, steps in enumerate(runs[-1].steps) if steps > 1]
    downs = [n for n, run in enumerate(runs[:-1]) if any(run.steps[k] == 1 for k in crossed)]
    if not downs:
        raise TemplateError(f"transposition: inputs of {out.name} have its order of elements; use space='sketch'")
    return Crossing(out, runs, max(downs, key=lambda n: runs[n].extent))


def _runs(out: ComputeOp, indices: Sequence[Linear]) -> Iterator[JoinedAxes]:
    """Yield the runs of the output's axes, the first ones first."""
    runs: list[JoinedAxes] = []
    for number, axis in reversed(list(enumerate(out.axis))):
        steps = tuple(index.coefficient(axis) for index in indices)
        last = runs[-1] if runs else JoinedAxes(number + 1, number + 1, 1, ())
        if axis.extent == 1 or last.extent == 1 or steps == tuple(n * last.extent for n in last.steps):
            kept = steps if last.extent == 1 else last.steps
            runs[-1:] = [JoinedAxes(number, last.stop, axis.extent * last.extent, kept)]
        else:
            runs.append(JoinedAxes(number, number + 1, axis.extent, steps))
    yield from reversed(runs)


def _declare(cfg: pb.TemplateConfig, found: Crossing) -> None:
    """Declare the knobs: the steps of a tile, and the axis that tiles follow first."""
    lanes = _lanes(cfg, found)
    cfg.define_knob("steps", _steps(found, lanes))
    cfg.define_knob("order", _ORDERS)
    cfg.prefer_first()
    moves = _MOVE * math.prod(axis.extent for axis in found.out.axis)
    threads.declare(cfg, max(count_flop(found.out.outputs), moves))
    if cfg.target.num_cores > 1:
        _occupy(cfg, found, lanes)


def _steps(found: Crossing, lanes: int) -> list[int]:
    counts = [n * lanes for n in _TILES if n * lanes <= _MOST_STEPS]
    return list(dict.fromkeys(min(n, found.runs[found.down].extent) for n in counts))


def _occupy(cfg: pb.TemplateConfig, found: Crossing, lanes: int) -> None:
    """Leave out configurations of several threads with fewer tiles than cores, unless all of them have fewer."""
    cores = cfg.target.num_cores
    most = max(_shared(found, lanes, cores, *tile) for tile in itertools.product(_steps(found, lanes), _ORDERS))
    teams = [name for name in ("threads",) if name in cfg.space.knobs]
    enough = cores if teams else min(cores, most)

    def is_enough(c: pb.Config) -> bool:
        return any(c[name].val == 1 for name in teams) or (
            _shared(found, lanes, cores, c["steps"].val, c["order"].val) >= enough
        )

    cfg.add_constraint(is_enough, reads=("steps", "order", *teams), message="each thread has a tile")


def _shared(found: Crossing, lanes: int, cores: int, steps: int, order: str) -> int:
    """Count the iterations that threads share: of the loops around tiles if they are enough, else rows of tiles."""
    extents = [run.extent for run in found.runs]
    down, across = -(-extents[found.down] // steps), -(-extents[-1] // lanes)
    around = math.prod(extents) // (extents[found.down] * extents[-1])
    return around if around >= cores else down if order == "across" else across


def _lanes(cfg: pb.TemplateConfig, found: Crossing) -> int:
    """Return the lanes of the widest type, at most `_MOST_STEPS`, so that no tile is wider than high."""
    tensors = (*found.out.outputs, *found.out.inputs)
    return min(lanes_of(cfg.target, *(tensor.dtype for tensor in tensors)), _MOST_STEPS)


def _schedule(cfg: pb.TemplateConfig, found: Crossing) -> te.TESchedule:
    """Cut both runs into tiles, whose steps are written out.

    Conditions, such as those of a concatenation, are decided for each tile of the inner loop.
    """
    s = te.create_schedule(found.out)
    out, axes = s[found.out], found.out.axis
    fused = [
        out.fuse(*axes[run.start : run.stop]) if run.stop > run.start + 1 else axes[run.start] for run in found.runs
    ]
    down, step = out.split(fused[found.down], factor=cfg["steps"].val)
    across, lanes = out.split(fused[-1], factor=min(_lanes(cfg, found), found.runs[-1].extent))
    first, second = (down, across) if cfg["order"].val == "across" else (across, down)
    others = [*fused[: found.down], *fused[found.down + 1 : -1]]
    out.reorder(*others, first, second, step, lanes)
    out.pragma(second, "loop_partition_hint")
    write_out(out, lanes, (step,))
    _share(cfg, out, others, first)
    return s


def _share(cfg: pb.TemplateConfig, out: te.Stage, others: Sequence[te.IterVar], first: te.IterVar) -> None:
    """Share the loops around tiles if they are enough for all cores, else the tiles, with a test for the tail."""
    cores = cfg.target.num_cores
    if cores > 1:
        enough = math.prod(loop.extent for loop in others) >= cores
        threads.share(cfg, out, out.fuse(*others) if enough and len(others) > 1 else others[0] if enough else first)
