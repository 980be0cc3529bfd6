"""Kernels of templates read nothing outside their arrays: they run on arrays between pages that cannot be read.

A fault ends a process, so that the kernels run in another one, which names each before it runs.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from guarded_calls import beside_pages
from plain_code import unoptimized
from processors import on_this_machine, runnable
from stage import SECOND

from pegbox.codegen import Target, load
from pegbox.errors import InvalidConfig, ScheduleError, TemplateError
from pegbox.task.task import Task, create_task

MORE: dict[str, tuple[tuple[Any, ...], ...]] = {
    "matmul": ((4, 5, 15), (33, 31, 71), (2, 3, 24, "float64"), (6, 300, 3)),
    "batch_matmul": ((3, 5, 9, 23), (2, 3, 80, 4)),
    "matmul_strassen": ((9, 11, 39), (16, 8, 15, "float64"), (5, 3, 65)),
    "conv2d": (
        *((1, 3, 5, 6, o, 3, 3, 1, 1, 1, layout) for o in (7, 15, 23, 40) for layout in ("NCHW", "NHWC")),
        *((1, 5, 7, 5, o, 1, 2, 2, 0, 1, layout, "", "float64") for o in (3, 7, 56) for layout in ("NCHW", "NHWC")),
    ),
    "group_conv2d": ((1, 6, 5, 7, 14, 3, 3, 2, 1, 1), (1, 9, 7, 5, 15, 1, 3, 3, 2, 1, 1, "NHWC")),
    "depthwise_conv2d": ((1, 7, 5, 9, 5, 3, 1, 1), (1, 23, 7, 6, 3, 3, 1, 1, 1, "NHWC")),
    "attention": ((1, 3, 5, 19, 7),),
}
"""Shapes that end within vectors, beside those of the contract."""
MORE["conv2d_im2col"] = MORE["conv2d_winograd"] = MORE["conv2d"]
CONFIGS = 3
VECTORS = [name for name in ("x86-64-v3", "x86-64-v4") if name in runnable()] or ["default"]
TARGETS = VECTORS[:-1] if SECOND else VECTORS[-1:]
"""The widest vectors in the first run of `.ci/run`, narrower ones in the second."""


def tasks(target: Target) -> Iterator[Task]:
    """Yield the tasks of all templates and shapes that the target has, with weights plain and packed."""
    from template_contract_test import CASES

    for name, cases in CASES.items():
        for args in (*cases, *MORE.get(name, ())):
            try:
                task = create_task(name, args=args, target=target)
                yield task
                if (kwargs := task.workload[1]).get("weights", "packed") != "packed":
                    yield create_task(name, kwargs={**kwargs, "weights": "packed"}, target=target)
            except TemplateError:  # such as Winograd's convolution with strides
                continue


def run(target: Target) -> None:
    """Run kernels of all tasks; print each before it runs."""
    rng = np.random.default_rng(0)
    for task in tasks(target):
        arrays = [rng.uniform(0.5, 1, spec.shape).astype(spec.dtype) for spec in task.arguments()]
        for row in task.space.sample(min(CONFIGS, len(task.space)), rng):
            config = task.space.config(row)
            try:
                kernel = load(unoptimized(task.lower(config)))
            except (InvalidConfig, ScheduleError):
                continue
            print(f"{task!r} with {config}", flush=True)
            for given in zip(*map(beside_pages, arrays), strict=True):
                kernel(*given)
    print("done")


@on_this_machine
@pytest.mark.skipif(sys.platform != "linux", reason="needs mprotect")
@pytest.mark.parametrize("target", TARGETS)
def test_kernels_read_nothing_outside_their_arrays(target: str) -> None:
    tests = Path(__file__).parents[1]
    folders = os.pathsep.join(str(tests / name) for name in ("helpers", "contracts", "templates"))
    program = f"import test_reads as t; t.run(t.runnable()[{target!r}])"
    environment = {**os.environ, "PYTHONPATH": folders}
    made = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert made.stdout.endswith("done\n"), f"{made.stdout.splitlines()[-1:]}, for {target}: {made.stderr}"
