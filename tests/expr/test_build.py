"""Building expressions: types, folding, printing, truth values."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable

import numpy as np
import pytest

from pegbox.errors import ExprError, UnknownValue
from pegbox.expr import build, intrinsics
from pegbox.expr.equal import same
from pegbox.expr.nodes import Binary, Buffer, Compare, Const, Expr, Load, Var

F = Load(Buffer("A", (4,), "float32"), (build.index(0),))
N = Load(Buffer("B", (4,), "int32"), (build.index(0),))
B8 = Load(Buffer("C", (4,), "int8"), (build.index(0),))
U8 = Load(Buffer("D", (4,), "uint8"), (build.index(0),))
D = Load(Buffer("E", (4,), "float64"), (build.index(0),))


@pytest.mark.parametrize(
    ("expr", "dtype"),
    [
        (F + 1, "float32"),
        (1.5 * F, "float32"),
        (F + D, "float64"),
        (N + B8, "int32"),
        (N + F, "float32"),
        (U8 + B8, "int16"),
        (N + 1, "int32"),
        (F < 0, "bool"),
        (F + np.float64(2), "float32"),
        (U8 + 255, "uint8"),
        (U8 + 256, "int64"),
        (U8 * -1, "int64"),
        (B8 - 129, "int64"),
        (B8 + True, "int8"),
        (200 % B8, "int64"),
    ],
)
def test_operands_meet_in_the_wider_type(expr, dtype):
    assert expr.dtype == dtype


def test_numbers_beyond_the_type_of_the_other_side_keep_their_value():
    assert str(U8 < 256) == "int64(D[0]) < 256"
    assert str(U8 > -1) == "int64(D[0]) > -1"
    assert str(build.select(U8 == 0, 300, U8)) == "select(D[0] == uint8(0), 300, int64(D[0]))"


def test_index_arithmetic_folds():
    i = Var("i")
    assert same(i * 1 + 0, i)
    assert isinstance(build.index(3) + 4, Const)
    assert str((i + 2) * 3 - i) == "(i + 2) * 3 - i"


def test_float_arithmetic_is_left_alone():
    assert str(F * 0.0 + 0.0) == "A[0] * 0.0 + 0.0"


def test_narrow_constants_wrap():
    assert build.const(300, "uint8").value == 44
    assert build.const(128, "int8").value == -128


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: N / 2, "ambiguous"),
        (lambda: F // 2, "needs integers"),
        (lambda: N % 0, "division by zero"),
        (lambda: (F < 1) + (F < 2), "arithmetic on bool"),
        (lambda: F + "x", "cannot use 'x'"),
        (lambda: build.const(1.5, "int32"), "cast explicitly"),
        (lambda: build.const(1, "float8"), "unknown dtype 'float8'"),
        (lambda: Var("i") + 2**63, "9223372036854775808 does not fit in int64"),
        (lambda: build.select(F, 1, 2), "where a condition is needed"),
        (lambda: intrinsics.call("exp", N), "needs a float"),
        (lambda: intrinsics.call("pow", F), "takes 2 argument"),
        (lambda: intrinsics.call("gamma", F), "unknown intrinsic"),
    ],
)
def test_what_makes_no_sense_is_refused_with_a_remedy(make, words):
    with pytest.raises(ExprError, match=words):
        make()


def test_a_condition_has_no_truth_value():
    with pytest.raises(ExprError, match="if_then_else"):
        bool(Var("i") < 3)


def test_equality_is_an_expression_whose_truth_is_structural():
    i, j = build.variables("i j")
    assert (i + 1) == (i + 1)
    assert (i + 1) != (j + 1)
    assert (i == j).dtype == "bool"
    assert str(build.select(i == j, 1.0, 0.0)) == "select(i == j, 1.0, 0.0)"


def test_expressions_work_in_containers():
    i, j = build.variables("i j")
    assert {i + j: 1}[i + j] == 1
    assert i in [j, i]
    assert (j * 2) not in [j, i]


def test_expressions_survive_pickling():
    i = Var("i")
    expr = build.select(i < 3, F * 2 + 1, -F)
    assert str(pickle.loads(pickle.dumps(expr))) == str(expr)


def test_printing_keeps_the_meaning_of_parentheses():
    i, j, k = build.variables("i j k")
    assert str(i - (j - k)) == "i - (j - k)"
    assert str((i + j) % 4 * k) == "(i + j) % 4 * k"
    assert str(i // (j * k)) == "i // (j * k)"
    assert str(build.logical_and(build.logical_or(i < j, j < k), i < k)) == "(i < j or j < k) and i < k"


def test_equality_of_constants_is_decided_where_it_becomes_a_part_of_something() -> None:
    """An equality alone is kept, since Python asks for its truth value; reading a script back would decide it."""
    one, other, x = build.const(17, "int8"), build.const(-1, "int8"), Var("x", "int8")
    assert isinstance(one == other, Compare)
    assert same(build.select(one != other, x, x + 1), x)
    assert same(build.select(one == other, x, x + 1), x + 1)
    assert same(build.cast("int32", one == one), build.const(1, "int32"))
    assert same(build.logical_and(one != other, x < 3), x < 3)
    assert same(build.as_expr(one == other), build.FALSE)


@pytest.mark.parametrize(
    "ask",
    [
        lambda x: x in (1, 2),
        lambda x: 1 in [x],
        lambda x: bool(x == 1),
        lambda x: bool(x != 1),
        lambda x: bool(x == 2.5),
    ],
)
def test_the_truth_value_of_a_comparison_with_a_number_is_refused(ask: Callable[[Expr], object]) -> None:
    """Structural equality, by which containers find expressions, would say no."""
    with pytest.raises(UnknownValue, match=r"te.any\(x == 1, x == 2\)"):
        ask(Var("x"))


def test_comparisons_with_numbers_are_conditions_like_others() -> None:
    x = Var("x")
    assert type(build.as_expr(x == 1)) is Compare
    assert same(build.select(x == 1, x, 0), build.select(build.equal(x, build.const(1)), x, 0))
    assert str(build.logical_or(x == 1, x == 2)) == "x == 1 or x == 2"
    assert x in (Var("y"), x)


class _Counted(int):
    """A number that counts how often it is hashed."""

    hashed = 0

    def __hash__(self) -> int:
        type(self).hashed += 1
        return super().__hash__()


def test_a_shared_part_is_hashed_once() -> None:
    part = Binary("mul", Var("x"), Const(_Counted(3), "int64"))
    whole: Expr = part
    for _ in range(10):
        whole = Binary("max", whole, Load(Buffer("A", (8,), "int64"), (whole,)))
        hash(whole)
    assert _Counted.hashed == 1


@pytest.mark.parametrize("again", [copy.deepcopy, lambda expr: pickle.loads(pickle.dumps(expr))])
def test_a_copy_has_the_hash_of_its_own_variables(again: Callable[[Expr], Binary]) -> None:
    expr = Var("x") + 1
    hash(expr)
    copied = again(expr)
    assert copied in {Binary("add", copied.a, build.const(1))}
