"""Sums of half a vector: registers of that length hold them if they are set and read in halves."""

from __future__ import annotations

import re

import pytest
from lowered_programs import UNROLLED, VECTORIZED, alloc, check, function, get, loop, put

from pegbox.codegen import Target, emit
from pegbox.expr.nodes import Buffer, Expr
from pegbox.loops.nodes import Function, seq

AVX512 = Target("llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=x86-64-v4 -num-cores 1")
ROWS, STEPS, LANES = 3, 5, 16


def sums(last: int) -> Function:
    """Make c[y] = Σ a[k, y], where only `last` elements of the last row are summed up, and stored."""
    a, c = Buffer("a", (STEPS, ROWS * LANES), "float32"), Buffer("c", ((ROWS - 1) * LANES + last,), "float32")
    t = Buffer("t", (ROWS, LANES), "float32")

    def add(k: Expr, y: Expr | int, x: Expr) -> object:
        return put(t, y, x, get(t, y, x) + get(a, k, y * LANES + x))

    fill = loop("y", ROWS, lambda y: loop("x", LANES, lambda x: put(t, y, x, 0.0), VECTORIZED), UNROLLED)
    step = loop(
        "k",
        STEPS,
        lambda k: seq(
            loop("y", ROWS - 1, lambda y: loop("x", LANES, lambda x: add(k, y, x), VECTORIZED), UNROLLED),
            loop("x", last, lambda x: add(k, ROWS - 1, x), VECTORIZED),
        ),
    )
    out = seq(
        loop(
            "y",
            ROWS - 1,
            lambda y: loop("x", LANES, lambda x: put(c, y * LANES + x, get(t, y, x)), VECTORIZED),
            UNROLLED,
        ),
        loop("x", last, lambda x: put(c, (ROWS - 1) * LANES + x, get(t, ROWS - 1, x)), VECTORIZED),
    )
    return function([a, c], [c], alloc(t, seq(fill, step, out)))


@pytest.mark.parametrize("last", [3, 8, 12, 16])
def test_sums_have_their_values(last: int) -> None:
    check(sums(last))


@pytest.mark.parametrize(("last", "set_at_once"), [(8, 8), (16, 16), (4, 16)])
def test_sums_of_half_vectors_are_set_in_halves(last: int, set_at_once: int) -> None:
    zeros = re.findall(r"store <(\d+) x float> splat", emit(sums(last), AVX512).ll)
    assert zeros == [str(set_at_once)] * (ROWS * LANES // set_at_once)
