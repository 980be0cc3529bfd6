"""Vectorized loops: addresses of every pattern, masks, reductions; compared with the interpreter."""

from __future__ import annotations

import ctypes
import mmap
import re
import sys
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from guarded_calls import beside_pages, own
from lowered_programs import (
    ONE_CORE,
    SERIAL,
    UNROLLED,
    VECTORIZED,
    WIDE,
    alloc,
    check,
    function,
    get,
    loop,
    numbers,
    put,
    run,
)
from processors import runnable

from pegbox.codegen import build, emit
from pegbox.codegen.runtime.machine import assembly
from pegbox.codegen.targets.target import target_of
from pegbox.expr.build import const, logical_and, maximum, minimum, select
from pegbox.expr.low_level import reinterpret
from pegbox.expr.nodes import Binary, Buffer, Expr, Var
from pegbox.loops.nodes import Function, If, Stmt, Store, seq

ZERO = const(0.0, "float32")


def copy(size: int, index: object, *, source: int | None = None) -> Function:
    """c[i] = a[index(i)], vectorized."""
    a, c = Buffer("a", (source or size,)), Buffer("c", (size,))
    return function([a, c], [c], loop("i", size, lambda i: put(c, i, get(a, index(i))), VECTORIZED))  # type: ignore[operator]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 8, 16, 17, 31, 48, 64, 100, 999, 5000])
def test_any_number_of_lanes(size: int) -> None:
    check(copy(size, lambda i: i))


def test_a_dense_loop_is_one_vector_load_and_one_vector_store() -> None:
    text = emit(copy(4, lambda i: i), ONE_CORE).ll
    assert len(re.findall(r"load <4 x float>", text)) == 1
    assert len(re.findall(r"store <4 x float>", text)) == 1
    assert "gather" not in text


@pytest.mark.parametrize("stride", [2, 3, 5, -1, -2])
def test_strided_loads(stride: int) -> None:
    size = 37
    shift = -stride * (size - 1) if stride < 0 else 0
    check(copy(size, lambda i: i * stride + shift, source=abs(stride) * (size - 1) + 1))


def test_every_second_element_needs_no_gather() -> None:
    text = emit(copy(16, lambda i: i * 2, source=31), ONE_CORE).ll
    assert "shufflevector" in text
    assert "gather" not in text


