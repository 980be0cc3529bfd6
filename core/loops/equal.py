"""Structural equality of programs, up to the names of variables.

Names of functions, parameters, buffers and blocks matter, because people use them for lookups; names of loops and of
block variables do not. Buffers correspond by position. The `origins` of a program do not count either.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from functools import cache

from pegbox.expr.equal import same_number
from pegbox.expr.nodes import Buffer, Const, Expr, Var
from pegbox.loops.module import IRModule
from pegbox.loops.nodes import Alloc, Block, BlockIter, For, Function, Stmt
from pegbox.loops.reductions.combiner import combiner_of

# The attributes with special comparisons, or none.
_APART = ("name", "annotations", "origins", "strides")


@cache
def _attributes(kind: type) -> tuple[str, ...]:
    """Return the attributes of nodes of a type that are compared alike; none of other types."""
    return tuple(each.name for each in fields(kind) if each.name not in _APART) if is_dataclass(kind) else ()


def structural_equal(a: object, b: object, *, labels: bool = True) -> bool:
    """Compare two statements, functions or modules up to the names of their variables.

    Variables and buffers from outside must be identical.

    Args:
        labels: require equal names of blocks, buffers and functions, too.
    """
    if a is b:
        return True
    if isinstance(a, IRModule) and isinstance(b, IRModule):
        return set(a.functions) == set(b.functions) and all(
            structural_equal(a[name], b[name], labels=labels) for name in a
        )
    return isinstance(a, Function | Stmt) and _Comparison(labels).alike(a, b)


class _Comparison:
    """The variables and buffers of the left program with those of the right one to which they correspond, and back."""

    def __init__(self, labels: bool) -> None:
        self.labels = labels
        self.right: dict[object, object] = {}
        self.left: dict[object, object] = {}

    def alike(self, a: object, b: object) -> bool:
        """Compare two nodes, tuples of them, names or numbers."""
        if isinstance(a, tuple) and isinstance(b, tuple):
            return len(a) == len(b) and all(map(self.alike, a, b))
        if isinstance(a, Var | Buffer):
            return self.right.get(a, a) is b and self.left.get(b, b) is a
        if isinstance(a, Expr):
            return self._exprs(a, b)
        if not (names := _attributes(type(a))):  # type: ignore[arg-type]  # types are hashable
            return a == b
        return type(a) is type(b) and self._entered(a, b) and self._parts(a, b, names)

    def _parts(self, a: object, b: object, names: Sequence[str]) -> bool:
        return all(self.alike(getattr(a, name), getattr(b, name)) for name in names)

    def _exprs(self, a: Expr, b: object) -> bool:
        if type(a) is not type(b) or not isinstance(b, Expr) or a.dtype != b.dtype:
            return False
        if isinstance(a, Const) and isinstance(b, Const):
            return same_number(a.value, b.value)
        # The name of a call counts; a printed address has no strides.
        return self._parts(a, b, [name for name in a.__match_args__ if name != "strides"])

    def _entered(self, a: object, b: object) -> bool:
        """Let the variables and buffers of two nodes correspond; compare names and annotations."""
        match a, b:
            case For(), For():
                self._bind(a.var, b.var)
                return a.annotations == b.annotations or dict(a.annotations) == dict(b.annotations)
            case BlockIter(), BlockIter():
                self._bind(a.var, b.var)
            case Alloc(), Alloc():
                return self._bind_buffers((a.buffer,), (b.buffer,))
            case Block(), Block():
                return self._same_label(a, b) and self._same_notes(a, b)
            case Function(), Function():
                bound = self._bind_buffers(a.params, b.params) and self._bind_buffers(a.allocs, b.allocs)
                return bound and self._same_label(a, b)
        return True

    def _same_label(self, a: Function | Block | Buffer, b: Function | Block | Buffer) -> bool:
        return a.name == b.name or not self.labels

    def _bind(self, a: Var | Buffer, b: Var | Buffer) -> None:
        self.right[a] = b
        self.left[b] = a

    def _bind_buffers(self, a: Sequence[Buffer], b: Sequence[Buffer]) -> bool:
        for x, y in zip(a, b, strict=False):
            if (x.shape, x.dtype, x.scope) != (y.shape, y.dtype, y.scope) or not self._same_label(x, y):
                return False
            self._bind(x, y)
        return len(a) == len(b)

    def _same_notes(self, a: Block, b: Block) -> bool:
        """Compare notes, without combiners that can be recognized, or without any where labels do not count."""
        if a.annotations == b.annotations:
            return True
        left, right = ({k: v for k, v in block.annotations if k != "combiner"} for block in (a, b))
        return left == right and (not self.labels or combiner_of(a) == combiner_of(b))
