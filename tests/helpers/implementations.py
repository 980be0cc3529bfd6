"""Implementations of the template `matmul` in tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pegbox as pb
from pegbox import te
from pegbox.hooks import registry
from pegbox.task import Task


def _product(cfg: pb.TemplateConfig, M: int, K: int, N: int, scale: float) -> tuple[te.TESchedule, list[te.Tensor]]:
    A, B = te.placeholder((M, K), name="A"), te.placeholder((K, N), name="B")
    k = te.reduce_axis((0, K), name="k")
    C = te.compute((M, N), lambda i, j: te.sum(A[i, k] * B[k, j] * scale, axis=k), name="C")
    s = te.create_schedule(C.op)
    i, j = s[C].op.axis
    cfg.define_knob("columns" if scale == 1 else "wrong_columns", [1, 2, 4])
    outer, inner = s[C].split(j, factor=cfg["columns" if scale == 1 else "wrong_columns"].val)
    s[C].reorder(i, outer, k, inner)
    return s, [A, B, C]


@pb.template("test_product_rows")
def rows(cfg: pb.TemplateConfig, M: int, K: int, N: int) -> tuple[te.TESchedule, list[te.Tensor]]:
    """C = A B, row by row."""
    return _product(cfg, M, K, N, 1.0)


@pb.template("test_product_doubled")
def doubled(cfg: pb.TemplateConfig, M: int, K: int, N: int) -> tuple[te.TESchedule, list[te.Tensor]]:
    """C = 2 A B."""
    return _product(cfg, M, K, N, 2.0)


def by_rows(task: Task) -> Task | None:
    """Return the task of `rows`, for a product of float32 with plain operands."""
    return _made(task, rows)


def by_doubling(task: Task) -> Task | None:
    """Return a task that computes something else."""
    return _made(task, doubled)


def transposed(task: Task) -> Task | None:
    """Return a task that takes other arguments."""
    sizes = task.workload[1]
    return pb.create_task(rows, (sizes["N"], sizes["K"], sizes["M"]), target=task.target)


def _made(task: Task, template: object) -> Task | None:
    if task.name != "matmul":
        return None
    sizes = task.workload[1]
    if sizes["dtype"] != "float32" or sizes["weights"] != "plain":
        raise pb.errors.TemplateError(f"rows of float32 alone, not of {sizes['weights']} {sizes['dtype']}")
    return pb.create_task(template, [sizes[name] for name in "MKN"], target=task.target)


@contextmanager
def registered(**functions: Callable[[Task], Task | None]) -> Iterator[None]:
    """Register implementations for a while."""
    for name, function in functions.items():
        registry.register("implementation", name, function, owner="tests")
    try:
        yield
    finally:
        for name in functions:
            registry.unregister("implementation", name, owner="tests")
