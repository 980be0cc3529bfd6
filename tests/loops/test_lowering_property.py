"""Whatever a TE schedule says, the lowered program computes what the NumPy reference computes.

PEGBOX_FUZZ=1000 tries that many random schedules of each kind of graph instead of the usual few.
"""

from __future__ import annotations

import importlib.util
import os
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fuzz.steps import scheduled
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lowered_interpreter import POISON_INT, run_on
from random_graphs import KINDS, graphs
from random_schedules import schedule

from pegbox.compute.reference import evaluate
from pegbox.errors import ScheduleError
from pegbox.loops.passes import lower_function
from pegbox.schedule.te_replay import lower_te

FUZZ = int(os.environ.get("PEGBOX_FUZZ", "0"))
TRIES = settings(
    max_examples=FUZZ or 60,
    derandomize=not FUZZ,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)


@pytest.mark.parametrize("kind", KINDS)
def test_a_random_schedule_keeps_the_values(kind: str) -> None:
    counts = {"run": 0, "refused": 0}

    @TRIES
    @given(data=st.data())
    def check(data: Any) -> None:
        graph = data.draw(graphs(kind))
        log: list[str] = []
        try:
            program = lower_te(schedule(data.draw, graph.outputs, log), graph.tensors)
        except ScheduleError:
            counts["refused"] += 1
            return
        counts["run"] += 1
        func = lower_function(program)
        inputs = graph.inputs()
        expected = evaluate(graph.outputs, inputs)
        # Integers have no NaN: two kinds of poison, so that neither a wrong value nor a division by zero hides.
        for poison in (POISON_INT, 0):
            for got, want in zip(run_on(func, graph.tensors, inputs, poison=poison), expected, strict=True):
                close = np.array_equal(got, want) if graph.exact else np.allclose(got, want)
                assert close, "\n".join([*log, str(func), f"got {got}", f"expected {want}"])

    check()
    # Refusals are answers too, but a test in which nothing runs would say nothing.
    assert counts["run"] > counts["refused"]


def _module(name: str) -> Any:
    """A module of the tests of schedules, which has random sequences of primitives already."""
    path = Path(__file__).parents[1] / "schedule" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"schedule_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("program", ["matmul_relu", "packed_matmul", "conv", "chain", "rows", "argmax"])
def test_any_sequence_of_primitives_lowers_to_the_same_values(program: str) -> None:
    make, random_steps = getattr(_module("conftest"), program), scheduled

    @TRIES
    @given(seed=st.integers(0, 2**32))
    def check(seed: int) -> None:
        args, reference = make()
        choose = random.Random(seed)
        sch = random_steps(args, lambda n: choose.randrange(n), 14)
        func = lower_function(sch.func)
        rng = np.random.default_rng(0)
        inputs = {t: rng.integers(-5, 6, t.shape).astype(t.dtype) for t in args if t.buffer not in func.outputs}
        for got, want in zip(run_on(func, args, inputs), reference(*inputs.values()), strict=True):
            np.testing.assert_array_equal(got, want, err_msg=f"{sch.trace}\n{func}")

    check()
