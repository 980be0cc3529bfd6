"""`cfg.define_*` as AutoTVM's users write it: axes wherever axes may stand, and names for what a knob makes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pegbox as pb
from pegbox import te, tir
from pegbox.codegen import Target
from pegbox.errors import SpaceError
from pegbox.task.config_view import ApplyingConfig, TemplateConfig
from pegbox.task.task import create_task

TARGET = Target("llvm -mcpu=x86-64-v3 -num-cores 1")


def tiled(cfg: Any) -> tuple[Any, Any, list[Any]]:
    a = te.placeholder((8, 12), name="A")
    b = te.placeholder((12, 8), name="B")
    k = te.reduce_axis((0, 12), name="k")
    c = te.compute((8, 8), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), "C")
    s = te.create_schedule(c)
    cfg.define_split("tile_y", c.op.axis[0], num_outputs=2)
    cfg.define_split("tile_x", c.op.axis[1], num_outputs=2)
    yo, yi = cfg["tile_y"].apply(s, c, c.op.axis[0])
    xo, xi = cfg["tile_x"].apply(s, c, c.op.axis[1])
    return s, [a, b, c], [yo, xo, k, yi, xi]


def ordered_by_axes(cfg: Any) -> Any:
    s, tensors, (yo, xo, k, yi, xi) = tiled(cfg)
    cfg.define_reorder("order", [yo, xo, k, yi, xi], "candidate", candidate=[[yo, xo, k, yi, xi], (xo, yo, yi, k, xi)])
    cfg["order"].apply(s, tensors[-1], [yo, xo, k, yi, xi])
    cfg.define_annotate("ann", [yi, xi], policy="candidate", candidate=[["unroll", "vec"], ["none", "vec"]])
    cfg["ann"].apply(s, tensors[-1], [yi, xi])
    return s, tensors


def interleaved_by_names(cfg: Any) -> Any:
    a = te.placeholder((8, 12), name="A")
    b = te.placeholder((12, 8), name="B")
    k = te.reduce_axis((0, 12), name="k")
    c = te.compute((8, 8), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), "C")
    s = te.create_schedule(c)
    y, x = c.op.axis
    yo, yi = cfg.define_split("tile_y", y, num_outputs=2)
    xo, xi = cfg.define_split("tile_x", x, policy="power2", num_outputs=2, max_factor=4)
    cfg.define_reorder("order", [yo, xo, k, yi, xi], "interleave", spatial=[[yo, yi], [xo, xi]], reduce=[[k]])
    names = cfg.define_annotate("ann", [yi, xi], "try_unroll_vec")
    assert names == ("ann.0", "ann.1")
    loops = [*cfg["tile_y"].apply(s, c, y), *cfg["tile_x"].apply(s, c, x)]
    cfg["order"].apply(s, c, [loops[0], loops[2], k, loops[1], loops[3]])
    return s, [a, b, c]


@pytest.mark.parametrize("template", [ordered_by_axes, interleaved_by_names])
def test_axes_may_stand_in_the_options_and_names_come_back(template: Any) -> None:
    task = create_task(template)
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-5, 6, shape).astype("float32") for shape in ((8, 12), (12, 8)))
    for row in task.space.sample(6, rng):
        c = np.empty((8, 8), "float32")
        pb.build(task, config=task.space.config(row))(a, b, c)
        np.testing.assert_array_equal(c, a @ b)


def test_axes_of_one_name_are_told_apart() -> None:
    cfg = TemplateConfig(TARGET)
    first, second = te.reduce_axis((0, 4), "k"), te.reduce_axis((0, 4), "k")
    cfg.define_reorder("order", [first, second], "candidate", candidate=[[second, first]])
    assert cfg["order"].perm == [1, 0]
    assert cfg.space.knobs["order"].axes == ("k", "k_1")  # type: ignore[attr-defined]


def test_loops_of_a_tir_schedule_are_axes_by_name() -> None:
    a = te.placeholder((4, 4), name="A")
    b = te.compute((4, 4), lambda i, j: a[i, j], "B")
    i, j = tir.Schedule([a, b]).get_loops("B")
    cfg = TemplateConfig(TARGET)
    cfg.define_reorder("order", [i, j], "candidate", candidate=[[j, i]])
    assert cfg.space.knobs["order"].axes == ("i", "j")  # type: ignore[attr-defined]


def test_an_axis_that_was_not_listed_is_named() -> None:
    other = te.reduce_axis((0, 4), "rk")
    with pytest.raises(SpaceError, match="'rk' is not among its axes"):
        TemplateConfig(TARGET).define_reorder("order", ["y", "x"], "candidate", candidate=[["y", other]])


def test_both_runs_give_the_same_names() -> None:
    declaring = TemplateConfig(TARGET)

    def names(cfg: Any) -> list[Any]:
        return [
            cfg.define_split("t", 16, num_outputs=3),
            cfg.define_reorder("o", ["y", "x"], policy="all"),
            cfg.define_annotate("a", ["y"], policy="try_vec"),
            cfg.define_knob("k", [1, 2]),
        ]

    declared = names(declaring)
    assert declared == [("t.0", "t.1", "t.2"), ("o.0", "o.1"), ("a.0",), None]
    assert names(ApplyingConfig(declaring.space.get(0), TARGET)) == declared


def test_a_template_says_how_much_arithmetic_its_operator_has() -> None:
    def blocks(cfg: Any) -> Any:
        cfg.define_knob("width", [8, 16])
        cfg.add_flop(10)
        cfg.add_flop(11)
        s, tensors, _ = tiled(cfg)
        return s, tensors

    def counted(cfg: Any) -> Any:
        return tiled(cfg)[:2]

    task = create_task(blocks)
    assert task.flop == 21
    task.schedule(task.space.get(1))
    assert task.flop == 21
    assert create_task(counted).flop == 2 * 8 * 8 * 12


def test_a_template_sees_what_the_target_has() -> None:
    seen = []

    def asking(cfg: Any) -> Any:
        seen.append((cfg.target.vector_bits, cfg.target.vector_registers, cfg.target.caches.l2))
        s, tensors, _ = tiled(cfg)
        return s, tensors

    task = create_task(asking, target="llvm -mcpu=znver3 -num-cores 1")
    task.schedule(task.space.get(1))
    assert seen == [(256, 16, 512 << 10)] * 2
