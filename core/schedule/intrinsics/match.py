"""Matching of a loop nest with the description of a tensor intrinsic, and its operands.

Both are walked together. Loops correspond in their order, or in another one that fits. The part of an index that
depends on the loops inside must be the description's index; the rest is the place of the tile. The operands of + and *
may be swapped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations

from pegbox.expr.affine import Linear
from pegbox.expr.bounds import Ranges
from pegbox.expr.build import conjuncts
from pegbox.expr.dtypes import INDEX
from pegbox.expr.low_level import Broadcast, Reinterpret
from pegbox.expr.nodes import Binary, Buffer, Call, Cast, Compare, Const, Expr, Load, Logic, Not, Select, Var
from pegbox.expr.simplify import simplified_linear
from pegbox.expr.visit import free_vars, substitute
from pegbox.loops.nodes import BlockRealize, For, If, Seq, Stmt, Store
from pegbox.loops.visit import expressions, straight_nest, substitute_vars, walk
from pegbox.schedule.intrinsics.intrinsic import TensorIntrin, described

_COMMUTATIVE = ("add", "mul", "min", "max")


class Mismatch(Exception):
    """A difference of the nest and the description; the message shows both sides."""


@dataclass(frozen=True)
class Operand:
    """The place of an operand: `dims` are the dimensions of `buffer` that are the operand's, in order.

    `offsets` are the indices of its first element, one for each dimension of `buffer`.
    """

    buffer: Buffer
    dims: tuple[int, ...]
    offsets: tuple[Linear, ...]


@dataclass
class _Match:
    """An attempt to match: the description's loops in terms of the nest's, and the operands that are known so far."""

    loops: Mapping[Var, Var]
    inside: set[Var]
    ranges: Ranges
    operands: dict[Buffer, Operand] = field(default_factory=dict)

    def stmt(self, mine: Stmt, theirs: Stmt) -> None:
        match mine, theirs:
            case Store(), Store():
                self.access(mine.buffer, mine.indices, theirs.buffer, theirs.indices, mine)
                self.expr(mine.value, theirs.value)
            case If(), If():
                ours, other = conjuncts(mine.condition), conjuncts(theirs.condition)
                if len(ours) != len(other):
                    raise _differ(mine.condition, theirs.condition)
                for a, b in zip(ours, other, strict=True):
                    self.expr(a, b)
                self.stmt(mine.then, theirs.then)
            case Seq(), Seq() if len(mine.stmts) == len(theirs.stmts):
                for one, two in zip(mine.stmts, theirs.stmts, strict=True):
                    self.stmt(one, two)
            case _:
                raise _differ(mine, theirs)

    def expr(self, mine: Expr, theirs: Expr) -> None:
        """Check that the two expressions compute the same."""
        if mine.dtype != theirs.dtype:
            raise Mismatch(f"{mine} is {mine.dtype}, the description has {theirs}, {theirs.dtype}")
        if mine.dtype == INDEX and not isinstance(mine, Load):
            ours, other = simplified_linear(mine, self.ranges), substitute(theirs, self.loops)
            if ours == simplified_linear(other, self.ranges):
                return
        match mine, theirs:
            case Const(), Const() if mine.value == theirs.value:
                return
            case Load(), Load():
                self.access(mine.buffer, mine.indices, theirs.buffer, theirs.indices, mine)
            case Binary(), Binary() if mine.op == theirs.op:
                self._operands((mine.a, mine.b), (theirs.a, theirs.b), mine.op in _COMMUTATIVE)
            case Compare() | Logic(), Compare() | Logic() if mine.op == theirs.op and type(mine) is type(theirs):
                self._operands((mine.a, mine.b), (theirs.a, theirs.b), False)
            case Not() | Cast() | Reinterpret() | Broadcast(), _ if type(mine) is type(theirs):
                self.expr(mine.a, theirs.a)
            case Select(), Select():
                self._all((mine.cond, mine.a, mine.b), (theirs.cond, theirs.a, theirs.b))
            case Call(), Call() if mine.name == theirs.name and len(mine.args) == len(theirs.args):
                self._all(mine.args, theirs.args)
            case _:
                raise _differ(mine, theirs)

    def _all(self, mine: Sequence[Expr], theirs: Sequence[Expr]) -> None:
        for a, b in zip(mine, theirs, strict=True):
            self.expr(a, b)

    def _operands(self, mine: tuple[Expr, Expr], theirs: tuple[Expr, Expr], commutes: bool) -> None:
        """Match the operands in their order; if that fails and the operation commutes, in the reverse order."""
        known = dict(self.operands)
        try:
            self._all(mine, theirs)
        except Mismatch:
            if not commutes:
                raise
            self.operands = dict(known)
            try:
                self._all(mine, theirs[::-1])
            except Mismatch:
                # The error for the written order explains the difference best.
                self.operands = known
                self._all(mine, theirs)

    def access(
        self, buffer: Buffer, indices: Sequence[Expr], operand: Buffer, wanted: Sequence[Expr], shown: object
    ) -> None:
        """Match an element of the nest's buffer with an element of the operand."""
        if buffer.dtype != operand.dtype:
            raise Mismatch(f"{buffer!r} corresponds to {operand!r} of the description: the dtypes differ")
        dims, offsets = self._place(buffer, indices, operand, wanted)
        found = Operand(buffer, dims, offsets)
        known = self.operands.setdefault(operand, found)
        if known != found:
            raise Mismatch(
                f"{operand.name} of the description is {_tile(known)} in one place and {_tile(found)} in another"
            )

    def _place(
        self, buffer: Buffer, indices: Sequence[Expr], operand: Buffer, wanted: Sequence[Expr]
    ) -> tuple[tuple[int, ...], tuple[Linear, ...]]:
        """Find the operand's dimensions, starting from the last one; along the others, the tile has one element."""
        rest = list(range(len(operand.shape)))
        dims: list[int] = []
        offsets: list[Linear] = []
        for dim in reversed(range(len(buffer.shape))):
            inner, outer = self._parts(indices[dim])
            goal = self._wanted(wanted[rest[-1]]) if rest else None
            if (
                goal is not None
                and inner == goal[0]
                and (inner.terms or len(rest) > dim or operand.shape[rest[-1]] == 1)
            ):
                offsets.append(outer.add(goal[1], -1))
                dims.append(dim)
                rest.pop()
            elif not inner.terms:
                offsets.append(outer)
            else:
                described = f"the description {operand.name}[{', '.join(map(str, wanted))}]"
                raise Mismatch(
                    f"{buffer.name}[{', '.join(map(str, indices))}] is indexed by {inner.to_expr()} in dimension "
                    f"{dim}, {described}"
                )
        if rest:
            raise Mismatch(
                f"{buffer.name}[{', '.join(map(str, indices))}] has no dimension for {wanted[rest[-1]]} of "
                f"{operand.name}[{', '.join(map(str, wanted))}] in the description"
            )
        return tuple(reversed(dims)), tuple(reversed(offsets))

    def _parts(self, index: Expr) -> tuple[Linear, Linear]:
        """Split an index into the part of the inner loops and the beginning of the tile."""
        form = simplified_linear(index, self.ranges)
        inner = {t: c for t, c in form.terms.items() if free_vars(t) & self.inside}
        mixed = next((t for t in inner if free_vars(t) - self.inside), None)
        if mixed is not None:
            raise Mismatch(f"the index {index} joins loops inside and outside in {mixed}")
        return Linear(inner, 0), Linear({t: c for t, c in form.terms.items() if t not in inner}, form.const)

    def _wanted(self, index: Expr) -> tuple[Linear, Linear]:
        form = simplified_linear(substitute(index, self.loops), self.ranges)
        return Linear(form.terms, 0), Linear({}, form.const)


