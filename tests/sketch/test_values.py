"""Every workload of the library, scheduled by sketches, computes what NumPy computes."""

from __future__ import annotations

import numpy as np
import pytest
from sketch_values import CASES, check_values
from stage import SECOND

import pegbox as pb
from pegbox.hooks import registry

OTHERS = [
    ("conv2d", (1, 8, 7, 7, 8, 3, 1, 1, 2, 1)),  # dilated
    ("conv2d", (1, 8, 6, 6, 8, 3, 1, 1, 1, 4)),  # in groups
    ("matmul", (31, 17, 13, "float64")),
]


def test_every_workload_is_tried() -> None:
    assert set(CASES) == {c.name for c in registry.claims("workload") if c.origin and c.origin.startswith("pegbox.")}


@pytest.mark.parametrize(("name", "args"), [*CASES.items(), *OTHERS])
@pytest.mark.parametrize("cores", [1, 4])
def test_sampled_configurations_compute_what_numpy_computes(name: str, args: tuple[object, ...], cores: int) -> None:
    task = pb.create_task(name, args=args, space="sketch", target=f"llvm -num-cores {cores}")
    for row in task.space.sample(2 if SECOND else 1, np.random.default_rng(0)):
        check_values(task, task.space.config(row))
