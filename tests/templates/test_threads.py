"""The number of threads is a knob of templates where one thread may be the fastest, and only there."""

from __future__ import annotations

import numpy as np
import pytest

from pegbox import create_task

ONE, TWO = "llvm -mcpu=x86-64-v3 -num-cores 1", "llvm -mcpu=x86-64-v3 -num-cores 2"
CONV = (1, 16, 14, 14, 16, 3, 3)


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("batch_matmul", (8, 32, 64, 32)),
        ("matmul", (64, 512, 2)),
        ("matmul", (7, 4096, 3)),
        ("matmul", (128, 256, 128)),
        ("matmul", (2, 512, 4096)),
        ("batch_matmul", (2, 64, 256, 128)),
        ("batch_matmul", (4, 16, 256, 2)),
        ("batch_matmul", (16, 16, 16, 16)),
        ("conv2d", CONV),
    ],
)
def test_little_work_is_tried_with_one_thread_first(name: str, args: tuple[int, ...]) -> None:
    space = (task := create_task(name, args=args, target=TWO)).space
    assert [entity.val for entity in space.knobs["threads"].entities] == [1, 2]
    place = list(space.knobs).index("threads")
    rows = space.sample(48, np.random.default_rng(0))
    teams = []
    for choice in range(2):
        rows[:, place] = choice
        valid = rows[space.is_valid(rows)][:8]
        teams.append({task.lower(space.config(row)).num_threads for row in valid})
    assert teams[0] == {1}
    assert 2 in teams[1]


@pytest.mark.parametrize(
    ("args", "target"),
    [
        ((64, 512, 2), "llvm -mcpu=x86-64-v3 -num-cores 1"),
        ((8192, 8192, 2), TWO),
        ((1, 512, 2), TWO),
    ],
)
def test_one_core_and_much_work_leave_no_choice(args: tuple[int, ...], target: str) -> None:
    assert "threads" not in create_task("matmul", args=args, target=target).space.knobs


@pytest.mark.parametrize("args", [(64, 64, 64), (128, 256, 128), (2, 512, 4096)])
def test_a_single_block_is_one_threads(args: tuple[int, ...]) -> None:
    task = create_task("matmul", args=args, target=TWO)
    space = task.space
    place = list(space.knobs).index("threads")
    rows = space.sample(48, np.random.default_rng(0))
    rows[:, place] = 1
    refused = rows[~space.is_valid(rows)]
    assert len(refused)
    for row in refused[:4]:
        assert "several threads have several blocks" in space.violated(space.config(row))
    refused[:, place] = 0
    assert {task.lower(space.config(row)).num_threads for row in refused[:4]} == {1}
    for row in rows[space.is_valid(rows)][:4]:
        assert task.lower(space.config(row)).num_threads == 2
