"""Workloads for the tests of `tvm.auto_scheduler`, and a measurer that answers without compiling."""

from __future__ import annotations

from typing import Any

import pytest

from pegbox.plugins.tvm import auto_scheduler, te
from pegbox.search.testing import ArtificialMeasurer

Tensors = list[te.Tensor]

QUICK = {"evolutionary_search_population": 8, "evolutionary_search_num_iters": 1}
"""Parameters of a policy that thinks little before each batch."""


@auto_scheduler.register_workload
def ansor_matmul(n: int, m: int, k: int, dtype: str = "float32") -> Tensors:
    a = te.placeholder((n, k), name="A", dtype=dtype)
    b = te.placeholder((k, m), name="B", dtype=dtype)
    r = te.reduce_axis((0, k), name="k")
    c = te.compute(
        (n, m),
        lambda i, j: te.sum(a[i, r] * b[r, j], axis=r),
        name="C",
        attrs={"layout_free_placeholders": [b]},
    )
    return [a, b, c]


def artificial(patch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Searches get costs at once, a number for each configuration; gives the options of each measurer."""
    opened: list[dict[str, Any]] = []

    def factory(options: Any, **given: Any) -> Any:
        def measurer(task: Any, **more: Any) -> ArtificialMeasurer:
            opened.append({**(options or {}), **given, **more})
            return ArtificialMeasurer(lambda config: 1e-6 * (1 + config.index % 997))

        return measurer

    patch.setattr("pegbox.search.session.local_measurer", factory)
    return opened
