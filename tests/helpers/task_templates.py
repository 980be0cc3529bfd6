"""Templates for the tests of tasks, loaded by path: `create_task("…/task_templates.py:rows", …)`."""

from __future__ import annotations

from typing import Any

import pegbox as pb
from pegbox import te, tir


@pb.template("test_rows")
def rows(cfg: Any, n: int, m: int, dtype: str = "float32", *, scale: int = 2) -> Any:
    """B = A * scale, in tiles.

    The second paragraph is for the curious.
    """
    a = te.placeholder((n, m), dtype, "A")
    b = te.compute((n, m), lambda i, j: a[i, j] * scale, "B")
    s = te.create_schedule(b)
    y, x = s[b].op.axis
    cfg.define_split("tile_y", y, num_outputs=2)
    cfg.define_split("tile_x", x, num_outputs=3)
    yo, yi = cfg["tile_y"].apply(s, b, y)
    xo, xm, xi = cfg["tile_x"].apply(s, b, x)
    cfg.define_reorder("order", [yo, xo], policy="all")
    cfg["order"].apply(s, b, [yo, xo])
    cfg.define_annotate("ann", [yi, xi], policy="try_unroll_vec")
    s[b].reorder(*[loop for loop in s[b].leaf_iter_vars if loop not in (yi, xi)], yi, xi)
    cfg["ann"].apply(s, b, [yi, xi])
    cfg.define_knob("unroll", [0, 16])
    s[b].pragma(s[b].leaf_iter_vars[0], "auto_unroll_max_step", cfg["unroll"].val)
    del xm
    return s, [a, b]


@pb.template("test_rows_tir")
def rows_tir(cfg: Any, n: int, m: int) -> Any:
    """The same with `tir.Schedule`, whose parameters it need not repeat."""
    a = te.placeholder((n, m), name="A")
    b = te.compute((n, m), lambda i, j: a[i, j] * 2, "B")
    sch = tir.Schedule([a, b])
    i, j = sch.get_loops("B")
    cfg.define_split("tile_y", n, num_outputs=1)
    cfg.define_split("tile_x", m, num_outputs=3)
    (yo,) = cfg["tile_y"].apply(sch, None, i)
    xo, xm, xi = cfg["tile_x"].apply(sch, None, j)
    cfg.define_reorder("order", ["yo", "xo", "xm", "xi"], policy="interval", interval=(1, 3))
    ordered = cfg["order"].apply(sch, None, [yo, xo, xm, xi])
    cfg.define_annotate("ann", [ordered[-1]], policy="try_unroll_vec")
    cfg["ann"].apply(sch, None, [ordered[-1]])
    return sch


def plain(cfg: Any, n: int) -> Any:
    """No decorator is needed for a function that is passed, or named in a file."""
    return rows(cfg, n, 4)


not_a_template = 42
