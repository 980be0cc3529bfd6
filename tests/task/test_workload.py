"""Workloads: computations without a schedule, which a space generator makes templates of."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import pegbox as pb
from pegbox import te
from pegbox.codegen.targets.target import Target
from pegbox.errors import PegboxError, PluginError, TemplateError, UnknownName
from pegbox.hooks import registry
from pegbox.plugins.sketch import SketchGenerator
from pegbox.task.workload import Workload, find_workload, generated_template, registered_templates


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
    for name in ("test_doubled@sketch", "test_doubled@sketch:rules=ansor"):
        assert [template.name for template in registered_templates(name)] == [name]
    names = ("os:system@sketch", "test_doubled@os:system", "file.py:x@sketch", "test_doubled@os:system:command=true")
    for name in (*names, "test_doubled@nothing:rules=ansor", "os:getcwd"):
        with pytest.raises((UnknownName, PluginError)):
            registered_templates(name)


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


@pytest.mark.parametrize("ref", ["test_doubled", f"{__name__}:doubled"])
def test_the_name_of_a_workload_without_a_generator_says_what_to_add(ref: str) -> None:
    with pytest.raises(PegboxError, match=r"is a workload: .*add space='sketch' \(--space sketch on"):
        pb.create_task(ref, args=(8,))


def no_configuration(n: int, m: int = 4) -> list[te.Tensor]:
    x = te.placeholder((n, m), name="X")
    return [x, te.compute((n, m), lambda i, j: x[i, j] * 2, name="Y")]


@pytest.mark.parametrize("args", [(8, 4), (8,), ()])
def test_a_function_without_a_configuration_says_what_to_add(args: tuple[int, ...]) -> None:
    with pytest.raises(PegboxError, match=r"parameter 'n' gets the configuration.*\(cfg, n, m\).*add space='sketch'"):
        pb.create_task(no_configuration, args=args)


def test_a_template_that_breaks_is_not_told_of_generators() -> None:
    def template(cfg: Any, n: int) -> Any:
        raise ZeroDivisionError

    with pytest.raises(TemplateError) as caught:
        pb.create_task(template, args=(8,))
    assert "space=" not in str(caught.value)


@pb.workload("test_cfg")
def with_cfg(n: int, cfg: int = 4) -> list[te.Tensor]:
    return no_configuration(n, cfg)


def test_a_parameter_may_be_called_cfg() -> None:
    task = pb.create_task(with_cfg, args=(8,), kwargs={"cfg": 2}, space="sketch")
    assert task.workload[1] == {"n": 8, "cfg": 2}
    assert task.tensors[0].shape == (8, 2)
    assert pb.create_task("test_cfg@sketch", args=(8, 2)).space.fingerprint == task.space.fingerprint


def test_an_at_sign_in_a_path_is_the_path_s(tmp_path: Path) -> None:
    for file in (tmp_path / "me@host" / "ops.py", tmp_path / "me@ops.py"):
        file.parent.mkdir(exist_ok=True)
        file.write_text("def twice(cfg, n):\n    raise ValueError('reached')\n")
        with pytest.raises(TemplateError, match=r"template twice .*reached"):
            pb.create_task(f"{file}:twice", args=(8,))


def test_a_workload_of_a_file_with_an_at_sign_has_a_generator(tmp_path: Path) -> None:
    file = tmp_path / "me@host" / "ops.py"
    file.parent.mkdir()
    file.write_text(f"from {__name__} import doubled\n")
    assert pb.create_task(f"{file}:doubled@sketch", args=(8,)).name == "test_doubled@sketch"


# Options of generators


class Lanes:
    """A generator with options of some types."""

    def __init__(self, lanes: int = 4, *, tails: bool = False, more: Any = ()) -> None:
        self.lanes, self.tails, self.more = lanes, tails, more

    def __call__(self, tensors: Sequence[te.Tensor], target: Target) -> Any:
        return by_lanes(tensors, target)


@pytest.fixture
def lanes() -> Iterator[None]:
    registry.register("space_generator", "test_options", Lanes, owner="tests")
    yield
    registry.unregister("space_generator", "test_options", owner="tests")


@pytest.mark.usefixtures("lanes")
@pytest.mark.parametrize(
    ("space", "label"),
    [
        (Lanes(), "test_options"),
        (Lanes(8, tails=True), "test_options:lanes=8,tails=True"),
        ("test_options: lanes=8, tails=yes", "test_options:lanes=8,tails=True"),
        ("test_options:tails=no,lanes=4", "test_options"),
        (f"{__name__}:Lanes:lanes=2", "test_options:lanes=2"),
        (Lanes(more=[1, 2]), "Lanes"),
        (Lanes(more="a, b"), "Lanes"),
    ],
)
def test_a_generator_is_called_as_the_text_that_makes_it(space: object, label: str) -> None:
    template = generated_template(doubled, space)
    assert template.name == f"test_doubled@{label}"
    task = pb.create_task(template, args=(8,))
    assert pickle.loads(pickle.dumps(task)).name == task.name
    if "test_options" in label:
        (again,) = registered_templates(template.name)
        assert again.name == template.name
        made = again.function.generator  # type: ignore[attr-defined]
        wanted = template.function.generator  # type: ignore[attr-defined]
        assert vars(made) == vars(wanted)


def test_generators_with_different_options_are_different_tasks() -> None:
    tasks = [pb.create_task("matmul", (8, 8, 8), space=space) for space in (SketchGenerator("ansor"), "sketch")]
    assert [task.name for task in tasks] == ["matmul@sketch:rules=ansor", "matmul@sketch"]
    again = pb.create_task("matmul@sketch:rules=ansor", (8, 8, 8))
    assert again.space.fingerprint == tasks[0].space.fingerprint != tasks[1].space.fingerprint
    given = pb.create_task("matmul", (8, 8, 8), space="sketch:rules=ansor")
    assert given.space.fingerprint == again.space.fingerprint


@pytest.mark.usefixtures("lanes")
@pytest.mark.parametrize(
    ("space", "message"),
    [
        ("test_options:lane=8", r"space generator 'test_options' has no option 'lane' .*did you mean 'lanes'"),
        ("test_options:lanes=many", r"cannot read lanes='many' as int"),
        (f"{__name__}:by_lanes", r"missing a required argument: 'tensors'; text names a class of generators"),
        (Lanes, r"is a class of generators; give one: space=Lanes\(...\)"),
        (made_by_lanes, r"cannot be called as generator\(tensors, target\): too many .*call it"),
        (lambda tensors, target: None, r"returned None; it must return a function of cfg"),
        (lambda tensors, target: lambda cfg: 3, r"returned 3; the function that a space generator returns must return"),
    ],
)
def test_what_is_no_generator_is_refused(space: object, message: str) -> None:
    with pytest.raises(PegboxError, match=message):
        pb.create_task(doubled, args=(8,), space=space)


def test_a_template_is_not_a_workload() -> None:
    with pytest.raises(TemplateError, match=r"matmul\(cfg: .* is a template.*not a workload.*leave space="):
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
