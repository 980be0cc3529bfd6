"""The reach and the movement of indices, against trying all iterations."""

from __future__ import annotations

import itertools

from hypothesis import assume, given
from hypothesis import strategies as st

from pegbox.features.index import Loop, Sum, digit, fixed, loops_in, reach, step

LOOPS = [Loop("i", 3), Loop("j", 4), Loop("k", 2)]


def value(index: Sum, at: dict[Loop, int]) -> int:
    total = index.const
    for atom, coefficient in index.terms:
        if isinstance(atom, Loop):
            total += coefficient * at[atom]
        else:
            inner = value(atom.value, at)  # type: ignore[union-attr]
            part = inner // atom.divisor if atom.op == "floordiv" else inner % atom.divisor  # type: ignore[union-attr]
            total += coefficient * part
    return total


def values(index: Sum, running: set[Loop]) -> set[int]:
    ranges = [range(loop.extent) if loop in running else range(1) for loop in LOOPS]
    return {value(index, dict(zip(LOOPS, at, strict=True))) for at in itertools.product(*ranges)}


sums = st.tuples(*[st.integers(0, 6)] * 3).map(
    lambda cs: Sum(tuple((loop, c) for loop, c in zip(LOOPS, cs, strict=True) if c))
)
subsets = st.sets(st.sampled_from(LOOPS))


@given(sums, subsets)
def test_a_sum_reaches_from_its_least_to_its_largest_value(index: Sum, running: set[Loop]) -> None:
    found = values(index, running)
    assert reach(index, running, 99) == max(found) - min(found)


@given(sums, st.integers(1, 9), subsets)
def test_a_quotient_and_a_rest_reach_at_least_as_far_as_they_do(index: Sum, divisor: int, running: set[Loop]) -> None:
    for op in ("floordiv", "floormod"):
        made = digit(op, index, divisor)
        found = values(made, running)
        assert reach(made, running, 99) >= max(found) - min(found)


@given(st.integers(1, 5), st.integers(1, 5), subsets)
def test_tiles_reach_exactly_as_far_as_they_do(inner: int, outer: int, running: set[Loop]) -> None:
    i, j, _ = LOOPS
    # j counts what a tile holds, i the tiles.
    index = Sum(((i, j.extent), (j, 1)))
    assume(inner and outer)
    for op in ("floordiv", "floormod"):
        made = digit(op, index, j.extent)
        found = values(made, running)
        assert reach(made, running, 99) == max(found) - min(found)


@given(sums)
def test_the_step_of_a_loop_is_what_the_value_moves_by(index: Sum) -> None:
    start = dict.fromkeys(LOOPS, 0)
    for loop in LOOPS:
        assert step(index, loop) == value(index, {**start, loop: 1}) - value(index, start)


@given(sums, subsets)
def test_fixed_is_the_value_at_the_first_iteration_of_the_rest(index: Sum, outer: set[Loop]) -> None:
    made = fixed(index, outer)
    assert set(loops_in(made)) <= outer
    at = {loop: 1 if loop in outer else 0 for loop in LOOPS}
    assert value(made, dict.fromkeys(LOOPS, 1)) == value(index, at)
