"""Small programs to schedule, and the golden files that hold what primitives make of them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from interpreter import interpret

from pegbox.compute.ops import compute, placeholder, reduce_axis
from pegbox.compute.ops import sum as sum_over
from pegbox.compute.reducer import comm_reducer
from pegbox.expr import build, intrinsics
from pegbox.schedule import Schedule

_GOLDEN = Path(__file__).parents[1] / "golden" / "schedule"


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[object], None]:
    """Compare a printed program with tests/golden/schedule/<test name>.txt; PEGBOX_UPDATE_GOLDEN=1 writes the file."""

    def check(program: object) -> None:
        path = _GOLDEN / f"{request.node.name.removeprefix('test_')}.txt"
        text = str(program)
        if os.environ.get("PEGBOX_UPDATE_GOLDEN"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        assert path.exists(), f"no golden file {path}; run with PEGBOX_UPDATE_GOLDEN=1 and read what it writes"
        assert text == path.read_text()

    return check


def matmul(n: int = 5, m: int = 7, k: int = 6) -> Any:
    a, b = placeholder((n, k), name="A"), placeholder((k, m), name="B")
    r = reduce_axis((0, k), name="k")
    c = compute((n, m), lambda i, j: sum_over(a[i, r] * b[r, j], axis=r), name="C")
    return [a, b, c], lambda x, y: [x @ y]


def matmul_relu() -> Any:
    (a, b, c), _ = matmul()
    bias = placeholder((7,), name="bias")
    d = compute((5, 7), lambda i, j: c[i, j] + bias[j], name="D")
    e = compute((5, 7), lambda i, j: build.maximum(d[i, j], build.const(0.0, "float32")), name="E")
    return [a, b, bias, e], lambda x, y, z: [np.maximum(x @ y + z, 0)]


def packed_matmul() -> Any:
    a, b = placeholder((5, 6), name="A"), placeholder((6, 8), name="B")
    r = reduce_axis((0, 6), name="k")
    packed = compute((2, 6, 4), lambda jo, k, ji: b[k, jo * 4 + ji], name="packed")
    c = compute((5, 8), lambda i, j: sum_over(a[i, r] * packed[j // 4, r, j % 4], axis=r), name="C")
    return [a, b, c], lambda x, y: [x @ y]


def conv() -> Any:
    x, w = placeholder((7, 6), name="X"), placeholder((3, 2), name="W")
    kh, kw = reduce_axis((0, 3), name="kh"), reduce_axis((0, 2), name="kw")

    def padded(i: Any, j: Any) -> Any:
        inside = build.all_of([i >= 1, i < 8, j < 6])
        return build.select(inside, x[i - 1, j], build.const(0.0, "float32"))

    p = compute((9, 7), padded, name="P")
    out = compute((4, 6), lambda i, j: sum_over(p[i * 2 + kh, j + kw] * w[kh, kw], axis=[kh, kw]), name="O")

    def reference(xs: Any, ws: Any) -> Any:
        pad = np.zeros((9, 7), xs.dtype)
        pad[1:8, :6] = xs
        res = np.zeros((4, 6), xs.dtype)
        for i in range(4):
            for j in range(6):
                res[i, j] = (pad[i * 2 : i * 2 + 3, j : j + 2] * ws).sum()
        return [res]

    return [x, w, out], reference


def chain() -> Any:
    x = placeholder((11,), name="X")
    a = compute((11,), lambda i: x[i] + build.const(1.0, "float32"), name="A")
    b = compute((11,), lambda i: a[10 - i] * build.const(2.0, "float32"), name="B")
    c = compute((10,), lambda i: b[i] + b[i + 1], name="C")
    d = compute((10,), lambda i: c[i] - a[i], name="D")

    def reference(xs: Any) -> Any:
        av = xs + 1
        bv = av[::-1] * 2
        return [bv[:10] + bv[1:] - av[:10]]

    return [x, d], reference


def rows() -> Any:
    x = placeholder((5, 6), name="X")
    k1, k2 = reduce_axis((0, 6), name="k1"), reduce_axis((1, 5), name="k2")
    total = compute((5,), lambda i: sum_over(x[i, k1], axis=k1), name="total")
    centred = compute((5, 6), lambda i, j: x[i, j] * build.const(6.0, "float32") - total[i], name="centred")
    out = compute((5,), lambda i: sum_over(intrinsics.call("abs", centred[i, k2]), axis=k2), name="out")
    return [x, out, centred], lambda xs: [
        np.abs(xs * 6 - xs.sum(1, keepdims=True))[:, 1:5].sum(1),
        xs * 6 - xs.sum(1, keepdims=True),
    ]


def argmax() -> Any:
    x = placeholder((5, 7), name="X")
    k = reduce_axis((0, 7), name="k")
    reducer = comm_reducer(
        lambda a, b: (
            build.select(build.logical_or(a[1] > b[1], build.logical_and(a[1] == b[1], a[0] < b[0])), a[0], b[0]),
            build.maximum(a[1], b[1]),
        ),
        lambda i, v: (build.const(99, i), build.const(-1e9, v)),
        name="argmax",
    )
    index, value = compute((5,), lambda i: reducer((k, x[i, k]), axis=k), name="best")
    doubled = compute((5,), lambda i: value[i] * build.const(2.0, "float32"), name="doubled")
    return [x, index, doubled], lambda xs: [xs.argmax(1), xs.max(1) * 2]


@pytest.fixture
def programs() -> SimpleNamespace:
    """Functions that give (arguments, NumPy reference) of a small program."""
    makers = (matmul, matmul_relu, packed_matmul, conv, chain, rows, argmax)
    return SimpleNamespace(**{f.__name__: f for f in makers}, all=makers)


@pytest.fixture
def check_values() -> Callable[[Schedule, Any], None]:
    """Run a scheduled program in the interpreter and compare with the reference, exactly."""

    def check(sch: Schedule, reference: Any) -> None:
        rng = np.random.default_rng(0)
        inputs = [rng.integers(-5, 6, b.shape).astype(b.dtype) for b in sch.func.params if b not in sch.func.outputs]
        for got, want in zip(interpret(sch.func, inputs), reference(*inputs), strict=True):
            np.testing.assert_array_equal(got, want)

    return check
