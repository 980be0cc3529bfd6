"""Spaces and configurations by AutoTVM's names: what TVM's own tests hold of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pegbox.errors import SpaceError, UnknownName
from pegbox.plugins.tvm import autotvm, te
from pegbox.plugins.tvm.autotvm.task.space import (
    AnnotateEntity,
    ConfigEntity,
    ConfigSpace,
    FallbackConfigEntity,
    OtherOptionEntity,
    ReorderEntity,
    SplitEntity,
    get_factors,
    get_pow2s,
)
from pegbox.schedule.te.replay import replay


def product(entity: Any) -> int:
    return int(entity["tile_x"].size[1] * entity["tile_y"].size[1])


def between(low: int, high: int) -> Callable[[Any], bool]:
    return lambda entity: low <= product(entity) < high


def gemm_space(*, filter_y: Any = None) -> ConfigSpace:
    cfg = ConfigSpace()
    c = te.compute((128, 128), lambda i, j: i + j, name="C")
    y, x = c.op.axis
    cfg.define_split("tile_y", cfg.axis(y), num_outputs=2, filter=filter_y)
    cfg.define_split("tile_x", cfg.axis(x), num_outputs=2)
    return cfg


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
    cfg = ConfigSpace()
    cfg.define_split("tile", cfg.axis(extent), policy=policy, num_outputs=outputs)
    assert len(cfg.space_map["tile"]) == count == len(cfg)


def test_the_outermost_extent_of_a_candidate_need_not_fit() -> None:
    cfg = ConfigSpace()
    cfg.define_split("tile", cfg.axis(256), policy="candidate", num_outputs=2, candidate=[[16, 64], [8, 64], [16, 32]])
    assert [entity.size for entity in cfg.space_map["tile"].entities] == [[-1, 64], [-1, 32]]
    cfg.define_split("fits", cfg.axis(16), policy="candidate", num_outputs=3, candidate=[[1, 4, 4], [4, 1, 4]])
    assert [entity.size for entity in cfg.space_map["fits"].entities] == [[1, 4, 4], [4, 1, 4]]


def test_factors_of_an_extent() -> None:
    assert get_factors(12) == [1, 2, 3, 4, 6, 12]
    assert get_pow2s(12) == [1, 2, 4, 8]


def test_an_axis_of_a_tensor_gives_its_extent() -> None:
    cfg = gemm_space()
    cfg.clear_cache()
    assert cfg.range_length == len(cfg) == 64
    assert cfg.dims == [8, 8]
    assert [*cfg] == ["tile_y", "tile_x"]


class TestFallback:
    @pytest.mark.parametrize(("extent", "size"), [(128, [4, 8, 4]), (49, [7, 7, 1])])
    def test_the_split_is_as_large_as_the_limits_allow_and_stays(self, extent: int, size: list[int]) -> None:
        cfg = FallbackConfigEntity()
        cfg.define_split("tile_n", cfg.axis(extent), num_outputs=3)
        cfg.fallback_split("tile_n", [-1, 8, 4])
        cfg.define_split("tile_n", cfg.axis(extent), num_outputs=3)
        assert cfg["tile_n"].size == size

    def test_limits_without_a_divisor_are_refused(self) -> None:
        cfg = FallbackConfigEntity()
        cfg.define_split("tile_n", cfg.axis(49), num_outputs=3)
        with pytest.raises(RuntimeError, match="no divisor of 49 is within 0"):
            cfg.fallback_split("tile_n", [-1, 1, 0])
        with pytest.raises(RuntimeError, match="no such split knob"):
            cfg.fallback_split("tile_m", [-1, 1, 1])

    def test_a_template_sets_values_of_its_own(self) -> None:
        cfg = FallbackConfigEntity()
        assert cfg.is_fallback
        cfg["tile"] = SplitEntity([-1, 8])
        cfg.define_split("tile", cfg.axis(64), num_outputs=2)
        cfg.define_knob("unroll", [4, 8])
        assert (cfg["tile"].size, cfg["unroll"].val) == ([-1, 8], 4)
        cfg["unroll"] = OtherOptionEntity(16)
        assert cfg["unroll"].val == 16

    def test_the_most_similar_configuration_of_a_log_is_imitated(self) -> None:
        def declared(cfg: Any, extent: int) -> Any:
            cfg.define_split("tile", cfg.axis(extent), num_outputs=2)
            cfg.define_knob("unroll", [4, 8])
            return cfg

        log = [
            (autotvm.MeasureInput(None, None, declared(ConfigSpace(), extent).get(index)), None)  # type: ignore[arg-type]
            for extent, index in [(35, 1), (96, 19)]
        ]
        cfg = declared(FallbackConfigEntity(), 64)
        cfg.fallback_with_reference_log(log)
        assert log[1][0].config["tile"].size == [-1, 16]
        assert (cfg["tile"].size, cfg["unroll"].val) == ([4, 16], 8)
        untouched = declared(FallbackConfigEntity(), 64)
        untouched.fallback_with_reference_log([])
        assert untouched["tile"].size == [-1, 1]


class TestMultiFilter:
    plain, filtered = gemm_space(), gemm_space()
    filtered.multi_filter(filter=between(32, 1024))
    valid = (*filter(filtered.is_index_valid, range(64)),)

    def test_counts(self) -> None:
        assert (len(self.plain), len(self.filtered), self.filtered.range_length) == (64, 34, 64)
        assert len(self.valid) == 34
        ranges = [(0, 64), (0, 32), (16, 32), (16, 16)]
        assert [self.plain.subrange_length(*ends) for ends in ranges] == [64, 32, 16, 0]
        assert [self.filtered.subrange_length(*ends) for ends in ranges] == [34, 17, 10, 0]

    @pytest.mark.parametrize("ends", [(0, 128), (-64, 64), (64, 0)])
    def test_ranges_outside_are_refused(self, ends: tuple[int, int]) -> None:
        with pytest.raises(IndexError, match="is no range of 64 indices"):
            self.filtered.subrange_length(*ends)

    def test_what_it_leaves_out_cannot_be_had(self) -> None:
        assert (self.plain.is_index_valid(0), self.filtered.is_index_valid(0)) == (True, False)
        assert self.filtered.get(15).index == 15
        with pytest.raises(IndexError, match="left out by multi_filter"):
            self.filtered.get(0)
        with pytest.raises(IndexError, match="outside the space of 64"):
            self.plain.get(64)

    @pytest.mark.parametrize(("point", "knob"), [(0, [0, 0]), (4, [4, 0]), (8, [0, 1]), (12, [4, 1])])
    def test_indices_and_digits(self, point: int, knob: list[int]) -> None:
        assert self.filtered.point2knob(point) == knob
        assert self.filtered.knob2point(knob) == point

    def test_random_indices(self) -> None:
        assert self.filtered.get_rand_index() in self.valid
        assert self.filtered.get_rand_index(start=15, end=16) == 15
        assert self.filtered.get_rand_index(to_exclude=self.valid[:-1]) == self.valid[-1]
        assert 10 <= self.plain.get_rand_index(start=10, end=20) < 20
        with pytest.raises(IndexError, match="no valid index is left from 0 to before 64"):
            self.filtered.get_rand_index(to_exclude=self.valid)
        drawn = self.filtered.sample_ints(5)
        assert len({*drawn.tolist()}) == 5
        assert {*drawn.tolist()} <= {*self.valid}
        walked = self.filtered.random_walk(15)
        assert walked != 15
        assert walked in self.valid

    @pytest.mark.parametrize(
        ("arguments", "plain", "filtered"),
        [
            ({"index": 0}, 1, 5),
            ({"index": 0, "n": 2}, 2, 6),
            ({"index": 0, "n": -1}, None, None),
            ({"index": 63}, None, None),
            ({"index": 63, "n": -1}, 62, 58),
            ({"index": 63, "n": -2}, 61, 57),
            ({"index": 60, "n": 1, "end": 63}, 61, None),
            ({"index": 63, "n": -1, "start": 60}, 62, None),
        ],
    )
    def test_the_next_index(self, arguments: dict[str, int], plain: int | None, filtered: int | None) -> None:
        assert self.plain.get_next_index(**arguments) == plain
        assert self.filtered.get_next_index(**arguments) == filtered

    def test_it_goes_with_filters_of_single_knobs_in_either_order(self) -> None:
        cfg = gemm_space(filter_y=lambda y: y.size[-1] < 64)
        assert (len(cfg), cfg.range_length) == (48, 48)
        cfg.multi_filter(filter=between(32, 1024))
        assert (len(cfg), cfg.range_length) == (27, 48)
        again = gemm_space()
        again.multi_filter(filter=between(32, 1024))
        assert (len(again), again.range_length) == (34, 64)
        again.define_split("tile_y", again.axis(128), num_outputs=2, filter=lambda y: y.size[-1] < 64)
        assert (len(again), again.range_length) == (27, 48)


class TestPolicies:
    def test_orders(self) -> None:
        cfg = ConfigSpace()
        axes = [cfg.axis(2), cfg.axis(3), cfg.axis(4)]
        cfg.define_reorder("all", axes, policy="all")
        cfg.define_reorder("interval", axes, policy="interval_all", interval=(0, 2))
        cfg.define_reorder("candidate", axes, policy="candidate", candidate=[axes, axes[::-1]])
        cfg.define_reorder("mixed", axes, policy="interleave", spatial=[axes[:2]], reduce=[axes[2:]])
        assert cfg.dims[:3] == [6, 2, 2]
        assert cfg.get(cfg.range_length - 1)["candidate"].perm == [2, 1, 0]
        assert sorted(cfg["mixed"].perm) == [0, 1, 2]

    def test_annotations(self) -> None:
        cfg = ConfigSpace()
        axes = [cfg.axis(2), cfg.axis(3)]
        cfg.define_annotate("unroll", axes, policy="try_unroll")
        cfg.define_annotate("vec", axes, policy="try_unroll_vec")
        cfg.define_annotate("cache", axes, policy="locate_cache", num_anchor=1)
        cfg.define_annotate("gpu", axes, policy="bind_gpu")
        assert cfg.dims == [4, 8, 2, 1]
        assert cfg["gpu"].anns == ["blockIdx.x", "threadIdx.x"]

    def test_axes_of_one_definition_are_axes_of_the_next(self) -> None:
        cfg = ConfigSpace()
        outer, inner = cfg.define_split("tile", cfg.axis(64), num_outputs=2)
        cfg.define_reorder("order", [outer, inner], policy="all")
        assert cfg.define_knob("unroll", [0, 1]) == []
        assert cfg.dims == [7, 2, 2]

    def test_spaces_that_are_declared_alike_have_one_fingerprint(self) -> None:
        def made() -> ConfigSpace:
            cfg = ConfigSpace()
            cfg.define_reorder("order", [cfg.axis(4), cfg.axis(4)], policy="all")
            return cfg

        assert made().space.fingerprint == made().space.fingerprint


class TestConfiguration:
    def test_it_is_written_and_read(self) -> None:
        cfg = gemm_space()
        cfg.define_knob("unroll", [0, 16])
        config = cfg.get(77)
        form = config.to_json_dict()
        assert form == {
            "index": 77,
            "code_hash": None,
            "entity": [("tile_y", "sp", [-1, 32]), ("tile_x", "sp", [-1, 2]), ("unroll", "ot", 16)],
        }
        again = ConfigEntity.from_json_dict(form)
        assert again == config
        assert str(again) == str(config) == "[('tile_y', [-1, 32]), ('tile_x', [-1, 2]), ('unroll', 16)],None,77"
        assert again["unroll"].val == 16
        assert again.get_other_option() == {"unroll": 16}
        assert again.in_space(cfg.space) == cfg.space.get(77)
        assert config.get_flatten_feature().dtype == np.float32

    def test_what_it_does_not_have_is_named(self) -> None:
        config = ConfigEntity.from_json_dict({"index": 0, "code_hash": None, "entity": [("a", "ot", 1)]})
        with pytest.raises(SpaceError, match="no knob 'b' in this configuration: it has a"):
            _ = config["b"]
        with pytest.raises(SpaceError, match="does not belong to this space"):
            config.in_space(gemm_space().space)

    def test_entities_are_of_their_classes(self) -> None:
        cfg = ConfigSpace()
        axes = [cfg.axis(2), cfg.axis(4)]
        cfg.define_split("sp", axes[1], num_outputs=2)
        cfg.define_reorder("re", axes, policy="all")
        cfg.define_annotate("an", axes, policy="try_vec")
        cfg.define_knob("ot", [1, 2])
        kinds = {"sp": SplitEntity, "re": ReorderEntity, "an": AnnotateEntity, "ot": OtherOptionEntity}
        for config in (cfg, cfg.get(1), ConfigEntity.from_json_dict(cfg.get(1).to_json_dict())):
            found = {name: [tag for tag, kind in kinds.items() if isinstance(config[name], kind)] for name in kinds}
            assert found == {name: [name] for name in kinds}

    def test_errors_make_it_invalid(self) -> None:
        config = gemm_space().get(3)
        assert config.valid()
        config.raise_error("too much unrolling")
        assert not config.valid()
        assert config.errors == ["too much unrolling"]

    def test_entities_are_applied_to_schedules(self) -> None:
        a = te.placeholder((16, 16), name="A")
        b = te.compute((16, 16), lambda i, j: a[i, j] + 1, name="B")
        s = te.create_schedule(b.op)
        yo, yi = SplitEntity([-1, 4]).apply(s, b, b.op.axis[0])
        order = ReorderEntity([2, 0, 1]).apply(s, b, [yo, yi, b.op.axis[1]])
        AnnotateEntity(["none", "none", "vec"]).apply(s, b, order)
        assert s[b].leaf_iter_vars == [b.op.axis[1], yo, yi]
        assert "vectorized" in str(replay(s, [a, b]).func)


def test_a_task_of_an_unknown_template_names_near_ones() -> None:
    autotvm.template("space/known")(lambda n: None)
    with pytest.raises(UnknownName, match=r"no template 'space/know' has been defined.*'space/known'"):
        autotvm.task.create("space/know", args=(1,), target="llvm")
