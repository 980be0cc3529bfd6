"""The seam between knobs and schedules: `cfg["tile"].apply(s, C, y)` in both schedule languages."""

from __future__ import annotations

import math
from typing import Any

import pytest

from pegbox import te, tir
from pegbox.errors import TemplateError
from pegbox.schedule.te.replay import replay
from pegbox.space import ConfigSpace
from pegbox.space.entities import AnnotateEntity, OtherEntity, ReorderEntity, SplitEntity
from pegbox.task.apply import handle


def grid() -> tuple[Any, Any, Any]:
    a = te.placeholder((12, 20), name="A")
    b = te.compute((12, 20), lambda i, j: a[i, j] + 1, "B")
    return a, b, te.create_schedule(b)


SIZES = [(-1, 4), (-1, 2, 3), (-1, 1, 5, 2), (-1,), (-1, 7), (3, 4), (-1, 100)]


@pytest.mark.parametrize("sizes", SIZES)
def test_a_split_gives_one_loop_an_output_in_te(sizes: tuple[int, ...]) -> None:
    a, b, s = grid()
    loops = handle(SplitEntity(sizes)).apply(s, b, b.op.axis[0])
    assert len(loops) == len(sizes)
    assert s[b].leaf_iter_vars == [*loops, b.op.axis[1]]
    assert math.prod(loop.extent for loop in loops) >= 12
    inner = [loop.extent for loop in loops[1:]]
    assert inner == list(sizes[1:]) or sizes == (-1, 100)
    del a


@pytest.mark.parametrize("sizes", SIZES)
def test_a_split_gives_one_loop_an_output_in_tir(sizes: tuple[int, ...]) -> None:
    a, b, _ = grid()
    sch = tir.Schedule([a, b])
    i, _ = sch.get_loops("B")
    loops = handle(SplitEntity(sizes)).apply(sch, None, i)
    assert list(sch.get_loops("B")[:-1]) == loops
    assert [sch.extent(loop) for loop in loops[1:]] == list(sizes[1:])


def test_a_split_does_the_same_in_both_languages() -> None:
    for sizes in ((-1, 2, 3), (-1, 5, 2)):
        a, b, s = grid()
        handle(SplitEntity(sizes)).apply(s, b, b.op.axis[1])
        sch = tir.Schedule([a, b])
        handle(SplitEntity(sizes)).apply(sch, b, sch.get_loops("B")[1])
        te_extents = [x.extent for x in s[b].leaf_iter_vars]
        assert [sch.extent(x) for x in sch.get_loops("B")] == te_extents
        again = replay(s, [a, b])
        assert [again.extent(x) for x in again.get_loops("B")] == te_extents


@pytest.mark.parametrize("language", ["te", "tir"])
def test_a_reorder_puts_the_loops_in_its_order(language: str) -> None:
    a, b, s = grid()
    entity = handle(ReorderEntity((2, 0, 1)))
    if language == "te":
        jo, ji = s[b].split(b.op.axis[1], factor=5)
        ordered = entity.apply(s, b, [b.op.axis[0], jo, ji])
        assert ordered == s[b].leaf_iter_vars == [ji, b.op.axis[0], jo]
    else:
        sch = tir.Schedule([a, b])
        i, j = sch.get_loops("B")
        jo, ji = sch.split(j, factor=5)
        assert entity.apply(sch, None, [i, jo, ji]) == [ji, i, jo] == list(sch.get_loops("B"))


@pytest.mark.parametrize("language", ["te", "tir"])
def test_annotations_reach_their_loops(language: str) -> None:
    a, b, s = grid()
    entity = handle(AnnotateEntity(("unroll", "vec")))
    if language == "te":
        assert entity.apply(s, b, list(b.op.axis)) == list(b.op.axis)
        kinds = [str(s[b].kinds[axis]) for axis in b.op.axis]
    else:
        sch = tir.Schedule([a, b])
        entity.apply(sch, None, list(sch.get_loops("B")))
        kinds = [line.split()[3] for line in str(sch).splitlines() if line.strip().startswith("for")]
    assert kinds == ["unrolled", "vectorized"]


def test_none_annotates_nothing() -> None:
    _, b, s = grid()
    handle(AnnotateEntity(("none", "none"))).apply(s, b, list(b.op.axis))
    assert s[b].kinds == {}


def test_other_numbers_of_loops_than_declared_are_refused() -> None:
    _, b, s = grid()
    with pytest.raises(TemplateError, match="reorder knob of 3 axes applied to 2 loops"):
        handle(ReorderEntity((0, 1, 2))).apply(s, b, list(b.op.axis))
    with pytest.raises(TemplateError, match="annotate knob of 1 axes applied to 2 loops"):
        handle(AnnotateEntity(("vec",))).apply(s, b, list(b.op.axis))


def test_the_limits_of_annotations_are_arguments_with_names() -> None:
    _, b, s = grid()
    axes = list(b.op.axis)
    annotations = handle(AnnotateEntity(("none", "unroll")))
    for source in (None, [[]]):
        with pytest.raises(TypeError, match=r"AnnotateHandle\.apply\(\) got an unexpected keyword.* 'max_unrol'"):
            annotations.apply(s, b, axes, source=source, max_unrol=4)
    with pytest.raises(TemplateError, match=r"need axis_lens= \(the extents of the loops\) and cfg="):
        annotations.apply(s, b, axes, max_unroll=4)


