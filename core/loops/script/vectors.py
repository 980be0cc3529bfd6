"""Reader of vectors in scripts, as in TVM's printed lowered programs: `A[T.Ramp(i * 8, 1, 8)] = T.Broadcast(x, 8)`.

A store of vectors is read one lane at a time, as a vectorized loop over its lanes: in lane n, `T.Ramp(base, stride, 8)`
is `base + n * stride`, `T.Broadcast(x, 8)` is x, `A[lo:lo + 8]` is `A[lo + n]`, and every operation is an operation on
numbers.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pegbox.expr import build, dtypes
from pegbox.expr.nodes import Expr

if TYPE_CHECKING:
    from pegbox.loops.script.expressions import Expressions


@dataclass(frozen=True, slots=True)
class Lane:
    """The current lane: its number, among `count` lanes."""

    number: Expr
    count: int

    def at(self, first: Expr, step: int = 1) -> Expr:
        """Compute the place of the lane in a sequence of places."""
        return build.add(first, build.mul(self.number, step))


_WORDS = ("Ramp", "ramp", "vectorlow", "vectorhigh", "vectorcombine")


def has_lanes(node: ast.AST) -> bool:
    """Check if a part of a statement has vectors that can only be read lane by lane."""
    names = (each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute))
    return any(name in _WORDS or dtypes.is_vector(name) for name in names)


@contextmanager
def reading(e: Expressions, lane: Lane) -> Iterator[None]:
    """Make another lane the current one, of vectors with another number of lanes."""
    before, e.lane = e.lane, lane
    yield
    e.lane = before


def check_count(e: Expressions, node: ast.AST, count: int) -> Lane:
    """Return the current lane, checking that vectors have `count` lanes."""
    if e.lane is None:
        e.fail(node, "a vector is used where a number is needed", "vectors are stored: C[T.Ramp(i * 8, 1, 8)] = ...")
    if count != e.lane.count:
        e.fail(node, f"{count} lanes meet {e.lane.count}", "all vectors of a statement have the same number of lanes")
    return e.lane
