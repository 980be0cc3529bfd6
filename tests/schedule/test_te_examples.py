"""The classic schedules with which people learn TE, with their programs, loops, allocations and values.

The loops are those of the readable program (`simple_mode`), the values those of the machine code that is built.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from compilers import compiler
from te_values import check_values

import pegbox as pb
from pegbox import te, tir

Check = Callable[..., None]


@pytest.fixture
def example(golden: Callable[[object], None]) -> Check:
    """Checks a schedule: the printed program, values against NumPy, loops by stage, allocations."""

    def check(s: Any, args: list[Any], *, loops: dict[str, str], allocations: dict[str, Any] | None = None) -> None:
        program = pb.lower(s, args, simple_mode=True)
        golden(program)
        shown = {name: " ".join(_loop(*loop) for loop in program.loops(name)) for name in loops}
        assert shown == loops
        assert program.allocations == {
            n: (shape, "float32", scope) for n, (shape, scope) in (allocations or {}).items()
        }
        check_values(s, args)

    return check


def _loop(name: str, extent: int, kind: str) -> str:
    return f"{name}:{extent}" if kind == "serial" else f"{name}:{extent}:{kind}"


def vectors(n: int = 100) -> list[Any]:
    """C = A + B."""
    a, b = te.placeholder((n,), name="A"), te.placeholder((n,), name="B")
    return [a, b, te.compute((n,), lambda i: a[i] + b[i], "C")]


def doubled(m: int, n: int) -> list[Any]:
    a = te.placeholder((m, n), name="A")
    return [a, te.compute((m, n), lambda i, j: a[i, j] * 2, "B")]


def row_sums(m: int, n: int) -> list[Any]:
    a = te.placeholder((m, n), name="A")
    k = te.reduce_axis((0, n), "k")
    return [a, te.compute((m,), lambda i: te.sum(a[i, k], axis=k), "B")]


def product(m: int, n: int, k: int) -> list[Any]:
    a, b = te.placeholder((m, k), name="A"), te.placeholder((k, n), name="B")
    r = te.reduce_axis((0, k), "k")
    return [a, b, te.compute((m, n), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), "C")]


def padded_convolution(size: int = 6) -> list[Any]:
    """3 x 3, one row of zeros around."""
    data, kernel = te.placeholder((size, size), name="data"), te.placeholder((3, 3), name="kernel")
    padded = te.compute(
        (size + 2, size + 2),
        lambda y, x: te.if_then_else(
            te.all(y >= 1, y <= size, x >= 1, x <= size), data[y - 1, x - 1], te.const(0, "float32")
        ),
        "padded",
    )
    ry, rx = te.reduce_axis((0, 3), "ry"), te.reduce_axis((0, 3), "rx")
    conv = te.compute((size, size), lambda y, x: te.sum(padded[y + ry, x + rx] * kernel[ry, rx], axis=[ry, rx]), "conv")
    return [data, kernel, padded, conv]


# The loops of one stage


def test_te_example_split_of_a_vector_in_blocks(example: Check) -> None:
    a, b, c = vectors(100)
    s = te.create_schedule(c.op)
    s[c].split(c.op.axis[0], factor=32)
    example(s, [a, b, c], loops={"C": "i.outer:4 i.inner:32"})


def test_te_example_split_of_a_vector_in_shares(example: Check) -> None:
    a, b, c = vectors(100)
    s = te.create_schedule(c.op)
    s[c].split(c.op.axis[0], nparts=4)
    example(s, [a, b, c], loops={"C": "i.outer:4 i.inner:25"})


def test_te_example_fuse_of_rows_and_columns(example: Check) -> None:
    a, b = doubled(12, 10)
    s = te.create_schedule(b.op)
    outer_i, outer_j, _, _ = s[b].tile(*b.op.axis, x_factor=4, y_factor=5)
    s[b].fuse(outer_i, outer_j)
    example(s, [a, b], loops={"B": "i.outer.j.outer.fused:6 i.inner:4 j.inner:5"})


def test_te_example_reorder_of_a_tiled_nest(example: Check) -> None:
    a, b, c = product(8, 12, 10)
    s = te.create_schedule(c.op)
    (i, j), (k,) = c.op.axis, c.op.reduce_axis
    jo, ji = s[c].split(j, factor=4)
    s[c].reorder(jo, k, i, ji)
    example(s, [a, b, c], loops={"C": "j.outer:3 k:10 i:8 j.inner:4"})


def test_te_example_tile_of_a_plane(example: Check) -> None:
    a, b = doubled(10, 14)
    s = te.create_schedule(b.op)
    s[b].tile(*b.op.axis, x_factor=4, y_factor=7)
    example(s, [a, b], loops={"B": "i.outer:3 j.outer:2 i.inner:4 j.inner:7"})


def test_te_example_unroll_of_a_small_reduction(example: Check) -> None:
    a, b = row_sums(10, 3)
    s = te.create_schedule(b.op)
    s[b].unroll(b.op.reduce_axis[0])
    example(s, [a, b], loops={"B": "i:10 k:3:unrolled"})


def test_te_example_vectorize_of_an_addition(example: Check) -> None:
    a, b, c = vectors(100)
    s = te.create_schedule(c.op)
    _, lanes = s[c].split(c.op.axis[0], factor=8)
    s[c].vectorize(lanes)
    example(s, [a, b, c], loops={"C": "i.outer:13 i.inner:8:vectorized"})


def test_te_example_parallel_rows(example: Check) -> None:
    a, b = row_sums(16, 20)
    s = te.create_schedule(b.op)
    outer, _ = s[b].split(b.op.axis[0], factor=4)
    s[b].parallel(outer)
    example(s, [a, b], loops={"B": "i.outer:4:parallel i.inner:4 k:20"})


def test_te_example_pragma_to_unroll_below_a_loop(example: Check) -> None:
    a, b, c = product(6, 8, 4)
    s = te.create_schedule(c.op)
    i = c.op.axis[0]
    s[c].pragma(i, "auto_unroll_max_step", 16)
    s[c].pragma(i, "unroll_explicit", True)
    example(s, [a, b, c], loops={"C": "i:6 j:8 k:4"})


def test_te_example_prefetch_of_the_next_rows(example: Check) -> None:
    a, b = row_sums(20, 48)
    s = te.create_schedule(b.op)
    s[b].prefetch(a, b.op.axis[0], 2)
    example(s, [a, b], loops={"B": "i:20 k:48"})


# Where stages are computed


def test_te_example_compute_at_of_sums_that_rows_share(example: Check) -> None:
    a = te.placeholder((8, 16), name="A")
    k = te.reduce_axis((0, 16), "k")
    mean = te.compute((8,), lambda i: te.sum(a[i, k], axis=k), "total")
    share = te.compute((8, 16), lambda i, j: a[i, j] * 16 - mean[i], "centred")
    s = te.create_schedule(share.op)
    s[mean].compute_at(s[share], share.op.axis[0])
    example(
        s,
        [a, share],
        loops={"total": "i:8 k:16", "centred": "i:8 j:16"},
        allocations={"total": ((1,), "global")},
    )


def test_te_example_compute_inline_of_padding(example: Check) -> None:
    data, kernel, padded, conv = padded_convolution()
    s = te.create_schedule(conv.op)
    s[padded].compute_inline()
    example(s, [data, kernel, conv], loops={"conv": "y:6 x:6 ry:3 rx:3"})


def test_te_example_compute_at_of_padding(example: Check) -> None:
    data, kernel, padded, conv = padded_convolution()
    s = te.create_schedule(conv.op)
    yo, _ = s[conv].split(conv.op.axis[0], factor=2)
    s[padded].compute_at(s[conv], yo)
    example(
        s,
        [data, kernel, conv],
        loops={"padded": "y.outer:3 y:4 x:8", "conv": "y.outer:3 y.inner:2 x:6 ry:3 rx:3"},
        allocations={"padded": ((4, 8), "global")},
    )


def test_te_example_compute_root_undoes_an_inline(example: Check) -> None:
    data, kernel, padded, conv = padded_convolution()
    s = te.create_schedule(conv.op)
    s[padded].compute_inline()
    s[padded].compute_root()
    example(
        s,
        [data, kernel, conv],
        loops={"padded": "y:8 x:8", "conv": "y:6 x:6 ry:3 rx:3"},
        allocations={"padded": ((8, 8), "global")},
    )


def test_te_example_create_group_of_elementwise_stages(example: Check) -> None:
    a = te.placeholder((12, 10), name="A")
    b = te.compute((12, 10), lambda i, j: a[i, j] + 1, "B")
    c = te.compute((12, 10), lambda i, j: b[i, j] * 3, "C")
    k = te.reduce_axis((0, 10), "k")
    d = te.compute((12,), lambda i: te.sum(c[i, k], axis=k), "D")
    s = te.create_schedule(d.op)
    group = s.create_group(outputs=c, inputs=a, include_inputs=False)
    outer, _ = s[d].split(d.op.axis[0], factor=3)
    group.compute_at(s[d], outer)
    example(
        s,
        [a, d],
        loops={"B": "i.outer:4 i:3 j:10", "C": "i.outer:4 i:3 j:10", "D": "i.outer:4 i.inner:3 k:10"},
        allocations={"B": ((3, 10), "global"), "C": ((3, 10), "global")},
    )


# Copies and rewritten reductions


def test_te_example_cache_read_of_rows_to_add_up(example: Check) -> None:
    a, b = row_sums(10, 16)
    s = te.create_schedule(b.op)
    near = s.cache_read(a, "shared", [b])
    s[near].compute_at(s[b], b.op.axis[0])
    example(
        s,
        [a, b],
        loops={"A.shared": "i:10 ax1:16", "B": "i:10 k:16"},
        allocations={"A.shared": ((1, 16), "shared")},
    )


def test_te_example_cache_write_of_a_tile(example: Check) -> None:
    a, b, c = product(16, 24, 12)
    s = te.create_schedule(c.op)
    tile = s.cache_write(c, "local")
    io, jo, _, ji = s[c].tile(*c.op.axis, x_factor=4, y_factor=8)
    s[tile].compute_at(s[c], jo)
    ko, ki = s[tile].split(s[tile].op.reduce_axis[0], factor=4)
    ic, jc = s[tile].op.axis
    s[tile].reorder(ko, ki, ic, jc)
    s[tile].unroll(ic)
    s[tile].vectorize(jc)
    s[c].vectorize(ji)
    s[c].parallel(io)
    example(
        s,
        [a, b, c],
        loops={
            "C.local": "i.outer:4:parallel j.outer:3 k.outer:3 k.inner:4 i.c:4:unrolled j.c:8:vectorized",
            "C": "i.outer:4:parallel j.outer:3 i.inner:4 j.inner:8:vectorized",
        },
        allocations={"C.local": ((4, 8), "local")},
    )


def test_te_example_rfactor_of_a_sum(example: Check) -> None:
    a, b = row_sums(6, 40)
    s = te.create_schedule(b.op)
    _, inner = s[b].split(b.op.reduce_axis[0], factor=8)
    partial = s.rfactor(b, inner)
    s[partial].vectorize(s[partial].op.axis[0])
    s[partial].reorder(s[partial].op.axis[1], s[partial].op.reduce_axis[0], s[partial].op.axis[0])
    s[partial].compute_at(s[b], b.op.axis[0])
    example(
        s,
        [a, b],
        loops={"B.rf": "i:6 k.outer:5 k.inner:8:vectorized", "B": "i:6 k.inner.v:8"},
        allocations={"B.rf": ((8, 1), "global")},
    )


def test_te_example_set_scope_of_an_intermediate(example: Check) -> None:
    a, b = doubled(12, 16)
    c = te.compute((12, 16), lambda i, j: b[i, j] + a[i, 15 - j], "C")
    s = te.create_schedule(c.op)
    s[b].compute_at(s[c], c.op.axis[0])
    s[b].set_scope("local")
    example(
        s,
        [a, c],
        loops={"B": "i:12 j:16", "C": "i:12 j:16"},
        allocations={"B": ((1, 16), "local")},
    )


def test_te_example_storage_align_of_a_transposition(example: Check) -> None:
    a = te.placeholder((32, 32), name="A")
    b = te.compute((32, 32), lambda i, j: a[j, i], "B")
    s = te.create_schedule(b.op)
    near = s.cache_read(a, "shared", [b])
    io, jo, _, _ = s[b].tile(*b.op.axis, 16, 16)
    s[near].compute_at(s[b], jo)
    s[near].storage_align(s[near].op.axis[0], factor=16, offset=1)
    del io
    # Rows begin 17 elements apart, so that a column lies in different banks.
    example(
        s,
        [a, b],
        loops={"A.shared": "i.outer:2 j.outer:2 ax0:16 ax1:16", "B": "i.outer:2 j.outer:2 i.inner:16 j.inner:16"},
        allocations={"A.shared": ((16, 17), "shared")},
    )


def test_te_example_double_buffer_of_a_tile(example: Check) -> None:
    a, b = row_sums(8, 64)
    s = te.create_schedule(b.op)
    near = s.cache_read(a, "local", [b])
    ko, _ = s[b].split(b.op.reduce_axis[0], factor=16)
    s[near].compute_at(s[b], ko)
    s[near].double_buffer()
    example(s, [a, b], loops={"B": "i:8 k.outer:4 k.inner:16"}, allocations={"A.local": ((2, 1, 16), "local")})


# Machine code


GEMV = """
int gemv_update(float *out, const float *matrix, const float *vector, int rows, int columns, int stride) {
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < columns; ++j) out[i] += matrix[i * stride + j] * vector[j];
  return 0;
}
int gemv_reset(float *out, int rows) {
  for (int i = 0; i < rows; ++i) out[i] = 0;
  return 0;
}
"""


def gemv(rows: int, columns: int, stride: int) -> Any:
    """A matrix of `rows` x `columns` times a vector, by two functions in C."""
    w, x = te.placeholder((rows, columns), name="w"), te.placeholder((columns,), name="x")
    k = te.reduce_axis((0, columns), "k")
    y = te.compute((rows,), lambda i: te.sum(w[i, k] * x[k], axis=k), "y")
    matrix = te.decl_buffer(w.shape, w.dtype, name="matrix", strides=[stride, 1])

    def body(ins: Any, outs: Any) -> Any:
        (m, v), (out,) = ins, outs
        pointers = (out.access_ptr("rw"), m.access_ptr("r"), v.access_ptr("r"))
        update = te.call_extern("int32", "gemv_update", *pointers, rows, columns, stride)
        return None, te.call_extern("int32", "gemv_reset", out.access_ptr("w"), rows), update

    return te.decl_tensor_intrin(y.op, body, name="example_gemv", binds={w: matrix}, code=tir.c_source(GEMV))


@compiler
def test_te_example_tensorize_of_a_product_by_gemv(example: Check) -> None:
    a, b = te.placeholder((6, 32), name="A"), te.placeholder((24, 32), name="B")
    k = te.reduce_axis((0, 32), "k")
    c = te.compute((6, 24), lambda i, j: te.sum(a[i, k] * b[j, k], axis=k), "C")
    s = te.create_schedule(c.op)
    i, j = c.op.axis
    jo, ji = s[c].split(j, factor=8)
    ko, ki = s[c].split(k, factor=16)
    s[c].reorder(i, jo, ko, ji, ki)
    s[c].tensorize(ji, gemv(8, 16, 32))
    example(s, [a, b, c], loops={"C": "i:6 j.outer:3 k.outer:2"})


# Threads


def test_te_example_bind_of_a_vector_addition(example: Check) -> None:
    a, b, c = vectors(200)
    s = te.create_schedule(c.op)
    outer, inner = s[c].split(c.op.axis[0], factor=64)
    s[c].bind(outer, te.thread_axis("blockIdx.x"))
    s[c].bind(inner, te.thread_axis("threadIdx.x"))
    example(s, [a, b, c], loops={"C": "i.outer:4:thread i.inner:64:thread"})


def test_te_example_set_store_predicate_of_a_sum_across_threads(example: Check) -> None:
    a, b = row_sums(6, 48)
    s = te.create_schedule(b.op)
    ko, ki = s[b].split(b.op.reduce_axis[0], factor=16)
    partial = s.rfactor(b, ki)
    s[b].bind(b.op.axis[0], te.thread_axis("blockIdx.x"))
    tx = te.thread_axis("threadIdx.x")
    s[b].bind(s[b].op.reduce_axis[0], tx)
    s[partial].compute_at(s[b], s[b].op.reduce_axis[0])
    s[b].set_store_predicate(tx.var.equal(0))
    del ko
    example(
        s,
        [a, b],
        loops={"B": "i:6:thread k.inner.v:16:thread", "B.rf": "i:6:thread k.inner.v:16:thread k.outer:3"},
        allocations={"B.rf": ((1, 1), "local")},
    )


def test_te_example_bind_of_a_product_with_shared_tiles(example: Check) -> None:
    a, b, c = product(32, 32, 24)
    s = te.create_schedule(c.op)
    tile = s.cache_write(c, "local")
    io, jo, ii, ji = s[c].tile(*c.op.axis, 16, 16)
    for loop, tag in ((io, "blockIdx.y"), (jo, "blockIdx.x"), (ii, "threadIdx.y"), (ji, "threadIdx.x")):
        s[c].bind(loop, te.thread_axis(tag))
    s[tile].compute_at(s[c], ji)
    ko, _ = s[tile].split(s[tile].op.reduce_axis[0], factor=8)
    for tensor in (a, b):
        near = s.cache_read(tensor, "shared", [tile])
        s[near].compute_at(s[tile], ko)
    example(
        s,
        [a, b, c],
        loops={"C": "i.outer:2:thread j.outer:2:thread i.inner:16:thread j.inner:16:thread"},
        allocations={
            "C.local": ((1, 1), "local"),
            "A.shared": ((16, 8), "shared"),
            "B.shared": ((8, 16), "shared"),
        },
    )


def test_te_example_built_as_the_tutorials_do() -> None:
    a, b, c = product(16, 16, 16)
    s = te.create_schedule([c.op])
    mmult = pb.build(s.normalize(), [a, b, c], "llvm", name="mmult")
    x, y = np.random.default_rng(0).random((2, 16, 16), np.float32)
    z = np.zeros((16, 16), np.float32)
    mmult(x, y, z)
    np.testing.assert_allclose(z, x @ y, rtol=1e-5)
    assert mmult.name == "mmult"
    assert s.outputs == [c.op]
