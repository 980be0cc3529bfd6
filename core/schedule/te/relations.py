"""Axes and loops of a stage in terms of each other, through the splits and fusions between them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pegbox.compute.axis import IterVar
from pegbox.expr.build import ZERO, add, compare, floordiv, floormod, mul
from pegbox.expr.nodes import Expr
from pegbox.schedule.te.stage_base import FuseRelation, Relation, SplitRelation, parents_of, results_of


def axes_of_loops(
    relations: Sequence[Relation], loops: Mapping[IterVar, Expr]
) -> tuple[dict[IterVar, Expr], list[Expr]]:
    """Compute the axes' values from those of the loops, counted from zero; and the splits' conditions.

    A condition says that an iteration is none of the tail beyond an extent that a split does not divide.
    """
    known, conditions = dict(loops), list[Expr]()
    for relation in reversed(relations):
        if isinstance(relation, SplitRelation):
            parent, outer, inner = relation.parent, relation.outer, relation.inner
            known[parent] = add(mul(known[outer], inner.size), known[inner])
            covered = outer.extent * inner.extent
            # Whether a tail is left over may depend on size variables.
            if isinstance(covered, Expr) or covered > parent.extent:
                conditions.append(compare("lt", known[parent], parent.size))
        elif isinstance(relation, FuseRelation):
            outer, inner, fused = relation.outer, relation.inner, relation.fused
            known[outer] = floordiv(known[fused], inner.size)
            known[inner] = floormod(known[fused], inner.size)
    return known, conditions


def loops_of_axes(relations: Sequence[Relation], axes: Mapping[IterVar, Expr]) -> dict[IterVar, Expr]:
    """Compute the loops' values from those of the axes, counted from zero."""
    known = dict(axes)
    for relation in relations:
        if isinstance(relation, SplitRelation):
            known[relation.outer] = floordiv(known[relation.parent], relation.inner.size)
            known[relation.inner] = floormod(known[relation.parent], relation.inner.size)
        elif isinstance(relation, FuseRelation):
            outer = mul(known[relation.outer], relation.inner.size)
            known[relation.fused] = add(outer, known[relation.inner])
        else:
            known[relation.made] = ZERO
    return known


def touched_by(relations: Sequence[Relation], loop: IterVar) -> set[IterVar]:
    """The loop, the axes that it was made of, and everything else that was made of these."""
    touched = {loop}
    for relation in reversed(relations):
        _spread(touched, results_of(relation), parents_of(relation))
    for relation in relations:
        _spread(touched, parents_of(relation), results_of(relation))
    return touched


def _spread(touched: set[IterVar], source: Iterable[IterVar], target: Iterable[IterVar]) -> None:
    if not touched.isdisjoint(source):
        touched.update(target)