def _tile(operand: Operand) -> str:
    return f"{operand.buffer.name}[{', '.join(str(o.to_expr()) for o in operand.offsets)}]"


def _differ(mine: object, theirs: object) -> Mismatch:
    return Mismatch(f"the nest has {mine}, the description {theirs}")


def match(loops: Sequence[For], realize: BlockRealize, intrin: TensorIntrin, ranges: Ranges) -> dict[Buffer, Operand]:
    """Return the operands of the intrinsic in a nest.

    Args:
        loops: the loops of the nest, outermost first, down to the block `realize`.

    Raises:
        Mismatch: the nest computes something else.
    """
    theirs, block = described(intrin)
    if realize.block.is_reduction != block.block.is_reduction:
        words = {True: "reduces", False: "does not reduce"}
        raise Mismatch(
            f"block {realize.block.name} {words[realize.block.is_reduction]}, the description's {block.block.name} "
            f"{words[block.block.is_reduction]}"
        )
    return _any_order(loops, _bound(realize, realize.block.body), theirs, _bound(block, block.block.body), ranges)


def match_init(init: Stmt, intrin: TensorIntrin, operands: Mapping[Buffer, Operand], ranges: Ranges) -> None:
    """Check that the nest `init` initializes the elements as the description does."""
    theirs, block = described(intrin)
    assert block.block.init is not None
    goal = _bound(block, block.block.init)
    used = {var for node in walk(goal) for expr in expressions(node) for var in free_vars(expr)}
    loops, node = straight_nest(init)
    if not isinstance(node, BlockRealize):
        raise Mismatch(f"more than one nest initializes the elements:\n{init}")
    found = _any_order(loops, _bound(node, node.block.body), [x for x in theirs if x.var in used], goal, ranges)
    for operand, place in found.items():
        if operands.get(operand) != place:
            raise Mismatch(f"the nest starts {_tile(place)}, and adds up in another place")


def _any_order(
    loops: Sequence[For], mine: Stmt, theirs: Sequence[For], goal: Stmt, ranges: Ranges
) -> dict[Buffer, Operand]:
    """Match the loops in an order that fits; if none does, raise the error for the first order."""
    own, other = [x for x in loops if x.extent > 1], [x for x in theirs if x.extent > 1]
    if sorted(x.extent for x in own) != sorted(x.extent for x in other):
        raise Mismatch(f"the nest has {_listed(own)}, the description {_listed(other)}")
    single = {x.var: Var(x.var.name) for x in theirs if x not in other}
    known = {**ranges, **{x.var: (0, x.extent - 1) for x in loops}, **dict.fromkeys(single.values(), (0, 0))}
    first: Mismatch | None = None
    for order in permutations(own):
        if any(a.extent != b.extent for a, b in zip(order, other, strict=True)):
            continue
        pairs = {b.var: a.var for a, b in zip(order, other, strict=True)}
        try:
            found = _Match({**pairs, **single}, {x.var for x in loops}, known)
            found.stmt(mine, goal)
            return found.operands
        except Mismatch as mismatch:
            first = first or mismatch
    assert first is not None
    raise first


def _listed(loops: Sequence[For]) -> str:
    return " x ".join(f"{x.var.name} ({x.extent})" for x in loops) or "no loops"


def _bound(realize: BlockRealize, part: Stmt) -> Stmt:
    """Return a part of a block in terms of the loops around it."""
    return substitute_vars(part, realize.bindings)
