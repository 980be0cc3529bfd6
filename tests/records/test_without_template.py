"""Records without their template are a space of knobs alone, with the same configurations and costs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import pegbox as pb
from pegbox.errors import RecordError
from pegbox.records import Journal
from pegbox.records.without_template import knobs_of, recorded_knobs
from pegbox.suites import load_suite


def test_each_choice_is_a_knob_and_factors_are_knobs_of_their_own() -> None:
    space, configs = knobs_of([{"tile_1": 8, "unroll": None}, {"tile_1": 4, "unroll": "x"}, {"tile_1": 16}])
    assert list(space.knobs) == ["tile_1", "unroll"]
    assert [config["tile_1"].val for config in configs] == [8, 4, 16]
    assert [config["unroll"].val for config in configs] == [None, "x", None]
    assert [config.digits[0] for config in configs] == [1, 0, 2]  # numbers ascend


def test_costs_are_those_of_the_records(tmp_path: Path, task: Any) -> None:
    path = tmp_path / "space.jsonl"
    for index, cost in enumerate((3e-3, 1e-3, 2e-3)):
        Journal(path).append(task.record(index, cost))
    recorded = recorded_knobs(path)
    assert sorted(result.cost for result in recorded.results.values()) == [1e-3, 2e-3, 3e-3]
    assert list(recorded.full_space.knobs) == ["tile_1", "unroll"]
    assert recorded.task is None


def test_the_shipped_space_has_as_many_configurations_without_its_template() -> None:
    path = Path(pb.recorded_space("matmul-512x512x512").source)
    whole, knobs = pb.recorded_space(path), recorded_knobs(path)
    assert (len(knobs), knobs.best_cost) == (len(whole), whole.best_cost)


def test_a_suite_keeps_a_space_whose_template_has_changed(tmp_path: Path, task: Any) -> None:
    path = tmp_path / "old.jsonl"
    for index, cost in enumerate((3e-3, 1e-3)):
        record = task.record(index, cost)
        Journal(path).append(replace(record, space="another fingerprint"))
    with pytest.raises(RecordError):
        pb.recorded_space(path)
    (problem,) = load_suite(tmp_path)
    assert problem.name == "old"
    assert set(problem.task.space.knobs) == {"tile_1", "unroll"}
