"""TESchedule.copy: a schedule that says the same, and goes on by itself."""

from __future__ import annotations

from te_values import matmul, stages

import pegbox as pb
from pegbox import te
from pegbox.schedule.te.stage import At


def test_te_a_copy_makes_the_same_program_and_changes_alone() -> None:
    a, b, c = matmul(8, 8, 8)
    s = te.create_schedule(c.op)
    cached = s.cache_write(c, "local")
    i, j = s[c].op.axis
    outer, inner = s[c].split(i, factor=4)
    s[cached].compute_at(s[c], outer)
    s[c].pragma(outer, "auto_unroll_max_step", 16)
    before = str(pb.lower(s, [a, b, c], simple_mode=True))
    other = s.copy()
    assert str(pb.lower(other, [a, b, c], simple_mode=True)) == before
    assert isinstance(other[cached].attach, At)
    assert other[cached].attach.stage is other[c] is not s[c]
    other[c].pragma(outer, "auto_unroll_max_step", 64)
    other[c].vectorize(j)
    other[cached].unroll(other[cached].op.reduce_axis[0])
    other[c].reorder(inner, outer)
    other.cache_read(a, "local", [cached])
    other[cached].compute_root()
    assert str(pb.lower(s, [a, b, c], simple_mode=True)) == before
    s[c].unroll(inner)
    assert inner not in other[c].iter_var_attrs


def test_te_groups_are_copied_with_their_places() -> None:
    a, _, c, d = stages()
    s = te.create_schedule(d.op)
    group = s.create_group([c], [a])
    group.compute_at(s[d], s[d].op.axis[0])
    before = str(pb.lower(s, [a, d], simple_mode=True))
    other = s.copy()
    group.compute_root()
    copied = other[c].group
    assert copied is not None
    assert copied is not group
    assert copied.stages == [other[stage.op] for stage in group.stages]
    assert other[c].place.stage is other[d]  # type: ignore[union-attr]
    assert str(pb.lower(other, [a, d], simple_mode=True)) == before != str(pb.lower(s, [a, d], simple_mode=True))
