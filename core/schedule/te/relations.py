"""Axes and loops of a stage in terms of each other, through the splits and fusions between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pegbox.compute.axis import IterVar
from pegbox.expr.build import ZERO, add, compare, floordiv, floormod, mul
from pegbox.expr.nodes import Expr
from pegbox.schedule.state.step import Step
from pegbox.schedule.te.stage_base import loops_in


def axes_of_loops(relations: Sequence[Step], loops: Mapping[IterVar, Expr]) -> tuple[dict[IterVar, Expr], list[Expr]]:
    """Compute the axes' values from those of the loops, counted from zero; and the splits' conditions.

    A condition excludes the tail beyond an extent that a split does not divide.
    """
    known, conditions = dict(loops), list[Expr]()
    for relation in reversed(relations):
        match relation:
            case Step("split", (parent, *_), _, (outer, inner)):
                known[parent] = add(mul(known[outer], inner.size), known[inner])
                covered = outer.extent * inner.extent
                # The existence of a tail may depend on size variables.
                if isinstance(covered, Expr) or covered > parent.extent:
                    conditions.append(compare("lt", known[parent], parent.size))
            case Step("fuse", (outer, inner), _, (fused,)):
                known[outer] = floordiv(known[fused], inner.size)
                known[inner] = floormod(known[fused], inner.size)
    return known, conditions


def loops_of_axes(relations: Sequence[Step], axes: Mapping[IterVar, Expr]) -> dict[IterVar, Expr]:
    """Compute the loops' values from those of the axes, counted from zero."""
    known = dict(axes)
    for relation in relations:
        match relation:
            case Step("split", (parent, *_), _, (outer, inner)):
                known[outer] = floordiv(known[parent], inner.size)
                known[inner] = floormod(known[parent], inner.size)
            case Step("fuse", (outer, inner), _, (fused,)):
                known[fused] = add(mul(known[outer], inner.size), known[inner])
            case _:
                known[relation.results[0]] = ZERO
    return known


def touched_by(relations: Sequence[Step], loop: IterVar) -> set[IterVar]:
    """Return the loop, the axes from which it was made, and everything else made from these."""
    touched = {loop}
    for relation in reversed(relations):
        if not touched.isdisjoint(relation.results):
            touched.update(loops_in(relation.args))
    for relation in relations:
        if not touched.isdisjoint(loops_in(relation.args)):
            touched.update(relation.results)
    return touched
