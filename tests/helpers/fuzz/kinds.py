"""Small random computations of the kinds that people tune, whole.

Values are small integers held in floats wherever no intrinsic is involved, so that results are exact in any order.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from fuzz.drawing import Graph
from fuzz.ordered import ordered
from fuzz.reductions import ARGMAX
from fuzz.scans import scan
from pegbox import te

SIZES = (1, 2, 3, 5, 6, 7, 8, 17)
SMALL = (1, 2, 3, 5, 7)

Build = Callable[[random.Random], Graph]


def _matmul(rng: random.Random) -> Graph:
    m, n, k = rng.choice(SIZES), rng.choice(SIZES), rng.choice(SIZES)
    dtype = rng.choice(["float32", "float64", "int32"])
    a, b = te.placeholder((m, k), dtype, "A"), te.placeholder((k, n), dtype, "B")
    r = te.reduce_axis((0, k), "k")
    left: Any = a
    if rng.random() < 0.5:
        left = te.compute((m, k), lambda i, j: a[i, j] * 2 + 1, "prologue")
    c = te.compute((m, n), lambda i, j: te.sum(left[i, r] * b[r, j], axis=r), "C")
    if rng.random() < 0.5:
        return Graph("matmul", (a, b, c), (c,))
    d = te.compute((m, n), lambda i, j: te.relu(c[i, j] + 3), "D")
    return Graph("matmul", (a, b, d), (d,))


def _packed_matmul(rng: random.Random) -> Graph:
    m, n, k = rng.choice(SIZES), rng.choice(SIZES), rng.choice(SMALL)
    nr = rng.choice([2, 4, 8])
    a, b = te.placeholder((m, k), "float32", "A"), te.placeholder((k, n), "float32", "B")
    r = te.reduce_axis((0, k), "k")
    packed = te.compute(
        (-(-n // nr), k, nr),
        lambda x, y, z: te.if_then_else(x * nr + z < n, b[y, x * nr + z], te.const(0, "float32")),
        "B_packed",
    )
    c = te.compute((m, n), lambda i, j: te.sum(a[i, r] * packed[j // nr, r, j % nr], axis=r), "C")
    return Graph("packed matmul", (a, b, c), (c,))


def _conv1d(rng: random.Random) -> Graph:
    length, channels, filters, width = rng.choice(SIZES), rng.choice(SMALL), rng.choice(SMALL), rng.choice([1, 2, 3])
    pad, stride, dilation = (
        rng.choice([0, 1, 2]),
        rng.choice([1, 2]),
        rng.choice([1, 2]),
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


def _conv2d(rng: random.Random) -> Graph:
    height, width, channels = rng.choice(SMALL), rng.choice(SMALL), rng.choice([1, 2])
    filters, stride = rng.choice([1, 3]), rng.choice([1, 2])
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
    if rng.random() < 0.5:
        return Graph("conv2d", (data, kernel, conv), (conv,))
    relu = te.compute((filters, out_h, out_w), lambda f, y, x: te.relu(conv[f, y, x]), "relu")
    return Graph("conv2d", (data, kernel, relu), (relu,))


def _chain(rng: random.Random) -> Graph:
    """Elementwise stages that read each other straight, transposed, shifted, gathered in steps."""
    m, n = rng.choice(SIZES), rng.choice(SIZES)
    dtype = rng.choice(["float32", "int32", "int8"])
    first = te.placeholder((m, n), dtype, "A")
    last: Any = first
    for position in range(rng.randint(1, 4)):
        source, (rows, columns) = last, last.shape
        name = f"S{position}"
        match rng.choice(["plain", "transposed", "shifted", "stencil", "flat", "twice"]):
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


def _softmax(rng: random.Random) -> Graph:
    m, n = rng.choice(SIZES), rng.choice(SIZES)
    x = te.placeholder((m, n), "float64", "X")
    k, k2 = te.reduce_axis((0, n), "k"), te.reduce_axis((0, n), "k2")
    top = te.compute((m,), lambda i: te.max(x[i, k], axis=k), "top")
    e = te.compute((m, n), lambda i, j: te.exp(x[i, j] - top[i]), "e")
    total = te.compute((m,), lambda i: te.sum(e[i, k2], axis=k2), "total")
    y = te.compute((m, n), lambda i, j: e[i, j] / total[i], "Y")
    return Graph("softmax", (x, y), (y,), exact=False)


def _pool(rng: random.Random) -> Graph:
    n, window, stride = (
        rng.choice([5, 6, 7, 17]),
        rng.choice([2, 3]),
        rng.choice([1, 2, 3]),
    )
    out = (n - window) // stride + 1
    x = te.placeholder((n, 3), "int16", "X")
    k = te.reduce_axis((0, window), "k")
    reduce = rng.choice([te.max, te.min, te.prod])
    y = te.compute((out, 3), lambda i, c: reduce(x[i * stride + k, c], axis=k), "Y")
    z = te.compute((out,), lambda i: y[i, 0] - y[i, 2], "Z")
    return Graph("pool", (x, z), (z,))


def _argmax(rng: random.Random) -> Graph:
    m, n = rng.choice(SIZES), rng.choice(SIZES)
    x = te.placeholder((m, n), "float32", "X")
    k = te.reduce_axis((0, n), "k")
    where, value = te.compute((m,), lambda i: ARGMAX((te.cast("int32", k), x[i, k]), axis=k), "best")
    return Graph("argmax", (x, where, value), (where, value))


def _masked_sum(rng: random.Random) -> Graph:
    """A reduction with a condition, over a domain that starts elsewhere than at zero; several outputs."""
    m, n = rng.choice(SIZES), rng.choice(SIZES)
    x = te.placeholder((m, n + 2), "float32", "X")
    k = te.reduce_axis((2, n + 2), "k")
    y = te.compute((m,), lambda i: te.sum(x[i, k], axis=k, where=(i + k) % 3 != 0), "Y")
    low, high = te.compute((m,), lambda i: (y[i] - 1, y[i] + 1), "Z")
    return Graph("masked sum", (x, low, high), (low, high))


def _batched(rng: random.Random) -> Graph:
    batch, m, n, k = rng.choice([1, 2, 3]), rng.choice(SMALL), rng.choice(SIZES), rng.choice(SMALL)
    a, b = te.placeholder((batch, m, k), "float64", "A"), te.placeholder((batch, k, n), "float64", "B")
    r = te.reduce_axis((0, k), "k")
    c = te.compute((batch, m, n), lambda x, i, j: te.sum(a[x, i, r] * b[x, r, j], axis=r), "C")
    r2 = te.reduce_axis((0, m), "m")
    d = te.compute((batch, n), lambda x, j: te.max(c[x, r2, j], axis=r2), "D")
    return Graph("batched", (a, b, d), (d,))


def _division(rng: random.Random) -> Graph:
    """Integer divisors that come from memory: a stray zero kills the process."""
    m, n = rng.choice(SIZES), rng.choice(SMALL)
    x = te.placeholder((m, n), "int32", "X")
    d = te.compute((m, n), lambda i, j: x[i, j] * x[i, j] + 1, "D")
    q = te.compute((m, n), lambda i, j: 100 // d[i, j] + x[i, j] % d[i, n - 1 - j], "Q")
    k = te.reduce_axis((0, n), "k")
    z = te.compute((m,), lambda i: te.sum(q[i, k] // d[i, k], axis=k), "Z")
    return Graph("division", (x, z), (z,))


def _gather(rng: random.Random) -> Graph:
    """Indices that come from memory."""
    rows, n, width = rng.choice(SMALL), rng.choice(SIZES), rng.choice(SMALL)
    table, where = te.placeholder((rows, width), "float32", "table"), te.placeholder((n,), "int32", "where")
    at = te.compute((n,), lambda i: te.maximum(te.minimum(te.cast("int64", where[i]), rows - 1), 0), "at")
    picked = te.compute((n, width), lambda i, j: table[at[i], j] + te.cast("float32", at[i]), "picked")
    k = te.reduce_axis((0, n), "k")
    total = te.compute((width,), lambda j: te.sum(picked[k, j], axis=k), "total")
    return Graph("gather", (table, where, total), (total,))


def _windows(rng: random.Random) -> Graph:
    """Stages that read windows of each other, in steps, in halves and beyond their borders."""
    shape: tuple[int, ...] = (rng.choice([12, 17, 23]), *rng.choice([(), (3,), (7,)]))
    first = last = te.placeholder(shape, rng.choice(["int32", "float32"]), "X")
    for position in range(rng.randint(2, 3)):
        source, n, name = last, last.shape[0], f"S{position}"
        size, step, way = rng.choice([2, 3, 4]), rng.choice([1, 1, 2]), rng.randrange(5)
        out = (max((n - size) // step + 1, 1), *source.shape[1:])
        if way == 0:
            out = (n * 2, *source.shape[1:])
            last = te.compute(out, lambda i, *j, a=source: a[(i // 2, *j)] + 1, name)
        elif way == 1:
            last = te.compute(
                (n, *out[1:]),
                lambda i, *j, a=source, n=n: te.select(
                    i > 0, a[(te.maximum(i - 1, 0), *j)] + a[(te.minimum(i + 1, n - 1), *j)], a[(i, *j)]
                ),
                name,
            )
        elif way == 2 and n >= size:
            last = te.compute(
                out, lambda i, *j, a=source, s=step, w=size: a[(i * s, *j)] - a[(i * s + w - 1, *j)], name
            )
        elif n >= size:
            k = te.reduce_axis((0, size), "k")
            fold = te.max if way == 3 else te.sum
            last = te.compute(out, lambda i, *j, a=source, s=step, k=k, f=fold: f(a[(i * s + k, *j)], axis=k), name)
        if last.shape[1:] and last.shape[1] > 3 and rng.random() < 0.5:
            source = last
            wide = (source.shape[0], source.shape[1] - 2)
            last = te.compute(wide, lambda i, j, a=source: a[i, j] + a[i, j + 2] * 2, f"{name}w")
    return Graph("windows", (first, last), (last,))


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
    "windows": _windows,
    "scan": scan,
    "ordered": ordered,
}
ANY_ORDER = {"matmul", "packed_matmul", "conv1d", "conv2d", "chain", "batched", "windows", "masked_sum"}
"""The kinds in which NaN and infinities come out the same in any order of evaluation."""
