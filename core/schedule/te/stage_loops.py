"""Stage methods for loops: split, fuse, reorder, tile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from pegbox.checks import check_flag
from pegbox.compute.axis import AxisKind, IterVar, Range
from pegbox.errors import ScheduleError
from pegbox.expr.build import minimum
from pegbox.expr.dtypes import integer
from pegbox.expr.nodes import Expr
from pegbox.loops.nodes import ForKind
from pegbox.schedule.schedule import BlockRef, LoopRef, Schedule
from pegbox.schedule.state.step import Step
from pegbox.schedule.te.replay_state import ReplayState
from pegbox.schedule.te.stage_base import StageBase, kind_of, moved, record, te_method
from pegbox.shown import value_text


@te_method
def split(
    stage: StageBase,
    parent: IterVar,
    factor: int | None = None,
    nparts: int | None = None,
    disable_predication: bool = False,
) -> tuple[IterVar, IterVar]:
    """Split a loop in two, `i` into `i.outer` and `i.inner`; return both.

    Args:
        factor: the extent of the inner loop, which need not divide.
        nparts: the extent of the outer loop, which need not divide either.
        disable_predication: require that no test is needed, because the number divides.

    Before `split(i, factor=4)`::

        for i in range(10):
            B[i] = A[i] + 1.0

    After::

        for i.outer in range(3):
            for i.inner in range(4):
                if i.outer * 4 + i.inner < 10:
                    B[i.outer * 4 + i.inner] = A[i.outer * 4 + i.inner] + 1.0

    Raises:
        ScheduleError: not a loop of this stage, not exactly one positive number given, or a tail that needs a test,
            which is not wanted.
    """
    position = stage.position(parent)
    stage.check_serial(parent)
    given = [x for x in (factor, nparts) if x is not None]
    number = integer(given[0]) if len(given) == 1 else None
    if number is None or number < 1:
        raise ScheduleError(
            f"factor={value_text(factor)}, nparts={value_text(nparts)}",
            "give exactly one of them, a positive integer",
        )
    small = least(number, parent.extent)
    large = -(-parent.extent // small)
    if check_flag("disable_predication", disable_predication, error=ScheduleError) and small * large != parent.extent:
        raise ScheduleError(
            f"{number} does not divide {parent.extent}, and without a test the tail would leave the tensor",
            "leave disable_predication out: full tiles run without a test anyway",
        )
    outer_extent, inner_extent = (large, small) if factor is not None else (small, large)
    outer = IterVar(f"{parent.name}.outer", Range(0, outer_extent), parent.kind)
    inner = IterVar(f"{parent.name}.inner", Range(0, inner_extent), parent.kind)
    numbers = (number, None) if nparts is None else (None, number)
    record(stage, ("loops", outer), "split", parent, *numbers, results=(outer, inner))
    _hand_on_pragmas(stage, parent, outer)
    stage.leaf_iter_vars[position : position + 1] = [outer, inner]
    return outer, inner


@te_method
def fuse(stage: StageBase, *loops: IterVar | Sequence[IterVar]) -> IterVar:
    """Fuse several adjacent loops into one: `i`, `j` become `i.j.fused`; they may be given as one list.

    Without loops, in a stage without axes (such as a total sum), make one loop of one iteration around everything.

    Before `fuse(i, j)`::

        for i in range(4):
            for j in range(8):
                B[i, j] = A[i, j] + 1.0

    After::

        for i.j.fused in range(32):
            B[i.j.fused // 8, i.j.fused % 8] = A[i.j.fused // 8, i.j.fused % 8] + 1.0

    Raises:
        ScheduleError: they are not loops of this stage directly inside one another, in that order.
    """
    given: list[IterVar] = []
    for each in loops:
        if not isinstance(each, IterVar | list | tuple):
            raise ScheduleError(f"{value_text(each)} is not a loop", "give loops, or one list of them")
        given.extend([each] if isinstance(each, IterVar) else each)
    if not given:
        if stage.op.axis:
            raise ScheduleError("no loops given", f"give at least one of {stage.loop_names()}")
        made = IterVar("singleton", Range(0, 1), "spatial")
        record(stage, ("loops", made), "add_unit_loop", results=(made,))
        stage.leaf_iter_vars.insert(0, made)
        return made
    fused = given[0]
    stage.position(fused)
    for inner in given[1:]:
        fused = _fuse_two(stage, fused, inner)
    return fused


def _fuse_two(stage: StageBase, outer: IterVar, inner: IterVar) -> IterVar:
    position = stage.position(outer)
    if stage.position(inner) != position + 1:
        raise ScheduleError(
            f"{inner.name} is not directly inside {outer.name}",
            f"loops are {stage.loop_names()}: reorder them first",
        )
    stage.check_serial(outer, inner)
    kind: AxisKind = "reduce" if "reduce" in (outer.kind, inner.kind) else "spatial"
    fused = IterVar(f"{outer.name}.{inner.name}.fused", Range(0, outer.extent * inner.extent), kind)
    record(stage, ("loops", fused), "fuse", outer, inner, results=(fused,), order=tuple(stage.leaf_iter_vars))
    stage.leaf_iter_vars[position : position + 2] = [fused]
    _hand_on_pragmas(stage, inner, fused)
    _hand_on_pragmas(stage, outer, fused)
    return fused


@te_method
def reorder(stage: StageBase, *loops: IterVar) -> None:
    """Put the loops in this order, in their present places; other loops keep theirs.

    Raises:
        ScheduleError: one is not a loop of this stage or is given twice.
    """
    places = [stage.position(iv) for iv in loops]
    if not places:
        raise ScheduleError("no loops given", f"give those that change places: {stage.loop_names()}")
    if len(set(places)) != len(places):
        raise ScheduleError(f"a loop is given twice in {[iv.name for iv in loops]}", "give each once")
    for place, iv in zip(sorted(places), loops, strict=True):
        stage.leaf_iter_vars[place] = iv
    record(stage, ("order",), "reorder", *loops)


@te_method
def tile(
    stage: StageBase, x: IterVar, y: IterVar, x_factor: int, y_factor: int
) -> tuple[IterVar, IterVar, IterVar, IterVar]:
    """Split both and order them; return (x outer, y outer, x inner, y inner).

    Raises:
        ScheduleError: as `split` and `reorder`.
    """
    xo, xi = split(stage, x, factor=x_factor)
    yo, yi = split(stage, y, factor=y_factor)
    reorder(stage, xo, yo, xi, yi)
    return xo, yo, xi, yi


@te_method
def merge(stage: StageBase, loop: IterVar, other: StageBase, other_loop: IterVar) -> None:
    """Run the iterations of a loop together with those of a loop of an earlier stage.

    The loops around the two, up to the shared ones, are merged, too. A sum then reads the elements of a producer while
    they are in registers, and the producer keeps its other consumers.

    Before `s[S].merge(k.outer, s[B], j.outer)`::

        for i in range(8):
            for j.outer in range(4):
                for j.inner in range(16):
                    B[j.outer * 16 + j.inner] = A[i, j.outer * 16 + j.inner] * 2.0
            S[0] = 0.0
            for k.outer in range(4):
                for k.inner in range(16):
                    S[0] = S[0] + B[k.outer * 16 + k.inner]
            ...

    After::

        for i in range(8):
            S[0] = 0.0
            for m in range(4):
                for j.inner in range(16):
                    B[m * 16 + j.inner] = A[i, m * 16 + j.inner] * 2.0
                for k.inner in range(16):
                    S[0] = S[0] + B[m * 16 + k.inner]
            ...

    Raises:
        ScheduleError: they are not loops of these stages; when lowered: the loops, or those around them, differ in
            their iterations or are not serial, other statements are between them, or an iteration would need what a
            later one makes; the other stage belongs to another schedule.
    """
    stage.position(loop)
    if not isinstance(other, StageBase):
        raise ScheduleError(f"{value_text(other)} is not a stage", "give the producer's, as s[B]")
    other.position(other_loop)
    if other is stage:
        raise ScheduleError(f"both are loops of {stage.op.name}", "give a loop of another stage, or fuse them")
    record(stage, ("merge", loop, other), "merge", loop, other, other_loop)


def _hand_on_pragmas(stage: StageBase, old: IterVar, new: IterVar) -> None:
    """Move a pragma, which applies to a whole nest, to the outermost loop that its loop becomes."""
    for subject in [each for each in stage.steps if each[0] == "pragma" and each[1] is old]:
        taken = {subject: stage.steps.pop(subject)}
        stage.steps |= moved(taken, lambda value: new if value is old else value)


def replay_split(replay: ReplayState, stage: StageBase, step: Step) -> None:
    (parent, factor, nparts), (outer, inner) = step.args, step.results
    live = replay.live(stage)
    whole = live.pop(parent)
    # A region may be smaller than the axis: a larger factor would only make empty iterations. Threads keep the
    # requested number. If all of an intermediate's axis is needed, its last vector is whole, and the buffer grows.
    kind = stage.steps.get(("kind", inner if factor is not None else outer))
    most = replay.sch.extent(whole)
    if kind is not None and kind_of(kind).is_bound:
        most = 1 << 62
    elif kind is not None and kind_of(kind) is ForKind.VECTORIZED and most == parent.extent and not stage.is_output:
        most = 1 << (most - 1).bit_length()
    factors = [None, min(factor, most)] if factor is not None else [min(nparts, most), None]
    live[outer], live[inner] = replay.sch.split(whole, factors=factors, names=(outer.name, inner.name))


def replay_fuse(replay: ReplayState, stage: StageBase, step: Step) -> None:
    (outer, inner), (fused,), live = step.args, step.results, replay.live(stage)
    # A reorder may have made the loops adjacent.
    _reorder(replay.sch, replay.block(stage), [live[iv] for iv in dict(step.options)["order"] if iv in live])
    live[fused] = replay.sch.fuse(live.pop(outer), live.pop(inner), name=fused.name)


def replay_unit_loop(replay: ReplayState, stage: StageBase, step: Step) -> None:
    live, block = replay.live(stage), replay.block(stage)
    inside = [loop for loop in replay.sch.get_loops(block) if loop in live.values()]
    live[step.results[0]] = replay.sch.add_unit_loop(inside[0] if inside else block)


def replay_order(replay: ReplayState, stage: StageBase) -> None:
    """Put the loops of a stage in their final order, once all exist."""
    replay.step = stage.steps.get(("order",))
    live = replay.live(stage)
    _reorder(replay.sch, replay.block(stage), [live[iv] for iv in stage.leaf_iter_vars])


def _reorder(sch: Schedule, block: BlockRef, order: list[LoopRef]) -> None:
    if order and list(sch.get_loops(block)[-len(order) :]) != order:
        sch.reorder(*order)


def replay_merge(replay: ReplayState, stage: StageBase, step: Step) -> None:
    """Merge loops when every stage has its place; stages find theirs under the new names."""
    loop, other, other_loop = step.args
    refs = [_present(replay, *each) for each in ((other, other_loop), (stage, loop))]
    sch, blocks = replay.sch, [replay.block(each) for each in (other, stage)]
    before = [sch.get_loops(block) for block in blocks]
    sch.merge(*refs)
    after = [sch.get_loops(block) for block in blocks]
    renamed = {old: new for olds, news in zip(before, after, strict=True) for old, new in zip(olds, news, strict=True)}
    for live in replay.loops.values():
        live.update((each, renamed.get(ref, ref)) for each, ref in live.items())


def _present(replay: ReplayState, stage: StageBase, loop: IterVar) -> LoopRef:
    """Return a loop as it is now.

    Raises:
        ScheduleError: it was split or fused after the merge, or the stage was inlined or belongs to another schedule.
    """
    name = stage.op.name
    if stage not in replay.stages:
        raise ScheduleError(f"merge: {name} is a stage of another schedule", f"give one of this, as s[{name}]")
    ref = replay.loops.get(id(stage), {}).get(loop)
    if ref is None:
        raise ScheduleError(
            f"merge: {loop.name} is not a loop of {name} any more",
            "merge one of its present loops, after splits and fusions",
        )
    return ref


def least(a: int, b: int) -> int:
    """Compute `min(a, b)`; for numbers of a traced run (`pegbox.features`), without comparing them.

    For size variables the result is an expression.
    """
    if isinstance(a, Expr) or isinstance(b, Expr):
        return cast("int", minimum(a, b))
    for one, other in ((a, b), (b, a)):
        known = getattr(one, "least", None)
        if known is not None:
            smaller: int = known(other)
            return smaller
    return min(a, b)
