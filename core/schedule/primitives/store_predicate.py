"""Primitive set_store_predicate."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from math import prod
from typing import ClassVar, NoReturn

from pegbox.errors import ExprError, ScheduleError
from pegbox.expr import build
from pegbox.expr.build import all_of, conjuncts, logical_and
from pegbox.expr.evaluate import evaluate
from pegbox.expr.nodes import Call, Expr, Load, Var
from pegbox.expr.printer import show
from pegbox.expr.reader import ARITHMETIC, CONDITIONS, Operations, Reader
from pegbox.expr.visit import free_vars, substitute, walk
from pegbox.loops.nodes import BlockRealize, For
from pegbox.schedule.analysis import mentions, reduce_values, spatial_values
from pegbox.schedule.state.handles import BlockRef
from pegbox.schedule.state.recording import primitive
from pegbox.schedule.state.schedule_state import ScheduleState
from pegbox.schedule.tree import Tree, annotated

_MOST_THREADS = 1 << 16  # the most threads for which a predicate is evaluated


@primitive
def set_store_predicate(sch: ScheduleState, block: BlockRef | str, predicate: str | Expr) -> None:
    """Let a block store only in threads for which a condition on thread axes holds.

    Args:
        predicate: such as "threadIdx.x == 0", or `tx.var.equal(0)` for a thread axis `tx`; the trace records it as
            text.

    Before `set_store_predicate("B", "threadIdx.x == 0")`::

        for k in thread(threadIdx.x) range(16):
            block B: B[0] = B[0] + A[vk]

    After::

        for k in thread(threadIdx.x) range(16):
            block B: B[0] = B[0] + A[vk]
                annotation store_predicate = threadIdx.x == 0

    The condition may only drop stores that other threads do as well: if threads reduce together, all of them have the
    result (the block keeps the condition as an annotation); threads that the block does not distinguish compute the
    same values (the others are then skipped).

    Raises:
        ScheduleError: the predicate is not a condition on thread axes; no loop around the block is bound to one of
            them; the condition holds for no thread; an axis selects the elements that the block writes, or other
            threads need these, too.
    """
    change = _Predicate(sch.tree, sch.find_block(block), predicate)
    sch.amended["predicate"] = change.text
    sch.update(change.done())


class _Predicate:
    """A call of set_store_predicate."""

    def __init__(self, tree: Tree, realize: BlockRealize, predicate: str | Expr) -> None:
        self.tree = tree
        self.realize = realize
        self.predicate = predicate
        self.text = predicate if isinstance(predicate, str) else _text(predicate)
        # If an axis has several loops, the innermost one distinguishes the threads.
        self.loops = {x.kind.value: x for x in tree.ancestors(realize) if x.kind.is_bound}

    def done(self) -> Tree:
        """Return the program with the condition on the block's stores."""
        condition = self._condition()
        self._check_alone()
        loops = [x for x in self.loops.values() if x.var in free_vars(condition)]
        changed: For | BlockRealize
        kept = [self._keeps_all(loop) for loop in loops]
        if any(kept) or not loops:
            self._check_some(condition, loops)
            changed = annotated(self.realize, "store_predicate", self.text)
        else:
            self._check_some(all_of([condition, *self._guards(loops)]), loops)
            changed = replace(self.realize, predicate=logical_and(self.realize.predicate, condition))
        return Tree(self.tree.replace(self.realize, changed))

    def _condition(self) -> Expr:
        try:
            condition = self.predicate if isinstance(self.predicate, Expr) else _Condition().read(self.text)
            values = self._axes(condition)
            if condition.dtype != "bool":
                raise ExprError(f"{self.text!r} is a number, not a condition")
        except ExprError as error:
            remedy = "compare the axes of the thread loops around the block with numbers"
            raise self._refuse(str(error), remedy) from error
        return substitute(condition, values)

    def _axes(self, condition: Expr) -> dict[Var, Expr]:
        """Find the loop variables for the axes in a condition."""
        found: dict[Var, Expr] = {}
        for node in walk(condition):
            if isinstance(node, Load | Call):
                raise ExprError(f"{node} does not compare thread axes with numbers")
            if isinstance(node, Var):
                name = _axis_name(node)
                if name not in self.loops:
                    known = f"bound are {', '.join(self.loops)}" if self.loops else "no loop around it is bound"
                    raise ExprError(f"no loop around the block is bound to {name}; {known}")
                found[node] = self.loops[name].var
        return found

    def _check_alone(self) -> None:
        """Check that no other block writes the elements: all threads would still run it, like an init after a sum."""
        buffers = {region.buffer for region in self.realize.block.writes}
        others = [r.block.name for b in buffers for r in self.tree.writers(b) if r is not self.realize]
        if others:
            raise self._refuse(
                f"{', '.join(others)} writes the same buffer, in all threads",
                "set the predicate first, then decompose the reduction or partition the loop",
                *others,
            )

    def _guards(self, loops: Sequence[For]) -> list[Expr]:
        """List the conditions on the axes that the block's predicate already has."""
        axes = {loop.var for loop in loops}
        guards = [part for part in conjuncts(self.realize.predicate) if free_vars(part) & axes]
        for part in guards:
            if not free_vars(part) <= axes:
                raise self._refuse(f"the storing threads are limited already, by {part}", "use another axis")
        return guards

    def _check_some(self, condition: Expr, loops: Sequence[For]) -> None:
        """Check that the condition holds for a thread."""
        if prod(loop.extent for loop in loops) > _MOST_THREADS:
            raise self._refuse("it depends on too many threads to evaluate it for each", "use fewer axes in it")
        threads = product(*(range(loop.extent) for loop in loops))
        names = [x.var for x in loops]
        if not any(evaluate(condition, dict(zip(names, values, strict=True))) for values in threads):
            raise self._refuse("it holds for no thread, so nothing would be stored", "let it hold for one of them")

    def _keeps_all(self, loop: For) -> bool:
        """Decide if all threads have the value anyway; else check that dropped threads do not need it."""
        name = self.realize.block.name
        if any(mentions(v, loop.var) for v in spatial_values(self.realize)):
            raise self._refuse(
                f"{loop.kind.value} selects what {name} writes: elements would be left without a value",
                "use an axis that the block reduces over or does not use",
                loop.var,
            )
        if any(mentions(v, loop.var) for v in reduce_values(self.realize)):
            return True
        shared = False
        for region in self.realize.block.writes:
            inside = [r.block.name for r in self.tree.readers(region.buffer) if self.tree.is_under(r, loop)]
            if inside and not loop.kind.shares(region.buffer.scope):
                raise self._refuse(
                    f"{inside[0]} reads {region.buffer.name} in all threads, but its scope is {region.buffer.scope!r}",
                    "let the threads share the buffer: set_scope(..., 'shared')",
                    loop.var,
                    inside[0],
                )
            shared = shared or bool(inside)
        return shared

    def _refuse(self, problem: str, remedy: str, *marked: Var | str) -> ScheduleError:
        return ScheduleError(problem, remedy, self.realize.block.name, *marked)


def _text(condition: Expr) -> str:
    """Write a condition as text: "threadIdx.x == 0 and threadIdx.y < 4"."""
    return show(condition, {axis: _axis_name(axis) for axis in free_vars(condition)})


def _axis_name(axis: Var) -> str:
    return getattr(axis, "thread_tag", axis.name)


class _Condition(Reader):
    """A reader of conditions in which variables are thread axes."""

    operations: ClassVar[Operations] = {**ARITHMETIC, **CONDITIONS}

    def read(self, text: str) -> Expr:
        try:
            found: Expr = self.value(ast.parse(text, mode="eval").body)
        except (SyntaxError, ValueError) as error:
            raise ExprError(f"{text!r} is not a condition") from error
        return found

    def constant(self, node: ast.Constant) -> Expr:
        return build.const(node.value, "bool") if isinstance(node.value, bool) else super().constant(node)

    def name(self, node: ast.Name | ast.Attribute) -> Expr:
        return Var(ast.unparse(node))

    def refuse(self, node: ast.AST, operation: ast.AST | None = None) -> NoReturn:
        if operation is None:
            raise ExprError(f"{ast.unparse(node)} does not compare thread axes with numbers")
        raise ExprError(f"{type(operation).__name__} has no place in a condition on threads")
