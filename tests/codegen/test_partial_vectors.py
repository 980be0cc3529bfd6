"""The end of a row, stored from a register tile: under a mask where that is one instruction, else in pieces."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from lowered_programs import ONE_CORE, UNROLLED, VECTORIZED, WIDE, alloc, check, function, get, loop, numbers, put, run

from pegbox.codegen import Target, build, emit
from pegbox.expr.build import cast, const, floordiv, maximum
from pegbox.expr.intrinsics import call
from pegbox.expr.nodes import Buffer, Compare, Expr, Logic, Var
from pegbox.loops.nodes import Function, If, Stmt, seq

AVX2 = Target("llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=x86-64-v3 -num-cores 1")


def stored_tile(
    size: int,
    value: Callable[[Expr, Expr], Expr] = lambda tile, _: tile,
    *,
    dtype: str = "float32",
    row: int = 32,
    room: int = 0,
) -> Function:
    """Make c[y, :size] = value(t[y, :size], a[y, :size]), where the rows t = a + 1 are whole vectors of a tile."""
    a, c, t = Buffer("a", (3, row), dtype), Buffer("c", (3, size + room), dtype), Buffer("t", (3, row), dtype, "local")
    fill = loop("y", 3, lambda y: loop("x", row, lambda x: put(t, y, x, get(a, y, x) + 1), VECTORIZED), UNROLLED)
    out = loop(
        "y",
        3,
        lambda y: loop("x", size, lambda x: put(c, y, x, value(get(t, y, x), get(a, y, x))), VECTORIZED),
        UNROLLED,
    )
    return function([a, c], [c], alloc(t, seq(fill, out)))


def stored_where(condition: Callable[[Var], Expr]) -> Function:
    """Make c[:14] = a[:14], then c[x] = t[x] for those x < 14 with a condition, where the tile t = a + 1."""
    a, c, t = (Buffer(name, (16,), "float32", "local" if name == "t" else "global") for name in "act")
    fill = loop("x", 16, lambda x: seq(put(t, x, get(a, x) + 1), put(c, x, get(a, x))), VECTORIZED)
    some = loop("x", 14, lambda x: If(condition(x), put(c, x, get(t, x))), VECTORIZED)
    return function([a, c], [c], alloc(t, seq(fill, some)))


def at_either_end(x: Var) -> Expr:
    return Logic("or", x < 8, x >= 12)


def outside_the_third_four(x: Var) -> Expr:
    return Compare("ne", floordiv(x + 4, 4), const(3, "int64"))


def permuted(store: Callable[[Buffer, Buffer, Expr, Var], Stmt]) -> Function:
    """Make store(c, t, i[j], j) for 14 indices, where the tile t = a."""
    a, i, c = Buffer("a", (16,), "float32"), Buffer("i", (14,), "int32"), Buffer("c", (16,), "float32")
    t = Buffer("t", (16,), "float32", "local")
    fill = loop("j", 16, lambda j: put(t, j, get(a, j)), VECTORIZED)
    moved = loop("j", 14, lambda j: store(c, t, cast("int64", get(i, j)), j), VECTORIZED)
    return function([a, i, c], [c], alloc(t, seq(fill, moved)))


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32"])
@pytest.mark.parametrize("size", [*range(1, 17), 23, 28, 31])
def test_the_end_of_a_row_has_its_values(size: int, dtype: str) -> None:
    check(stored_tile(size, dtype=dtype))


@pytest.mark.parametrize("size", [3, 7, 14, 28])
def test_nothing_behind_a_row_is_written(size: int) -> None:
    func = stored_tile(size, room=5)
    got = run(build(emit(func, ONE_CORE)), {"a": numbers(func.params[0])})[0]
    assert (got[:, size:] == 77).all()
    assert not (got[:, :size] == 77).any()


@pytest.mark.parametrize(("size", "count"), [(3, 4), (7, 8), (12, 16), (14, 16), (28, 16)])
def test_the_end_of_a_row_is_one_store_under_a_mask(size: int, count: int) -> None:
    text = emit(stored_tile(size), WIDE).ll
    assert text.count(f"call void @llvm.masked.store.v{count}f32") == 3


def test_values_that_lanes_have_in_common_and_functions_of_them_need_no_pieces() -> None:
    text = emit(stored_tile(14, lambda tile, _: call("exp", maximum(tile, 0.0) * 2.0)), WIDE).ll
    assert text.count("call void @llvm.masked.store.v16f32") == 3
    check(stored_tile(14, lambda tile, _: call("exp", maximum(tile, 0.0) * 2.0)))


@pytest.mark.parametrize(
    ("func", "target"),
    [
        (stored_tile(14), AVX2),
        (stored_tile(14, row=14), WIDE),
        (stored_tile(14, lambda tile, other: tile + other), WIDE),
        (stored_tile(14, lambda tile, _: cast("float32", floordiv(cast("int32", tile), cast("int32", tile)))), WIDE),
        (stored_tile(14, dtype="float16"), WIDE),
        (stored_tile(8), WIDE),
        (stored_tile(16), WIDE),
    ],
    ids=["no masks", "narrow tile", "another array", "division", "small elements", "power of two", "whole vector"],
)
def test_others_are_stored_in_pieces(func: Function, target: Target) -> None:
    assert "masked.store" not in emit(func, target).ll


def rows_of_five(scope: str, row: int) -> Function:
    """Make t[y, :5] = a[y, :5] + 1 under a condition in vectors of 16, then c[y] = t[y, 4]."""
    a, t, c = Buffer("a", (4, 16)), Buffer("t", (4, row), "float32", scope), Buffer("c", (4,))

    def fill(y: Var) -> Stmt:
        return loop("x", 16, lambda x: If(x < 5, put(t, y, x, get(a, y, x) + 1.0)), VECTORIZED)

    body = seq(loop("y", 4, fill), loop("y", 4, lambda y: put(c, y, get(t, y, 4))))
    return function([a, c], [c], alloc(t, body)) if scope == "local" else function([a, c, t], [c, t], body)


@pytest.mark.parametrize(
    ("scope", "row", "count"),
    [("local", 16, 0), ("local", 32, 0), ("local", 5, 1), ("global", 16, 1)],
    ids=["vectors", "rows with room", "the last row has no room", "others see the array"],
)
def test_a_part_of_a_vector_in_a_private_array_is_stored_whole(scope: str, row: int, count: int) -> None:
    func = rows_of_five(scope, row)
    assert emit(func, WIDE).ll.count("call void @llvm.masked.store") == count
    if scope == "local":
        check(func)


@pytest.mark.parametrize("condition", [at_either_end, outside_the_third_four])
def test_pieces_with_a_gap_between_them_stay_pieces(condition: Callable[[Var], Expr]) -> None:
    assert "masked.store" not in emit(stored_where(condition), WIDE).ll
    check(stored_where(condition))


def test_pieces_behind_one_that_is_left_out_are_one_vector() -> None:
    assert emit(stored_where(lambda x: x >= 8), WIDE).ll.count("call void @llvm.masked.store.v8f32") == 1
    check(stored_where(lambda x: x >= 8))


@pytest.mark.parametrize(
    "store",
    [
        lambda c, t, at, j: put(c, j, get(t, at)),
        lambda c, t, at, j: put(c, j, get(t, floordiv(at, 4))),
        lambda c, t, at, j: put(c, at, get(t, j)),
    ],
    ids=["gather", "gather of a quotient", "scatter"],
)
def test_no_index_is_read_behind_the_last_one(store: Callable[[Buffer, Buffer, Expr, Var], Stmt]) -> None:
    text = emit(permuted(store), WIDE).ll
    assert "load <8 x i32>, ptr %i" in text
    assert "load <16 x i32>" not in text


@pytest.mark.optimizer
def test_the_tile_stays_in_registers() -> None:
    from pegbox.codegen.runtime.machine import assembly

    text = assembly(emit(stored_tile(14), WIDE))
    assert "rsp" not in text.split("retq")[0]


def summed_where(*, guard: bool) -> Function:
    """Make c[x] = t[x] = 1 + a[0, x] + a[1, x] for x < 11, and for the others of a whole vector c[x] = t[x] = 1.

    With a guard, c ends before the others.
    """
    a, t = Buffer("a", (2, 11), "float32"), Buffer("t", (16,), "float32", "local")
    c = Buffer("c", (11 if guard else 16,), "float32")
    fill = loop("x", 16, lambda x: put(t, x, 1.0), VECTORIZED)
    step = loop(
        "k",
        2,
        lambda k: loop("x", 16, lambda x: If(x < 11, put(t, x, get(t, x) + get(a, k, x)), guard), VECTORIZED),
        UNROLLED,
    )
    out = loop("x", c.shape[0], lambda x: put(c, x, get(t, x)), VECTORIZED)
    return function([a, c], [c], alloc(t, seq(fill, step, out)))


@pytest.mark.parametrize("target", [ONE_CORE, AVX2], ids=["host", "avx2"])
@pytest.mark.parametrize("guard", [False, True], ids=["test", "guard"])
def test_sums_of_some_lanes_have_their_values(guard: bool, target: Target) -> None:
    check(summed_where(guard=guard), target)


def test_lanes_that_a_guard_leaves_out_are_not_blended() -> None:
    """LLVM would keep the sums before an unrolled loop, to blend them with those after it."""
    assert "select <16 x i1>" in emit(summed_where(guard=False), WIDE).ll
    text = emit(summed_where(guard=True), WIDE).ll
    assert "select <16 x i1>" not in text
    assert "@llvm.masked.load" in text


def test_lanes_beyond_the_end_of_a_row_are_elements_of_the_next() -> None:
    """Each row of the tile has 11 elements; a vector that begins in one ends in the other."""
    a, t, c = (Buffer(name, (2, 11), "float32", "local" if name == "t" else "global") for name in "atc")
    fill = loop("y", 2, lambda y: loop("x", 11, lambda x: put(t, y, x, 1.0)))

    def add(y: Expr, x: Expr) -> Stmt:
        return If(x < 11, put(t, 1 - y, x, get(t, 1 - y, x) + get(a, 1 - y, x)), guard=True)

    step = loop("y", 2, lambda y: loop("x", 16, lambda x: add(y, x), VECTORIZED), UNROLLED)
    out = loop("y", 2, lambda y: loop("x", 11, lambda x: put(c, y, x, get(t, y, x)), VECTORIZED))
    for target in ONE_CORE, AVX2:
        check(function([a, c], [c], alloc(t, seq(fill, step, out))), target)
