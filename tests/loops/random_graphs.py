"""Small random computations of the kinds that people tune, as hypothesis strategies.

Values are small integers held in floats wherever no intrinsic is involved, so that results are exact in any order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from pegbox import te
from pegbox.compute.tensor import Tensor

SIZES = st.sampled_from([1, 2, 3, 5, 6, 7, 8, 17])
SMALL = st.sampled_from([1, 2, 3, 5, 7])


@dataclass(frozen=True)
class Graph:
    """`tensors` in call order; `stages` are what is computed, producers first; `exact`: no rounding occurs."""

    kind: str
    tensors: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    exact: bool = True

    def inputs(self, seed: int = 0) -> dict[Tensor, NDArray[Any]]:
        rng = np.random.default_rng(seed)
        return {t: rng.integers(-4, 5, t.shape).astype(t.dtype) for t in self.tensors if t not in self.outputs}


Build = Callable[[st.DrawFn], Graph]


def _matmul(draw: st.DrawFn) -> Graph:
    m, n, k = draw(SIZES), draw(SIZES), draw(SIZES)
    dtype = draw(st.sampled_from(["float32", "float64", "int32"]))
    a, b = te.placeholder((m, k), dtype, "A"), te.placeholder((k, n), dtype, "B")
    r = te.reduce_axis((0, k), "k")
    left: Any = a
    if draw(st.booleans()):
        left = te.compute((m, k), lambda i, j: a[i, j] * 2 + 1, "prologue")
    c = te.compute((m, n), lambda i, j: te.sum(left[i, r] * b[r, j], axis=r), "C")
    if not draw(st.booleans()):
        return Graph("matmul", (a, b, c), (c,))
    d = te.compute((m, n), lambda i, j: te.relu(c[i, j] + 3), "D")
    return Graph("matmul", (a, b, d), (d,))


def _packed_matmul(draw: st.DrawFn) -> Graph:
    m, n, k = draw(SIZES), draw(SIZES), draw(SMALL)
    nr = draw(st.sampled_from([2, 4, 8]))
    a, b = te.placeholder((m, k), "float32", "A"), te.placeholder((k, n), "float32", "B")
    r = te.reduce_axis((0, k), "k")
    packed = te.compute(
        (-(-n // nr), k, nr),
        lambda x, y, z: te.if_then_else(x * nr + z < n, b[y, x * nr + z], te.const(0, "float32")),
        "B_packed",
    )
    c = te.compute((m, n), lambda i, j: te.sum(a[i, r] * packed[j // nr, r, j % nr], axis=r), "C")
    return Graph("packed matmul", (a, b, c), (c,))


def _conv1d(draw: st.DrawFn) -> Graph:
    length, channels, filters, width = draw(SIZES), draw(SMALL), draw(SMALL), draw(st.sampled_from([1, 2, 3]))
    pad, stride, dilation = (
        draw(st.sampled_from([0, 1, 2])),
        draw(st.sampled_from([1, 2])),
        draw(st.sampled_from([1, 2])),
    )
    reach = (width - 1) * dilation + 1
    if length + 2 * pad < reach:
        pad = reach
    out = (length + 2 * pad - reach) // stride + 1
    data = te.placeholder((channels, length), "float32", "data")
    kernel = te.placeholder((filters, channels, width), "float32", "kernel")
    padded = te.compute(
        (channels, length + 2 * pad),
        lambda c, x: te.if_then_else(te.all(x >= pad, x < length + pad), data[c, x - pad], te.const(0, "float32")),
        "padded",
    )
    rc, rx = te.reduce_axis((0, channels), "rc"), te.reduce_axis((0, width), "rx")
    conv = te.compute(
        (filters, out),
        lambda f, x: te.sum(padded[rc, x * stride + rx * dilation] * kernel[f, rc, rx], axis=[rc, rx]),
        "conv",
    )
    return Graph("conv1d", (data, kernel, conv), (conv,))


def _conv2d(draw: st.DrawFn) -> Graph:
    height, width, channels = draw(SMALL), draw(SMALL), draw(st.sampled_from([1, 2]))
    filters, stride = draw(st.sampled_from([1, 3])), draw(st.sampled_from([1, 2]))
    out_h, out_w = (height - 1) // stride + 1, (width - 1) // stride + 1
    data = te.placeholder((channels, height, width), "float32", "data")
    kernel = te.placeholder((filters, channels, 3, 3), "float32", "kernel")
    padded = te.compute(
        (channels, height + 2, width + 2),
        lambda c, y, x: te.if_then_else(
            te.all(y >= 1, y < height + 1, x >= 1, x < width + 1), data[c, y - 1, x - 1], te.const(0, "float32")
        ),
        "padded",
    )
    rc, ry, rx = (te.reduce_axis((0, e), n) for e, n in ((channels, "rc"), (3, "ry"), (3, "rx")))
    conv = te.compute(
        (filters, out_h, out_w),
        lambda f, y, x: te.sum(padded[rc, y * stride + ry, x * stride + rx] * kernel[f, rc, ry, rx], axis=[rc, ry, rx]),
        "conv",
    )
    if not draw(st.booleans()):
        return Graph("conv2d", (data, kernel, conv), (conv,))
    relu = te.compute((filters, out_h, out_w), lambda f, y, x: te.relu(conv[f, y, x]), "relu")
    return Graph("conv2d", (data, kernel, relu), (relu,))


def _chain(draw: st.DrawFn) -> Graph:
    """Elementwise stages that read each other straight, transposed, shifted, gathered in steps."""
    m, n = draw(SIZES), draw(SIZES)
    dtype = draw(st.sampled_from(["float32", "int32", "int8"]))
    first = te.placeholder((m, n), dtype, "A")
    last: Any = first
    for position in range(draw(st.integers(1, 4))):
        source, (rows, columns) = last, last.shape
        name = f"S{position}"
        match draw(st.sampled_from(["plain", "transposed", "shifted", "stencil", "flat", "twice"])):
            case "plain":
                last = te.compute((rows, columns), lambda i, j, a=source: a[i, j] + 1, name)
            case "transposed":
                last = te.compute((columns, rows), lambda i, j, a=source: a[j, i] - 2, name)
            case "shifted":
                last = te.compute(
                    (rows, columns),
                    lambda i, j, a=source, c=columns: te.select(j > 0, a[i, te.maximum(j - 1, 0)], 3),
                    name,
                )
            case "stencil":
                last = te.compute(
                    (rows, columns),
                    lambda i, j, a=source, r=rows: te.select(i + 1 < r, a[i, j] + a[i + 1, j], a[i, j]),
                    name,
                )
            case "flat":
                last = te.compute((rows * columns,), lambda i, a=source, c=columns: a[i // c, i % c], name)
                last = te.compute((columns, rows), lambda i, j, a=last, r=rows: a[i * r + j], f"{name}b")
            case "twice":
                last = te.compute(
                    (rows, columns), lambda i, j, a=source, r=rows, b=first: a[i, j] - a[r - 1 - i, j], name
                )
    return Graph("chain", (first, last), (last,))


def _softmax(draw: st.DrawFn) -> Graph:
    m, n = draw(SIZES), draw(SIZES)
    x = te.placeholder((m, n), "float64", "X")
    k, k2 = te.reduce_axis((0, n), "k"), te.reduce_axis((0, n), "k2")
    top = te.compute((m,), lambda i: te.max(x[i, k], axis=k), "top")
    e = te.compute((m, n), lambda i, j: te.exp(x[i, j] - top[i]), "e")
    total = te.compute((m,), lambda i: te.sum(e[i, k2], axis=k2), "total")
    y = te.compute((m, n), lambda i, j: e[i, j] / total[i], "Y")
    return Graph("softmax", (x, y), (y,), exact=False)


def _pool(draw: st.DrawFn) -> Graph:
    n, window, stride = (
        draw(st.sampled_from([5, 6, 7, 17])),
        draw(st.sampled_from([2, 3])),
        draw(st.sampled_from([1, 2, 3])),
    )
    out = (n - window) // stride + 1
    x = te.placeholder((n, 3), "int16", "X")
    k = te.reduce_axis((0, window), "k")
    reduce = draw(st.sampled_from([te.max, te.min, te.prod]))
    y = te.compute((out, 3), lambda i, c: reduce(x[i * stride + k, c], axis=k), "Y")
    z = te.compute((out,), lambda i: y[i, 0] - y[i, 2], "Z")
    return Graph("pool", (x, z), (z,))


def _argmax(draw: st.DrawFn) -> Graph:
    m, n = draw(SIZES), draw(SIZES)
    x = te.placeholder((m, n), "float32", "X")
    argmax = te.comm_reducer(
        lambda a, b: (
            te.select(te.any(a[1] > b[1], te.all(a[1] >= b[1], a[0] < b[0])), a[0], b[0]),
            te.maximum(a[1], b[1]),
        ),
        lambda i, v: (te.const(2**30, i), te.min_value(v)),
        name="argmax",
    )
    k = te.reduce_axis((0, n), "k")
    where, value = te.compute((m,), lambda i: argmax((te.cast("int32", k), x[i, k]), axis=k), "best")
    return Graph("argmax", (x, where, value), (where, value))


def _masked_sum(draw: st.DrawFn) -> Graph:
    """A reduction with a condition, over a domain that starts elsewhere than at zero; several outputs."""
    m, n = draw(SIZES), draw(SIZES)
    x = te.placeholder((m, n + 2), "float32", "X")
    k = te.reduce_axis((2, n + 2), "k")
    y = te.compute((m,), lambda i: te.sum(x[i, k], axis=k, where=(i + k) % 3 != 0), "Y")
    low, high = te.compute((m,), lambda i: (y[i] - 1, y[i] + 1), "Z")
    return Graph("masked sum", (x, low, high), (low, high))


def _batched(draw: st.DrawFn) -> Graph:
    batch, m, n, k = draw(st.sampled_from([1, 2, 3])), draw(SMALL), draw(SIZES), draw(SMALL)
    a, b = te.placeholder((batch, m, k), "float64", "A"), te.placeholder((batch, k, n), "float64", "B")
    r = te.reduce_axis((0, k), "k")
    c = te.compute((batch, m, n), lambda x, i, j: te.sum(a[x, i, r] * b[x, r, j], axis=r), "C")
    r2 = te.reduce_axis((0, m), "m")
    d = te.compute((batch, n), lambda x, j: te.max(c[x, r2, j], axis=r2), "D")
    return Graph("batched", (a, b, d), (d,))


def _division(draw: st.DrawFn) -> Graph:
    """Integer divisors that come from memory: a stray zero kills the process."""
    m, n = draw(SIZES), draw(SMALL)
    x = te.placeholder((m, n), "int32", "X")
    d = te.compute((m, n), lambda i, j: x[i, j] * x[i, j] + 1, "D")
    q = te.compute((m, n), lambda i, j: 100 // d[i, j] + x[i, j] % d[i, n - 1 - j], "Q")
    k = te.reduce_axis((0, n), "k")
    z = te.compute((m,), lambda i: te.sum(q[i, k] // d[i, k], axis=k), "Z")
    return Graph("division", (x, z), (z,))


def _gather(draw: st.DrawFn) -> Graph:
    """Indices that come from memory."""
    rows, n, width = draw(SMALL), draw(SIZES), draw(SMALL)
    table, where = te.placeholder((rows, width), "float32", "table"), te.placeholder((n,), "int32", "where")
    at = te.compute((n,), lambda i: te.maximum(te.minimum(te.cast("int64", where[i]), rows - 1), 0), "at")
    picked = te.compute((n, width), lambda i, j: table[at[i], j] + te.cast("float32", at[i]), "picked")
    k = te.reduce_axis((0, n), "k")
    total = te.compute((width,), lambda j: te.sum(picked[k, j], axis=k), "total")
    return Graph("gather", (table, where, total), (total,))


KINDS: dict[str, Build] = {
    "matmul": _matmul,
    "packed_matmul": _packed_matmul,
    "conv1d": _conv1d,
    "conv2d": _conv2d,
    "chain": _chain,
    "softmax": _softmax,
    "pool": _pool,
    "argmax": _argmax,
    "masked_sum": _masked_sum,
    "batched": _batched,
    "division": _division,
    "gather": _gather,
}


@st.composite
def graphs(draw: st.DrawFn, kind: str) -> Graph:
    """A random graph of one of `KINDS`."""
    return KINDS[kind](draw)
