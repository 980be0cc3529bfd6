"""Annotation of sketches with knobs: places, threads, vectors, unrolling, copies of operands."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import takewhile

from pegbox.codegen import MAX_VECTORS, MOST_STRAIGHT, STEP_LANES, Target, lanes_of
from pegbox.compute import ScanOp, body_parts
from pegbox.expr import Expr, Load, Var, children, free_vars
from pegbox.plugins.sketch.analysis import buffers_of, instructions, loads_of
from pegbox.plugins.sketch.limit import BodyLimit, Extent
from pegbox.plugins.sketch.packing import pack_operands
from pegbox.plugins.sketch.register_tile import keep_in_registers
from pegbox.plugins.sketch.scan_rows import scan_of, shared_loops
from pegbox.plugins.sketch.state import State
from pegbox.plugins.sketch.steps import Choice, Name, OptionValue, SketchKnob, SketchStep, compute_at, stage_call
from pegbox.plugins.sketch.tiles import PlaceKnob

UNROLL = (0, 16, 64, 512)
ROOT = "root"
_AROUND = 4
"""The number of vectors in a step of a row with nontemporal stores."""
_LONG, _SHORT = 256, 8
"""The number of steps of a part of the output that replaces a row, and the smallest number in a row of the output."""
_MOST_PLACES = 4  # loops of a consumer in which a stage may be computed


def annotate(state: State, target: Target, *, packing: bool = True) -> State:
    """Annotate the sketch after its loops exist, with choices left to knobs.

    Args:
        packing: add copies of operands, and tiles that fit the registers, which Ansor lacks.
    """
    new = state.copy()
    stages = [name for name in new.stages if not new.is_inlined(name)]
    for name in stages:
        if (place := _place(new, name, once=packing)) is not None:
            new.place(place, ROOT, [])
    for name in new.tiles if packing else ():
        if scan_of(new, name) is None:  # a copy in each row would be read once
            pack_operands(new, name, lanes_of(target, new.op(name).outputs[0].dtype))
        keep_in_registers(new, name, target)
    unrolls: dict[str, str] = {}
    for name in reversed(stages):
        loops = new.loops(name)
        if not loops:
            continue
        tiles = new.tiles.get(name)
        dot = tiles is not None and tiles.dot  # its tile is already unrolled
        if new.op(name).reduce_axis and not dot:
            knob = unrolls.get(tiles.like if tiles else "") or new.knob(SketchKnob(f"{name}_unroll", candidates=UNROLL))
            unrolls[name] = knob
            new.call(name, "pragma", Name(loops[0]), "auto_unroll_max_step", OptionValue(knob))
            if packing:
                _keep_short(new, name, knob, lanes_of(target, new.op(name).outputs[0].dtype))
        along = dot or not new.is_reduce(loops[-1])
        lanes = along and new.is_serial(name, loops[-1]) and not new.is_ordered(name, loops[-1])
        outer, last = loops[:-1] if lanes else loops, loops[-1]
        if lanes:
            if packing and _goes_around_caches(new, name, target):
                outer, last = _around_caches(new, name, target)
            new.call(name, "vectorize", Name(last))
        if target.num_cores > 1 and new.is_root(name):
            _share(new, name, outer)
        elif target.num_cores > 1 and (inside := shared_loops(new, name)):
            _share(new, name, inside[:-1] if lanes else inside)
    return new


def _goes_around_caches(state: State, name: str, target: Target) -> bool:
    """Decide if a stage is an output larger than the caches, of a computation without reductions."""
    outputs = state.op(name).outputs
    is_alone = state.is_output(name) and len(outputs) == 1 and state.is_root(name) and not state.attached(name)
    return (
        is_alone
        and not any(state.op(each).reduce_axis or isinstance(state.op(each), ScanOp) for each in state.stages)
        and len(state.loops(name)) == len(state.op(name).axis)
        and not any(place.consumer == name for place in state.places)
        and outputs[0].dtype != "bool"  # which no nontemporal store writes
        and not target.caches.hold(outputs[0].buffer.nbytes)
    )


def _around_caches(state: State, name: str, target: Target) -> tuple[list[str], str]:
    """Split the last loop of an output with nontemporal stores; return the loops over rows, and that along vectors.

    If everything is read at the output's own indices, parts of the whole output replace rows that are short or end
    within a step, so that few lines are partly written. Any other use of an index would need divisions of the places in
    the parts.
    """
    width = _AROUND * lanes_of(target, state.op(name).outputs[0].dtype)
    *outer, row = state.loops(name)
    is_whole = state.extent(row) % width == 0 and state.extent(row) >= _SHORT * width
    if not is_whole and all(_is_read_in_place(state, each) for each in state.stages):
        *outer, row = state.split(name, state.fuse(name, [*outer, row]), _LONG * width, (f"{name}_part", f"{name}_row"))
    elif state.extent(row) < _SHORT * width:
        return outer, row
    blocks, last = state.split(name, row, width, (f"{name}_blocks", f"{name}_lanes"))
    state.call(name, "pragma", Name(blocks), "nontemporal")
    return outer, last


def _is_read_in_place(state: State, name: str) -> bool:
    """Decide if a stage uses its indices only to read tensors of its shape at these indices."""
    op = state.op(name)
    return all(_is_in_place(part, op.axis, op.outputs[0].shape) for part in body_parts(op.body))


def _is_in_place(expr: Expr, axes: Sequence[Expr], shape: Sequence[int]) -> bool:
    if isinstance(expr, Load) and expr.buffer.shape == shape and [*map(id, expr.indices)] == [*map(id, axes)]:
        return True
    return not isinstance(expr, Var) and all(_is_in_place(part, axes, shape) for part in children(expr))


def _keep_short(state: State, name: str, unroll: str, lanes: int) -> None:
    """Keep the unrolled body of a stage's inner loops below thousands of instructions.

    This is an estimate: other stages inside the loops are not counted. If it prevents unrolling, a smaller value of the
    knob makes the same program.

    Args:
        lanes: the lanes of a vector.
    """
    outer = state.loops(name)
    tile = []
    if not state.is_reduce(outer[-1]):
        tile.append(_in_vectors(state, name, outer.pop(), lanes * MAX_VECTORS))
    while outer and not state.is_serial(name, outer[-1]):
        tile.append(state.iterations(name, outer.pop()))
    around = [state.iterations(name, loop) for loop in reversed(outer)]
    placed = any(place.stage == name for place in state.places)
    if placed and name not in state.tiles:  # its spatial loops depend on its place
        around = around[: sum(1 for _ in takewhile(state.is_reduce, reversed(outer)))]
    message = f"the innermost body of {name} has at most about {MOST_STRAIGHT:,} instructions"
    cost = instructions(state.op(name))
    limit = BodyLimit(unroll, _known(tile), _known(around), cost, MOST_STRAIGHT, message)
    if limit.may_fail(state.knobs):
        state.limits.append(limit)


def _in_vectors(state: State, stage: str, loop: str, most: int) -> Extent | int | None:
    """Return the steps of a vectorized loop; 0 if it stays a loop over vectors."""
    found = state.iterations(stage, loop)
    if isinstance(found, Extent):
        bound = state.knobs[found.knob].innermost
        return replace(found, lanes=STEP_LANES, most=most if bound is None or bound > most else None)
    return None if found is None else 0 if found > most else -(-found // STEP_LANES)


def _known(extents: Iterable[Extent | int | None]) -> tuple[Extent | int, ...]:
    """Return the extents before the first unknown one, without loops of one iteration."""
    known = takewhile(lambda extent: extent is not None, extents)
    return tuple(extent for extent in known if extent is not None and extent != 1)


def _place(state: State, name: str, *, once: bool) -> PlaceKnob | None:
    """Return the single consumer of a stage at the root, and its loops in which the stage may be computed.

    Args:
        once: leave out loops that would recompute an element of a product.
    """
    op = state.op(name)
    if not state.is_root(name) or state.is_output(name) or state.is_cached(name) or isinstance(op, ScanOp):
        return None
    consumers = state.consumers(name)
    loops = _outer_spatial(state, consumers[0])[:_MOST_PLACES] if len(consumers) == 1 else []
    inside = *(each for each, _ in state.attached(name)), *(p.stage for p in state.places if p.consumer == name)
    if once and loops and any(each in state.tiles for each in (name, *inside)):
        loops = list(takewhile(_indices_of(state, name, consumers[0]).__contains__, loops))
    return PlaceKnob(f"{name}_at", name, consumers[0], tuple(loops)) if loops else None


def _indices_of(state: State, name: str, consumer: str) -> set[str]:
    """Return the loops of a consumer over axes that occur in the indices of all its reads of a stage."""
    made = buffers_of(state.op(name))
    reads = [load for load in loads_of(state.op(consumer)) if load.buffer in made]
    axes = [{var for index in load.indices for var in free_vars(index)} for load in reads]
    common = [axis for axis in state.op(consumer).axis if all(axis in each for each in axes)]
    return {loop for axis in common for loop in state.parts_of(consumer, axis)}


def _outer_spatial(state: State, name: str) -> list[str]:
    """Return a stage's loops before the first one that reduces, without the innermost."""
    loops = state.loops(name)
    first = next((n for n, loop in enumerate(loops) if state.is_reduce(loop)), len(loops) - 1)
    return [loop for loop in loops[:first] if state.longest(loop) > 1]


