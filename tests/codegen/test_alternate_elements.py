"""Every second element of a register tile: two shuffles where a permutation of two sources stops multiply-adds."""

from __future__ import annotations

import pytest
from lowered_programs import ONE_CORE, UNROLLED, VECTORIZED, WIDE, alloc, check, function, get, loop, put
from processors import runnable

from pegbox.codegen import Target, emit
from pegbox.expr.nodes import Buffer
from pegbox.loops.nodes import Function, seq

INTEL = Target("llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=skylake-avx512 -num-cores 1")
AVX2 = Target("llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=znver3 -num-cores 1")
ZEN_4 = pytest.param(WIDE, marks=pytest.mark.skipif("znver4" not in runnable(), reason="runs no code for a Zen 4"))
FENCE = "call <16 x float> @llvm.arithmetic.fence"


def two_phases(lanes: int = 16, *, stride: int = 2, dtype: str = "float32") -> Function:
    """Make c[p, x] = t[stride * x + p], where the tile t = a + 1 has whole vectors."""
    size = stride * lanes
    a, c, t = Buffer("a", (size,), dtype), Buffer("c", (stride, lanes), dtype), Buffer("t", (size,), dtype, "local")
    fill = loop(
        "v",
        stride,
        lambda v: loop("x", lanes, lambda x: put(t, v * lanes + x, get(a, v * lanes + x) + 1), VECTORIZED),
        UNROLLED,
    )
    out = loop(
        "p",
        stride,
        lambda p: loop("x", lanes, lambda x: put(c, p, x, get(t, x * stride + p)), VECTORIZED),
        UNROLLED,
    )
    return function([a, c], [c], alloc(t, seq(fill, out)))


@pytest.mark.parametrize("target", [ONE_CORE, ZEN_4], ids=["default", "Zen 4"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32"])
@pytest.mark.parametrize("lanes", [2, 4, 8, 16])
def test_they_are_those_of_the_tile(lanes: int, dtype: str, target: Target) -> None:
    check(two_phases(lanes, dtype=dtype), target)


def test_on_a_zen_4_two_shuffles_pick_them() -> None:
    assert emit(two_phases(), WIDE).ll.count(FENCE) == 4


@pytest.mark.optimizer
def test_no_permutation_of_two_sources_is_left() -> None:
    from pegbox.codegen.runtime.machine import assembly

    text = assembly(emit(two_phases(), WIDE))
    assert "vpermt2" not in text
    assert "vshufps" in text


@pytest.mark.parametrize(
    ("func", "target"),
    [
        (two_phases(), INTEL),
        (two_phases(), AVX2),
        (two_phases(stride=3), WIDE),
        (two_phases(dtype="int32"), WIDE),
        (two_phases(4), WIDE),
    ],
    ids=["Intel", "AVX2", "every third", "integers", "a single block"],
)
def test_elsewhere_llvm_chooses(func: Function, target: Target) -> None:
    assert "arithmetic.fence" not in emit(func, target).ll
