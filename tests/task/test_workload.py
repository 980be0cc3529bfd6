"""Workloads: computations without a schedule, which a space generator makes templates of."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

import pytest

import pegbox as pb
from pegbox import te
from pegbox.codegen.targets.target import Target
from pegbox.errors import PluginError, TemplateError, UnknownName
from pegbox.hooks import registry
from pegbox.task.workload import Workload, find_workload, generated_template, template_of


@pb.workload("test_doubled")
def doubled(n: int, dtype: str = "float32") -> list[te.Tensor]:
    """2 X"""
    x = te.placeholder((n,), name="X", dtype=dtype)
    return [x, te.compute((n,), lambda i: x[i] * te.const(2, dtype), name="Y")]


def by_lanes(tensors: Sequence[te.Tensor], target: Target) -> Any:
    """A third party's generator: one knob, the length of vectors."""

    def space(cfg: pb.TemplateConfig) -> tuple[te.TESchedule, list[te.Tensor]]:
        out = tensors[-1]
        cfg.define_split("lanes", out.op.axis[0], num_outputs=2)
        s = te.create_schedule(out.op)
        s[out].vectorize(cfg["lanes"].apply(s, out, s[out].op.axis[0])[1])
        return s, list(tensors)

    return space


def made_by_lanes() -> Any:
    return by_lanes


def test_a_workload_is_found_by_its_name_and_by_itself() -> None:
    assert find_workload("test_doubled") is doubled
    assert find_workload(doubled) is doubled
    assert isinstance(doubled, Workload)
    assert doubled.doc == "2 X"


def test_a_generator_of_ones_own_stands_beside_the_built_in_one() -> None:
    registry.register("space_generator", "test_lanes", made_by_lanes)
    task = pb.create_task("test_doubled", args=(64,), space="test_lanes")
    assert task.name == "test_doubled@test_lanes"
    assert task.workload == ("test_doubled@test_lanes", {"n": 64, "dtype": "float32"})
    assert list(task.space.knobs) == ["lanes"]
    assert "vectorized" in task.show_schedule(task.space.get(3))
    assert pickle.loads(pickle.dumps(task)).space.fingerprint == task.space.fingerprint
    with pytest.raises(TemplateError, match="writes no code"):
        task.schedule_code(task.space.get(0))


def test_a_generator_may_be_given_itself() -> None:
    task = pb.create_task(doubled, args=(8,), space=by_lanes)
    assert task.name == "test_doubled@by_lanes"
    assert pickle.loads(pickle.dumps(task)).space.fingerprint == task.space.fingerprint


def test_the_name_of_a_generated_template_means_it() -> None:
    task = pb.create_task("test_doubled@sketch", args=(8,))
    assert task.space.fingerprint == pb.create_task(doubled, args=(8,), space="sketch").space.fingerprint


def test_names_from_records_are_only_looked_up() -> None:
    assert template_of("test_doubled@sketch", registered=True).name == "test_doubled@sketch"
    for name in ("os:system@sketch", "test_doubled@os:system", "file.py:x@sketch"):
        with pytest.raises((UnknownName, PluginError)):
            template_of(name, registered=True)


def test_the_space_of_a_workload_is_derived_once() -> None:
    asked = []

    def counting(tensors: Sequence[te.Tensor], target: Target) -> Any:
        asked.append(target)
        return by_lanes(tensors, target)

    template = generated_template(doubled, counting)
    task = pb.create_task(template, args=(8,))
    task.lower(task.space.get(0))
    task.lower(task.space.get(1))
    pb.create_task(template, args=(8,))
    assert len(asked) == 1
    pb.create_task(template, args=(16,))
    assert len(asked) == 2


def test_what_is_computed_is_shown() -> None:
    task = pb.create_task(doubled, args=(8,), space="sketch")
    assert str(task.compute_dag) == (
        'X = te.placeholder((8,), name="X")\nY = te.compute((8,), lambda i: X[i] * 2.0, name="Y")\n# 8 operations'
    )


@pb.workload("test_raises")
def raises(n: int) -> list[te.Tensor]:
    raise ZeroDivisionError(n)


@pb.workload("test_inputs_only")
def inputs_only(n: int) -> list[te.Tensor]:
    return [te.placeholder((n,), name="X")]


@pb.workload("test_nothing")
def nothing(n: int) -> None:
    pass


@pytest.mark.parametrize(
    ("workload", "message"),
    [
        (raises, r"workload test_raises raised ZeroDivisionError: 4"),
        (inputs_only, r"test_inputs_only returned .*at least one of them computed"),
        (nothing, r"test_nothing returned None; return \[inputs..., outputs...\]"),
    ],
)
def test_what_is_no_computation_is_refused(workload: Workload, message: str) -> None:
    with pytest.raises(TemplateError, match=message):
        pb.create_task(workload, args=(4,), space="sketch")


def test_a_workload_without_a_generator_says_what_to_add() -> None:
    with pytest.raises(TemplateError, match="add space='sketch'"):
        pb.create_task(doubled, args=(8,))


def test_a_plain_function_without_a_schedule_says_what_to_add() -> None:
    def plain(n: int) -> list[te.Tensor]:
        return list(doubled.tensors(8))

    with pytest.raises(TemplateError, match="add space='sketch'"):
        pb.create_task(plain)


def test_a_template_is_not_a_workload() -> None:
    with pytest.raises(TemplateError, match="not a workload function"):
        pb.create_task(registry.get("template", "matmul"), args=(8, 8, 8), space="sketch")


def test_an_unknown_generator_is_refused() -> None:
    with pytest.raises(UnknownName, match="did you mean 'sketch'"):
        pb.create_task(doubled, args=(8,), space="sketsh")


def test_a_space_that_is_no_generator_is_refused() -> None:
    with pytest.raises(TemplateError, match="space=3"):
        pb.create_task(doubled, args=(8,), space=3)


def test_a_name_with_an_at_sign_is_refused() -> None:
    with pytest.raises(PluginError, match="'a@b'"):
        pb.workload("a@b")(lambda n: n)
