"""Nontemporal stores: whole cache lines of a row go around the caches, wherever the row begins."""

from __future__ import annotations

import re
import sys
from typing import Any

import numpy as np
import pytest
from guarded_calls import beside_pages, own
from lowered_programs import ONE_CORE, PARALLEL, SERIAL, TWO_CORES, VECTORIZED, WIDE, function, get, loop, put

from pegbox.codegen import Kernel, Target, build, emit
from pegbox.expr.build import select
from pegbox.expr.nodes import Buffer
from pegbox.loops.nodes import ForKind, Function, Stmt, seq

NOTE = ("pragma_nontemporal", True)
ARM = Target("llvm -mtriple=aarch64-unknown-linux-gnu -mcpu=neoverse-n1 -num-cores 1")


def rows(
    columns: int, *, count: int = 3, width: int = 64, dtype: str = "float32", outer: ForKind = SERIAL, blocks: int = 0
) -> Function:
    """Make c[y, :] = a[y, :] + a[y, :], whose first `blocks` vectors of `width` elements have the pragma."""
    a, c = Buffer("a", (count, columns), dtype), Buffer("c", (count, columns), dtype)
    blocks = blocks or columns // width

    def row(y: Any) -> Stmt:
        main = loop(
            "o",
            blocks,
            lambda o: loop(
                "i", width, lambda i: put(c, y, o * width + i, get(a, y, o * width + i) + get(a, y, o * width + i)),
                VECTORIZED,
            ),
            annotations=(NOTE,),
        )  # fmt: skip
        left = columns - blocks * width
        rest = loop("i", left, lambda i: put(c, y, blocks * width + i, get(a, y, blocks * width + i) * 2), VECTORIZED)
        return seq(main, rest) if left else main

    return function([a, c], [c], loop("y", count, row, outer))


def placed(like: Any, shift: int) -> tuple[Any, Any]:
    """Make an array that begins `shift` elements behind a cache line, and the memory around it."""
    per_line = 64 // like.itemsize
    memory = np.full(like.size + 4 * per_line, 7, like.dtype)
    start = -memory.ctypes.data // like.itemsize % per_line + per_line + shift
    return memory[start : start + like.size].reshape(like.shape), memory


def check(kernel: Kernel, func: Function, shift: int) -> None:
    a = np.arange(func.params[0].size).astype(func.params[0].dtype).reshape(func.params[0].shape)
    c, memory = placed(a, shift)
    own(kernel)(a, c)
    assert np.array_equal(c, a + a)
    assert np.count_nonzero(memory == 7) == memory.size - c.size + np.count_nonzero(c == 7)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int16"])
