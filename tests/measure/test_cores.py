from __future__ import annotations

import os

import pytest

from pegbox.codegen.targets import cores
from pegbox.codegen.targets.cores import usable_cores
from pegbox.measure.machine.cores import CorePlan
from pegbox.workers.affinity import confined


def test_a_plan_keeps_to_the_mask_and_times_apart_from_building() -> None:
    mask = set(usable_cores())
    plan = CorePlan.detect()
    assert set(plan.every) == mask
    assert set(plan.timing) <= mask
    assert set(plan.building) <= mask
    assert plan.overlap == (len(mask) > 1)
    if plan.overlap:
        assert not set(plan.timing) & set(plan.building)


def test_the_timing_core_builds_where_few_others_do_and_only_then() -> None:
    assert CorePlan((1,), (0,), (0, 1), overlap=True).shared == (1,)
    assert CorePlan((9,), tuple(range(9)), tuple(range(10)), overlap=True).shared == ()
    assert CorePlan((1,), (0, 1), (0, 1), overlap=False).shared == ()


def test_one_core_does_everything_in_turn() -> None:
    core = usable_cores()[0]
    with confined([core]):
        plan = CorePlan.detect()
    assert plan == CorePlan((core,), (core,), (core,), overlap=False)
    assert plan.silent(1)


def test_a_candidate_of_several_threads_has_all_cores_and_silence() -> None:
    plan = CorePlan.detect(threads=2)
    assert plan.every == plan.building
    assert plan.running(len(plan.every)) == plan.every
    assert len(plan.running(1)) == 1
    assert plan.silent(2)
    assert CorePlan.detect().silent(2)


def test_confinement_ends_with_the_block() -> None:
    before = os.sched_getaffinity(0)
    with confined([min(before)]):
        assert os.sched_getaffinity(0) == {min(before)}
    assert os.sched_getaffinity(0) == before


def test_a_candidate_gets_as_many_cores_as_threads_and_hyperthreads_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cores, "siblings", lambda core: frozenset({core % 4, core % 4 + 4}))
    plan = CorePlan((), (), tuple(range(8)), overlap=False)
    assert [set(plan.running(threads)) for threads in (2, 4, 6, 8)] == [
        {0, 1}, {0, 1, 2, 3}, {0, 1, 2, 3, 4, 5}, set(range(8))
    ]  # fmt: skip
    assert set(CorePlan((), (), (2, 5, 6), overlap=False).running(2)) == {2, 5}
    assert plan.running(16) == tuple(range(8))
