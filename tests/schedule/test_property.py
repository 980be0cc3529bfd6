"""Whatever primitives are applied: a step is refused, or the result stays what it was."""

from __future__ import annotations

from typing import Any

import pytest
from fuzz.steps import scheduled  # the list STEPS of random primitives lives in tests/helpers/fuzz/steps.py
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pegbox.schedule import Schedule, Trace


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
