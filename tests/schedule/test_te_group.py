"""create_group: stages that are placed together."""

from __future__ import annotations

from typing import Any

import pytest
from te_values import check_values, matmul, stages

import pegbox as pb
from pegbox import te
from pegbox.errors import ScheduleError


def names(group: Any) -> list[str]:
    return [stage.op.name for stage in group.stages]


def test_te_a_group_goes_into_a_loop_together(golden: Any) -> None:
    a, b, c, d = stages()
    s = te.create_schedule(d.op)
    group = s.create_group(outputs=c, inputs=a, include_inputs=False)
    assert names(group) == ["B", "C"]
    group.compute_at(s[d], s[d].op.axis[0])
    golden(pb.lower(s, [a, d], simple_mode=True))
    check_values(s, [a, d])
    assert b.name == "B"


def test_te_the_loop_of_a_group_may_be_split_afterwards() -> None:
    a, _, c, d = stages()
    s = te.create_schedule(d.op)
    group = s.create_group([c], [a])
    outer, inner = s[d].split(s[d].op.axis[0], factor=4)
    group.compute_at(s[d], outer)
    s[d].reorder(outer, s[d].op.axis[1], inner)
    assert next(x[0] for x in pb.lower(s, [a, d], simple_mode=True).loops("B")) == "i.outer"
    check_values(s, [a, d])


def test_te_inputs_may_belong_to_the_group() -> None:
    _, b, c, d = stages()
    s = te.create_schedule(d.op)
    assert names(s.create_group(c, b)) == ["C"]
    s = te.create_schedule(d.op)
    assert names(s.create_group(c, b, include_inputs=True)) == ["B", "C"]


def test_te_stages_that_need_no_input_stay_outside() -> None:
    a, w = te.placeholder((4,), name="A"), te.placeholder((4,), name="W")
    b = te.compute((4,), lambda i: a[i] + 1, "B")
    v = te.compute((4,), lambda i: w[i] * 2, "V")
    c = te.compute((4,), lambda i: b[i] * v[i], "C")
    d = te.compute((4,), lambda i: c[i] + 1, "D")
    s = te.create_schedule(d.op)
    assert names(s.create_group(c, a)) == ["B", "C"]


def test_te_a_stage_keeps_a_place_of_its_own() -> None:
    a, b, c, d = stages()
    s = te.create_schedule(d.op)
    group = s.create_group(c, a)
    s[b].compute_inline()
    group.compute_at(s[d], s[d].op.axis[1])
    lowered = pb.lower(s, [a, d], simple_mode=True)
    assert list(lowered.allocations) == ["C"]
    check_values(s, [a, d])
    s[b].compute_root()
    assert next(iter(pb.lower(s, [a, d], simple_mode=True).loops("B")))[0] == "i"
    check_values(s, [a, d])


def test_te_a_group_goes_back_to_the_root() -> None:
    a, _, c, d = stages()
    s = te.create_schedule(d.op)
    plain = str(pb.lower(s, [a, d], simple_mode=True))
    group = s.create_group(c, a)
    group.compute_at(s[d], s[d].op.axis[0])
    assert str(pb.lower(s, [a, d], simple_mode=True)) != plain
    group.compute_root()
    assert str(pb.lower(s, [a, d], simple_mode=True)) == plain


def test_te_groups_inside_of_groups() -> None:
    a, b, c, d = stages()
    s = te.create_schedule(d.op)
    outer = s.create_group(c, a)
    inner = s.create_group(b, a)
    outer.compute_at(s[d], s[d].op.axis[0])
    check_values(s, [a, d])
    inner.compute_at(s[c], s[c].op.axis[0])
    check_values(s, [a, d])
    assert repr(inner) == "Group(B)"


def test_te_stages_that_rewrites_make_join_the_group() -> None:
    a = te.placeholder((6, 40), name="A")
    k = te.reduce_axis((0, 40), "k")
    b = te.compute((6,), lambda i: te.sum(a[i, k], axis=k), "B")
    c = te.compute((6,), lambda i: b[i] + 1, "C")
    s = te.create_schedule(c.op)
    group = s.create_group(b, a)
    s.rfactor(b, s[b].split(k, factor=16)[1])
    group.compute_at(s[c], s[c].op.axis[0])
    lowered = pb.lower(s, [a, c], simple_mode=True)
    assert lowered.allocations["B.rf"][0] == (16, 1)
    check_values(s, [a, c])


def test_te_group_refuses_tensors_of_other_schedules() -> None:
    a, _, c, d = stages()
    s = te.create_schedule(d.op)
    with pytest.raises(ScheduleError, match="C is not a stage of this schedule"):
        s.create_group(matmul()[2], a)
    with pytest.raises(ScheduleError, match="A is not a stage of this schedule"):
        s.create_group(c, matmul()[0])
    with pytest.raises(ScheduleError, match="A is a placeholder"):
        s.create_group(a, a)


def test_te_group_refuses_an_empty_way() -> None:
    _, b, c, d = stages()
    s = te.create_schedule(d.op)
    with pytest.raises(ScheduleError, match=r"create_group\(B, C\): no stage lies between"):
        s.create_group(b, c)
    with pytest.raises(ScheduleError, match="no stage lies between"):
        s.create_group(b, b)
    assert all(stage.group is None for stage in s.stages)


def test_te_group_refuses_stages_of_another_group() -> None:
    a, b, c, d = stages()
    s = te.create_schedule(d.op)
    group = s.create_group(c, a)
    with pytest.raises(ScheduleError, match=r"C belong\(s\) to another group, the rest does not"):
        s.create_group(d, b)
    assert s[d].group is None
    assert s[c].group is s[b].group is group


def test_te_a_group_comes_into_a_later_one_around_it() -> None:
    a, b, c, d = stages()
    s = te.create_schedule(d.op)
    inner = s.create_group(b, a)
    outer = s.create_group(c, a)
    assert s[b].group is inner
    assert s[c].group is inner.group is outer
    outer.compute_at(s[d], s[d].op.axis[0])
    inner.compute_at(s[c], s[c].op.axis[1])
    program = pb.lower(s, [a, d], simple_mode=True)
    assert program.loops("B")[:1] == program.loops("C")[:1] == program.loops("D")[:1]
    check_values(s, [a, d])


def test_te_group_refuses_places_that_are_none() -> None:
    a, b, c, d = stages()
    s = te.create_schedule(d.op)
    group = s.create_group(c, a)
    with pytest.raises(ScheduleError, match=r"compute_at\(C, i\) of Group\(B, C\): C belongs to the group"):
        group.compute_at(s[c], s[c].op.axis[0])
    with pytest.raises(ScheduleError, match="i is not a loop of this stage; the loops of D are i, j"):
        group.compute_at(s[d], s[b].op.axis[0])
    whole = te.create_schedule([d.op, c.op])
    with pytest.raises(ScheduleError, match="C is an output and stays at the root"):
        whole.create_group(c, b).compute_at(whole[d], whole[d].op.axis[0])