@pytest.mark.parametrize("columns", [256, 300, 257, 515])
def test_rows_that_begin_anywhere_in_a_line(columns: int, dtype: str) -> None:
    func = rows(columns, dtype=dtype)
    kernel = build(emit(func, ONE_CORE))
    for shift in range(64 // np.dtype(dtype).itemsize):
        check(kernel, func, shift)


@pytest.mark.parametrize("width", [16, 48, 128])
def test_vectors_of_any_number_of_lines(width: int) -> None:
    func = rows(4 * width, width=width)
    kernel = build(emit(func, ONE_CORE))
    for shift in range(16):
        check(kernel, func, shift)


def test_rows_of_several_threads() -> None:
    func = rows(300, count=7, outer=PARALLEL)
    program = emit(func, TWO_CORES)
    kernel = build(program)
    for shift in (0, 5):
        check(kernel, func, shift)
    assert program.ll.split("define internal void @kernel.part.1")[1].count("!nontemporal") > 0


def test_threads_see_the_rows_that_were_written_before_they_start() -> None:
    a, c, d = Buffer("a", (256,)), Buffer("c", (256,)), Buffer("d", (256,))
    written = loop(
        "o", 4, lambda o: loop("i", 64, lambda i: put(c, o * 64 + i, get(a, o * 64 + i)), VECTORIZED),
        annotations=(NOTE,),
    )  # fmt: skip
    read = loop("j", 256, lambda j: put(d, j, get(c, 255 - j)), PARALLEL)
    target = Target("llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=znver4 -num-cores 2")
    text = emit(function([a, c, d], [c, d], seq(written, read)), target).ll
    launch = text.split("define internal void @kernel.body" if "@kernel.body(" in text else "define void @kernel(")[1]
    assert "sfence" in launch.split("call void @GOMP_parallel")[0]


@pytest.mark.skipif(sys.platform != "linux", reason="pages that cannot be read are made as on Linux")
def test_nothing_outside_the_arrays_is_read() -> None:
    func = rows(260, count=2, width=64, blocks=4)
    kernel = build(emit(func, ONE_CORE))
    a = np.arange(520, dtype=np.float32).reshape(2, 260)
    for x in beside_pages(a):
        for c in (*beside_pages(a), placed(a, 3)[0]):
            own(kernel)(x, c)
            assert np.array_equal(c, a + a)


def test_a_row_has_one_loop_of_nontemporal_stores_and_ends_under_masks() -> None:
    text = emit(rows(256), WIDE).ll
    assert text.count("!nontemporal") == 7  # four vectors of an iteration, and three of the last one
    assert text.count("call void @llvm.masked.store") == 2
    assert text.count("call void @llvm.prefetch") == 2
    assert emit(rows(300), WIDE).ll.count("call void @llvm.prefetch") == 5
    assert "call void @llvm.x86.sse.sfence()\n  ret void" in text
    assert "sfence" not in emit(rows(256), ARM).ll


@pytest.mark.parametrize(("columns", "places", "chosen"), [
    (256, [3072, 4095], 2),
    (257, [3084, 3084 + 1023, 3084 + 1027], 0),
    (2048, [0, 8191], 2),
])  # fmt: skip
def test_ends_of_rows_are_prefetched_in_time_unless_they_are_whole_lines(
    columns: int, places: list[int], chosen: int
) -> None:
    text = emit(rows(columns), WIDE).ll
    fetched = re.findall(r"getelementptr i8, ptr %\S+, i64 (\d+)\n", text)
    assert [*map(int, fetched)] == places
    assert len(re.findall(r"select i1 %\S+, ptr %\S+, ptr %line", text)) == chosen


def test_loops_that_read_their_row_are_written_as_usual() -> None:
    c = Buffer("c", (256,))
    added = loop(
        "o", 4, lambda o: loop("i", 64, lambda i: put(c, o * 64 + i, get(c, o * 64 + i) + 1.0), VECTORIZED),
        annotations=(NOTE,),
    )  # fmt: skip
    text = emit(function([c], [c], added), WIDE).ll
    assert "!nontemporal" not in text
    assert "sfence" not in text


@pytest.mark.parametrize(("columns", "width"), [(192, 64), (256, 24)])
def test_short_rows_and_parts_of_lines_are_written_as_usual(columns: int, width: int) -> None:
    assert "!nontemporal" not in emit(rows(columns, width=width), WIDE).ll


@pytest.mark.parametrize("part", range(6))
def test_values_and_places_that_depend_on_the_iteration_alone_stay_there(part: int) -> None:
    a, b, c = Buffer("a", (16, 100)), Buffer("b", (64,)), Buffer("c", (4096,))

    def row(o: Any, i: Any) -> Stmt:
        value: Any = [get(a, o, i), get(b, o), get(b, o // 2) * 2.0, select(i < 10, get(b, i), get(b, 3))]
        place = [o * 64 + i] * 4 + [o * 64 + i + o // 2 * 64, o * 64 + i + o % 3 * 512]
        return put(c, place[part], [*value, get(b, i), get(b, i)][part])

    nests = [
        loop("o", 16, lambda o: loop("i", 64, lambda i: row(o, i), VECTORIZED), annotations=notes)
        for notes in ((), (NOTE,))
    ]
    x, y = np.arange(1600, dtype=np.float32).reshape(16, 100), np.arange(64, dtype=np.float32)
    found = []
    for nest in nests:
        found.append(placed(np.zeros(4096, np.float32), 5)[0])
        own(build(emit(function([a, b, c], [c], nest), ONE_CORE)))(x, y, found[-1])
    assert np.array_equal(*found)


@pytest.mark.parametrize(("line", "is_around"), [(40, True), (64, True), (0, False)])
def test_rows_that_are_cut_out_of_several_lines(line: int, is_around: bool) -> None:
    """Divisions of loops vanish from the addresses of such rows, unless another place is read."""
    a, b, c = Buffer("a", (64, line or 64)), Buffer("b", (64,)), Buffer("c", (64, line or 64))

    def cell(o: Any, i: Any) -> Stmt:
        if line == 40:  # which no number of vectors fills
            at = o * 64 + i
            return put(c, at // line, at % line, get(a, at // line, at % line) * 2.0)
        if line:
            return put(c, o, i, get(a, o, i) * 2.0)
        return put(c, o, i, get(a, o, i) + get(b, o // 2))

    count = 40 if line == 40 else 64
    nest = loop("o", count, lambda o: loop("i", 64, lambda i: cell(o, i), VECTORIZED), annotations=(NOTE,))
    program = emit(function([a, b, c], [c], nest), ONE_CORE)
    assert ("!nontemporal" in program.ll) == is_around
    x, y = np.arange(64 * a.shape[1], dtype=np.float32).reshape(a.shape), np.arange(64, dtype=np.float32)
    for shift in 0, 5:
        found = placed(np.zeros(c.shape, np.float32), shift)[0]
        own(build(program))(x, y, found)
        assert np.array_equal(found, x * 2 if line else x + y.repeat(2)[:64, None])
