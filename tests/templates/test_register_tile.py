"""The questions of templates to a target about register tiles."""

from __future__ import annotations

import pytest

from pegbox import Target
from pegbox.codegen import fits_registers, lanes_of
from pegbox.templates.register_tile import is_balanced, step_cost

AVX512, AVX2 = Target("llvm -mcpu=znver5"), Target("llvm -mcpu=x86-64-v3")
SSE, NEON = Target("llvm -mcpu=x86-64"), Target("llvm -mtriple=aarch64-linux-gnu")


@pytest.mark.parametrize(
    ("target", "dtype", "lanes"),
    [(AVX512, "float32", 16), (AVX512, "float64", 8), (AVX2, "float32", 8), (SSE, "float64", 2), (NEON, "float16", 8)],
)
def test_lanes_are_those_of_the_targets_vectors(target: Target, dtype: str, lanes: int) -> None:
    assert lanes_of(target, dtype) == lanes


def test_lanes_of_several_types_are_those_of_the_widest() -> None:
    assert lanes_of(AVX2, "int8", "float64", "float32") == 4


@pytest.mark.parametrize(
    ("target", "tile"),
    [(AVX512, (6, 4)), (AVX512, (14, 2)), (AVX512, (9, 3)), (AVX2, (6, 2)), (AVX2, (4, 3)), (NEON, (6, 4))],
)
def test_tiles_that_run_in_registers_fit(target: Target, tile: tuple[int, int]) -> None:
    assert fits_registers(target, *tile)


@pytest.mark.parametrize(
    ("target", "tile"),
    [(AVX512, (7, 4)), (AVX512, (15, 2)), (AVX512, (10, 3)), (AVX2, (7, 2)), (AVX2, (3, 4)), (SSE, (6, 4))],
)
def test_tiles_that_spill_do_not(target: Target, tile: tuple[int, int]) -> None:
    assert not fits_registers(target, *tile)


def test_a_balanced_tile_has_more_multiply_adds_than_loads() -> None:
    assert is_balanced(4, 2)
    assert not is_balanced(2, 2)
    assert not is_balanced(28, 1)


def test_more_loads_and_fewer_accumulators_cost_more() -> None:
    assert step_cost(4, 3) == step_cost(3, 4) == 12
    assert step_cost(14, 1) > 14
    assert step_cost(2, 2) > 4
    assert step_cost(1, 4) < step_cost(2, 4) < step_cost(3, 4)
