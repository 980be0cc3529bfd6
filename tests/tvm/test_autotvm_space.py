"""Spaces and values of knobs by AutoTVM's names: what TVM's own tests hold of them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from pegbox import Target
from pegbox.errors import SpaceError, UnknownName
from pegbox.plugins.tvm import autotvm, te
from pegbox.plugins.tvm.autotvm.task.space import (
    AnnotateEntity,
    ConfigSpace,
    Knobs,
    OtherOptionEntity,
    ReorderEntity,
    SplitEntity,
)
from pegbox.schedule.te.replay import replay
from pegbox.task.config_view import TemplateConfig


def declaring(*, is_fallback: bool = False) -> Knobs:
    return Knobs(TemplateConfig(Target.default()), is_fallback=is_fallback)


def made(cfg: Knobs) -> ConfigSpace:
    cfg.close()
    return ConfigSpace(cfg.space)


def product(entity: Any) -> int:
    return int(entity["tile_x"].size[1] * entity["tile_y"].size[1])


def between(low: int, high: int) -> Callable[[Any], bool]:
    return lambda entity: low <= product(entity) < high


def gemm(*, filter_y: Any = None, filter: Any = None) -> ConfigSpace:
    cfg = declaring()
    c = te.compute((128, 128), lambda i, j: i + j, name="C")
    y, x = c.op.axis
    cfg.define_split("tile_y", cfg.axis(y), num_outputs=2, filter=filter_y)
    cfg.define_split("tile_x", cfg.axis(x), num_outputs=2)
    if filter is not None:
        cfg.multi_filter(filter)
    return made(cfg)


@pytest.mark.parametrize(
    ("extent", "policy", "outputs", "count"),
    [
        (256, "factors", 3, 45),
        (256, "power2", 3, 45),
        (256, "verbose", 3, 45),
        (256, "all", 3, 45),
        (224, "factors", 3, 63),
        (224, "power2", 3, 36),
        (224, "verbose", 3, 84),
        (1 << 25, "factors", 4, 3276),
    ],
)
def test_a_split_has_as_many_values_as_in_autotvm(extent: int, policy: str, outputs: int, count: int) -> None:
    cfg = declaring()
    cfg.define_split("tile", cfg.axis(extent), policy=policy, num_outputs=outputs)
    assert len(made(cfg).space_map["tile"]) == count == len(made(cfg))


def test_the_outermost_extent_of_a_candidate_is_inferred() -> None:
    cfg = declaring()
    cfg.define_split("tile", cfg.axis(256), policy="candidate", num_outputs=2, candidate=[[16, 64], [8, 64], [16, 32]])
    assert [entity.size for entity in made(cfg).space_map["tile"].entities] == [[-1, 64], [-1, 32]]
    cfg.define_split("fits", cfg.axis(16), policy="candidate", num_outputs=3, candidate=[[1, 4, 4], [4, 1, 4]])
    assert [entity.size for entity in made(cfg).space_map["fits"].entities] == [[-1, 4, 4], [-1, 1, 4]]


def test_an_axis_of_a_tensor_gives_its_extent() -> None:
    space = gemm()
    assert space.range_length == len(space) == 64
    assert [*space.space_map] == ["tile_y", "tile_x"]
    assert "tile_y" in str(space)
    assert copy.deepcopy(space).range_length == 64


class TestFallback:
    @pytest.mark.parametrize(("extent", "size"), [(128, [4, 8, 4]), (49, [7, 7, 1])])
    def test_the_split_is_as_large_as_the_limits_allow_and_stays(self, extent: int, size: list[int]) -> None:
        cfg = declaring(is_fallback=True)
        cfg.define_split("tile_n", cfg.axis(extent), num_outputs=3)
        cfg.fallback_split("tile_n", [-1, 8, 4])
        cfg.define_split("tile_n", cfg.axis(extent), num_outputs=3)
        assert cfg["tile_n"].size == size

    def test_limits_without_a_divisor_are_refused(self) -> None:
        cfg = declaring(is_fallback=True)
        cfg.define_split("tile_n", cfg.axis(49), num_outputs=3)
        with pytest.raises(RuntimeError, match="no divisor of 49 is within 0"):
            cfg.fallback_split("tile_n", [-1, 1, 0])
        with pytest.raises(RuntimeError, match="no such split knob"):
            cfg.fallback_split("tile_m", [-1, 1, 1])

    def test_a_template_sets_values_of_its_own(self) -> None:
        cfg = declaring(is_fallback=True)
        cfg["tile"] = SplitEntity([-1, 8])
        cfg.define_split("tile", cfg.axis(64), num_outputs=2)
        cfg.define_knob("unroll", [4, 8])
        assert (cfg["tile"].size, cfg["unroll"].val) == ([-1, 8], 4)
        cfg["unroll"] = OtherOptionEntity(16)
        assert cfg["unroll"].val == 16

    def test_the_most_similar_configuration_of_a_log_is_imitated(self) -> None:
        def declared(cfg: Knobs, extent: int) -> Knobs:
            cfg.define_split("tile", cfg.axis(extent), num_outputs=2)
            cfg.define_knob("unroll", [4, 8])
            return cfg

        log: list[Any] = [
            (autotvm.MeasureInput(None, None, made(declared(declaring(), extent)).get(index)), None)
            for extent, index in [(35, 1), (96, 19)]
        ]
        cfg = declared(declaring(is_fallback=True), 64)
        cfg.fallback_with_reference_log(log)
        assert log[1][0].config["tile"].size == [-1, 16]
        assert (cfg["tile"].size, cfg["unroll"].val) == ([4, 16], 8)
        untouched = declared(declaring(is_fallback=True), 64)
        untouched.fallback_with_reference_log([])
        assert untouched["tile"].size == [-1, 1]


class TestMultiFilter:
    def test_it_leaves_out_configurations(self) -> None:
        plain, filtered = gemm(), gemm(filter=between(32, 1024))
        assert (len(plain), len(filtered), filtered.range_length) == (64, 34, 64)
        assert (plain.is_index_valid(0), filtered.is_index_valid(0), filtered.is_index_valid(15)) == (True, False, True)
        assert sum(map(filtered.is_index_valid, range(64))) == 34
        with pytest.raises(SpaceError, match="outside the space"):
            plain.get(64)

    def test_it_goes_with_filters_of_single_knobs(self) -> None:
        assert len(gemm(filter_y=lambda y: y.size[-1] < 64)) == 48
        both = gemm(filter_y=lambda y: y.size[-1] < 64, filter=between(32, 1024))
        assert (len(both), both.range_length) == (27, 48)


class TestPolicies:
    def test_orders(self) -> None:
        cfg = declaring()
        axes = [cfg.axis(2), cfg.axis(3), cfg.axis(4)]
        cfg.define_reorder("all", axes, policy="all")
        cfg.define_reorder("interval", axes, policy="interval_all", interval=(0, 2))
        cfg.define_reorder("candidate", axes, policy="candidate", candidate=[axes, axes[::-1]])
        cfg.define_reorder("mixed", axes, policy="interleave", spatial=[axes[:2]], reduce=[axes[2:]])
        space = made(cfg)
        assert [len(knob) for knob in space.space_map.values()][:3] == [6, 2, 2]
        assert space.get(space.range_length - 1)["candidate"].perm == [2, 1, 0]
        assert sorted(cfg["mixed"].perm) == [0, 1, 2]

    def test_annotations(self) -> None:
        cfg = declaring()
        axes = [cfg.axis(2), cfg.axis(3)]
        cfg.define_annotate("unroll", axes, policy="try_unroll")
        cfg.define_annotate("vec", axes, policy="try_unroll_vec")
        cfg.define_annotate("cache", axes, policy="locate_cache", num_anchor=1)
        assert [len(knob) for knob in made(cfg).space_map.values()] == [4, 8, 2]

    def test_axes_of_one_definition_are_axes_of_the_next(self) -> None:
        cfg = declaring()
        outer, inner = cfg.define_split("tile", cfg.axis(64), num_outputs=2)
        cfg.define_reorder("order", [outer, inner], policy="all")
        assert [len(knob) for knob in made(cfg).space_map.values()] == [7, 2]

    def test_spaces_that_are_declared_alike_have_one_fingerprint(self) -> None:
        def fingerprint() -> str:
            cfg = declaring()
            cfg.define_reorder("order", [cfg.axis(4), cfg.axis(4)], policy="all")
            return made(cfg).space.fingerprint

        assert fingerprint() == fingerprint()


def test_values_are_applied_to_schedules() -> None:
    a = te.placeholder((16, 16), name="A")
    b = te.compute((16, 16), lambda i, j: a[i, j] + 1, name="B")
    s = te.create_schedule(b.op)
    yo, yi = SplitEntity([-1, 4]).apply(s, b, b.op.axis[0])
    order = ReorderEntity([2, 0, 1]).apply(s, b, [yo, yi, b.op.axis[1]])
    AnnotateEntity(["none", "none", "vec"]).apply(s, b, order)
    assert s[b].leaf_iter_vars == [b.op.axis[1], yo, yi]
    assert "vectorized" in str(replay(s, [a, b]).func)


def test_a_task_of_an_unknown_template_names_those_that_are_there() -> None:
    autotvm.template("space/known")(lambda n: None)
    with pytest.raises(UnknownName, match=r"no template 'space/know' has been defined.*space/known"):
        autotvm.task.create("space/know", args=(1,), target="llvm")
