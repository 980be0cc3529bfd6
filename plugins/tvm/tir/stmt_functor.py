"""`tvm.tir.stmt_functor`: walking and changing programs. The nodes are pegbox's, with their own fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from pegbox.expr import visit as of_expressions
from pegbox.expr.nodes import Expr, Var
from pegbox.loops.module import IRModule
from pegbox.loops.nodes import Alloc, BlockRealize, Evaluate, For, Function, If, Seq, Stmt, Store
from pegbox.loops.visit import children, expressions, map_children, substitute_vars

_KINDS: dict[type[Stmt], str] = {
    Alloc: "tir.Allocate", BlockRealize: "tir.BlockRealize", Evaluate: "tir.Evaluate", For: "tir.For",
    If: "tir.IfThenElse", Seq: "tir.SeqStmt", Store: "tir.BufferStore",
}  # fmt: skip


Node: TypeAlias = Stmt | Expr | Function | IRModule


def post_order_visit(node: Node, fvisit: Callable[[Any], object]) -> None:
    """Call `fvisit` for everything in a statement, an expression or a program, parts first."""
    for part in _parts(node):
        post_order_visit(part, fvisit)
    fvisit(node)


def pre_order_visit(node: Node, fvisit: Callable[[Any], object]) -> None:
    """Call `fvisit` for everything, parts last; those of a node for which it says False are left out."""
    if fvisit(node) is False:
        return
    for part in _parts(node):
        pre_order_visit(part, fvisit)


def ir_transform(
    stmt: Stmt,
    preorder: Callable[[Any], Stmt | None] | None,
    postorder: Callable[[Any], Stmt | None] | None,
    only_enable: Sequence[str] | None = None,
) -> Stmt:
    """The statement, changed from the inside out.

    Args:
        preorder: what it gives replaces a statement whole; where it gives None, its parts are changed first.
        postorder: what it gives replaces a statement whose parts are changed; None leaves it.
        only_enable: kinds of statements that the two are asked about, such as "tir.For"; all by default.
    """
    asked = only_enable is None or _KINDS.get(type(stmt)) in only_enable
    if preorder is not None and asked and (new := preorder(stmt)) is not None:
        return new
    changed = map_children(stmt, lambda child: ir_transform(child, preorder, postorder, only_enable))
    new = postorder(changed) if postorder is not None and asked else None
    return changed if new is None else new


def substitute(node: Stmt | Expr, vmap: Mapping[Var, Expr]) -> Stmt | Expr:
    """The statement or expression with other expressions in place of variables."""
    return of_expressions.substitute(node, vmap) if isinstance(node, Expr) else substitute_vars(node, vmap)


def _parts(node: Node) -> tuple[Node, ...]:
    if isinstance(node, IRModule):
        return tuple(node.functions.values())
    if isinstance(node, Function):
        return (node.body,)
    return of_expressions.children(node) if isinstance(node, Expr) else (*expressions(node), *children(node))
