"""Spaces of matrix products: laid out for the target, nothing in them that cannot be fast or means the same twice."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pegbox as pb
from pegbox.codegen import fits_registers, lanes_of
from pegbox.search.models.prediction import predicted_configs
from pegbox.task.task import Task

TARGETS = (
    "llvm -mcpu=znver4 -num-cores 1",
    "llvm -mcpu=x86-64-v3 -num-cores 1",
    "llvm -mtriple=aarch64-linux-gnu -num-cores 1",
)
SHAPES = ((512, 512, 512), (1, 1024, 1024), (64, 256, 1000), (37, 131, 77), (3, 2000, 40))


def task_of(shape: tuple[int, ...], target: str, weights: str = "plain") -> Task:
    return pb.create_task("matmul", args=shape, kwargs={"weights": weights}, target=target)


def sampled(task: Task, count: int = 60) -> list[pb.Config]:
    rows = task.space.sample(count, np.random.default_rng(0))
    return [task.space.config([int(digit) for digit in row]) for row in rows]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("weights", ["plain", "packed"])
@pytest.mark.parametrize("shape", SHAPES)
def test_register_tiles_are_made_of_the_targets_vectors_and_fit(
    shape: tuple[int, ...], weights: str, target: str
) -> None:
    task = task_of(shape, target, weights)
    lanes = lanes_of(task.target, "float32")
    for config in sampled(task):
        assert config["nr"].val % lanes == 0
        assert fits_registers(task.target, config["mr"].val, config["nr"].val // lanes)


@pytest.mark.parametrize("target", TARGETS)
def test_blocks_fit_the_targets_cache(target: str) -> None:
    task = task_of((512, 512, 512), target)
    for config in sampled(task):
        depth = (config["k_block"].val or 512) * 4
        by_rows = config["order"].val == "yx"
        tiles, size = (config["y_tiles"], config["mr"]) if by_rows else (config["x_tiles"], config["nr"])
        assert tiles.val == 1 or tiles.val * size.val * depth <= task.target.caches.l2


@pytest.mark.parametrize("shape", [(64, 64, 64), (1, 256, 256), (40, 24, 300)])
def test_configurations_that_differ_make_different_programs(shape: tuple[int, ...]) -> None:
    task = task_of(shape, TARGETS[1])
    programs: dict[str, Any] = {}
    for config in sampled(task, 40):
        text = task.lower(config).ll
        assert text not in programs, f"{config} makes the same program as {programs.get(text)}"
        programs[text] = config


def test_packed_weights_leave_no_layout_to_choose() -> None:
    assert "layout" not in task_of((64, 64, 64), TARGETS[1], "packed").space.knobs


def block_of_columns(config: pb.Config, depth: int) -> int:
    """Return the elements of B's panels that one prefetch asks for."""
    columns: int = config["nr"].val * (1 if config["order"].val == "yx" else config["x_tiles"].val)
    return columns * (config["k_block"].val or depth)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shape", [(49, 2048, 512), (128, 768, 768), (197, 384, 1536)])
def test_predictions_of_packed_weights_begin_with_small_blocks_of_them(target: str, shape: tuple[int, ...]) -> None:
    task = task_of(shape, target, "packed")
    first, size = next(predicted_configs(task)), shape[1] * shape[2]
    block = block_of_columns(first, shape[1])
    assert 8 * block <= size
    assert 2 * block * 4 <= task.target.caches.l2


def test_weights_of_many_rows_are_not_preferred_in_small_blocks() -> None:
    assert task_of((1000, 768, 768), TARGETS[0], "packed").preference is None


@pytest.mark.parametrize(
    "shape", [(24, 1500, 2100), (96, 1024, 1024), (128, 768, 2048), (91, 990, 370), (161, 2600, 528)]
)
def test_predictions_of_few_rows_begin_with_blocks_that_l2_keeps(shape: tuple[int, ...]) -> None:
    task = task_of(shape, TARGETS[0])
    first, l2 = next(predicted_configs(task)), task.target.caches.l2
    depth = (first["k_block"].val or shape[1]) * 4
    by_rows = first["order"].val == "yx"
    tiles, size = (first["y_tiles"], first["mr"]) if by_rows else (first["x_tiles"], first["nr"])
    assert 2 * min(tiles.val, -(-shape[not by_rows and 2] // size.val)) * size.val * depth <= l2
    if first["layout"].val == "packed":
        assert not by_rows or first["panel"].val > 0
    elif by_rows:
        assert tiles.val * size.val >= shape[0]


def test_columns_whose_rows_share_sets_are_packed() -> None:
    """Rows of 4 KiB: L1 has room for twelve of them, L2 for few more."""
    task = task_of((64, 1024, 1024), TARGETS[0])
    assert task.preference is not None
    for config in filter(task.preference, sampled(task, 400)):
        assert config["layout"].val == "packed" or config["k_block"].val


@pytest.mark.parametrize(
    ("shape", "target"), [((128, 64, 768), 0), ((1000, 768, 768), 0), ((8, 768, 768), 0), ((128, 768, 768), 1)]
)
def test_other_products_have_no_preference(shape: tuple[int, ...], target: int) -> None:
    """B is small, rows are many or hardly any, or vectors are slow enough."""
    assert task_of(shape, TARGETS[target]).preference is None


@pytest.mark.parametrize(
    "chosen",
    [{"order": "yx", "y_tiles": 8}, {"order": "xy", "x_tiles": 1}, {"order": "xy", "x_tiles": 4, "k_block": 300}],
    ids=["columns", "blocks", "steps"],
)
def test_the_next_panels_are_prefetched(chosen: dict[str, Any], golden: Any) -> None:
    task = task_of((40, 600, 64), "llvm -mcpu=x86-64-v3 -caches=32,256,1024 -num-cores 1", "packed")
    wanted = {"mr": 6, "nr": 16, "unroll_k": 4, "k_block": 0, "panel": 0, "pack_a": False, **chosen}
    configs = task.space.iterate()
    golden(task.show_ir(next(c for c in configs if all(c[name].val == value for name, value in wanted.items()))))


@pytest.mark.parametrize(
    ("shape", "chosen", "is_prefetched"),
    [
        ((40, 300, 200), {"layout": "direct", "order": "yx"}, True),
        ((40, 300, 200), {"layout": "direct", "order": "xy"}, True),
        ((40, 300, 200), {"layout": "packed", "order": "xy"}, True),
        ((40, 300, 200), {"layout": "packed", "order": "yx"}, False),  # B is packed as a whole
        ((400, 300, 200), {"order": "xy"}, False),
        ((40, 100, 100), {"layout": "direct", "order": "yx"}, False),
        ((40, 300, 1024), {"layout": "direct", "order": "yx"}, False),  # its rows share few sets of the cache
    ],
)
def test_a_matrix_that_l2_cannot_hold_is_prefetched_for_few_rows(
    shape: tuple[int, int, int], chosen: dict[str, Any], is_prefetched: bool
) -> None:
    task = task_of(shape, "llvm -mcpu=x86-64-v3 -caches=32,128,1024 -num-cores 1")
    wanted = {"mr": 6, "nr": 16, "unroll_k": 4, "k_block": 0, "panel": 0, "pack_a": False, **chosen}
    wanted = {name: value for name, value in wanted.items() if name in task.space.knobs}

    def is_chosen(config: pb.Config) -> bool:
        return all(config[name].val == value for name, value in wanted.items() if config.exists(name))

    config = next(filter(is_chosen, task.space.iterate()))
    assert ("prefetch(address(B[" in task.show_ir(config)) == is_prefetched
