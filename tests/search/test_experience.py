"""Knowledge before the first trial: learning from other workloads, and the measurements that ship."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from shipped_spaces import shipped_space

import pegbox as pb
from pegbox.codegen import Target
from pegbox.errors import ArgumentError, PluginError, RecordError
from pegbox.features import program_features
from pegbox.search.models import experience
from pegbox.search.models.experience import (
    OTHER_VECTORS,
    SAME_VECTORS,
    Experience,
    ShippedSource,
    affinity,
    ranked,
    shape_key,
    shipped_experience,
    shipped_sources,
    write_experience,
)
from pegbox.search.protocols import Features, Floats, Transfer

RNG = np.random.default_rng(0)


def names_in(file: Path) -> tuple[str, ...]:
    """The names of the features in a file of experience."""
    with np.load(file) as held:
        return tuple(held["features_of"].tolist())


def source(name: str, *, scale: float = 1.0, rows: int = 200) -> Transfer:
    features = RNG.random((rows, 3)).astype(np.float32)
    return Transfer(name, features, scale * (1.0 + features[:, 0].astype(np.float64)))


class Recording:
    """A cost model that keeps what it was given."""

    def fit(self, features: Features, costs: Floats) -> None:
        self.features, self.costs = features, costs

    def predict(self, features: Features) -> Floats:
        return -features[:, 0].astype(np.float64)


# --- learning ---------------------------------------------------------------------------------------------------------


def test_it_learns_from_all_sources_whatever_their_seconds() -> None:
    learned = Experience([source("a"), source("b", scale=1e-6)])
    new = RNG.random((300, 3)).astype(np.float32)
    assert np.corrcoef(learned(new), -new[:, 0])[0, 1] > 0.95


def test_costs_count_by_their_rank_in_their_source() -> None:
    model = Recording()
    slow = Transfer("slow", np.zeros((4, 3), np.float32), np.array([9.0, 1.0, np.inf, 9.0]))
    fast = Transfer("fast", np.zeros((2, 3), np.float32), np.array([2e-6, 1e-6]))
    Experience([slow, fast], model)(np.zeros((1, 3), np.float32))
    assert np.log(model.costs) == pytest.approx([1.0, 1 / 3, np.inf, 1.0, 1.0, 0.5])


def test_ranks_are_shares_of_what_ran() -> None:
    assert ranked(np.array([3.0, 1.0, 2.0, 1.0])).tolist() == [1.0, 0.5, 0.75, 0.5]
    assert ranked(np.array([np.inf, np.inf])).tolist() == [np.inf, np.inf]


def test_of_a_source_that_weighs_less_fewer_rows_are_learned_from() -> None:
    model = Recording()
    sources = [source("near"), replace(source("far"), weight=0.25), replace(source("few", rows=4), weight=0.01)]
    Experience(sources, model)(np.zeros((1, 3), np.float32))
    assert len(model.costs) == 200 + 50 + 2
    # Ranks are those in the whole source.
    assert np.log(model.costs[200:250]).max() > 0.9


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("llvm -mcpu=znver4", "llvm -mcpu=znver4 -num-cores 2", 1.0),
        ("llvm -mcpu=znver4", "llvm -mcpu=sapphirerapids", SAME_VECTORS),
        ("llvm -mcpu=znver3", "llvm -mcpu=x86-64-v3", SAME_VECTORS),
        ("llvm -mcpu=znver3", "llvm -mcpu=znver4", OTHER_VECTORS),
        ("llvm -mcpu=znver4", "llvm -mcpu=znver4 -mattr=-avx512f", OTHER_VECTORS),
    ],
)
def test_what_was_measured_on_a_machine_like_this_one_counts_more(one: str, other: str, expected: float) -> None:
    assert affinity(Target(one), Target(other)) == affinity(Target(other), Target(one)) == expected


def test_the_experience_of_a_task_is_for_its_target() -> None:
    known = [
        shipped_experience(pb.create_task("matmul", args=(61, 67, 71), target=f"llvm -mcpu={cpu} -num-cores 1"))
        for cpu in ("znver3", "znver4")
    ]
    assert known[0] is not None
    assert known[1] is not None
    weights = [[one.weight for one in each.sources] for each in known]
    assert weights[0] != weights[1]
    assert weights[0] == [affinity(Target("llvm -mcpu=znver3"), Target(one.target)) for one in shipped_sources()]


def test_nothing_is_learned_before_it_is_asked_for() -> None:
    model = Recording()
    learned = Experience([source("a")], model)
    assert not hasattr(model, "costs")
    learned(np.zeros((1, 3), np.float32))
    assert len(model.costs) == 200


def test_what_breaks_while_it_gets_ready_is_raised_where_scores_are_asked_for() -> None:
    class Broken(Recording):
        def fit(self, features: Features, costs: Floats) -> None:
            raise PluginError("no such library")

    learned = Experience([source("a")], Broken())
    learned.prepare()
    for _ in range(2):
        with pytest.raises(PluginError, match="no such library; to search without experience"):
            learned(np.zeros((1, 3), np.float32))


@pytest.mark.parametrize(
    ("sources", "message"),
    [
        ([], "transfer from nothing: no configuration ran"),
        ([Transfer("a", np.zeros((1, 3), np.float32), np.array([np.inf]))], "transfer from a: no configuration ran"),
        ([source("a"), Transfer("b", np.zeros((2, 2), np.float32), np.ones(2))], "'b': .2, 2.* the same columns"),
    ],
)
def test_what_nothing_can_be_learned_from(sources: list[Transfer], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        Experience(sources)


def test_a_model_that_gives_no_numbers() -> None:
    class Broken(Recording):
        def predict(self, features: Features) -> Floats:
            return np.full(len(features), np.nan)

    with pytest.raises(PluginError, match="Broken gave NaN"):
        Experience([source("a")], Broken())(np.zeros((2, 3), np.float32))


# --- what ships -------------------------------------------------------------------------------------------------------


def test_the_features_are_those_of_today() -> None:
    """Fails where the features have changed: `python3 benchmarks/experience.py` makes the file anew."""
    task = pb.create_task("matmul", args=(64, 64, 64))
    features = program_features(task)
    assert names_in(experience.FILE) == features.names
    assert {source.measured.features.shape[1] for source in shipped_sources()} == {len(features.names)}


def test_shipped_measurements_are_of_several_processors() -> None:
    assert {"x86-64-v3", "znver3", "znver4", "znver5"} <= {Target(one.target).cpu for one in shipped_sources()}


def test_what_ships_is_finite_of_several_templates_and_of_several_kinds_of_machines() -> None:
    sources = shipped_sources()
    assert len({json.loads(one.shape)[0] for one in sources}) >= 2
    assert len({Target(one.target).vector_bits for one in sources}) >= 2
    assert len({one.shape for one in sources}) >= 6
    assert len({(one.shape, one.target, one.measured.name) for one in sources}) == len(sources)
    for one in sources:
        assert len(one.measured.costs) == len(one.measured.features) >= 20
        assert np.isfinite(one.measured.features).all()
        assert (one.measured.costs > 0).all()


@pytest.mark.parametrize("name", pb.recorded_spaces())
def test_the_experience_with_a_recorded_space_is_without_it(name: str) -> None:
    recorded = shipped_space(name)
    assert recorded.task is not None
    own = shape_key(recorded.task.workload)
    known = shipped_experience(recorded)
    assert known is not None
    assert [one.name for one in known.sources] == [one.measured.name for one in shipped_sources() if one.shape != own]
    assert shipped_experience(recorded.task) is known


def test_workloads_that_are_not_shipped_share_what_is_learned() -> None:
    """It takes half a second to learn: a search of several tasks need not do it for each."""
    one, other = (pb.create_task("matmul", args=(n, 67, 71), target="llvm -mcpu=znver4") for n in (61, 62))
    fewer_cores = pb.create_task("matmul", args=(61, 67, 71), target="llvm -mcpu=znver4 -num-cores 1")
    assert shipped_experience(one) is shipped_experience(other) is shipped_experience(fewer_cores)
    shipped = pb.create_task("matmul", args=(512, 512, 512), target="llvm -mcpu=znver4")
    assert shipped_experience(shipped) is not shipped_experience(one)


def test_recorded_spaces_are_among_what_is_learned_from() -> None:
    task = shipped_space("matmul-512x512x512").task
    assert task is not None
    assert shape_key(task.workload) in {one.shape for one in shipped_sources()}


def test_another_layout_or_type_is_the_same_shape() -> None:
    keys = {
        shape_key(pb.create_task("conv2d", args=(1, 64, 8, 8, 32, 3, 3), kwargs={"layout": layout}).workload)
        for layout in ("NCHW", "NHWC")
    }
    assert len(keys) == 1
    other = pb.create_task("conv2d", args=(1, 64, 8, 8, 32, 3, 3), kwargs={"padding": 1})
    assert shape_key(other.workload) not in keys


def test_it_orders_programs_that_it_has_not_seen_better_than_chance() -> None:
    recorded = shipped_space("matmul-512x512x512")
    known, program = shipped_experience(recorded), program_features(recorded.task)  # type: ignore[arg-type]
    assert known is not None
    configs = list(recorded.results)[::25]
    scores = known(program(np.array([config.digits for config in configs])))
    costs = np.array([recorded.results[config].cost for config in configs])
    one, other = np.triu_indices(len(costs), 1)
    right = (scores[one] - scores[other]) * (costs[other] - costs[one]) > 0
    assert right.mean() > 0.6


def test_results_of_other_tools_have_no_programs() -> None:
    class Foreign:
        name, space, flop = "foreign", pb.ConfigSpace(), 0.0

    made: Any = Foreign()
    assert shipped_experience(made) is None


def test_what_is_written_is_what_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "experience.npz"
    sources = [
        ShippedSource("k1", "llvm -mcpu=znver3", source("one")),
        ShippedSource("k2", "llvm", source("two", rows=7)),
    ]
    write_experience(file, ("a", "b", "c"), sources)
    monkeypatch.setattr(experience, "FILE", file)
    found = experience.shipped_sources.__wrapped__()
    assert names_in(file) == ("a", "b", "c")
    for one, again in zip(sources, found, strict=True):
        before, after = one.measured, again.measured
        assert (one.shape, one.target, before.name) == (again.shape, again.target, after.name)
        assert after.features == pytest.approx(before.features, rel=1e-3, abs=1e-3)
        assert after.costs == pytest.approx(before.costs, rel=1e-6)


def test_another_spelling_of_the_same_numbers_is_the_same_shape() -> None:
    args, kwargs = (1, 256, 14, 14, 256, 3, 3), {"layout": "NHWC"}
    plainly = shape_key(pb.create_task("conv2d", args=args, kwargs={**kwargs, "padding": 1}).workload)
    for padding in ((1, 1), [1, 1]):
        task = pb.create_task("conv2d", args=args, kwargs={**kwargs, "padding": padding, "stride": (1, 1)})
        assert shape_key(task.workload) == plainly


def test_one_record_is_no_experience() -> None:
    with pytest.raises(ArgumentError, match="transfer from a: one record"):
        Experience([Transfer("a", np.zeros((1, 3), np.float32), np.ones(1))])


def test_features_are_compared_as_they_were_learned() -> None:
    large = np.array([[1e9, 1.0001, -3.0]], np.float32)
    assert experience.rounded(large).tolist() == [[65504.0, 1.0, -3.0]]
    model = Recording()
    Experience([source("a")], model)(np.zeros((1, 3), np.float32))
    assert (experience.rounded(model.features) == model.features).all()


def test_a_model_that_cannot_be_loaded_names_the_way_out() -> None:
    class Missing(Recording):
        def fit(self, features: Features, costs: Floats) -> None:
            raise PluginError("xgboost fails to import")

    with pytest.raises(PluginError, match=r"fails to import; .*use_experience=no"):
        Experience([source("a")], Missing())(np.zeros((2, 3), np.float32))


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
def test_a_damaged_file(share: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, file = experience.FILE.read_bytes(), tmp_path / "experience.npz"
    file.write_bytes(whole[: int(share * len(whole))])
    monkeypatch.setattr(experience, "FILE", file)
    with pytest.raises(RecordError, match=r"experience\.npz.*damaged.*install pegbox again"):
        experience.shipped_sources.__wrapped__()


def test_a_file_in_which_a_byte_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, file = bytearray(experience.FILE.read_bytes()), tmp_path / "experience.npz"
    middle = len(data) // 2
    data[middle : middle + 64] = bytes(64)
    file.write_bytes(data)
    monkeypatch.setattr(experience, "FILE", file)
    with pytest.raises(RecordError, match="damaged"):
        experience.shipped_sources.__wrapped__()
