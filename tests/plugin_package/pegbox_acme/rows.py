"""An implementation of products: one task for the rows together, whose loops are in another order."""

from __future__ import annotations

import pegbox as pb
from pegbox import te
from pegbox.task import Task


@pb.template("acme_rows")
def rows(
    cfg: pb.TemplateConfig, M: int, K: int, N: int, dtype: str = "float32"
) -> tuple[te.TESchedule, list[te.Tensor]]:
    """C = A B, row by row."""
    A, B = te.placeholder((M, K), dtype, name="A"), te.placeholder((K, N), dtype, name="B")
    k = te.reduce_axis((0, K), name="k")
    C = te.compute((M, N), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = te.create_schedule(C.op)
    i, j = s[C].op.axis
    cfg.define_knob("columns", [1, 8])
    outer, inner = s[C].split(j, factor=cfg["columns"].val)
    s[C].reorder(i, outer, k, inner)
    return s, [A, B, C]


def implement(task: Task) -> Task | None:
    """Return the task for a product whose operands are not packed."""
    if task.name != "matmul":
        return None
    given = {name: task.workload[1][name] for name in ("M", "K", "N", "dtype")}
    if task.workload[1]["weights"] == "packed":
        raise pb.TemplateError("acme_rows takes B as it is, not packed")
    return pb.create_task(rows, kwargs=given, target=task.target)
