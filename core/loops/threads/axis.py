"""Thread axes, to which loops are bound so that each iteration is a thread or a block of threads, and conditions."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import ClassVar, NoReturn

from pegbox.checks import check_flag, check_text
from pegbox.compute.axis import IterVar, Range
from pegbox.errors import ComputeError, ExprError
from pegbox.expr import build
from pegbox.expr.dtypes import integer
from pegbox.expr.nodes import Call, Expr, Load, Var
from pegbox.expr.printer import show
from pegbox.expr.reader import ARITHMETIC, CONDITIONS, Operations, Reader
from pegbox.expr.visit import free_vars, substitute, walk
from pegbox.loops.kind import AXES
from pegbox.shown import value_text


class ThreadAxis(IterVar):
    """A thread axis with its `thread_tag`; `fixed_extent` is the number of threads, if it was given."""

    __slots__ = ("fixed_extent", "thread_tag")

    def __init__(self, name: str, extent: int | None, tag: str) -> None:
        super().__init__(name, Range(0, extent or 1), "thread")
        self.fixed_extent = extent
        self.thread_tag = tag


def thread_axis(dom: int | tuple[int, int] | Range | str | None = None, tag: str = "", name: str = "") -> ThreadAxis:
    """Make an axis for `s[T].bind(loop, axis)`.

    Args:
        dom: the number of threads, or (0, number); without it the loop's extent decides. The tag may be given here.
        tag: blockIdx.x/y/z (blocks, which know nothing of each other), threadIdx.x/y/z (the threads of a block, which
            share memory), vthread or vthread.x/y/z (one thread's work, strided).
        name: by default the tag.

    Raises:
        ComputeError: an unknown tag, or a domain that does not start at zero.
    """
    if isinstance(dom, str):
        if check_flag("thread_axis: tag", tag, error=ComputeError):
            raise ComputeError(
                f"thread_axis({value_text(dom)}, {value_text(tag)}): two tags; write thread_axis((0, extent), "
                f"{value_text(tag)})"
            )
        tag, dom = dom, None
    check_text("thread_axis: name", name, error=ComputeError)
    if not isinstance(tag, str) or tag not in AXES:
        raise ComputeError(f"thread_axis: unknown thread axis {tag!r}; use one of {', '.join(AXES)}")
    if dom is None:
        return ThreadAxis(name or tag, None, tag)
    if isinstance(dom, Range):
        dom = (dom.min, dom.extent)
    low, extent = dom if isinstance(dom, tuple | list) and len(dom) == 2 else (0, dom)
    number = integer(extent)
    if integer(low) != 0 or number is None or number < 1:
        raise ComputeError(f"thread_axis({dom!r}, {tag!r}): threads count from 0; give (0, extent) with extent >= 1")
    return ThreadAxis(name or tag, number, tag)


def condition_text(condition: Expr) -> str:
    """Write a condition on thread axes as text: "threadIdx.x == 0 and threadIdx.y < 4"."""
    return show(condition, {axis: axis.thread_tag for axis in free_vars(condition) if isinstance(axis, ThreadAxis)})


def bound_condition(condition: str | Expr, axes: Mapping[str, Expr]) -> Expr:
    """Replace the thread axes in a condition, which is a value or its text.

    Raises:
        ValueError: it is not a condition, or it is not about the axes alone; the message names the part.
    """
    text = condition if isinstance(condition, str) else condition_text(condition)
    if isinstance(condition, str):
        try:
            condition = _Condition().value(ast.parse(text, mode="eval").body)
        except SyntaxError as error:
            raise ValueError(f"{text!r} is not a condition") from error
        except ExprError as error:
            raise ValueError(str(error)) from error
    assert isinstance(condition, Expr)
    values: dict[Var, Expr] = {}
    for node in walk(condition):
        if isinstance(node, Load | Call):
            raise ValueError(f"{node} does not compare thread axes with numbers")
        if isinstance(node, Var):
            name = getattr(node, "thread_tag", node.name)
            if name not in axes:
                known = f"bound are {', '.join(axes)}" if axes else "no loop around it is bound"
                raise ValueError(f"no loop around the block is bound to {name}; {known}")
            values[node] = axes[name]
    if condition.dtype != "bool":
        raise ValueError(f"{text!r} is a number, not a condition")
    return substitute(condition, values)


class _Condition(Reader):
    """A reader of conditions in which variables stand for thread axes."""

    operations: ClassVar[Operations] = {**ARITHMETIC, **CONDITIONS}

    def constant(self, node: ast.Constant) -> Expr:
        return build.const(node.value, "bool") if isinstance(node.value, bool) else super().constant(node)

    def name(self, node: ast.Name | ast.Attribute) -> Expr:
        return Var(ast.unparse(node))

    def refuse(self, node: ast.AST, operation: ast.AST | None = None) -> NoReturn:
        if operation is None:
            raise ValueError(f"{ast.unparse(node)} does not compare thread axes with numbers")
        raise ValueError(f"{type(operation).__name__} has no place in a condition on threads")