@pytest.mark.parametrize("annotation", ["warp", 3])
def test_unknown_annotations_are_refused(annotation: Any) -> None:
    _, b, s = grid()
    with pytest.raises(TemplateError, match=r"annotation .*: apply\(\) takes none, unroll, vec, parallel, fuse and"):
        handle(AnnotateEntity((annotation,))).apply(s, b, [b.op.axis[0]])


@pytest.mark.parametrize("mark", ["parallel", "vthread", "threadIdx.x"])
def test_loops_are_parallel_or_bound_to_thread_axes(mark: str) -> None:
    a, b, s = grid()
    entity = handle(AnnotateEntity((mark, "none")))
    entity.apply(s, b, list(b.op.axis))
    sch = tir.Schedule([a, b])
    entity.apply(sch, None, list(sch.get_loops("B")))
    assert mark in str(sch.func)
    assert str(replay(s, [a, b]).func) == str(sch.func)


def test_fuse_fuses_a_loop_with_the_next_one_inside() -> None:
    _, b, s = grid()
    outer, inner = handle(AnnotateEntity(("fuse", "vec"))).apply(s, b, list(b.op.axis))
    assert outer is b.op.axis[0]
    assert (inner.extent, s[b].leaf_iter_vars) == (240, [inner])
    with pytest.raises(TemplateError, match="'fuse' on the innermost loop"):
        handle(AnnotateEntity(("fuse",))).apply(s, b, [inner])


class Refused:
    """Notes why a configuration is refused."""

    def __init__(self) -> None:
        self.reasons: list[str] = []

    def raise_error(self, message: str) -> None:
        self.reasons.append(message)


@pytest.mark.parametrize(
    ("marks", "reasons"),
    [
        (("unroll", "none"), []),
        (("none", "unroll"), ["a loop of 20 is unrolled, more than max_unroll=16"]),
        (("none", "vec"), ["a loop of 20 is vectorized, which is not one of vec_size=[4, 12]"]),
        (("vec", "unroll"), ["a loop of 20 is unrolled, more than max_unroll=16"]),
    ],
)
def test_loops_that_are_too_long_refuse_the_configuration(marks: tuple[str, ...], reasons: list[str]) -> None:
    _, b, s = grid()
    cfg = Refused()
    axes = list(b.op.axis)
    handle(AnnotateEntity(marks)).apply(s, b, axes, axis_lens=[12, 20], max_unroll=16, vec_size=[4, 12], cfg=cfg)
    assert cfg.reasons == reasons


def test_limits_of_loops_need_their_extents_and_the_configuration() -> None:
    _, b, s = grid()
    with pytest.raises(TemplateError, match=r"need axis_lens= .* and cfg="):
        handle(AnnotateEntity(("vec", "none"))).apply(s, b, list(b.op.axis), vec_size=[4])


def test_caches_are_computed_at_the_chosen_loops() -> None:
    a = te.placeholder((12, 20), name="A")
    b = te.compute((12, 20), lambda i, j: a[i, j] + 1, "B")
    c = te.compute((12, 20), lambda i, j: b[i, j] * 2, "C")
    s = te.create_schedule(c)
    axes = list(c.op.axis)
    assert handle(AnnotateEntity((1,))).apply(s, c, axes, source=[[b]]) == axes
    sch = replay(s, [a, c])
    assert [sch.extent(loop) for loop in sch.get_loops("B")][:2] == [12, 20]
    with pytest.raises(TemplateError, match="for each of the 1 chosen loops"):
        handle(AnnotateEntity((1,))).apply(s, c, axes, source=[[b], [b]])


def test_a_handle_shows_the_entity_and_has_all_that_it_has() -> None:
    split = handle(SplitEntity((-1, 4)))
    assert (split.size, split.tag, repr(split)) == ([-1, 4], "sp", "[-1, 4]")
    assert handle(ReorderEntity((1, 0))).perm == [1, 0]
    assert handle(AnnotateEntity(("vec",))).anns == ["vec"]
    with pytest.raises(AttributeError, match="perm"):
        _ = split.perm


def test_plain_values_need_no_handle() -> None:
    entity = OtherEntity("5", 5)
    assert handle(entity) is entity
    assert not hasattr(handle(entity), "apply")
    with pytest.raises(TypeError, match="unknown entity 5"):
        handle(5)


def test_every_entity_of_a_space_has_a_handle() -> None:
    space = ConfigSpace()
    space.define_split("split", 12, num_outputs=3)
    space.define_knob("knob", [1, "two", None])
    space.define_reorder("order", ["y", "x"], policy="all")
    space.define_annotate("ann", ["y", "x"], policy="try_unroll_vec")
    for knob in space.knobs.values():
        for entity in knob.entities:
            assert hasattr(handle(entity), "apply") is (knob.name != "knob")
