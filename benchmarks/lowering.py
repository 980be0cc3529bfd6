"""The Python time of a schedule of many stages: ten stages, forty primitives, applied and lowered.

    python3 benchmarks/lowering.py               # the median of 20 rounds, TE and tir.Schedule
    python3 benchmarks/lowering.py --rounds 100

The total should stay below 50 ms of processor time. Nothing is compiled: see candidates.py for that.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import pegbox as pb
from pegbox import te, tir

N = 256


def computation() -> list[Any]:
    """A graph of ten stages with two inputs: elementwise stages, two stencils and two matmuls."""
    a, b = te.placeholder((N, N), name="A"), te.placeholder((N, N), name="B")
    k1, k2 = te.reduce_axis((0, N), name="k1"), te.reduce_axis((0, N - 1), name="k2")
    scaled = te.compute((N, N), lambda i, j: a[i, j] * 2.0, name="scaled")
    blur = te.compute((N - 2, N), lambda i, j: scaled[i, j] + scaled[i + 1, j] + scaled[i + 2, j], name="blur")
    first = te.compute((N - 2, N), lambda i, j: te.sum(blur[i, k1] * b[k1, j], axis=k1), name="first")
    shift = te.compute((N - 2, N), lambda i, j: first[i, j] + 1.0, name="shift")
    relu = te.compute((N - 2, N), lambda i, j: te.maximum(shift[i, j], 0.0), name="relu")
    edge = te.compute((N - 2, N - 1), lambda i, j: relu[i, j + 1] - relu[i, j], name="edge")
    double = te.compute((N - 2, N - 1), lambda i, j: edge[i, j] * edge[i, j], name="double")
    second = te.compute((N - 2, N), lambda i, j: te.sum(double[i, k2] * b[k2, j], axis=k2), name="second")
    bias = te.compute((N - 2, N), lambda i, j: second[i, j] + b[0, j], name="bias")
    out = te.compute((N - 2, N), lambda i, j: bias[i, j] * 0.5, name="out")
    return [a, b, scaled, blur, first, shift, relu, edge, double, second, bias, out]


def with_tir(stages: list[Any]) -> Any:
    """Apply forty primitives of tir.Schedule."""
    sch = tir.Schedule([stages[0], stages[1], stages[-1]])
    for name in ("second", "first"):
        i, j, k = sch.get_loops(name)
        i_0, i_1 = sch.split(i, factor=8)
        j_0, j_1 = sch.split(j, factor=32)
        k_0, k_1 = sch.split(k, factor=16)
        sch.reorder(i_0, j_0, k_0, k_1, i_1, j_1)
        sch.vectorize(j_1)
        sch.unroll(i_1)
        sch.decompose_reduction(name, k_0)
    for name in ("scaled", "shift", "bias", "double"):
        sch.compute_inline(name)
    for name in ("blur", "relu", "edge", "out"):
        i, j = sch.get_loops(name)
        i_0, i_1 = sch.split(i, factor=16)
        j_0, j_1 = sch.split(j, factor=64)
        sch.reorder(i_0, j_0, i_1, j_1)
        sch.vectorize(j_1)
    sch.compute_at("relu", sch.get_loop("edge", 1))
    sch.parallel(sch.get_loop("out", 0))
    sch.parallel(sch.get_loop("blur", 0))
    packed = sch.cache_read("second", 1, "local", ["second"])
    sch.compute_at(packed, sch.get_loop("second", 2))
    sch.unroll(sch.get_loop(packed, 3))
    assert len(sch.trace) == 40
    return sch


def with_te(stages: list[Any]) -> Any:
    """Apply the same primitives in TE."""
    by_name = {t.op.name: t for t in stages}
    s = te.create_schedule(by_name["out"].op)
    for name in ("second", "first"):
        stage = s[by_name[name]]
        (i, j), (k,) = by_name[name].op.axis, by_name[name].op.reduce_axis
        i_0, i_1 = stage.split(i, factor=8)
        j_0, j_1 = stage.split(j, factor=32)
        k_0, k_1 = stage.split(k, factor=16)
        stage.reorder(i_0, j_0, k_0, k_1, i_1, j_1)
        stage.vectorize(j_1)
        stage.unroll(i_1)
        stage.pragma(i_0, "auto_unroll_max_step", 16)
    for name in ("scaled", "shift", "bias", "double"):
        s[by_name[name]].compute_inline()
    for name in ("blur", "relu", "edge", "out"):
        stage = s[by_name[name]]
        i_0, j_0, i_1, j_1 = stage.tile(*by_name[name].op.axis, 16, 64)
        stage.vectorize(j_1)
        stage.unroll(i_1)
        if name == "edge":
            s[by_name["relu"]].compute_at(stage, j_0)
        if name in ("out", "blur"):
            stage.parallel(i_0)
    return s


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args()
    languages: dict[str, Callable[[list[Any]], Any]] = {"tir.Schedule": with_tir, "TE": with_te}
    for name, schedule in languages.items():
        total, applied = [], []
        for _ in range(options.rounds):
            stages = computation()
            start = time.process_time()
            scheduled = schedule(stages)
            middle = time.process_time()
            pb.lower(scheduled, [stages[0], stages[1], stages[-1]])
            total.append((time.process_time() - start) * 1e3)
            applied.append((middle - start) * 1e3)
        print(
            f"{name:>13}: {statistics.median(total):6.1f} ms (median of {options.rounds}), "
            f"of which the primitives {statistics.median(applied):.1f} ms"
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
