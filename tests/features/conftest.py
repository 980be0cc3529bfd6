"""Templates that are hard on tracing: each knob of `stubborn` gets to the schedule by a way of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pegbox import te, tir
from pegbox.task.task import Task
from pegbox.task.template import Template, find_template

TABLE = {2: 4, 4: 8, 8: 16, 16: 2}


def product(n: int, m: int, k: int) -> tuple[Any, ...]:
    A, B = te.placeholder((n, k), name="A"), te.placeholder((k, m), name="B")
    r = te.reduce_axis((0, k), name="k")
    D = te.compute((k, m), lambda i, j: B[i, j] * 2, name="D")
    C = te.compute((n, m), lambda i, j: te.sum(A[i, r] * D[r, j], axis=r), name="C")
    return A, B, C, D, r


def stubborn(cfg: Any, n: int, m: int, k: int) -> Any:
    """Orders, annotations, conditions, Python control flow on values, tables, and what escapes tracing."""
    A, B, C, D, r = product(n, m, k)
    s = te.create_schedule(C.op)
    y, x = s[C].op.axis
    cfg.define_split("ty", y, num_outputs=2, max_factor=16)
    cfg.define_split("tx", x, num_outputs=2, policy="power2")
    cfg.define_reorder("order", ["a", "b", "c"], policy="all")
    cfg.define_annotate("ann", ["yi", "xi"], policy="try_unroll_vec")
    cfg.define_knob("mode", ["inline", "root", "at"])
    cfg.define_knob("levels", [1, 2, 3], when={"mode": "root"})
    cfg.define_knob("w", [2, 4, 8, 16])
    cfg.define_knob("pair", [[1, 2], [4, 8]])
    yo, yi = cfg["ty"].apply(s, C, y)
    xo, xi = cfg["tx"].apply(s, C, x)
    outer = cfg["order"].apply(s, C, [yo, xo, r])
    s[C].reorder(*outer, yi, xi)
    cfg["ann"].apply(s, C, [yi, xi])
    match cfg["mode"].val:
        case "inline":
            s[D].compute_inline()
        case "at":
            s[D].compute_at(s[C], outer[0])
        case _:
            a, b = s[D].op.axis
            for _ in range(cfg["levels"].val):  # range takes the int as it is
                a, _ = s[D].split(a, factor=2)
            bo, bi = s[D].split(b, factor=TABLE[cfg["w"].val])  # so does the dict
            s[D].vectorize(bi)
            if cfg["w"].val > 4:
                s[D].unroll(bo)
            if cfg["w"].val == 16 and cfg["pair"].val[0] == 4:
                cfg.raise_error("not these two")
    return s, [A, B, C]


def by_primitives(cfg: Any, n: int, m: int, k: int) -> Any:
    """The same product on a tir.Schedule."""
    A, B, C, _, _ = product(n, m, k)
    sch = tir.Schedule([A, B, C])
    block = sch.get_block("C")
    i, j, r = sch.get_loops(block)
    cfg.define_split("ti", n, num_outputs=3, max_factor=8)
    cfg.define_split("tj", m, num_outputs=2, policy="power2", max_factor=16)
    cfg.define_split("tk", k, num_outputs=2, max_factor=4)
    cfg.define_knob("inline", [True, False])
    if cfg["inline"].val:
        sch.compute_inline(sch.get_block("D"))
    i0, i1, i2 = cfg["ti"].apply(sch, None, i)
    j0, j1 = cfg["tj"].apply(sch, None, j)
    k0, k1 = cfg["tk"].apply(sch, None, r)
    sch.reorder(i0, j0, i1, k0, k1, i2, j1)
    if not cfg["inline"].val:
        sch.compute_at(sch.get_block("D"), j0)
    sch.vectorize(j1)
    sch.unroll(i2)
    sch.parallel(i0)
    return sch


def windowed(cfg: Any, n: int, m: int, k: int) -> Any:
    """Sums of k rows, of a stage that is made anew for each tile, or rolls."""
    A = te.placeholder((n + k, m), name="A")
    B = te.compute((n + k, m), lambda i, j: te.exp(A[i, j]), name="B")
    r = te.reduce_axis((0, k), name="r")
    C = te.compute((n, m), lambda i, j: te.sum(B[i + r, j], axis=r), name="C")
    s = te.create_schedule(C.op)
    y, x = s[C].op.axis
    cfg.define_split("ty", y, num_outputs=2, max_factor=16)
    cfg.define_split("tx", x, num_outputs=2, policy="power2")
    cfg.define_knob("rolls", [True, False])
    yo, yi = cfg["ty"].apply(s, C, y)
    xo, xi = cfg["tx"].apply(s, C, x)
    s[C].reorder(xo, yo, yi, xi)
    s[B].compute_at(s[C], yo)
    if cfg["rolls"].val:
        s[B].rolling_buffer()
    return s, [A, C]


def centered(cfg: Any, n: int, m: int) -> Any:
    """Subtract the product of two sums over a row, which may be merged with the stage that computes their terms."""
    A = te.placeholder((n, m), name="A")
    k, r = te.reduce_axis((0, m), name="k"), te.reduce_axis((0, m), name="r")
    B = te.compute((n, m), lambda i, j: A[i, j] * 2, name="B")
    S = te.compute((n,), lambda i: te.sum(B[i, k], axis=k), name="S")
    Q = te.compute((n,), lambda i: te.sum(B[i, r] * B[i, r], axis=r), name="Q")
    C = te.compute((n, m), lambda i, j: A[i, j] - S[i] * Q[i], name="C")
    s = te.create_schedule(C.op)
    cfg.define_knob("rows", [1, 2, 3])
    cfg.define_knob("step", [4, 16, 5])
    cfg.define_knob("merged", ["no", "one", "both"])
    place, _ = s[C].split(C.op.axis[0], factor=cfg["rows"].val)
    blocks = []
    for tensor, axis in ((B, B.op.axis[1]), (S, k), (Q, r)):
        s[tensor].compute_at(s[C], place)
        outer, inner = s[tensor].split(axis, factor=cfg["step"].val)
        s[tensor].vectorize(inner)
        blocks.append(outer)
    if cfg["merged"].val != "no":
        s[S].merge(blocks[1], s[B], blocks[0])
    if cfg["merged"].val == "both":
        s[Q].merge(blocks[2], s[B], blocks[0])
    return s, [A, C]


@pytest.fixture(scope="session")
def task_of() -> Callable[..., Task]:
    """`task_of("matmul", 64, 64, 64)`, or a function of this file by its name."""
    from pegbox.codegen.targets.target import Target

    functions = stubborn, by_primitives, windowed, centered
    own = {function.__name__: Template(function.__name__, function) for function in functions}

    def make(name: str, *args: int, **kwargs: Any) -> Task:
        template = own[name] if name in own else find_template(name)
        return Task(template, args, kwargs, Target("llvm -mcpu=znver4 -num-cores 2"))

    return make
