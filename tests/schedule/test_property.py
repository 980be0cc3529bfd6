"""Whatever primitives are applied: a step is refused, or the result stays what it was."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pegbox.errors import ScheduleError
from pegbox.schedule import LoopRef, Schedule, Trace

Choose = Callable[[int], int]


def _block(sch: Schedule, choose: Choose) -> str:
    blocks = sch.get_blocks()
    return blocks[choose(len(blocks))].name


def _loops(sch: Schedule, choose: Choose) -> tuple[LoopRef, ...]:
    return sch.get_loops(_block(sch, choose))


def _loop(sch: Schedule, choose: Choose) -> LoopRef:
    loops = _loops(sch, choose)
    return loops[choose(len(loops))]


def _shuffled(items: list[Any], choose: Choose) -> list[Any]:
    rest = list(items)
    return [rest.pop(choose(len(rest))) for _ in items]


def _split(sch: Schedule, choose: Choose) -> None:
    factors: list[int | None] = [1 + choose(4) for _ in range(1 + choose(2))]
    factors.insert(choose(len(factors) + 1), None)
    sch.split(_loop(sch, choose), factors)


def _fuse(sch: Schedule, choose: Choose) -> None:
    loops = _loops(sch, choose)
    start = choose(len(loops))
    sch.fuse(*loops[start : start + 2 + choose(2)])


def _reorder(sch: Schedule, choose: Choose) -> None:
    loops = list(_loops(sch, choose))
    start = choose(len(loops))
    sch.reorder(*_shuffled(loops[start : start + 2 + choose(3)], choose))


def _decompose(sch: Schedule, choose: Choose) -> None:
    block = _block(sch, choose)
    loops = sch.get_loops(block)
    sch.decompose_reduction(block, loops[choose(len(loops))])


def _compute_at(sch: Schedule, choose: Choose) -> None:
    """At a loop of a consumer, where it is mostly legal."""
    block = _block(sch, choose)
    near = [loop for consumer in sch.get_consumers(block) for loop in sch.get_loops(consumer)]
    sch.compute_at(block, near[choose(len(near))] if near else _loop(sch, choose))


def _reverse_compute_at(sch: Schedule, choose: Choose) -> None:
    block = _block(sch, choose)
    near = [loop for producer in sch.get_producers(block) for loop in sch.get_loops(producer)]
    sch.reverse_compute_at(block, near[choose(len(near))] if near else _loop(sch, choose))


STEPS: list[Callable[[Schedule, Choose], object]] = [
    _split, _split, _fuse, _reorder, _reorder, _decompose, _compute_at, _compute_at, _compute_at, _reverse_compute_at,
    _reverse_compute_at,
    lambda s, c: s.vectorize(_loop(s, c)),
    lambda s, c: s.parallel(_loop(s, c)),
    lambda s, c: s.unroll(_loop(s, c)),
    lambda s, c: s.pragma(_loop(s, c), "auto_unroll_max_step", c(64)),
    lambda s, c: s.compute_at(_block(s, c), _loop(s, c)),
    lambda s, c: s.reverse_compute_at(_block(s, c), _loop(s, c)),
    lambda s, c: s.compute_inline(_block(s, c)),
    lambda s, c: s.cache_read(_block(s, c), c(2), "local"),
    lambda s, c: s.cache_write(_block(s, c), 0, "local"),
]  # fmt: skip


def scheduled(args: Any, choose: Choose, steps: int) -> Schedule:
    """A schedule after a number of random steps; those that are refused leave no mark."""
    sch = Schedule(args)
    for _ in range(steps):
        before = sch.func
        try:
            STEPS[choose(len(STEPS))](sch, choose)
        except ScheduleError:
            assert sch.func is before
    return sch


@pytest.mark.parametrize("which", range(7))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_sequence_of_primitives_keeps_the_values(which: int, data: Any, programs: Any, check_values: Any) -> None:
    args, reference = programs.all[which]()
    sch = scheduled(args, lambda n: data.draw(st.integers(0, n - 1)), 14)
    check_values(sch, reference)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), which=st.integers(0, 6))
def test_a_trace_that_went_through_json_makes_the_same_program(data: Any, which: int, programs: Any) -> None:
    args, _ = programs.all[which]()
    sch = scheduled(args, lambda n: data.draw(st.integers(0, n - 1)), 14)
    again = Trace.from_json(sch.trace.to_json()).apply(Schedule(args))
    assert str(again) == str(sch)
    assert again.trace == sch.trace
