"""Whatever primitives are applied: a step is refused, or the result stays what it was."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from fuzz.steps import scheduled  # the list STEPS of random primitives lives in tests/helpers/fuzz/steps.py
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lowered_interpreter import run_on

from pegbox.loops.passes import lower_function
from pegbox.schedule import Schedule, Trace


@pytest.mark.parametrize("which", range(7))
def test_any_sequence_of_primitives_keeps_the_values_and_lowers_to_them(
    which: int, programs: Any, check_values: Any
) -> None:
    for seed in range(24):
        args, reference = programs.all[which]()
        sch = scheduled(args, random.Random(seed).randrange, 14)
        if seed % 2:  # the scheduled program itself
            check_values(sch, reference)
        func = lower_function(sch.func)
        rng = np.random.default_rng(0)
        inputs = {t: rng.integers(-5, 6, t.shape).astype(t.dtype) for t in args if t.buffer not in func.outputs}
        for got, want in zip(run_on(func, args, inputs), reference(*inputs.values()), strict=True):
            np.testing.assert_array_equal(got, want, err_msg=f"{sch.trace}\n{func}")


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), which=st.integers(0, 6))
def test_a_trace_that_went_through_json_makes_the_same_program(data: Any, which: int, programs: Any) -> None:
    args, _ = programs.all[which]()
    sch = scheduled(args, lambda n: data.draw(st.integers(0, n - 1)), 14)
    again = Trace.from_json(sch.trace.to_json()).apply(Schedule(args))
    assert str(again) == str(sch)
    assert again.trace == sch.trace


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), which=st.integers(0, 6))
def test_a_trace_that_is_pasted_makes_the_same_program(data: Any, which: int, programs: Any) -> None:
    args, _ = programs.all[which]()
    sch = scheduled(args, lambda n: data.draw(st.integers(0, n - 1)), 14)
    pasted, short = Schedule(args), Schedule(args)
    exec(str(sch.trace), {"sch": pasted})
    exec(str(sch.trace.simplified()), {"sch": short})
    assert str(pasted) == str(short) == str(sch)
