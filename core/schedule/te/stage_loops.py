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
from pegbox.schedule.te.stage_base import FuseRelation, SplitRelation, StageBase, UnitRelation, recorded
from pegbox.shown import value_text


@recorded
def split(
    stage: StageBase,
    parent: IterVar,
    factor: int | None = None,
    nparts: int | None = None,
    disable_predication: bool = False,
) -> tuple[IterVar, IterVar]:
    """Split a loop in two, `i` into `i.outer` and `i.inner`; gives both.

    Args:
        factor: extent of the inner loop; it need not divide.
        nparts: extent of the outer loop; it need not divide either.
        disable_predication: no test may be needed: the number divides.

    Before `split(i, factor=4)`::

        for i in range(10):
            B[i] = A[i] + 1.0

    After::

        for i.outer in range(3):
            for i.inner in range(4):
                if i.outer * 4 + i.inner < 10:
                    B[i.outer * 4 + i.inner] = A[i.outer * 4 + i.inner] + 1.0

    Raises:
        ScheduleError: not a loop of this stage, not exactly one positive number given, or a tail although there shall
            be no test.
    """
    position = stage.position(parent)
    stage.check_serial(parent)
    given = [x for x in (factor, nparts) if x is not None]
    number = _positive(given[0]) if len(given) == 1 else None
    if number is None:
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
    stage.relations.append(
        SplitRelation(parent, outer, inner, number if nparts is None else None, number if factor is None else None)
    )
    _hand_on_pragmas(stage, parent, outer)
    stage.leaf_iter_vars[position : position + 1] = [outer, inner]
    return outer, inner


@recorded
def fuse(stage: StageBase, *loops: IterVar | Sequence[IterVar]) -> IterVar:
    """Make one loop of several adjacent ones: `i`, `j` become `i.j.fused`; they may be given as one list.

    Of none, in a stage without axes of its own (a sum of everything, say), it is a loop of one iteration around all.

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
        return _unit_loop(stage)
    fused = given[0]
    stage.position(fused)
    for inner in given[1:]:
        fused = _fuse_two(stage, fused, inner)
    return fused


def _unit_loop(stage: StageBase) -> IterVar:
    if stage.op.axis:
        raise ScheduleError("no loops given", f"give at least one of {stage.loop_names()}")
    made = IterVar("singleton", Range(0, 1), "spatial")
    stage.relations.append(UnitRelation(made))
    stage.leaf_iter_vars.insert(0, made)
    return made


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
    stage.relations.append(FuseRelation(outer, inner, fused, tuple(stage.leaf_iter_vars)))
    stage.leaf_iter_vars[position : position + 2] = [fused]
    _hand_on_pragmas(stage, inner, fused)
    _hand_on_pragmas(stage, outer, fused)
    return fused


@recorded
def reorder(stage: StageBase, *loops: IterVar) -> None:
    """Put the loops in this order, in the places that they hold now; those that are not given keep theirs.

    Raises:
        ScheduleError: one is not a loop of this stage or stands twice.
    """
    places = [stage.position(iv) for iv in loops]
    if not places:
        raise ScheduleError("no loops given", f"give those that change places: {stage.loop_names()}")
    if len(set(places)) != len(places):
        raise ScheduleError(f"a loop stands twice in {[iv.name for iv in loops]}", "give each once")
    for place, iv in zip(sorted(places), loops, strict=True):
        stage.leaf_iter_vars[place] = iv


@recorded
def tile(
    stage: StageBase, x: IterVar, y: IterVar, x_factor: int, y_factor: int
) -> tuple[IterVar, IterVar, IterVar, IterVar]:
    """Split both and order them; gives (x outer, y outer, x inner, y inner).

    Raises:
        ScheduleError: as `split` and `reorder`.
    """
    xo, xi = split(stage, x, factor=x_factor)
    yo, yi = split(stage, y, factor=y_factor)
    reorder(stage, xo, yo, xi, yi)
    return xo, yo, xi, yi


def _hand_on_pragmas(stage: StageBase, old: IterVar, new: IterVar) -> None:
    """A pragma speaks of a whole nest: it goes on to the outermost loop that its own one becomes."""
    stage.pragmas.setdefault(new, {}).update(stage.pragmas.pop(old, {}))


def _positive(value: object) -> int | None:
    number = integer(value)
    return number if number is not None and number > 0 else None


def least(a: int, b: int) -> int:
    """`min(a, b)`. A number of a traced run (`pegbox.features`) knows it without asking which one it is.

    Of size variables it is an expression.
    """
    if isinstance(a, Expr) or isinstance(b, Expr):
        return cast("int", minimum(a, b))
    for one, other in ((a, b), (b, a)):
        known = getattr(one, "least", None)
        if known is not None:
            smaller: int = known(other)
            return smaller
    return min(a, b)