def _share(state: State, name: str, loops: Sequence[str]) -> None:
    """Let threads share the fused outer loops, whose number is a knob."""
    fixed = {loop: other for other, loop in state.attached(name)}
    outer = []
    for loop in loops:
        if state.is_reduce(loop) or state.is_ordered(name, loop) or not state.is_serial(name, loop):
            break
        outer.append(loop)
        if loop in fixed:  # stages further inside would have to move
            break
    if all(state.longest(loop) == 1 for loop in outer):
        return
    places = [place for place in state.places if place.consumer == name]
    counts = [n for n, loop in enumerate(outer, start=1) if state.longest(loop) > 1]
    fused = state.unused(f"{name}_fused")
    branches = [(n, _shared(name, outer[:n], fused, fixed, places)) for n in counts]
    own = next((place.knob for place in state.places if place.stage == name), None)
    when = None if own is None else (own, (ROOT,))
    knob = state.knob(SketchKnob(f"{name}_parallel", candidates=(0, *counts), when=when))
    if own is None:
        state.choose(knob, branches)
    else:
        state.choose(own, [(ROOT, [Choice(knob, tuple((n, tuple(steps)) for n, steps in branches))])])


def _shared(
    name: str, loops: Sequence[str], fused: str, fixed: dict[str, str], places: Sequence[PlaceKnob]
) -> list[SketchStep]:
    """Fuse loops and share them among threads. Stages computed in a fused loop move to the result."""
    if len(loops) == 1:
        return [stage_call(name, "parallel", Name(loops[0]))]
    steps: list[SketchStep] = [
        stage_call(name, "fuse", *map(Name, loops), results=(fused,)),
        stage_call(name, "parallel", Name(fused)),
        *(compute_at(fixed[loop], name, fused) for loop in loops if loop in fixed),
    ]
    for place in places:
        gone = [value for value, loop in place.choices if loop in loops]
        if gone:
            steps.append(Choice(place.knob, tuple((value, (compute_at(place.stage, name, fused),)) for value in gone)))
    return steps
