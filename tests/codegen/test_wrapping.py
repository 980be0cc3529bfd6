"""Values that wrap around: kernel, reference and NumPy agree wherever the values come from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pegbox as pb
from pegbox import te, tir
from pegbox.compute.reference import evaluate

K, C = 6364136223846793005, 1442695040888963407
LOWEST, HIGHEST = -(2**63), 2**63 - 1
N = 40


def _if(condition: Any, a: Any, b: Any) -> Any:
    return te.if_then_else(condition, a, te.const(b, "int64"))


# Computations of an element and its index, and NumPy's for arrays of both.
VALUES: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "hash": (lambda a, i: (i * K + C) // 2**33 % 1000, lambda a, i: (i * K + C) // 2**33 % 1000),
    "hash of data": (lambda a, i: (a * K + i * 2**60) // 7 + i, lambda a, i: (a * K + i * 2**60) // 7 + i),
    "sign of a product": (lambda a, i: _if(i * K < 0, a, 0), lambda a, i: np.where(i * K < 0, a, 0)),
    "two hashes": (lambda a, i: _if(i * K < i * C, a, 0), lambda a, i: np.where(i * K < i * C, a, 0)),
    "equal after all": (lambda a, i: _if(i * 2**62 == 0, a, 1), lambda a, i: np.where(i * 2**62 == 0, a, 1)),
    "below the lowest": (
        lambda a, i: _if((i + te.min_value("int64")) - 1 < 0, a, 1),
        lambda a, i: np.where((i + np.int64(LOWEST)) - 1 < 0, a, 1),
    ),
    "constants alone": (
        lambda a, i: 2 // (_if(i < 0, a, LOWEST) * -5),
        lambda a, i: 2 // (np.where(i < 0, a, np.int64(LOWEST)) * -5),
    ),
    "extremes": (
        lambda a, i: te.maximum(i + HIGHEST, i * 3) - te.minimum(i * 2**61, 5),
        lambda a, i: np.maximum(i + HIGHEST, i * 3) - np.minimum(i * 2**61, 5),
    ),
    "rows of a hash": (lambda a, i: (i * K) // 24 * 24 + (i * K) % 24, lambda a, i: i * K),
    "the other remainder": (
        lambda a, i: (i * K) // 24 * 24 + (i * K + 24) % 24,
        lambda a, i: (i * K) // 24 * 24 + (i * K + 24) % 24,
    ),
    # The sum itself does not wrap around, and would without its multiples of the divisor.
    "a large divisor": (
        lambda a, i: (i + te.min_value("int64")) % (HIGHEST - 1) - (i + te.min_value("int64")) // (HIGHEST - 1),
        lambda a, i: (i + np.int64(LOWEST)) % (HIGHEST - 1) - (i + np.int64(LOWEST)) // (HIGHEST - 1),
    ),
    "a float of it": (
        lambda a, i: te.cast("int64", te.cast("float64", i * K)) // 1024,
        lambda a, i: (i * K).astype("float64").astype("int64") // 1024,
    ),
    "narrowed": (
        lambda a, i: te.cast("int64", te.cast("int8", i * 77) * te.const(3, "int8")),
        lambda a, i: ((i * 77).astype("int8") * np.int8(3)).astype("int64"),
    ),
    "in 32 bits": (
        lambda a, i: te.cast("int64", te.cast("int32", i) * te.const(2**30 + 1, "int32") // 3),
        lambda a, i: (i.astype("int32") * np.int32(2**30 + 1) // np.int32(3)).astype("int64"),
    ),
}


def _vectorized(sch: Any) -> None:
    sch.vectorize(sch.split(sch.get_loops("B")[0], [None, 8])[1])


def _unrolled(sch: Any) -> None:
    sch.unroll(sch.get_loops("B")[0])


def _with_tail(sch: Any) -> None:
    outer, inner = sch.split(sch.get_loops("B")[0], [None, 16])
    sch.vectorize(inner)
    sch.unroll(outer)


SCHEDULES: dict[str, Callable[[Any], None]] = {
    "serial": lambda sch: None,
    "vectorized": _vectorized,
    "unrolled": _unrolled,
    "with a tail": _with_tail,
}


@pytest.mark.parametrize("how", SCHEDULES)
@pytest.mark.parametrize("name", VALUES)
def test_int64_wraps_around(name: str, how: str) -> None:
    compute, numpy = VALUES[name]
    x = te.placeholder((N,), "int64", "A")
    y = te.compute((N,), lambda i: compute(x[i], i), "B")
    a, b = np.arange(N) * 5 - 9, np.zeros(N, "int64")
    sch = tir.Schedule([x, y])
    SCHEDULES[how](sch)
    with np.errstate(all="ignore"):
        wanted = numpy(a, np.arange(N))
    pb.build(sch)(a, b)
    np.testing.assert_array_equal(evaluate([y], {x: a})[0], wanted)
    np.testing.assert_array_equal(b, wanted)


def test_an_index_that_is_a_hash() -> None:
    x = te.placeholder((1000,), "int64", "A")
    y = te.compute((N,), lambda i: x[(i * K + C) // 2**33 % 1000], "B")
    a, b = np.random.default_rng(0).integers(0, 99, 1000), np.zeros(N, "int64")
    pb.build(te.create_schedule(y.op), [x, y])(a, b)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(b, a[(np.arange(N) * K + C) // 2**33 % 1000])


def test_a_hash_of_data_is_an_index() -> None:
    x, keys = te.placeholder((1000,), "int64", "A"), te.placeholder((N,), "int64", "keys")
    y = te.compute((N,), lambda i: x[(i * 24 + keys[i] * K) // 24 % 1000], "B")
    a, k, b = np.arange(1000), np.random.default_rng(0).integers(LOWEST, HIGHEST, N), np.zeros(N, "int64")
    s = te.create_schedule(y.op)
    s[y].vectorize(y.op.axis[0])
    pb.build(s, [x, keys, y])(a, k, b)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(b, (np.arange(N) * 24 + k * K) // 24 % 1000)


def test_a_reduction_under_a_condition_that_wraps_around() -> None:
    x = te.placeholder((6, N), "int64", "A")
    k = te.reduce_axis((0, N), "k")
    y = te.compute((6,), lambda i: te.sum(x[i, k], axis=k, where=k * K + i < 0), "B")
    a, b = np.arange(6 * N).reshape(6, N), np.zeros(6, "int64")
    pb.build(te.create_schedule(y.op), [x, y])(a, b)
    with np.errstate(all="ignore"):
        chosen = np.arange(N) * K + np.arange(6)[:, None] < 0
    np.testing.assert_array_equal(b, np.where(chosen, a, 0).sum(1))


def test_division_by_a_loop_that_is_zero() -> None:
    """It gives 0 as by any other number that is zero, whatever becomes of the loop."""
    x = te.placeholder((1,), "int64", "A")
    y = te.compute((1,), lambda i: x[i] // i + x[i] % i, "B")
    b = np.ones(1, "int64")
    pb.build(te.create_schedule(y.op), [x, y])(np.array([7]), b)
    assert b.tolist() == [0]
    x = te.placeholder((6,), "int64", "A")
    y = te.compute((6,), lambda i: x[i] // (i // 3) + 7 % i, "B")
    wanted = [0, 0, 1, 1 + 13, 3 + 14, 2 + 15]
    for change in (lambda sch, loop: sch.loop_partition(loop, [3, None]), lambda sch, loop: sch.unroll(loop)):
        sch = tir.Schedule([x, y])
        change(sch, sch.get_loops("B")[0])
        b = np.ones(6, "int64")
        pb.build(sch)(np.arange(10, 16), b)
        assert b.tolist() == wanted
