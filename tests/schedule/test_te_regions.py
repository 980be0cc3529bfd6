"""An attached stage computes a region as small as TE's bound inference makes it: the shapes are worked out by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from te_values import check_values

import pegbox as pb
from pegbox import te

Sched = Callable[[Any], Any]


def shapes(s: Any, tensors: list[Any]) -> dict[str, tuple[int, ...]]:
    """The allocations, which are the same whether loops are cut or not; the values are checked on the way."""
    check_values(s, tensors)
    plain = {name: shape for name, (shape, _, _) in pb.lower(s, tensors, simple_mode=True).allocations.items()}
    cut = {name: shape for name, (shape, _, _) in pb.lower(s, tensors).allocations.items()}
    assert cut == plain
    return plain


def split(factor: int) -> Sched:
    return lambda stage: stage.split(stage.op.axis[0], factor=factor)[0]


def parts(number: int) -> Sched:
    return lambda stage: stage.split(stage.op.axis[0], nparts=number)[0]


def inner(factor: int) -> Sched:
    return lambda stage: stage.split(stage.op.axis[0], factor=factor)[1]


LINES = [
    # made, taken, element, attach, shape
    pytest.param(102, 100, lambda b, i: b[i] + b[i + 1] + b[i + 2], split(10), 12, id="stencil"),
    pytest.param(102, 100, lambda b, i: b[i] + b[i + 1] + b[i + 2], split(8), 10, id="stencil with a tail"),
    pytest.param(102, 100, lambda b, i: b[i] + b[i + 1] + b[i + 2], inner(8), 3, id="stencil at the innermost loop"),
    pytest.param(106, 100, lambda b, i: b[i] + b[i + 3] + b[i + 6], split(4), 10, id="dilated stencil"),
    pytest.param(200, 100, lambda b, i: b[2 * i] + b[2 * i + 1], split(4), 8, id="stride as wide as the window"),
    pytest.param(201, 100, lambda b, i: b[2 * i] + b[2 * i + 2], split(4), 9, id="stride with overlap"),
    pytest.param(298, 100, lambda b, i: b[3 * i], split(4), 10, id="stride with gaps"),
    pytest.param(10, 10, lambda b, i: b[i], split(4), 4, id="tail"),
    pytest.param(10, 10, lambda b, i: b[i], split(100), 10, id="factor beyond the extent"),
    pytest.param(10, 10, lambda b, i: b[i], parts(3), 4, id="nparts with a tail"),
    pytest.param(10, 10, lambda b, i: b[i], parts(7), 2, id="nparts with empty tiles"),
    pytest.param(10, 10, lambda b, i: b[9 - i], split(4), 4, id="backwards"),
    pytest.param(
        100, 100, lambda b, i: b[te.maximum(i - 1, 0)] + b[i] + b[te.minimum(i + 1, 99)], split(4), 6, id="clamped"
    ),
    pytest.param(50, 100, lambda b, i: b[i // 2], split(4), 2, id="halves"),
    pytest.param(34, 100, lambda b, i: b[i // 3], split(4), 2, id="thirds out of step"),
    pytest.param(8, 100, lambda b, i: b[i % 8], split(4), 4, id="modulo in step"),
    pytest.param(6, 100, lambda b, i: b[i % 6], split(4), 6, id="modulo out of step"),
]


@pytest.mark.parametrize(("made", "taken", "element", "attach", "shape"), LINES)
def test_te_region_of_a_line(made: int, taken: int, element: Any, attach: Sched, shape: int) -> None:
    a = te.placeholder((made,), name="A")
    b = te.compute((made,), lambda i: a[i] + 1, "B")
    c = te.compute((taken,), lambda i: element(b, i), "C")
    s = te.create_schedule(c.op)
    s[b].compute_at(s[c], attach(s[c]))
    assert shapes(s, [a, c]) == {"B": (shape,)}


def tile(which: int) -> Sched:
    return lambda stage: stage.tile(*stage.op.axis, 3, 4)[which]


def fused(factor: int) -> Sched:
    return lambda stage: stage.split(stage.fuse(*stage.op.axis), factor=factor)[0]


PLANES = [
    # made, taken, element, attach, shape
    pytest.param((8, 6), (6, 8), lambda b, i, j: b[j, i], lambda s: s.op.axis[0], (8, 1), id="transposed at a row"),
    pytest.param((10, 9), (9, 10), lambda b, i, j: b[j, i], tile(1), (4, 3), id="transposed tile"),
    pytest.param((12, 12), (10, 10), lambda b, i, j: b[i, j] + b[i + 2, j + 2], tile(1), (5, 6), id="stencil tile"),
    pytest.param((12, 12), (10, 10), lambda b, i, j: b[i, j] + b[i + 2, j + 2], tile(2), (3, 6), id="row of a tile"),
    pytest.param((8, 6), (8, 6), lambda b, i, j: b[i, j], lambda s: s.fuse(*s.op.axis), (1, 1), id="fused"),
    pytest.param((8, 6), (8, 6), lambda b, i, j: b[i, j], fused(3), (1, 3), id="fused, half rows"),
    pytest.param((8, 6), (8, 6), lambda b, i, j: b[i, j], fused(6), (1, 6), id="fused, rows"),
    pytest.param((8, 6), (8, 6), lambda b, i, j: b[i, j], fused(12), (2, 6), id="fused, two rows"),
    pytest.param((8, 6), (8, 6), lambda b, i, j: b[i, j], fused(4), (2, 6), id="fused, out of step"),
    pytest.param((6, 8), (8, 6), lambda b, i, j: b[(i * 6 + j) // 8, (i * 6 + j) % 8], lambda s: s.op.axis[0], (2, 8),
                 id="reshaped"),
    pytest.param((16, 8), (9, 8), lambda b, i, j: b[i + j, j], tile(1), (6, 4), id="diagonal"),
]  # fmt: skip


@pytest.mark.parametrize(("made", "taken", "element", "attach", "shape"), PLANES)
def test_te_region_of_a_plane(made: Any, taken: Any, element: Any, attach: Sched, shape: tuple[int, int]) -> None:
    a = te.placeholder(made, name="A")
    b = te.compute(made, lambda i, j: a[i, j] + 1, "B")
    c = te.compute(taken, lambda i, j: element(b, i, j), "C")
    s = te.create_schedule(c.op)
    s[b].compute_at(s[c], attach(s[c]))
    assert shapes(s, [a, c]) == {"B": shape}


def test_te_region_of_several_consumers_is_their_union() -> None:
    a = te.placeholder((64,), name="A")
    b = te.compute((64,), lambda i: a[i] + 1, "B")
    c = te.compute((60,), lambda i: b[i] + b[i + 1], "C")
    d = te.compute((60,), lambda i: b[i + 3] * 2, "D")
    e = te.compute((60,), lambda i: c[i] + d[i], "E")
    s = te.create_schedule(e.op)
    outer, _ = s[e].split(e.op.axis[0], factor=4)
    for stage in (b, c, d):
        s[stage].compute_at(s[e], outer)
    assert shapes(s, [a, e]) == {"B": (7,), "C": (4,), "D": (4,)}


def test_te_region_of_a_chain_grows_from_consumer_to_producer() -> None:
    a = te.placeholder((64,), name="A")
    b = te.compute((64,), lambda i: a[i] + 1, "B")
    c = te.compute((62,), lambda i: b[i] + b[i + 2], "C")
    d = te.compute((60,), lambda i: c[i] + c[i + 2], "D")
    s = te.create_schedule(d.op)
    outer, _ = s[d].split(d.op.axis[0], factor=5)
    s[c].compute_at(s[d], outer)
    s[b].compute_at(s[d], outer)
    assert shapes(s, [a, d]) == {"B": (9,), "C": (7,)}
    c_outer, _ = s[c].split(c.op.axis[0], factor=3)
    s[b].compute_at(s[c], c_outer)
    assert shapes(s, [a, d]) == {"B": (5,), "C": (7,)}


def conv() -> list[Any]:
    data, kernel = te.placeholder((8, 8), name="data"), te.placeholder((3, 3), name="kernel")
    padded = te.compute(
        (10, 10),
        lambda y, x: te.if_then_else(te.all(y >= 1, y < 9, x >= 1, x < 9), data[y - 1, x - 1], 0.0),
        "padded",
    )
    ry, rx = te.reduce_axis((0, 3), "ry"), te.reduce_axis((0, 3), "rx")
    body = lambda y, x: te.sum(padded[y + ry, x + rx] * kernel[ry, rx], axis=[ry, rx])  # noqa: E731
    return [data, kernel, padded, te.compute((8, 8), body, "conv")]


@pytest.mark.parametrize(
    ("place", "shape"),
    [
        pytest.param(lambda s: s.op.axis[0], (3, 10), id="row"),
        pytest.param(lambda s: s.tile(*s.op.axis, 4, 4)[1], (6, 6), id="tile"),
        pytest.param(lambda s: s.tile(*s.op.axis, 3, 3)[1], (5, 5), id="tile with tails"),
        pytest.param(lambda s: s.op.reduce_axis[0], (1, 3), id="reduce loop inside"),
        pytest.param(lambda s: s.reorder(*s.op.reduce_axis, *s.op.axis) or s.op.reduce_axis[1], (8, 8), id="outside"),
    ],
)
def test_te_region_of_a_padded_convolution(place: Sched, shape: tuple[int, int]) -> None:
    data, kernel, padded, out = conv()
    s = te.create_schedule(out.op)
    s[padded].compute_at(s[out], place(s[out]))
    assert shapes(s, [data, kernel, out]) == {"padded": shape}


@pytest.mark.parametrize(
    ("place", "shape"),
    [
        pytest.param(lambda s: s.split(s.op.axis[0], factor=2)[0], (4, 8), id="rows"),
        pytest.param(lambda s: s.tile(*s.op.axis, 2, 4)[1], (4, 6), id="tile"),
    ],
)
def test_te_region_behind_inlined_padding_never_exceeds_the_input(place: Sched, shape: tuple[int, int]) -> None:
    data, kernel, padded, out = conv()
    s = te.create_schedule(out.op)
    near = s.cache_read(data, "local", [padded])
    s[padded].compute_inline()
    s[near].compute_at(s[out], place(s[out]))
    assert shapes(s, [data, kernel, out]) == {"data.local": shape}


def test_te_region_of_a_blocked_product_with_caches() -> None:
    a, b = te.placeholder((30, 50), name="A"), te.placeholder((50, 20), name="B")
    k = te.reduce_axis((0, 50), "k")
    c = te.compute((30, 20), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), "C")
    s = te.create_schedule(c.op)
    tile_of_c = s.cache_write(c, "local")
    _, jo, _, _ = s[c].tile(*s[c].op.axis, 8, 16)
    s[tile_of_c].compute_at(s[c], jo)
    ko, ki = s[tile_of_c].split(k, factor=8)
    s[tile_of_c].reorder(ko, ki, *s[tile_of_c].op.axis)
    for tensor, loop in ((a, ko), (b, ki)):
        near = s.cache_read(tensor, "local", [tile_of_c])
        s[near].compute_at(s[tile_of_c], loop)
    assert shapes(s, [a, b, c]) == {"C.local": (8, 16), "A.local": (8, 8), "B.local": (1, 16)}


def test_te_region_of_an_attached_reduction() -> None:
    a = te.placeholder((20, 30), name="A")
    k = te.reduce_axis((0, 30), "k")
    total = te.compute((20,), lambda i: te.sum(a[i, k], axis=k), "total")
    share = te.compute((20, 30), lambda i, j: a[i, j] - total[i], "share")
    s = te.create_schedule(share.op)
    outer, _ = s[share].split(share.op.axis[0], factor=6)
    s[total].compute_at(s[share], outer)
    assert shapes(s, [a, share]) == {"total": (6,)}


def test_te_simple_mode_shows_buffers_no_larger_than_their_tensors() -> None:
    """A built program may have room for whole tiles, so that their tails need no test."""
    a = te.placeholder((10,), name="A")
    b = te.compute((10,), lambda i: a[i] + 1, "B")
    c = te.compute((10,), lambda i: b[9 - i], "C")
    s = te.create_schedule(c.op)
    s[b].split(b.op.axis[0], factor=4)
    check_values(s, [a, c])
    assert pb.lower(s, [a, c], simple_mode=True).allocations["B"][0] == (10,)
    assert pb.lower(s, [a, c]).allocations["B"][0] == (12,)


def strided_convolution() -> list[Any]:
    """Eight channels of 15 x 15, 16 filters of 3 x 3, stride 2, one row of zeros around."""
    data, kernel = te.placeholder((8, 15, 15), name="data"), te.placeholder((16, 8, 3, 3), name="kernel")
    padded = te.compute(
        (8, 17, 17),
        lambda c, y, x: te.if_then_else(te.all(y >= 1, y < 16, x >= 1, x < 16), data[c, y - 1, x - 1], 0.0),
        "padded",
    )
    rc, ry, rx = te.reduce_axis((0, 8), "rc"), te.reduce_axis((0, 3), "ry"), te.reduce_axis((0, 3), "rx")
    out = te.compute(
        (16, 8, 8),
        lambda f, y, x: te.sum(padded[rc, y * 2 + ry, x * 2 + rx] * kernel[f, rc, ry, rx], axis=[rc, ry, rx]),
        "conv",
    )
    return [data, kernel, padded, out]


@pytest.mark.parametrize(("depth", "shape"), [(1, (1, 9, 9)), (2, (1, 7, 9)), (3, (1, 7, 7))])
def test_te_region_at_the_reduce_loops_of_a_strided_convolution(depth: int, shape: tuple[int, ...]) -> None:
    """Tiles of 4 x 4, whose windows shrink with each reduce loop that stands outside."""
    data, kernel, padded, out = strided_convolution()
    s = te.create_schedule(out.op)
    (f, y, x), reduce = out.op.axis, out.op.reduce_axis
    yo, yi = s[out].split(y, factor=4)
    xo, xi = s[out].split(x, factor=4)
    s[out].reorder(f, yo, xo, *reduce[:depth], yi, xi, *reduce[depth:])
    s[padded].compute_at(s[out], reduce[depth - 1])
    assert shapes(s, [data, kernel, out]) == {"padded": shape}


def test_te_region_of_a_fused_row_of_a_strided_convolution() -> None:
    data, kernel, padded, out = strided_convolution()
    s = te.create_schedule(out.op)
    row, _ = s[out].split(s[out].fuse(*out.op.axis[1:]), factor=8)
    s[padded].compute_at(s[out], row)
    assert shapes(s, [data, kernel, out]) == {"padded": (8, 3, 17)}


BLOCKS = [
    # taken, element, attach, shape
    pytest.param((16, 16), lambda b, i, j: b[i // 2, j // 2], lambda s: s.tile(*s.op.axis, 4, 6)[1], (2, 3), id="zoom"),
    pytest.param((4, 16), lambda b, i, j: b[i * 2 + j % 2, j // 2], lambda s: s.split(s.op.axis[1], 4)[0], (2, 2),
                 id="columns dealt to two rows"),
    pytest.param((16, 8), lambda b, i, j: te.if_then_else(i < 8, b[te.minimum(i, 7), j], 0.0), lambda s: s.op.axis[0],
                 (1, 8), id="first half of the rows"),
    pytest.param((16, 8), lambda b, i, j: te.if_then_else(i < 8, b[i, j], 0.0), lambda s: s.split(s.op.axis[0], 3)[0],
                 (3, 8), id="first half, three at a time"),
    pytest.param((4, 16), lambda b, i, j: b[i, te.maximum(j - 1, 0) // 2], lambda s: s.split(s.op.axis[1], 4)[0],
                 (1, 3), id="clamped halves"),
    pytest.param((8, 8), lambda b, i, j: b[i, 7 - j] + b[7 - i, j], lambda s: s.op.axis[0], (8, 8), id="mirrored"),
]  # fmt: skip


@pytest.mark.parametrize(("taken", "element", "attach", "shape"), BLOCKS)
def test_te_region_of_a_block(taken: Any, element: Any, attach: Sched, shape: tuple[int, int]) -> None:
    a = te.placeholder((8, 8), name="A")
    b = te.compute((8, 8), lambda i, j: a[i, j] + 1, "B")
    c = te.compute(taken, lambda i, j: element(b, i, j), "C")
    s = te.create_schedule(c.op)
    s[b].compute_at(s[c], attach(s[c]))
    assert shapes(s, [a, c]) == {"B": shape}


@pytest.mark.parametrize(("depth", "shape"), [(2, (2, 2)), (3, (1, 2)), (4, (1, 1))])
def test_te_region_of_a_pooling_window(depth: int, shape: tuple[int, int]) -> None:
    a = te.placeholder((8, 8), name="A")
    b = te.compute((8, 8), lambda i, j: a[i, j] + 1, "B")
    ky, kx = te.reduce_axis((0, 2), "ky"), te.reduce_axis((0, 2), "kx")
    c = te.compute((4, 4), lambda i, j: te.max(b[2 * i + ky, 2 * j + kx], axis=[ky, kx]), "C")
    s = te.create_schedule(c.op)
    s[b].compute_at(s[c], s[c].leaf_iter_vars[depth - 1])
    assert shapes(s, [a, c]) == {"B": shape}


def test_te_region_of_a_tuple_of_which_one_value_is_read() -> None:
    a = te.placeholder((7, 9), name="A")
    b = te.compute((7, 9), lambda i, j: (a[i, j] + 2, a[i, j] * 3), name="B")
    c = te.compute((7, 9), lambda i, j: a[i, j] + b[0][i, j], name="C")
    s = te.create_schedule(c.op)
    s[b[0]].compute_at(s[c], c.op.axis[0])
    assert pb.lower(s, [a, c], simple_mode=True).allocations["B_0"][0] == (1, 9)
