from __future__ import annotations

import os

from pegbox.codegen.targets.host import usable_cores
from pegbox.measure.cores import CorePlan, confined


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
    assert plan.running(2) == plan.every == plan.building
    assert len(plan.running(1)) == 1
    assert plan.silent(2)
    assert CorePlan.detect().silent(2)


def test_confinement_ends_with_the_block() -> None:
    before = os.sched_getaffinity(0)
    with confined([min(before)]):
        assert os.sched_getaffinity(0) == {min(before)}
    assert os.sched_getaffinity(0) == before
