"""The number of threads is a knob of templates where one thread may be the fastest, and only there."""

from __future__ import annotations

import re

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


def test_threads_share_the_copy_of_a_flat_image() -> None:
    task = create_task("conv2d", (1, 256, 14, 14, 128, 1, 1), {"layout": "NHWC", "weights": "packed"}, target=TWO)
    rows = task.space.sample(96, np.random.default_rng(0))
    for name, wanted in (("pack_data", "plain"), ("threads", 2)):
        choices = [entity.val for entity in task.space.knobs[name].entities]
        rows[:, list(task.space.knobs).index(name)] = choices.index(wanted)
    copied = [task.space.config(row) for row in rows[task.space.is_valid(rows)]]
    programs = [task.show_ir(config) for config in copied[:6] if config["data_at"].val == "root"]
    assert programs
    for text in programs:
        shared, *_ = re.findall(r"in parallel range\((\d+)\):\n +for i3", text)
        assert int(shared) >= 14 * 14
