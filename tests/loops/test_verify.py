"""Programs that are not well-formed are refused."""

from __future__ import annotations

from typing import Any

import pytest

from pegbox.errors import LoweringError
from pegbox.expr.build import TRUE
from pegbox.expr.nodes import Buffer, Const, Load, Var
from pegbox.loops.module import IRModule
from pegbox.loops.nodes import (
    Alloc,
    Block,
    BlockIter,
    BlockRealize,
    For,
    Function,
    If,
    IterKind,
    Region,
    Seq,
    Stmt,
    Store,
)
from pegbox.loops.verify import verify

A, B = Buffer("A", (4,)), Buffer("B", (4,))
J, V = Var("i"), Var("v")
ONE = Const(1.0, "float32")


def number(value: int) -> Const:
    return Const(value, "int64")


def func(body: Stmt, **options: Any) -> Function:
    return Function("f", (A,), (A,), body, **options)


def block(name: str = "X", **changed: Any) -> BlockRealize:
    parts: dict[str, Any] = {
        "iters": (BlockIter(V, 4, IterKind.SPATIAL),),
        "reads": (),
        "writes": (Region(A, ((V, 1),)),),
        "body": Store(A, (V,), ONE),
        "values": (J,),
        "predicate": TRUE,
    } | changed
    values, predicate = parts.pop("values"), parts.pop("predicate")
    return BlockRealize(values, Block(name, **parts), predicate)


def test_a_good_program_passes() -> None:
    verify(func(For(J, 4, block())))
    IRModule(func(For(J, 4, block()))).verify()
    verify(func(For(J, 9, block(predicate=J < 4))))
    verify(func(If(Load(A, (number(0),)) > 0, Store(A, (number(7),), ONE))))  # whether that runs is not known


BAD = {
    "the loop variable i is bound twice": For(J, 4, For(J, 4, Store(A, (J,), ONE))),
    r"the loop variable i has an empty domain, range\(0\)": For(J, 0, Store(A, (J,), ONE)),
    "the variable v is used where it is not known": Store(A, (V,), ONE),
    "the buffer B is neither a parameter nor allocated around its use": Store(B, (number(0),), ONE),
    "has 1 dimension.s. and is given 2 indices": Store(A, (number(0), number(0)), ONE),
    "index 0 of A, 4, goes from 4 to 4": Store(A, (number(4),), ONE),
    r"index 0 of A, i \+ 1, goes from 1 to 4": For(J, 4, Store(A, (J + 1,), ONE)),
    "the index 0.5 of A is float32": Store(A, (Const(0.5, "float32"),), ONE),
    "1, int64, is stored in": Store(A, (number(0),), number(1)),
    "the condition 1 is int64": If(number(1), Store(A, (number(0),), ONE)),
    "two blocks are called 'X'": Seq((For(J, 4, block()), block(iters=(), values=(), writes=(), body=Seq(())))),
    "block X has 1 variables and 0 values": For(J, 4, block(values=())),
    r"block X: v = i, goes from 0 to 7, beyond range\(4\)": For(J, 8, block()),
    "block X has an init but no reduce variable": For(J, 4, block(init=Store(A, (V,), ONE))),
    "the variable i is used where it is not known": For(J, 4, block(body=Store(A, (J,), ONE))),
    "block X writes A beyond the regions that it states": For(J, 4, block(writes=())),
    "block X reads A beyond": For(J, 4, block(body=Store(A, (V,), Load(A, (3 - V,))))),
    "the buffer E has an empty dimension": Alloc(Buffer("E", (0,)), Seq(())),
}


@pytest.mark.parametrize("message", BAD)
def test_what_is_wrong_is_reported(message: str) -> None:
    with pytest.raises(LoweringError, match="f: .*" + message):
        verify(func(BAD[message]))


def test_parameters_are_checked() -> None:
    with pytest.raises(LoweringError, match="a buffer occurs twice among the parameters"):
        verify(Function("f", (A, A), (A,), Seq(())))
    with pytest.raises(LoweringError, match="the output B is not among the parameters"):
        verify(Function("f", (A,), (B,), Seq(())))
