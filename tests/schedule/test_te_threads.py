"""GPU schedules in TE: they build for a CPU, and their values are NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from interpreter import interpret
from lowered_interpreter import run
from te_values import check_values

import pegbox as pb
from pegbox import te
from pegbox.compute.axis import Range
from pegbox.errors import ComputeError, ScheduleError
from pegbox.schedule.te.replay import lower_te


def axis(tag: str, extent: int | None = None) -> Any:
    return te.thread_axis(tag) if extent is None else te.thread_axis((0, extent), tag)


def right(s: Any, tensors: list[Any]) -> None:
    """NumPy's values: of the scheduled program, of a GPU's read loop by loop, of what runs, and as a kernel."""
    check_values(s, tensors)
    func = lower_te(s, tensors)
    rng = np.random.default_rng(5)
    inputs = [rng.integers(-5, 6, b.shape).astype(b.dtype) for b in func.params if b not in func.outputs]
    expected = interpret(func, inputs)
    for simple in (True, False):
        given = iter(inputs)
        arrays = [np.zeros(b.shape, b.dtype) if b in func.outputs else next(given) for b in func.params]
        run(pb.lower(s, tensors, simple_mode=simple), arrays)
        made = [a for a, b in zip(arrays, func.params, strict=True) if b in func.outputs]
        for got, want in zip(made, expected, strict=True):
            np.testing.assert_array_equal(got, want)


def shown(s: Any, tensors: list[Any]) -> str:
    """Return the program for a GPU, then the one for a CPU."""
    return f"{pb.lower(s, tensors, simple_mode=True)}\n{pb.lower(s, tensors)}"


# Thread axes


def test_a_thread_axis_has_a_tag_a_kind_and_perhaps_an_extent() -> None:
    tx = te.thread_axis("threadIdx.x")
    assert (tx.thread_tag, tx.kind, tx.fixed_extent, tx.name) == ("threadIdx.x", "thread", None, "threadIdx.x")
    for dom in (64, (0, 64), Range(0, 64)):
        tx = te.thread_axis(dom, "threadIdx.x", name="tx")
        assert (tx.thread_tag, tx.fixed_extent, tx.extent, tx.name) == ("threadIdx.x", 64, 64, "tx")
    assert str(tx.var.equal(0)) == "tx == 0"


def test_a_loop_is_bound_to_an_axis_or_its_tag() -> None:
    tensors = vectors(8)
    programs = []
    for thread in ("threadIdx.x", te.thread_axis("threadIdx.x")):
        s = te.create_schedule(tensors[-1].op)
        s[tensors[-1]].bind(tensors[-1].op.axis[0], thread)
        programs.append(lower_te(s, tensors))
    assert programs[0] == programs[1]
    with pytest.raises(ScheduleError, match=r"'threadIdx\.w' is not a thread axis"):
        s[tensors[-1]].bind(tensors[-1].op.axis[0], "threadIdx.w")


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("threadIdx.w",), "unknown thread axis 'threadIdx.w'"),
        ((), "unknown thread axis ''"),
        (((1, 8), "threadIdx.x"), "threads count from 0"),
        ((0, "threadIdx.x"), "extent >= 1"),
        (("threadIdx.x", "threadIdx.y"), "two tags"),
    ],
)
def test_other_thread_axes_are_refused(args: Any, says: str) -> None:
    with pytest.raises(ComputeError, match=says.replace("(", r"\(")):
        te.thread_axis(*args)


# Programs


def vectors(n: int = 1000) -> list[Any]:
    a, b = te.placeholder((n,), name="A"), te.placeholder((n,), name="B")
    return [a, b, te.compute((n,), lambda i: a[i] + b[i], name="C")]


def test_te_vector_add_on_threads(golden: Any) -> None:
    tensors = vectors()
    c = tensors[-1]
    s = te.create_schedule(c.op)
    outer, inner = s[c].split(c.op.axis[0], factor=64)
    s[c].bind(outer, axis("blockIdx.x"))
    s[c].bind(inner, axis("threadIdx.x", 64))
    golden(pb.lower(s, tensors, simple_mode=True))
    assert pb.lower(s, tensors, simple_mode=True).loops("C") == [
        ("i.outer", 16, "thread"),
        ("i.inner", 64, "thread"),
    ]
    right(s, tensors)


@pytest.mark.parametrize("shape", [(32, 64), (33, 65), (1, 7)])
def test_te_elementwise_on_a_grid_of_blocks(shape: tuple[int, int]) -> None:
    a = te.placeholder(shape, name="A")
    b = te.compute(shape, lambda i, j: a[i, j] * 2, name="B")
    s = te.create_schedule(b.op)
    loops = s[b].tile(*b.op.axis, 8, 16)
    for loop, tag in zip(loops, ("blockIdx.y", "blockIdx.x", "threadIdx.y", "threadIdx.x"), strict=True):
        s[b].bind(loop, axis(tag))
    right(s, [a, b])


def matmul(n: int, m: int, k: int, *, threads: int = 4, virtual: int | None = None) -> tuple[Any, list[Any]]:
    """The schedule of TVM's tutorials: tiles in shared memory that all threads fetch, registers for each thread."""
    a, b = te.placeholder((n, k), name="A"), te.placeholder((k, m), name="B")
    r = te.reduce_axis((0, k), name="k")
    c = te.compute((n, m), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")
    s = te.create_schedule(c.op)
    tiles = [s.cache_read(x, "shared", [c]) for x in (a, b)]
    registers = [s.cache_read(x, "local", [c]) for x in tiles]
    sums = s.cache_write(c, "local")
    outer, middle, inner = [], [], []
    for iv in c.op.axis:
        block, rest = s[c].split(iv, factor=16)
        outer.append(block)
        if virtual:
            strand, rest = s[c].split(rest, nparts=virtual)
            outer.append(strand)
            s[c].bind(strand, axis("vthread"))
        thread, rest = s[c].split(rest, nparts=threads)
        middle.append(thread)
        inner.append(rest)
        tag = "y" if iv is c.op.axis[0] else "x"
        s[c].bind(block, axis(f"blockIdx.{tag}"))
        s[c].bind(thread, axis(f"threadIdx.{tag}"))
    s[c].reorder(*outer[:: 2 if virtual else 1], *(outer[1::2] if virtual else []), *middle, *inner)
    s[sums].compute_at(s[c], middle[-1])
    ko, ki = s[sums].split(s[sums].op.reduce_axis[0], factor=4)
    s[sums].reorder(ko, ki, *s[sums].op.axis)
    for tile, own in zip(tiles, registers, strict=True):
        s[own].compute_at(s[sums], ki)
        s[tile].compute_at(s[sums], ko)
        ty, rest = s[tile].split(s[tile].fuse(*s[tile].op.axis), nparts=threads)
        tx, rest = s[tile].split(rest, nparts=threads)
        s[tile].bind(ty, axis("threadIdx.y"))
        s[tile].bind(tx, axis("threadIdx.x"))
    return s, [a, b, c]


def test_te_matmul_with_shared_tiles(golden: Any) -> None:
    s, tensors = matmul(32, 32, 16)
    golden(shown(s, tensors))
    right(s, tensors)


def test_te_a_gpu_sees_tiles_for_a_block_and_registers_for_a_thread() -> None:
    s, tensors = matmul(32, 32, 16)
    program = pb.lower(s, tensors, simple_mode=True)
    assert program.allocations == {
        "C.local": ((4, 4), "float32", "local"),
        "A.shared": ((16, 4), "float32", "shared"),
        "B.shared": ((4, 16), "float32", "shared"),
        "A.shared.local": ((4, 1), "float32", "local"),
        "B.shared.local": ((1, 4), "float32", "local"),
    }
    kinds = [kind for _, _, kind in program.loops("A.shared")]
    assert kinds == ["thread"] * 4 + ["serial", "thread", "thread", "serial"]


def test_te_what_threads_share_is_fetched_once() -> None:
    """Counts the stores: as many as those of a GPU's threads together."""
    s, tensors = matmul(32, 32, 16)
    loops = pb.lower(s, tensors).loops("A.shared")
    assert np.prod([extent for _, extent, _ in loops]) == 32 * 16 * 2  # each of two columns of blocks fetches A


@pytest.mark.parametrize("virtual", [None, 2])
@pytest.mark.parametrize("shape", [(21, 19, 5), (5, 7, 3), (32, 16, 5), (1, 1, 1)])
def test_te_matmul_with_tails(shape: tuple[int, int, int], virtual: int | None) -> None:
    s, tensors = matmul(*shape, virtual=virtual)
    right(s, tensors)


# Reductions by threads together


def rows(n: int = 5, m: int = 37) -> tuple[Any, Any]:
    return te.placeholder((n, m), name="A"), te.reduce_axis((0, m), name="k")


@pytest.mark.parametrize("reducer", [te.sum, te.max, te.min])
def test_te_threads_reduce_together(reducer: Any) -> None:
    a, k = rows()
    b = te.compute((5,), lambda i: reducer(a[i, k], axis=k), name="B")
    s = te.create_schedule(b.op)
    _, inner = s[b].split(b.op.reduce_axis[0], factor=8)
    s[b].bind(b.op.axis[0], axis("blockIdx.x"))
    s[b].bind(inner, tx := axis("threadIdx.x"))
    s[b].set_store_predicate(tx.var.equal(0))
    right(s, [a, b])


def test_te_threads_find_the_largest_together() -> None:
    a, k = rows()
    argmax = te.comm_reducer(
        lambda x, y: (
            te.if_then_else(te.any(x[1] > y[1], te.all(x[1] == y[1], x[0] < y[0])), x[0], y[0]),
            te.if_then_else(x[1] >= y[1], x[1], y[1]),
        ),
        lambda i, v: (te.const(1 << 30, i), te.min_value(v)),
        name="argmax",
    )
    place, value = te.compute((5,), lambda i: argmax((k, a[i, k]), axis=k), name="best")
    s = te.create_schedule(place.op)
    _, inner = s[place].split(s[place].op.reduce_axis[0], factor=8)
    s[place].bind(inner, axis("threadIdx.x"))
    right(s, [a, place, value])


def test_te_the_classic_rfactor_on_threads(golden: Any) -> None:
    a, k = rows(33, 100)
    b = te.compute((33,), lambda i: te.sum(a[i, k], axis=k), name="B")
    s = te.create_schedule(b.op)
    _, inner = s[b].split(b.op.reduce_axis[0], factor=16)
    partial = s.rfactor(b, inner)
    blocks, ty = s[b].split(s[b].op.axis[0], factor=32)
    s[b].bind(blocks, axis("blockIdx.x"))
    s[b].bind(ty, axis("threadIdx.y"))
    tx = axis("threadIdx.x")
    s[b].bind(s[b].op.reduce_axis[0], tx)
    s[partial].compute_at(s[b], s[b].op.reduce_axis[0])
    s[b].set_store_predicate(tx.var.equal(0))
    golden(pb.lower(s, [a, b], simple_mode=True))
    assert "store_predicate = threadIdx.x == 0" in str(lower_te(s, [a, b]))
    right(s, [a, b])


def test_te_softmax_of_rows_on_blocks(golden: Any) -> None:
    n, m = 5, 50
    x = te.placeholder((n, m), name="X")
    k1, k2 = te.reduce_axis((0, m), name="k1"), te.reduce_axis((0, m), name="k2")
    top = te.compute((n,), lambda i: te.max(x[i, k1], axis=k1), name="top")
    power = te.compute((n, m), lambda i, j: te.exp(x[i, j] - top[i]), name="power")
    total = te.compute((n,), lambda i: te.sum(power[i, k2], axis=k2), name="total")
    y = te.compute((n, m), lambda i, j: power[i, j] / total[i], name="Y")
    s = te.create_schedule(y.op)
    row, column = s[y].op.axis
    s[y].bind(row, axis("blockIdx.x"))
    for stage, loop in ((y, column), (total, k2), (power, power.op.axis[1]), (top, k1)):
        if stage is not y:
            s[stage].compute_at(s[y], row)
        s[stage].bind(s[stage].split(loop, factor=16)[1], axis("threadIdx.x"))
    program = pb.lower(s, [x, y], simple_mode=True)
    golden(program)
    assert {name: scope for name, (_, _, scope) in program.allocations.items()} == dict.fromkeys(
        ("top", "power", "total"), "shared"
    )
    given = np.random.default_rng(0).normal(size=(n, m)).astype("float32")
    got = np.zeros((n, m), "float32")
    pb.build(s, [x, y])(given, got)
    powers = np.exp(given - given.max(1, keepdims=True))
    np.testing.assert_allclose(got, powers / powers.sum(1, keepdims=True), rtol=1e-5)


# Threads from outside, and who stores


def test_te_env_threads_are_joined_by_bound_loops(golden: Any) -> None:
    a, _ = rows(4, 50)
    b = te.compute((4, 50), lambda i, j: a[i, j] * 2, name="B")
    s = te.create_schedule(b.op)
    tx = axis("threadIdx.x")
    s[b].env_threads([tx])
    s[b].bind(s[b].split(b.op.axis[1], factor=25)[1], tx)
    golden(shown(s, [a, b]))
    right(s, [a, b])


def test_te_one_of_several_threads_stores(golden: Any) -> None:
    a, k = rows()
    b = te.compute((5,), lambda i: te.sum(a[i, k], axis=k), name="B")
    s = te.create_schedule(b.op)
    tx = axis("threadIdx.x", 8)
    s[b].env_threads(tx)
    s[b].set_store_predicate(te.all(tx.var >= 3, tx.var < 4))
    golden(pb.lower(s, [a, b], simple_mode=True))
    right(s, [a, b])


# Regions, by the memory in which a stage is


@pytest.mark.parametrize(
    ("scope", "shape"),
    [("local", (1, 1)), ("warp", (1, 8)), ("shared", (4, 8)), ("shared.dyn", (4, 8)), (None, (1, 1))],
)
def test_te_what_threads_share_is_computed_for_all_of_them(scope: str | None, shape: tuple[int, int]) -> None:
    a, _ = rows(16, 16)
    b = te.compute((16, 16), lambda i, j: a[i, j] + 1, name="B")
    c = te.compute((16, 16), lambda i, j: b[i, j] * 2, name="C")
    s = te.create_schedule(c.op)
    if scope is not None:
        s[b].set_scope(scope)
    loops = s[c].tile(*c.op.axis, 4, 8)
    for loop, tag in zip(loops, ("blockIdx.y", "blockIdx.x", "threadIdx.y", "threadIdx.x"), strict=True):
        s[c].bind(loop, axis(tag))
    s[b].compute_at(s[c], loops[-1])
    allocations = pb.lower(s, [a, c], simple_mode=True).allocations
    assert allocations == {"B": (shape, "float32", scope or "local")}
    right(s, [a, c])


def test_te_global_memory_is_for_all_blocks() -> None:
    a, _ = rows(16, 16)
    b = te.compute((16, 16), lambda i, j: a[i, j] + 1, name="B")
    c = te.compute((16, 16), lambda i, j: b[i, j] * 2, name="C")
    s = te.create_schedule(c.op)
    s[b].set_scope("global")
    s[c].bind(c.op.axis[0], axis("blockIdx.x"))
    s[b].compute_at(s[c], c.op.axis[0])
    assert pb.lower(s, [a, c], simple_mode=True).allocations["B"] == ((16, 16), "float32", "global")
    right(s, [a, c])


def test_te_a_thread_keeps_what_it_needs_after_a_barrier(golden: Any) -> None:
    """Each thread has its own window of sums, which overlap; between making and using them all threads fetch W."""
    x, w = te.placeholder((18,), name="X"), te.placeholder((4, 16), name="W")
    r = te.reduce_axis((0, 2), name="r")
    k = te.reduce_axis((0, 4), name="k")
    pairs = te.compute((17,), lambda i: te.sum(x[i + r], axis=r), name="pairs")
    y = te.compute((16,), lambda i: te.sum((pairs[i] + pairs[i + 1]) * w[k, i], axis=k), name="Y")
    s = te.create_schedule(y.op)
    tile = s.cache_read(w, "shared", [y])
    outer, inner = s[y].split(y.op.axis[0], factor=4)
    s[y].reorder(outer, k, inner)
    s[y].bind(outer, axis("threadIdx.x"))
    s[pairs].compute_at(s[y], outer)
    s[tile].compute_at(s[y], k)
    s[tile].bind(s[tile].split(s[tile].op.axis[1], factor=4)[0], axis("threadIdx.x"))
    golden(shown(s, [x, w, y]))
    right(s, [x, w, y])


# What is refused


def grid() -> tuple[Any, Any, Any]:
    a = te.placeholder((8, 12), name="A")
    b = te.compute((8, 12), lambda i, j: a[i, j] + 1, name="B")
    return a, b, te.create_schedule(b.op)


def test_te_a_bound_loop_is_not_split_fused_or_made_something_else() -> None:
    _, b, s = grid()
    i, j = b.op.axis
    s[b].bind(j, axis("threadIdx.x"))
    for name, call in {
        "split": lambda: s[b].split(j, 4),
        "fuse": lambda: s[b].fuse(i, j),
        "vectorize": lambda: s[b].vectorize(j),
        "parallel": lambda: s[b].parallel(j),
        "unroll": lambda: s[b].unroll(j),
        r"pragma\(j, unroll\) of B": lambda: s[b].pragma(j, "unroll"),
        "bind": lambda: s[b].bind(j, axis("threadIdx.y")),
    }.items():
        with pytest.raises(ScheduleError, match=f"^{name}.*is bound to threadIdx.x already"):
            call()


def test_te_vectorized_loops_are_not_bound() -> None:
    _, b, s = grid()
    s[b].vectorize(b.op.axis[1])
    with pytest.raises(ScheduleError, match=r"bind\(j, threadIdx.x\) of B: j is vectorized already"):
        s[b].bind(b.op.axis[1], axis("threadIdx.x"))


def test_te_only_thread_axes_bind() -> None:
    _, b, s = grid()
    i, j = b.op.axis
    with pytest.raises(ScheduleError, match=r"bind\(i, j\) of B: j is not a thread axis"):
        s[b].bind(i, j)
    with pytest.raises(ScheduleError, match=r"env_threads\(\[j\]\) of B: j is not a thread axis"):
        s[b].env_threads([j])
    with pytest.raises(ScheduleError, match=r"set_store_predicate\(j == 0\) of B: j is not a thread axis"):
        s[b].set_store_predicate(j.equal(0))
    with pytest.raises(ScheduleError, match="is not a condition"):
        s[b].set_store_predicate(axis("threadIdx.x").var)


def test_te_a_loop_has_as_many_iterations_as_its_axis_threads() -> None:
    a, b, s = grid()
    s[b].bind(b.op.axis[1], axis("threadIdx.x", 16))
    with pytest.raises(ScheduleError, match=r"threadIdx\.x has 16 threads, but j 12 iterations"):
        pb.lower(s, [a, b])


def test_te_env_threads_have_an_extent() -> None:
    a, b, s = grid()
    s[b].env_threads([axis("threadIdx.x")])
    with pytest.raises(ScheduleError, match=r"env_threads of B: threadIdx\.x has no extent"):
        pb.lower(s, [a, b])


def test_te_a_tile_smaller_than_the_block_leaves_threads_idle() -> None:
    """The tile has 3 elements for 4 threads: TVM's users split it by the number of threads all the same."""
    a = te.placeholder((4, 3), name="A")
    k = te.reduce_axis((0, 3), name="k")
    b = te.compute((4,), lambda i: te.sum(a[0, k] * a[i, k], axis=k), name="B")
    s = te.create_schedule(b.op)
    s[b].bind(b.op.axis[0], axis("threadIdx.x"))
    row = te.placeholder((3,), name="row")
    c = te.compute((4,), lambda i: te.sum(row[k] * a[i, k], axis=k), name="C")
    s = te.create_schedule(c.op)
    tile = s.cache_read(row, "shared", [c])
    s[c].bind(c.op.axis[0], axis("threadIdx.x"))
    s[tile].compute_at(s[c], c.op.axis[0])
    s[tile].bind(s[tile].split(s[tile].op.axis[0], factor=4)[1], axis("threadIdx.x"))
    assert pb.lower(s, [row, a, c], simple_mode=True).loops("row.shared")[-1][1:] == (4, "thread")
    right(s, [row, a, c])
