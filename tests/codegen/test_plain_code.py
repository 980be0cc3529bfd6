"""The helper that compiles most kernels of tests without the optimizer: what it draws, and what it computes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import plain_code
import pytest
from lowered_programs import ONE_CORE, PARALLEL, TWO_CORES, VECTORIZED, elementwise, run

from pegbox.codegen import Program, Target, build, compile_program, emit, load
from pegbox.loops.nodes import ForKind


def program(size: int) -> Program:
    return emit(elementwise("int32", lambda x, y: x * y - x, size=size, kind=VECTORIZED), ONE_CORE)


def test_some_programs_are_drawn_for_the_optimizer_and_most_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_code, "_OPTIMIZED", 4)  # whatever PEGBOX_OPTIMIZE says
    drawn = [plain_code.is_drawn(program(size)) for size in range(1, 101)]
    assert 5 < sum(drawn) < 50


@pytest.mark.parametrize(("kind", "target"), [(VECTORIZED, ONE_CORE), (PARALLEL, TWO_CORES)])
def test_kernels_that_differ_in_their_names_are_drawn_together(kind: ForKind, target: Target) -> None:
    function = elementwise("float32", lambda x, y: x * y - x, kind=kind)
    texts = [plain_code.unnamed(emit(replace(function, name=name), target)) for name in ("x", "kernel", "clock", "a_b")]
    assert len(set(texts)) == 1


@pytest.mark.parametrize("size", [1, 16, 37])
def test_code_as_emitted_computes_what_optimized_code_does(size: int) -> None:
    rng = np.random.default_rng(0)
    arrays = {name: rng.integers(-100, 101, size, dtype=np.int32) for name in "ab"}
    (plain,) = run(load(plain_code.unoptimized(program(size))), arrays)
    (drawn,) = run(build(program(size)), arrays)
    np.testing.assert_array_equal(plain, arrays["a"] * arrays["b"] - arrays["a"])
    np.testing.assert_array_equal(drawn, plain)


@pytest.mark.optimizer
def test_a_marked_test_gets_the_optimizer_always() -> None:
    sizes = [size for size in range(30, 60) if not plain_code.is_drawn(program(size))][:3]
    for size in sizes:
        assert compile_program(program(size)).object_code != plain_code.unoptimized(program(size)).object_code
