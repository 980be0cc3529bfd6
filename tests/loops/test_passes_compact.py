"""Intermediates are allocated where they are used, as large as what is alive there."""

from __future__ import annotations

from typing import Any

from te_programs import blur, check_values, matmul, through, two_stages

import pegbox as pb
from pegbox import te
from pegbox.expr.nodes import Buffer
from pegbox.loops.nodes import Alloc, For, ForKind, Function
from pegbox.loops.visit import walk


def allocated(func: Function) -> dict[str, tuple[int, ...]]:
    return {node.buffer.name: node.buffer.shape for node in walk(func.body) if isinstance(node, Alloc)}


def test_a_stage_at_the_root_is_allocated_around_both_nests(golden: Any) -> None:
    a, _, c = two_stages()
    s = te.create_schedule(c.op)
    golden(through("compact", s, [a, c]))


def test_a_tile_is_as_large_as_its_consumer_needs_at_a_time(golden: Any) -> None:
    a, b, c = blur(12)
    s = te.create_schedule(c.op)
    co, _ = s[c].split(s[c].op.axis[0], factor=4)
    s[b].compute_at(s[c], co)
    func = through("compact", s, [a, c])
    assert allocated(func) == {"B": (5,)}
    golden(func)
    check_values(s, [a, c])


def test_a_register_tile_lives_inside_the_tile_loops() -> None:
    a, b, c = matmul(8, 3, 8)
    s = te.create_schedule(c.op)
    tile = s.cache_write(c, "local")
    _, xo, _, _ = s[c].tile(*s[c].op.axis, 2, 4)
    s[tile].compute_at(s[c], xo)
    func = through("compact", s, [a, b, c])
    assert allocated(func) == {"C.local": (2, 4)}
    text = str(func)
    assert text.index("for j.outer") < text.index("C.local = alloc") < text.index("C.local[") < text.index("C[")


def test_whole_tiles_may_reach_beyond_the_tensor_while_they_are_small() -> None:
    a, _, c = two_stages(10)
    d = te.compute((10,), lambda i: c[i] - 1, "D")
    s = te.create_schedule(d.op)
    s[c].split(s[c].op.axis[0], factor=4)
    assert allocated(through("compact", s, [a, d]))["C"] == (12,)


def test_a_loop_that_is_cut_for_its_tail_needs_no_room_beyond_the_tensor() -> None:
    a, b = te.placeholder((6, 10), name="A"), te.placeholder((10,), name="B")
    c = te.compute((6, 10), lambda i, j: a[i, j] + b[j], "C")
    d = te.compute((6, 10), lambda i, j: c[i, j] - 1, "D")
    s = te.create_schedule(d.op)
    io, ii = s[d].split(s[d].op.axis[0], factor=4)
    s[d].fuse(ii, s[d].op.axis[1])
    s[c].compute_at(s[d], io)
    jo, _ = s[c].split(s[c].op.axis[1], factor=4)
    s[c].pragma(jo, "loop_partition_hint")
    assert allocated(through("compact", s, [a, b, d]))["C"] == (4, 10)
    check_values(s, [a, b, d])


def test_large_buffers_do_not_grow_much() -> None:
    n = 40_000
    a, _, c = two_stages(n)
    d = te.compute((n,), lambda i: c[i] - 1, "D")
    for factor, size in ((30_000, n), (24_000, 48_000)):  # half as much again is too much, a fifth is not
        s = te.create_schedule(d.op)
        s[c].split(s[c].op.axis[0], factor=factor)
        func = through("guards", s, [a, d])
        assert allocated(func)["C"] == (size,)
        assert ("if i.outer" in str(func)) is (size == n)


def test_a_small_tile_of_a_large_tensor_may_reach_beyond_it_too() -> None:
    a, b, c = matmul(2000, 3, 20)
    s = te.create_schedule(c.op)
    tile = s.cache_write(c, "local")
    _, xo, _, _ = s[c].tile(*s[c].op.axis, 4, 32)
    s[tile].compute_at(s[c], xo)
    s[tile].split(s[tile].op.axis[1], factor=16)
    assert allocated(through("compact", s, [a, b, c])) == {"C.local": (4, 32)}
    check_values(s, [a, b, c])


