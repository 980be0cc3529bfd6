"""Strided loads that unrolled loops repeat for every column: rows are loaded, and turned around in registers."""

from __future__ import annotations

import re

import pytest
from lowered_programs import ONE_CORE, SERIAL, UNROLLED, VECTORIZED, WIDE, alloc, check, function, get, loop, put

from pegbox.codegen import Target, emit
from pegbox.expr.nodes import Buffer
from pegbox.loops.nodes import For, Function


def transposition(lanes: int, columns: int, *, stride: int, rows: int = 0, dtype: str = "float32") -> Function:
    """c[b, j, l] = a[b * lanes + l, j], vectorized over l, unrolled over j."""
    blocks = 2
    a = Buffer("a", (rows or blocks * lanes, stride), dtype)
    c = Buffer("c", (blocks, columns, lanes), dtype)
    return function(
        [a, c],
        [c],
        loop(
            "b",
            blocks,
            lambda b: loop(
                "j",
                columns,
                lambda j: loop("l", lanes, lambda lane: put(c, b, j, lane, get(a, b * lanes + lane, j)), VECTORIZED),
                UNROLLED,
            ),
            SERIAL,
        ),
    )


@pytest.mark.parametrize("lanes", [1, 2, 3, 4, 8, 14, 16, 32])
@pytest.mark.parametrize(("columns", "stride"), [(16, 16), (5, 40), (33, 35), (16, 17), (3, 3)])
def test_values_are_those_of_the_loops(lanes: int, columns: int, stride: int) -> None:
    check(transposition(lanes, columns, stride=stride))


@pytest.mark.parametrize("dtype", ["float64", "int32", "int8", "float16", "bool"])
def test_every_type(dtype: str) -> None:
    check(transposition(8, 16, stride=18, dtype=dtype))


def test_a_square_takes_a_load_per_row_and_log2_shuffles_per_element() -> None:
    text = emit(transposition(16, 16, stride=64), WIDE).ll
    assert text.count("load <16 x float>") == 16
    assert text.count("shufflevector") == 16 * 4
    assert "gather" not in text


def test_shuffles_stay_inside_of_16_bytes_or_move_these_whole() -> None:
    """Others are several instructions with AVX2, and LLVM takes long to find them."""
    text = emit(transposition(8, 8, stride=64), Target("llvm -mcpu=x86-64-v3 -num-cores 1")).ll
    masks = [
        tuple(map(int, re.findall(r"i32 (\d+)", line.split("<8 x i32>")[1])))
        for line in text.splitlines()
        if "shufflevector <8 x float>" in line
    ]
    assert len(masks) == 8 * 3
    for mask in masks:
        inside = all(place // 4 == pick % 8 // 4 for place, pick in enumerate(mask))
        whole = all(mask[start : start + 4] == tuple(range(mask[start], mask[start] + 4)) for start in (0, 4))
        assert inside != whole


def test_rows_are_shorter_where_whole_ones_would_leave_the_buffer() -> None:
    """The last row ends 8 elements after the last whole square; the elements beyond are unused."""
    text = emit(transposition(16, 24, stride=24), WIDE).ll
    assert text.count("load <16 x float>") == 16
    assert text.count("load <8 x float>") == 16
    assert "gather" not in text


def test_what_no_row_holds_is_gathered() -> None:
    """One element beyond the squares: a row of one element would be no row."""
    assert "gather" in emit(transposition(16, 17, stride=17), ONE_CORE).ll
    check(transposition(16, 17, stride=17))


def test_one_column_alone_is_gathered() -> None:
    """A row would be loaded for one element of it: no unrolled loop runs through the neighbours."""
    a, c = Buffer("a", (16, 64)), Buffer("c", (16,))
    body = loop("l", 16, lambda lane: put(c, lane, get(a, lane, 5)), VECTORIZED)
    assert "gather" in emit(function([a, c], [c], body), ONE_CORE).ll


def test_stores_in_between_are_seen() -> None:
    """t[l, j + 1] = t[l, j] * 2, in place: each column comes of the one before."""
    a, t, c = Buffer("a", (16, 20)), Buffer("t", (16, 20)), Buffer("c", (16, 20))

    def rows(target: Buffer, source: Buffer) -> For:
        return loop("i", 16, lambda i: loop("j", 20, lambda j: put(target, i, j, get(source, i, j))))

    steps = loop(
        "j",
        15,
        lambda j: loop("l", 16, lambda lane: put(t, lane, j + 1, get(t, lane, j) * 2.0), VECTORIZED),
        UNROLLED,
    )
    check(function([a, c], [c], alloc(t, rows(t, a), steps, rows(c, t))))


@pytest.mark.parametrize("pitch", [5, 16, 58])
def test_a_line_of_rows_is_read_as_a_line(pitch: int) -> None:
    """Row and column of an element, put together again, are its place: vectors go on over the ends of rows."""
    rows, lanes = 7, 16
    a = Buffer("a", (rows, pitch))
    blocks = (rows * pitch - 3) // lanes
    c = Buffer("c", (blocks, 3, lanes))
    body = loop(
        "b",
        blocks,
        lambda b: loop(
            "k",
            3,
            lambda k: loop(
                "l",
                lanes,
                lambda lane: put(
                    c, b, k, lane,
                    get(a, (b * lanes + lane + k) // pitch, (b * lanes + lane + k) % pitch),
                ),
                VECTORIZED,
            ),
            SERIAL,
        ),
        SERIAL,
    )  # fmt: skip
    program = function([a, c], [c], body)
    check(program)
    text = emit(program, ONE_CORE).ll
    assert "gather" not in text
    assert "div" not in text


def test_digits_of_different_elements_stay_apart() -> None:
    a, c = Buffer("a", (9, 8)), Buffer("c", (40,))
    check(function([a, c], [c], loop("i", 40, lambda i: put(c, i, get(a, (i + 3) // 8, i % 8)), VECTORIZED)))
    check(function([a, c], [c], loop("i", 40, lambda i: put(c, i, get(a, (i + 8) // 8, i % 8)), VECTORIZED)))
    narrow = Buffer("a", (10, 8))  # rows have more elements than the line goes through
    check(function([narrow, c], [c], loop("i", 40, lambda i: put(c, i, get(narrow, i // 4, i % 4)), VECTORIZED)))
