"""Reader of vectors in scripts, as TVM prints them of lowered programs: `A[T.Ramp(i * 8, 1, 8)] = T.Broadcast(x, 8)`.

A store of vectors is read one lane at a time, as a vectorized loop over its lanes: in lane n, `T.Ramp(base, stride, 8)`
is `base + n * stride`, `T.Broadcast(x, 8)` is x, `A[lo:lo + 8]` is `A[lo + n]`, and every operation is that on numbers.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pegbox.expr import build, dtypes
from pegbox.expr.nodes import Expr

if TYPE_CHECKING:
    from pegbox.loops.script.expressions import Expressions


@dataclass(frozen=True, slots=True)
class Lane:
    """The lane that is read: its number, among so many."""

    number: Expr
    count: int

    def at(self, first: Expr, step: int = 1) -> Expr:
        """The place of the lane in a run of places."""
        return build.add(first, build.mul(self.number, step))


_WORDS = ("Ramp", "ramp", "vectorlow", "vectorhigh", "vectorcombine")


def has_lanes(node: ast.AST) -> bool:
    """Does a part of a statement have vectors that only its lanes can be read of?"""
    names = (each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute))
    return any(name in _WORDS or dtypes.is_vector(name) for name in names)


@contextmanager
def reading(e: Expressions, lane: Lane) -> Iterator[None]:
    """Read another lane, of vectors with another number of lanes."""
    before, e.lane = e.lane, lane
    yield
    e.lane = before


def check_count(e: Expressions, node: ast.AST, count: int) -> Lane:
    """The lane that is read, in a vector of that many."""
    if e.lane is None:
        e.fail(node, "a vector stands where a number is needed", "vectors are stored: C[T.Ramp(i * 8, 1, 8)] = ...")
    if count != e.lane.count:
        e.fail(node, f"{count} lanes meet {e.lane.count}", "all vectors of a statement have the same number of lanes")
    return e.lane


def ramp(e: Expressions, base: Any, stride: Any, lanes: int, node: ast.AST) -> Expr:
    """`T.Ramp(base, stride, lanes)`."""
    lane = check_count(e, node, lanes)
    return build.add(base, build.mul(build.cast(build.as_expr(base).dtype, lane.number), stride))


def half(e: Expressions, dtype: str, read: Callable[[], Any], node: ast.AST, *, high: bool) -> Any:
    """`T.vectorlow(dtype, vector)`, `T.vectorhigh(dtype, vector)`: the first or the last half of the lanes."""
    lane = check_count(e, node, dtypes.lanes(dtype))
    with reading(e, Lane(lane.at(build.index(lane.count)) if high else lane.number, 2 * lane.count)):
        return read()


def combined(e: Expressions, dtype: str, low: Callable[[], Any], high: Callable[[], Any], node: ast.AST) -> Expr:
    """`T.vectorcombine(dtype, low, high)`: the lanes of one vector, then those of another."""
    lane = check_count(e, node, dtypes.lanes(dtype))
    count = lane.count // 2
    with reading(e, Lane(lane.number, count)):
        first = low()
    with reading(e, Lane(build.sub(lane.number, count), count)):
        second = high()
    return build.select(build.compare("lt", lane.number, count), first, second)