def test_room_is_made_only_where_a_test_may_go_for_it_and_none_before_the_first_element() -> None:
    a, b, c = blur(12)
    s = te.create_schedule(c.op)
    s[c].split(s[c].op.axis[0], factor=5)
    assert allocated(through("compact", s, [a, c]))["B"] == b.shape  # the test keeps C, an output
    d = te.compute((12,), lambda i: c[i] - 1, "D")
    s = te.create_schedule(d.op)
    s[c].split(s[c].op.axis[0], factor=5)
    assert allocated(through("compact", s, [a, d])) == {"B": (16,), "C": (15,)}
    assert {n: shape for n, (shape, _, _) in pb.lower(s, [a, d], simple_mode=True).allocations.items()} == {
        "B": (13,),
        "C": (12,),
    }


def test_nothing_is_allocated_inside_a_vectorized_loop() -> None:
    a, _, c = two_stages(8)
    s = te.create_schedule(c.op)
    s[c].vectorize(s[c].op.axis[0])
    func = through("compact", s, [a, c])
    inside = [n for loop in walk(func.body) if isinstance(loop, For) and loop.kind is ForKind.VECTORIZED
              for n in walk(loop) if isinstance(n, Alloc)]  # fmt: skip
    assert inside == []


def test_a_private_copy_for_each_thread_is_allocated_inside_the_parallel_loop() -> None:
    a, b, c = blur(12)
    s = te.create_schedule(c.op)
    co, _ = s[c].split(s[c].op.axis[0], factor=4)
    s[c].parallel(co)
    s[b].compute_at(s[c], co)
    text = str(through("compact", s, [a, c]))
    assert text.index("parallel") < text.index("B = alloc(float32[5]")
    check_values(s, [a, c])


def test_indices_that_no_interval_covers_keep_the_whole_buffer() -> None:
    a = te.placeholder((12,), name="A")
    b = te.compute((12,), lambda i: a[i] + 1, "B")
    c = te.compute((12,), lambda i: b[(i * 5) % 12], "C")
    s = te.create_schedule(c.op)
    co, _ = s[c].split(s[c].op.axis[0], factor=4)
    s[b].compute_at(s[c], co)
    assert allocated(through("compact", s, [a, c])) == {"B": (12,)}
    check_values(s, [a, c])


def test_the_scope_and_dtype_of_a_buffer_stay() -> None:
    a, b, c = matmul(4, 3, 4, "float64")
    s = te.create_schedule(c.op)
    s.cache_write(c, "local")
    (made,) = (n.buffer for n in walk(through("compact", s, [a, b, c]).body) if isinstance(n, Alloc))
    assert (made.scope, made.dtype) == ("local", "float64")
    assert isinstance(made, Buffer)


def test_params_are_never_allocated() -> None:
    a, b, c = two_stages()
    s = te.create_schedule([b.op, c.op])
    assert allocated(through("compact", s, [a, b, c])) == {}
    check_values(s, [a, b, c])


def test_rows_that_a_reader_walks_through_as_one_line_have_no_elements_between_them() -> None:
    """Check that vectors beyond the end of a row do not tear the line apart."""
    a = te.placeholder((6, 28), name="A")
    b = te.compute((6, 28), lambda y, x: a[y, x] * 2, "B")
    line = te.compute((6 * 28,), lambda q: b[q // 28, q % 28] + 1, "line")
    s = te.create_schedule(line.op)
    s[b].vectorize(s[b].split(s[b].op.axis[1], factor=16)[1])
    s[line].vectorize(s[line].split(s[line].op.axis[0], factor=16)[1])
    assert allocated(through("compact", s, [a, line]))["B"] == (6, 28)
    check_values(s, [a, line])