@pytest.mark.optimizer
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("divisor", [2, 3, 4])
def test_doubled_bytes_that_several_lanes_share_compile(divisor: int, dtype: str) -> None:
    """LLVM 22 never finishes the sum of 64 such bytes with themselves (docs/llvm-defects.md)."""
    a, c = Buffer("A", (256,), dtype), Buffer("C", (256,), dtype)
    func = function(
        [a, c], [c], loop("i", 256, lambda i: put(c, i, get(a, i // divisor) * const(2, dtype)), VECTORIZED)
    )
    assert "zmm" in assembly(emit(func, target_of("llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=x86-64-v4")))
    check(func)


def in_groups(lanes: int, inner: int, *, size: int) -> Function:
    """c[p · lanes + i] += a[p · lanes + i // inner · inner + k] for each k < inner, i vectorized."""
    a, c = Buffer("a", (size,)), Buffer("c", (size // lanes * lanes,))

    def element(p: Expr, i: Expr, k: Expr) -> Stmt:
        at = p * lanes + i
        return put(c, at, get(c, at) + get(a, p * lanes + i // inner * inner + k) * (k + 1))

    def body(p: Expr) -> Stmt:
        return loop("k", inner, lambda k: loop("i", lanes, lambda i: element(p, i, k), VECTORIZED), UNROLLED)

    return function([a, c], [c], seq(loop("j", c.size, lambda j: put(c, j, ZERO)), loop("p", size // lanes, body)))


@pytest.mark.parametrize(("lanes", "inner"), [(16, 2), (16, 4), (16, 8), (8, 4), (8, 2), (12, 3)])
@pytest.mark.parametrize("beyond", [0, 1])
def test_elements_of_groups(lanes: int, inner: int, beyond: int) -> None:
    check(in_groups(lanes, inner, size=5 * lanes + beyond))


@pytest.mark.parametrize("inner", [2, 4])
def test_elements_of_groups_are_picked_out_of_one_vector(inner: int) -> None:
    target = target_of("llvm -mcpu=x86-64-v4 -num-cores 1")
    text = emit(in_groups(16, inner, size=80), target).ll
    loads = re.findall(r"load <(\d+) x float>", text)
    assert set(loads) == {"16"}
    text = emit(in_groups(16, inner, size=81), target).ll  # the last vector may reach beyond the array
    assert str(17 - inner) in re.findall(r"load <(\d+) x float>", text)


def strided_where_it_exists(stride: int, *, size: int = 43, lanes: int = 48, dtype: str = "float32") -> Function:
    """c[i] = a[i · stride + shift] where that is in the array; the first and the last places are not."""
    a, c = Buffer("a", (size,), dtype), Buffer("c", (lanes,), dtype)
    shift = size + 1 if stride < 0 else -2

    def element(i: Expr) -> Stmt:
        place = i * stride + shift
        return If(logical_and(place >= 0, place < size), put(c, i, get(a, place)))

    init = loop("j", lanes, lambda j: put(c, j, const(0, dtype)))
    return function([a, c], [c], seq(init, loop("i", lanes, element, VECTORIZED)))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "float16", "bool"])
@pytest.mark.parametrize("stride", [2, 3, -2])
def test_strided_loads_of_some_lanes(stride: int, dtype: str) -> None:
    check(strided_where_it_exists(stride, dtype=dtype))


@pytest.mark.parametrize("cpu", ["x86-64-v3", "x86-64-v4"])
def test_every_second_element_of_some_lanes_needs_no_gather_where_loads_have_masks(cpu: str) -> None:
    func = strided_where_it_exists(2)
    text = emit(func, target_of(f"llvm -mcpu={cpu} -mtriple=x86_64-unknown-linux-gnu -num-cores 1")).ll
    assert "masked.load" in text
    assert "gather" not in text
    plain = emit(func, target_of("llvm -mcpu=x86-64-v2 -mtriple=x86_64-unknown-linux-gnu -num-cores 1")).ll
    assert "gather" in plain


@pytest.mark.skipif(sys.platform != "linux", reason="needs mprotect")
@pytest.mark.parametrize("stride", [2, -2])
def test_masked_lanes_touch_nothing_outside_an_array(stride: int) -> None:
    page = mmap.PAGESIZE
    memory = mmap.mmap(-1, 3 * page)
    whole = np.frombuffer(memory, np.float32)
    a = whole[page // 4 : page // 2]
    a[:] = np.arange(a.size)
    for start in (0, 2 * page):  # neither page around the array may be read
        ctypes.CDLL(None).mprotect(ctypes.c_void_p(whole.ctypes.data + start), page, 0)
    lanes = a.size // 2 + 4
    c = np.empty(lanes, np.float32)
    build(emit(strided_where_it_exists(stride, size=a.size, lanes=lanes), ONE_CORE))(a, c)
    places = np.arange(lanes) * stride + (a.size + 1 if stride < 0 else -2)
    there = (places >= 0) & (places < a.size)
    np.testing.assert_array_equal(c, np.where(there, places, 0))


def same_where_it_exists(dtype: str = "float32", *, first: int = 0) -> Function:
    """Make c[y, x] = a[y - first], the same for all x, in those of the first lanes for which a has an element."""
    a, c = Buffer("a", (4,), dtype), Buffer("c", (7, 16), dtype)

    def row(y: Var) -> Stmt:
        def lane(x: Var) -> Stmt:
            place = (y - first) * 16 + x
            return If(logical_and(place >= 0, place < 60), put(c, y, x, get(a, y - first)))

        return seq(loop("z", 16, lambda x: put(c, y, x, const(0, dtype)), VECTORIZED), loop("x", 16, lane, VECTORIZED))

    return function([a, c], [c], loop("y", 7, row))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "float16", "bool"])
@pytest.mark.parametrize("first", [0, 3])
def test_an_element_that_all_live_lanes_read_is_loaded_once(dtype: str, first: int) -> None:
    func = same_where_it_exists(dtype, first=first)
    check(func)
    assert "gather" not in emit(func, ONE_CORE).ll


@pytest.mark.skipif(sys.platform != "linux", reason="needs mprotect")
@pytest.mark.parametrize("first", [0, 3])
def test_an_element_that_no_live_lane_reads_is_not_touched(first: int) -> None:
    kernel = build(emit(same_where_it_exists(first=first), ONE_CORE))
    for a in beside_pages(np.arange(1, 5, dtype=np.float32)):
        c = np.empty((7, 16), np.float32)
        own(kernel)(a, c)
        live = np.arange(7)[:, None] * 16 + np.arange(16) - 16 * first
        expected = np.where((live >= 0) & (live < 60), np.pad(a, (first, 3 - first))[:, None], 0)
        np.testing.assert_array_equal(c, expected)


def test_the_bits_of_each_lane_are_those_of_another_type() -> None:
    a, c = Buffer("a", (21,)), Buffer("c", (21,), "int32")
    bits = loop("i", 21, lambda i: put(c, i, reinterpret("int32", get(a, i))), VECTORIZED)
    check(function([a, c], [c], bits))
    uniform = loop("i", 21, lambda i: put(c, i, reinterpret("int32", get(a, const(3, "int64")))), VECTORIZED)
    check(function([a, c], [c], uniform))


def test_a_loop_invariant_load_is_a_scalar() -> None:
    text = emit(copy(16, lambda i: i * 0 + 3), ONE_CORE).ll
    assert "load float" in text
    check(copy(16, lambda i: i * 0 + 3))


@pytest.mark.parametrize("divisor", [2, 3, 4, 16, 100])
def test_quotients_and_remainders_of_the_lane(divisor: int) -> None:
    check(copy(50, lambda i: i // divisor))
    check(copy(50, lambda i: i % divisor))


@pytest.mark.parametrize(("size", "divisor"), [(5, 8), (7, 3), (16, 64), (16, 12)])
def test_a_fused_index_is_taken_apart(size: int, divisor: int) -> None:
    a, c = Buffer("a", (40, divisor)), Buffer("c", (9, size))
    body = loop(
        "o",
        9,
        lambda o: loop(
            "i", size, lambda i: put(c, o, i, get(a, (o * size + i) // divisor, (o * size + i) % divisor)), VECTORIZED
        ),
    )
    check(function([a, c], [c], body))


def test_quotients_that_the_split_makes_exact_cost_nothing() -> None:
    a, c = Buffer("a", (8, 64)), Buffer("c", (32, 16))
    body = loop(
        "o",
        32,
        lambda o: loop("i", 16, lambda i: put(c, o, i, get(a, (o * 16 + i) // 64, (o * 16 + i) % 64)), VECTORIZED),
    )
    func = function([a, c], [c], body)
    assert "gather" not in emit(func, ONE_CORE).ll
    check(func)


def test_indices_from_data_gather() -> None:
    table, where, c = Buffer("table", (50,)), Buffer("where", (37,), "int64"), Buffer("c", (37,))
    body = loop("i", 37, lambda i: put(c, i, get(table, get(where, i))), VECTORIZED)
    func = function([table, where, c], [c], body)
    values = numbers(table)
    places = np.random.default_rng(0).permutation(50)[:37]
    got = run(build(emit(func, ONE_CORE)), {"table": values, "where": places})[0]
    np.testing.assert_array_equal(got, values[places])


def test_indices_from_data_scatter() -> None:
    a, where, c = Buffer("a", (37,)), Buffer("where", (37,), "int64"), Buffer("c", (37,))
    body = loop("i", 37, lambda i: put(c, get(where, i), get(a, i)), VECTORIZED)
    values, places = numbers(a), np.random.default_rng(0).permutation(37)
    got = run(build(emit(function([a, where, c], [c], body), ONE_CORE)), {"a": values, "where": places})[0]
    expected = np.empty(37, np.float32)
    expected[places] = values
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("stride", [2, 3, -1])
def test_strided_stores_touch_nothing_between(stride: int) -> None:
    size = 20
    shift = -stride * (size - 1) if stride < 0 else 0
    a, c = Buffer("a", (size,)), Buffer("c", (abs(stride) * (size - 1) + 1,))
    body = loop("i", size, lambda i: put(c, i * stride + shift, get(a, i)), VECTORIZED)
    values = numbers(a)
    got = run(build(emit(function([a, c], [c], body), ONE_CORE)), {"a": values})[0]
    expected = np.full(c.shape, 77, np.float32)
    expected[np.arange(size) * stride + shift] = values
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("total", [1, 15, 16, 17, 37, 63])
@pytest.mark.parametrize("factor", [4, 16, 24])
def test_a_masked_tail_writes_nothing_beyond_the_end(total: int, factor: int) -> None:
    whole = -(-total // factor) * factor
    a, c = Buffer("a", (total,)), Buffer("c", (whole + 8,))
    body = loop(
        "o",
        whole // factor,
        lambda o: loop(
            "i",
            factor,
            lambda i: If(o * factor + i < total, put(c, o * factor + i, get(a, o * factor + i) * 2.0)),
            VECTORIZED,
        ),
    )
    values = numbers(a)
    got = run(build(emit(function([a, c], [c], body), ONE_CORE)), {"a": values})[0]
    np.testing.assert_array_equal(got[:total], values * 2)
    assert (got[total:] == 77).all()


def test_a_mask_that_always_holds_vanishes() -> None:
    a, c = Buffer("a", (64,)), Buffer("c", (64,))
    body = loop(
        "o",
        4,
        lambda o: loop("i", 16, lambda i: If(o * 16 + i < 64, put(c, o * 16 + i, get(a, o * 16 + i))), VECTORIZED),
    )
    text = emit(function([a, c], [c], body), ONE_CORE).ll
    assert "mask" not in text
    assert "icmp slt" not in text


def test_a_condition_that_no_lane_decides_is_a_branch() -> None:
    a, c = Buffer("a", (5, 16)), Buffer("c", (5, 16))
    body = loop(
        "o",
        5,
        lambda o: loop("i", 16, lambda i: seq(put(c, o, i, ZERO), If(o < 3, put(c, o, i, get(a, o, i)))), VECTORIZED),
    )
    func = function([a, c], [c], body)
    assert "mask" not in emit(func, ONE_CORE).ll
    check(func)


@pytest.mark.parametrize("op", ["lt", "le", "gt", "ge", "eq", "ne"])
def test_conditions_on_lanes_of_every_kind(op: str) -> None:
    from pegbox.expr.build import compare

    c = Buffer("c", (11, 21), "int32")
    body = loop(
        "o",
        11,
        lambda o: loop(
            "i",
            21,
            lambda i: seq(
                put(c, o, i, const(0, "int32")), If(compare(op, i * 2 - o * 3, 4), put(c, o, i, const(1, "int32")))
            ),
            VECTORIZED,
        ),
    )
    check(function([c], [c], body))


def test_padding_reads_nothing_outside() -> None:
    a, c = Buffer("a", (37,)), Buffer("c", (39,))
    body = loop("i", 39, lambda i: put(c, i, select((i >= 1) & (i < 38), get(a, i - 1), ZERO)), VECTORIZED)
    check(function([a, c], [c], body))
    check(function([a, c], [c], loop("i", 39, lambda i: put(c, i, select((i >= 1) & (i < 38), get(a, i - 1), ZERO)))))


@pytest.mark.parametrize(("other", "selects"), [(0.0, 0), (-0.0, 1), (1.0, 1)])
def test_a_masked_load_makes_the_zeros_of_padding(other: float, selects: int) -> None:
    a, c = Buffer("a", (14,)), Buffer("c", (16,))
    padded = lambda i: select((i >= 1) & (i < 15), get(a, i - 1), const(other, "float32"))  # noqa: E731
    func = function([a, c], [c], loop("i", 16, lambda i: put(c, i, padded(i)), VECTORIZED))
    check(func)
    text = emit(func, WIDE).ll
    assert "llvm.masked.load" in text
    assert text.count(" select <16 x i1>") == selects


def shifted_lines(start: int, stride: int, *, lanes: int = 16) -> Function:
    """A line of 48 in a buffer of its own; c[i] = line[start + i · stride]."""
    a, c, line = Buffer("a", (48,)), Buffer("c", (lanes,)), Buffer("line", (48,))
    fill = loop(
        "v", 3, lambda v: loop("i", 16, lambda i: put(line, v * 16 + i, get(a, v * 16 + i)), VECTORIZED), UNROLLED
    )
    use = loop("j", lanes, lambda j: put(c, j, get(line, j * stride + start)), VECTORIZED)
    return function([a, c], [c], alloc(line, seq(fill, use)))


@pytest.mark.parametrize(
    ("start", "stride"), [(0, 1), (1, 1), (15, 1), (31, 1), (0, 2), (1, 2), (2, 2), (17, 2), (47, -1), (40, -2), (0, 3)]
)
def test_lanes_across_vectors_of_a_register_tile_are_picked_in_registers(start: int, stride: int) -> None:
    func = shifted_lines(start, stride)
    check(func)
    text = assembly(emit(func, WIDE)).split("kernel__timed")[0]
    assert "rsp" not in text


def test_lanes_in_distant_vectors_of_a_register_tile_are_picked_in_registers() -> None:
    a, c, line = Buffer("a", (64,)), Buffer("c", (16,)), Buffer("line", (64,))
    fill = loop(
        "v", 4, lambda v: loop("i", 16, lambda i: put(line, v * 16 + i, get(a, v * 16 + i)), VECTORIZED), UNROLLED
    )
    use = loop("j", 16, lambda j: put(c, j, get(line, (j + 63) % 64)), VECTORIZED)
    func = function([a, c], [c], alloc(line, seq(fill, use)))
    check(func)
    assert "rsp" not in assembly(emit(func, WIDE)).split("kernel__timed")[0]


def test_rows_of_broken_vectors_are_read_where_they_were_stored() -> None:
    a, c, tile = Buffer("a", (4, 3)), Buffer("c", (4, 3)), Buffer("tile", (4, 3))
    rows = lambda body: loop("r", 4, lambda r: loop("i", 3, lambda i: body(r, i), VECTORIZED), UNROLLED)  # noqa: E731
    fill, use = rows(lambda r, i: put(tile, r, i, get(a, r, i))), rows(lambda r, i: put(c, r, i, get(tile, r, i)))
    func = function([a, c], [c], alloc(tile, seq(fill, use)))
    check(func)
    assert "rsp" not in assembly(emit(func, WIDE)).split("kernel__timed")[0]


def test_a_line_at_a_changing_place_stays_in_memory() -> None:
    a, c, line = Buffer("a", (48,)), Buffer("c", (8, 16)), Buffer("line", (48,))
    fill = loop("i", 48, lambda i: put(line, i, get(a, i)), VECTORIZED)
    use = loop("j", 8, lambda j: loop("i", 16, lambda i: put(c, j, i, get(line, i + j)), VECTORIZED))
    func = function([a, c], [c], alloc(line, seq(fill, use)))
    check(func)
    assert "rsp" in assembly(emit(func, WIDE)).split("kernel__timed")[0]


def test_a_scalar_condition_guards_a_vector_load() -> None:
    a, c = Buffer("a", (4, 16)), Buffer("c", (6, 16))
    body = loop(
        "o",
        6,
        lambda o: loop("i", 16, lambda i: put(c, o, i, select((o >= 1) & (o < 5), get(a, o - 1, i), ZERO)), VECTORIZED),
    )
    check(function([a, c], [c], body))


def test_a_condition_on_data_guards_the_right_side_of_and() -> None:
    a, c = Buffer("a", (20,)), Buffer("c", (20,), "int32")

    def first_of_a_run(i: Expr) -> Expr:
        return select((i > 0) & (get(a, i - 1) < get(a, i)), const(1, "int32"), const(0, "int32"))

    for kind in (SERIAL, VECTORIZED):
        check(function([a, c], [c], loop("i", 20, lambda i: put(c, i, first_of_a_run(i)), kind)))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int8", "float16"])
@pytest.mark.parametrize("op", ["add", "min", "max", "mul"])
@pytest.mark.parametrize("size", [1, 5, 16, 37, 128])
def test_reductions_across_lanes(dtype: str, op: str, size: int) -> None:
    a, c = Buffer("a", (3, size), dtype), Buffer("c", (3,), dtype)
    body = loop(
        "o",
        3,
        lambda o: seq(
            put(c, o, const(1, dtype)),
            loop("i", size, lambda i: put(c, o, Binary(op, get(c, o), get(a, o, i))), VECTORIZED),
        ),
    )
    check(function([a, c], [c], body), rtol=0.1 if dtype == "float16" else 1e-4)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("size", [5, 64, 100])
def test_min_across_lanes_keeps_nan_and_infinities(size: int, dtype: str) -> None:
    a, c = Buffer("a", (size,), dtype), Buffer("c", (1,), dtype)
    update = loop("i", size, lambda i: put(c, 0, minimum(get(c, 0), get(a, i))), VECTORIZED)
    kernel = build(emit(function([a, c], [c], seq(put(c, 0, const(5.0, dtype)), update)), ONE_CORE))
    for place in (0, 3, size // 2, size - 1):
        for number in (np.nan, -np.nan, -np.inf, -1):
            values = np.ones(size, dtype)
            values[place] = number
            np.testing.assert_array_equal(run(kernel, {"a": values})[0][0], np.dtype(dtype).type(number))
    assert run(kernel, {"a": np.full(size, np.inf, dtype)})[0][0] == 5


def dot(outer: int, unrolled: int, lanes: int, *, total: int | None = None) -> Function:
    """c[r] = sum over k of a[r, k] * b[k], the reduction split in three and vectorized innermost."""
    size = total or outer * unrolled * lanes
    a, b, c = Buffer("a", (3, size)), Buffer("b", (size,)), Buffer("c", (3,))

    def step(r: Expr, k: Expr) -> object:
        update = put(c, r, get(c, r) + get(a, r, k) * get(b, k))
        return update if total is None else If(k < total, update)

    body = loop(
        "r",
        3,
        lambda r: seq(
            put(c, r, ZERO),
            loop(
                "ko",
                outer,
                lambda ko: loop(
                    "ku",
                    unrolled,
                    lambda ku: loop("kv", lanes, lambda kv: step(r, (ko * unrolled + ku) * lanes + kv), VECTORIZED),  # type: ignore[arg-type, return-value]
                    UNROLLED,
                ),
            ),
        ),
    )
    return function([a, b, c], [c], body)


@pytest.mark.parametrize(("outer", "unrolled", "lanes"), [(5, 1, 16), (4, 4, 8), (3, 2, 32), (1, 8, 16), (7, 1, 5)])
def test_a_vectorized_dot_product(outer: int, unrolled: int, lanes: int) -> None:
    check(dot(outer, unrolled, lanes), rtol=1e-4)


@pytest.mark.parametrize("total", [60, 64, 65, 79])
def test_a_vectorized_dot_product_with_a_tail(total: int) -> None:
    check(dot(5, 1, 16, total=total), rtol=1e-4)


def test_lanes_are_summed_once_after_the_loop_not_at_every_step() -> None:
    text = emit(dot(5, 1, 16), ONE_CORE).ll
    lines = text.splitlines()
    reduce = next(number for number, line in enumerate(lines) if "call reassoc" in line)
    loop_end = next(n for n, line in enumerate(lines) if "%ko" in line and ".done" in line and "br i1" in line)
    assert reduce > loop_end


def with_rest(op: str, *, guarded: bool, rest: int = 5) -> Function:
    """c[0] = op of a, in vectors of 16 and what is left of them; under a condition where it is guarded."""
    a, c = Buffer("a", (64 + rest,)), Buffer("c", (1,))

    def step(index: Expr) -> Store:
        return put(c, 0, Binary(op, get(c, 0), get(a, index)))  # type: ignore[arg-type]

    main = loop("k", 4, lambda k: loop("v", 16, lambda v: step(k * 16 + v), VECTORIZED))
    last = (
        loop("v", 16, lambda v: If(v < rest, step(v + 64)), VECTORIZED)
        if guarded
        else loop("v", rest, lambda v: step(v + 64), VECTORIZED)
    )
    return function([a, c], [c], seq(put(c, 0, const(1.0, "float32")), main, last))


@pytest.mark.parametrize("guarded", [True, False])
@pytest.mark.parametrize("op", ["add", "max", "min", "mul"])
def test_the_rest_of_a_reduction_adds_to_the_same_lanes(op: str, guarded: bool) -> None:
    func = with_rest(op, guarded=guarded)
    check(func, rtol=1e-4)
    if op == "add":
        assert emit(func, ONE_CORE).ll.count("call reassoc") == 1


def with_statement_between(value: Callable[[Buffer, Buffer], Expr]) -> Function:
    """c[0] = the sum of a, in vectors of 16 and what is left of them, with a store to d before the rest."""
    a, c, d = Buffer("a", (69,)), Buffer("c", (1,)), Buffer("d", (1,))

    def step(v: Var) -> Store:
        return put(c, 0, get(c, 0) + get(a, v + 64))

    main = loop("k", 4, lambda k: loop("v", 16, lambda v: put(c, 0, get(c, 0) + get(a, k * 16 + v)), VECTORIZED))
    rest = loop("v", 16, lambda v: If(v < 5, step(v)), VECTORIZED)
    return function([a, c, d], [c, d], seq(put(c, 0, ZERO), main, put(d, 0, value(a, c)), rest))


def test_a_statement_before_the_rest_of_a_reduction_stays_there() -> None:
    func = with_statement_between(lambda a, c: get(a, 3) * 2.0)
    check(func, rtol=1e-4)
    assert emit(func, ONE_CORE).ll.count("call reassoc") == 1


def two_sums(order: str) -> Function:
    """c[0] and d[0] = the sums of a and b, in one loop or in two; a has a rest that vectors of 16 leave."""
    a, b, c, d = Buffer("a", (69,)), Buffer("b", (64,)), Buffer("c", (1,)), Buffer("d", (1,))

    def step(c: Buffer, a: Buffer, first: Expr, v: Var) -> Store:
        return put(c, 0, get(c, 0) + get(a, first + v))

    def nest(*pairs: tuple[Buffer, Buffer]) -> Stmt:
        def steps(k: Var) -> Stmt:
            return seq(*(loop("v", 16, partial(step, c, a, k * 16), VECTORIZED) for c, a in pairs))

        return loop("k", 4, steps)

    rest = loop("v", 16, lambda v: If(v < 5, step(c, a, const(64), v)), VECTORIZED)
    loops = {
        "together": [nest((c, a), (d, b)), rest],
        "rest between": [nest((c, a)), rest, nest((d, b))],
        "rest behind": [nest((c, a)), nest((d, b)), rest],
    }
    return function([a, b, c, d], [c, d], seq(put(c, 0, ZERO), put(d, 0, ZERO), *loops[order]))


def depths_of_reductions(text: str) -> list[int]:
    """Count the loops around each sum across lanes."""
    depth, found = 0, []
    for line in text.splitlines():
        depth += bool(re.match(r"for[.\d]*:", line.strip())) - bool(re.match(r"end[.\d]*:", line.strip()))
        found += [depth] if "call reassoc" in line else []
    return found


@pytest.mark.parametrize("order", ["together", "rest between", "rest behind"])
def test_each_of_two_sums_adds_up_its_lanes_behind_its_loop(order: str) -> None:
    func = two_sums(order)
    for cpu in ("x86-64-v3", "x86-64-v4"):
        target = target_of(f"llvm -mtriple=x86_64-unknown-linux-gnu -mcpu={cpu} -num-cores 1")
        assert depths_of_reductions(emit(func, target).ll) == [0, 0]
    values = [numbers(buffer, seed) for seed, buffer in enumerate(func.params[:2])]
    for target in runnable().values():
        got = run(build(emit(func, target)), {"a": values[0], "b": values[1]})
        np.testing.assert_allclose(np.concatenate(got), [x.astype("float64").sum() for x in values], rtol=1e-4)


def test_a_statement_that_reads_the_sum_ends_it() -> None:
    func = with_statement_between(lambda a, c: get(c, 0) * 2.0)
    check(func, rtol=1e-4)
    assert emit(func, ONE_CORE).ll.count("call reassoc") == 2


def test_a_rest_of_another_operation_is_reduced_by_itself() -> None:
    a, c = Buffer("a", (69,)), Buffer("c", (1,))
    body = seq(
        put(c, 0, ZERO),
        loop("k", 4, lambda k: loop("v", 16, lambda v: put(c, 0, get(c, 0) + get(a, k * 16 + v)), VECTORIZED)),
        loop("v", 5, lambda v: put(c, 0, maximum(get(c, 0), get(a, v + 64))), VECTORIZED),
    )
    check(function([a, c], [c], body), rtol=1e-4)


@pytest.mark.optimizer
def test_a_maximum_across_lanes_does_not_branch() -> None:
    target = target_of("llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=x86-64-v3 -num-cores 1")
    text = assembly(emit(with_rest("max", guarded=True), target))
    assert "vmaxps" in text
    assert not [line for line in text.splitlines() if line.split()[:1] in (["ja"], ["jp"], ["js"], ["vucomiss"])]


def test_an_element_that_something_else_touches_is_reduced_at_every_step() -> None:
    a, c = Buffer("a", (4, 16)), Buffer("c", (2,))
    body = seq(
        put(c, 0, ZERO),
        put(c, 1, ZERO),
        loop(
            "k",
            4,
            lambda k: seq(
                loop("v", 16, lambda v: put(c, 0, get(c, 0) + get(a, k, v)), VECTORIZED),
                put(c, 1, get(c, 1) + get(c, 0)),
            ),
        ),
    )
    check(function([a, c], [c], body), rtol=1e-4)


def test_row_sums_with_several_rows_in_registers() -> None:
    a, c = Buffer("a", (8, 64)), Buffer("c", (8,))
    body = loop(
        "ro",
        2,
        lambda ro: seq(
            loop("ri", 4, lambda ri: put(c, ro * 4 + ri, ZERO)),
            loop(
                "k",
                4,
                lambda k: loop(
                    "ri",
                    4,
                    lambda ri: loop(
                        "v",
                        16,
                        lambda v: put(c, ro * 4 + ri, get(c, ro * 4 + ri) + get(a, ro * 4 + ri, k * 16 + v)),
                        VECTORIZED,
                    ),
                    UNROLLED,
                ),
            ),
        ),
    )
    check(function([a, c], [c], body), rtol=1e-4)


def test_a_serial_loop_inside_a_vectorized_one() -> None:
    a, b, c = Buffer("a", (5, 7)), Buffer("b", (7, 40)), Buffer("c", (5, 40))
    body = loop(
        "i",
        5,
        lambda i: loop(
            "j",
            40,
            lambda j: seq(
                put(c, i, j, ZERO), loop("k", 7, lambda k: put(c, i, j, get(c, i, j) + get(a, i, k) * get(b, k, j)))
            ),
            VECTORIZED,
        ),
    )
    check(function([a, b, c], [c], body))


def test_nested_vectorized_loops() -> None:
    a, c = Buffer("a", (6, 8)), Buffer("c", (6, 8))
    nest = loop("i", 6, lambda i: loop("j", 8, lambda j: put(c, i, j, get(a, i, j) + 1.0), VECTORIZED), VECTORIZED)
    text = emit(function([a, c], [c], nest), ONE_CORE).ll
    assert "gather" not in text
    assert "scatter" not in text
    check(function([a, c], [c], nest))
    turned = loop("j", 8, lambda j: loop("i", 6, lambda i: put(c, i, j, get(a, i, j) + 1.0), VECTORIZED), VECTORIZED)
    check(function([a, c], [c], turned))


def test_a_reduction_nested_with_a_spatial_vectorized_loop() -> None:
    a, c = Buffer("a", (6, 8)), Buffer("c", (6,))
    init = loop("i", 6, lambda i: put(c, i, ZERO))
    nest = loop("i", 6, lambda i: loop("k", 8, lambda k: put(c, i, get(c, i) + get(a, i, k)), VECTORIZED), VECTORIZED)
    check(function([a, c], [c], seq(init, nest)))


def test_the_last_lane_wins_where_all_store_to_one_element() -> None:
    a, c = Buffer("a", (20,)), Buffer("c", (1,))
    check(function([a, c], [c], loop("i", 20, lambda i: put(c, 0, get(a, i)), VECTORIZED)))
    guarded = loop("i", 20, lambda i: If(i < 13, put(c, 0, get(a, i))), VECTORIZED)
    check(function([a, c], [c], guarded))


def test_a_buffer_inside_a_vectorized_loop_is_one_per_lane() -> None:
    a, c, t = Buffer("a", (20,)), Buffer("c", (20,)), Buffer("t", (2,), scope="local")
    body = loop(
        "i",
        20,
        lambda i: alloc(
            t, put(t, 0, get(a, i)), put(t, 1, get(t, 0) * get(t, 0)), put(c, i, maximum(get(t, 1), get(t, 0)))
        ),
        VECTORIZED,
    )
    check(function([a, c], [c], body))


def test_bool_vectors_are_bytes_in_memory() -> None:
    a, c = Buffer("a", (37,)), Buffer("c", (37,), "bool")
    body = loop("i", 37, lambda i: put(c, i, get(a, i) > 0.0), VECTORIZED)
    check(function([a, c], [c], body))


def test_mixed_widths_in_one_loop() -> None:
    from pegbox.expr.build import cast

    a, b, c = Buffer("a", (37,), "int8"), Buffer("b", (37,), "float64"), Buffer("c", (37,), "float32")
    body = loop("i", 37, lambda i: put(c, i, cast("float32", get(a, i)) * cast("float32", get(b, i))), VECTORIZED)
    check(function([a, b, c], [c], body))
