"""Tasks: from a template and arguments to programs."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import pegbox as pb
from pegbox import lower, te, tir
from pegbox.codegen import c_header
from pegbox.codegen.targets.target import Target
from pegbox.errors import ArgumentError, InvalidConfig, PluginError, SpaceError, TargetError, TemplateError, UnknownName
from pegbox.hooks.refs import import_file
from pegbox.space import ConfigSpace
from pegbox.space.given_config import given_config
from pegbox.task.task import Task, create_task
from pegbox.task.template import Template, find_template

FILE = Path(__file__).parents[1] / "helpers" / "task_templates.py"
task_templates = import_file(FILE)


def rows_task(*args: Any, **kwargs: Any) -> Task:
    return create_task("test_rows", args=args or (6, 8), kwargs=kwargs)


# How a template is named


def test_a_template_is_found_by_its_registered_name() -> None:
    task = create_task("test_rows", args=(6, 8))
    assert task.template is task_templates.rows
    assert task.name == "test_rows"


def test_the_template_itself_or_a_plain_function_can_be_given() -> None:
    assert create_task(task_templates.rows, args=(6, 8)).name == "test_rows"
    task = create_task(task_templates.plain, args=(6,))
    assert task.name == "plain"
    assert [a.shape for a in task.arguments()] == [(6, 4), (6, 4)]


@pytest.mark.parametrize("attribute", ["rows", "test_rows"])
def test_a_template_in_a_file_is_found_by_the_name_of_the_function_or_its_own(attribute: str) -> None:
    assert create_task(f"{FILE}:{attribute}", args=(6, 8)).name == "test_rows"


def test_an_undecorated_function_in_a_file_is_a_template() -> None:
    assert create_task(f"{FILE}:plain", args=(6,)).name == "plain"


def test_a_relative_path_is_taken_from_where_one_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FILE.parent)
    assert create_task("task_templates.py:plain", args=(6,)).name == "plain"


def test_an_unknown_name_shows_the_near_ones() -> None:
    with pytest.raises(UnknownName, match="test_rows"):
        create_task("test_row", args=(6, 8))
    with pytest.raises(UnknownName, match="matmul"):
        create_task("matmull", args=(6, 8, 9))


def test_an_unknown_name_in_a_file_shows_what_the_file_has() -> None:
    with pytest.raises(UnknownName, match=r"the file defines no 'colums'; it defines .*rows"):
        create_task(f"{FILE}:colums", args=(6, 8))


def test_a_missing_file_is_named() -> None:
    with pytest.raises(PluginError, match=r"there is no Python file '.*nowhere.py'"):
        create_task("nowhere.py:rows", args=(6, 8))


def test_something_else_than_a_function_is_refused() -> None:
    with pytest.raises(TemplateError, match=r"is 42, not a template function; decorate one with @pegbox.template"):
        create_task(f"{FILE}:not_a_template")


def test_a_template_has_the_function_s_signature_and_docstring() -> None:
    template = find_template("test_rows")
    assert str(template.signature).startswith("(n: 'int', m: 'int', dtype: 'str' = 'float32', *, scale: 'int' = 2)")
    assert template.doc.startswith("B = A * scale, in tiles.\n\nThe second paragraph")
    assert template.__wrapped__ is template.function


def test_the_decorator_without_a_name_takes_the_function_s() -> None:
    @pb.template
    def test_undecorated_name(cfg: Any) -> None: ...

    assert isinstance(test_undecorated_name, Template)
    assert find_template("test_undecorated_name") is test_undecorated_name


def test_a_name_with_two_definitions_in_one_module_is_refused() -> None:
    def other(cfg: Any) -> None: ...

    other.__module__ = task_templates.__name__
    with pytest.raises(PluginError, match="test_rows"):
        pb.template("test_rows")(other)


def test_the_same_definition_may_run_again() -> None:
    again = pb.template("test_rows")(task_templates.rows.function)
    assert find_template("test_rows") == again == task_templates.rows


# Arguments and workload


def test_lists_in_the_workload_are_as_json_has_them() -> None:
    def template(cfg: Any, shape: Any, options: Any = None) -> Any:
        a = te.placeholder(shape, name="A")
        b = te.compute(shape, lambda i, j: a[i, j] * 2, "B")
        return te.create_schedule(b), [a, b]

    spellings = [((2, 3), {"pad": (0, 1)}), ([2, np.int64(3)], {"pad": [np.int8(0), 1]})]
    for shape, options in spellings:
        workload = create_task(template, args=(shape, options)).workload[1]
        assert workload == json.loads(json.dumps(workload)) == {"shape": [2, 3], "options": {"pad": [0, 1]}}


def test_the_workload_is_the_same_however_the_arguments_are_given() -> None:
    spellings = [
        create_task("test_rows", args=(6, 8)),
        create_task("test_rows", args=(6,), kwargs={"m": 8}),
        create_task("test_rows", args=[6, 8, "float32"]),
        create_task("test_rows", kwargs={"m": 8, "n": 6, "scale": 2, "dtype": "float32"}),
        create_task("test_rows", args=(np.int64(6), np.int32(8))),
    ]
    expected = ("test_rows", {"n": 6, "m": 8, "dtype": "float32", "scale": 2})
    for task in spellings:
        assert task.workload == expected
        assert list(task.workload[1]) == list(expected[1])
        assert json.loads(json.dumps(task.workload)) == list(expected)
        assert repr(task) == repr(spellings[0])
        assert task.space.fingerprint == spellings[0].space.fingerprint


@pytest.mark.parametrize(
    ("args", "kwargs", "words"),
    [
        ((6,), {}, r"cannot take \(6\): missing a required argument: 'm'"),
        ((6, 8, "float32", 9), {}, r"cannot take \(6, 8, 'float32', 9\): too many positional arguments"),
        ((6, 8), {"depth": 3}, r"cannot take \(6, 8, depth=3\): got an unexpected keyword argument 'depth'"),
        ((6, 8), {"n": 3}, r"cannot take \(6, 8, n=3\): multiple values for argument 'n'"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_with_the_signature(args: Any, kwargs: Any, words: str) -> None:
    with pytest.raises(TemplateError, match=r"template test_rows\(n: int, m: int, dtype: str = 'float32'.* " + words):
        create_task("test_rows", args=args, kwargs=kwargs)


@pytest.mark.parametrize("args", [(0, 8), ("six", 8), (6, 8, "float31"), (6, None)])
def test_arguments_that_mean_nothing_are_errors_of_pegbox(args: Any) -> None:
    with pytest.raises(pb.errors.PegboxError):
        create_task("test_rows", args=args)


def test_a_default_of_the_template_itself_is_taken_as_it_is() -> None:
    def automatic(cfg: Any, m: int, n: int = "auto") -> None: ...  # type: ignore[assignment]

    template = Template("automatic", automatic)
    assert template.bind((8,), {}) == {"m": 8, "n": "auto"}
    with pytest.raises(TemplateError, match=r"n='auto' is not an integer"):
        template.bind((8, "auto"), {})


def test_an_unknown_target_is_refused() -> None:
    with pytest.raises(TargetError, match="unknown kind 'cuda'"):
        create_task("test_rows", args=(6, 8), target="cuda")
    assert create_task("test_rows", args=(6, 8), target=Target("llvm -num-cores 1")).target.num_cores == 1


# What a task knows


def test_a_task_shows_what_it_is_of() -> None:
    task = create_task("test_rows", args=(6, 8), target="llvm -mcpu=znver3 -num-cores 1")
    assert repr(task) == (
        f"Task(test_rows(n=6, m=8, dtype='float32', scale=2), target='llvm -mcpu=znver3 -num-cores 1', "
        f"{task.space.size} configurations)"
    )
    assert task.symbol == "test_rows"


def test_symbols_are_c_identifiers() -> None:
    template = Template("my-template.v2", task_templates.rows.function)
    assert create_task(template, args=(6, 8)).symbol == "my_template_v2"


@pytest.mark.parametrize("name", ["test_rows", "test_rows_tir"])
def test_the_kernel_is_called_as_its_template_in_both_languages(name: str) -> None:
    task = create_task(name, args=(6, 8))
    assert task.lower(task.space.get(0)).name == name


def test_a_configuration_gives_a_schedule_to_go_on_with() -> None:
    task = rows_task()
    config = task.space.get(3)
    schedule, arguments = task.instantiate(config)
    assert [t.name for t in arguments] == [spec.name for spec in task.arguments()]
    assert str(lower(schedule, arguments, "test_rows")) == str(task.lowered(config))


def test_the_space_is_declared_by_the_template() -> None:
    space = rows_task().space
    assert list(space.knobs) == ["tile_y", "tile_x", "order", "ann", "unroll"]
    assert len(space.knobs["tile_y"]) == 4
    assert len(space.knobs["order"]) == 2


def test_arguments_are_described_in_call_order() -> None:
    task = rows_task(6, 8, "float64")
    assert [(a.name, a.shape, a.dtype, a.is_output) for a in task.arguments()] == [
        ("A", (6, 8), "float64", False),
        ("B", (6, 8), "float64", True),
    ]
    assert [t.name for t in task.outputs] == ["B"]


def test_flop_and_reference() -> None:
    task = rows_task(6, 8, scale=3)
    assert task.flop == 48
    x = np.arange(48, dtype="float32").reshape(6, 8)
    np.testing.assert_array_equal(task.reference([x])[0], x * 3)


def test_every_run_of_a_template_gives_the_same_space() -> None:
    assert rows_task().space.fingerprint == rows_task().space.fingerprint


@pytest.mark.parametrize("name", ["test_rows", "test_rows_tir"])
def test_sampled_configurations_compute_what_numpy_computes(name: str) -> None:
    task = create_task(name, args=(6, 8))
    x = np.random.default_rng(0).integers(-9, 9, (6, 8)).astype("float32")
    for config in configs(task, 12):
        out = np.full_like(x, 77)
        pb.build(task, config=config)(x, out)
        np.testing.assert_array_equal(out, x * 2, err_msg=str(config))


def configs(task: Task, count: int) -> list[pb.Config]:
    digits = task.space.sample(count, np.random.default_rng(0))
    return [task.space.config([int(d) for d in row]) for row in digits]


def test_one_configuration_is_one_program() -> None:
    task, again = rows_task(), rows_task()
    for config in configs(task, 5):
        assert task.lower(config).ll == again.lower(again.space.get(config.index)).ll
        assert task.show_ir(config) == again.show_ir(config)
        assert str(task.lowered(config)) == task.show_ir(config)


def test_show_schedule_gives_the_primitives_and_the_program_with_blocks() -> None:
    task = rows_task()
    config = task.space.from_json({"entity": [["tile_y", "sp", [-1, 2]], ["tile_x", "sp", [-1, 2, 4]],
        ["order", "re", [1, 0]], ["ann", "an", ["unroll", "vec"]], ["unroll", "ot", 16]]})  # fmt: skip
    text = task.show_schedule(config)
    assert text.index("sch.split(sch.get_loop('B', 0), factors=[None, 2], names=") < text.index(
        "def test_rows(A: float32[6, 8]"
    )
    assert "sch.vectorize(" in text
    assert "in vectorized range(4)" in text
    assert "in unrolled range(2)" in text
    assert "# pragma_auto_unroll_max_step = 16" in text
    assert "block B:" in text


# Pickling


@pytest.mark.parametrize("ref", ["test_rows", "matmul", f"{FILE}:rows", f"{FILE}:plain"])
def test_tasks_can_be_pickled(ref: str) -> None:
    args = {"matmul": (4, 5, 6), f"{FILE}:plain": (6,)}.get(ref, (6, 8))
    task = create_task(ref, args=args, target="llvm -num-cores 1")
    copy = pickle.loads(pickle.dumps(task))
    assert repr(copy) == repr(task)
    assert copy.space.fingerprint == task.space.fingerprint
    config = configs(task, 1)[0]
    assert copy.show_ir(copy.space.get(config.index)) == task.show_ir(config)


@pytest.mark.parametrize("accuracy", [None, 1e-3])
def test_a_pickled_task_keeps_its_accuracy(accuracy: float | None) -> None:
    copy = pickle.loads(pickle.dumps(create_task("matmul", args=(4, 5, 6), accuracy=accuracy)))
    assert copy.given_accuracy == accuracy


def test_a_task_from_a_file_can_be_unpickled_in_another_process(tmp_path: Path) -> None:
    path = tmp_path / "some_templates.py"
    path.write_text(FILE.read_text().replace('"test_rows', '"test_elsewhere'))
    task = create_task(f"{path}:rows", args=(6, 8))
    (tmp_path / "task.pickle").write_bytes(pickle.dumps(task))
    read = f"import pickle; print(repr(pickle.load(open({str(tmp_path / 'task.pickle')!r}, 'rb'))))"
    done = subprocess.run([sys.executable, "-c", read], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == repr(task), done.stderr


def test_a_local_function_cannot_be_pickled_and_says_why() -> None:
    def local(cfg: Any) -> Any:
        return task_templates.rows(cfg, 6, 8)

    with pytest.raises(pickle.PicklingError, match=r"template local .* is defined inside a function"):
        pickle.dumps(create_task(local))


# Templates that go wrong


def simple(cfg: Any) -> Any:
    a = te.placeholder((8,), name="A")
    b = te.compute((8,), lambda i: a[i] + 1, "B")
    return a, b, te.create_schedule(b)


def test_a_template_that_raises_is_named_with_its_arguments() -> None:
    def broken(cfg: Any, n: int) -> Any:
        raise ZeroDivisionError("by nothing")

    with pytest.raises(TemplateError, match=r"template broken with \{'n': 3\} raised ZeroDivisionError: by nothing"):
        create_task(broken, args=(3,))


@pytest.mark.parametrize("status", [0, None, 3, "no such card"])
def test_a_template_that_exits_has_failed_and_nothing_else_has(status: Any) -> None:
    def exits(cfg: Any, n: int) -> Any:
        cfg.define_knob("k", [1, 2])
        if n == 4 or cfg["k"].val == 2:
            sys.exit(status)
        return rows(cfg, n)

    rows = task_templates.plain
    with pytest.raises(TemplateError, match=r"template exits with \{'n': 4\} raised SystemExit"):
        create_task(exits, args=(4,))
    task = create_task(exits, args=(3,))
    with pytest.raises(TemplateError, match="raised SystemExit"):
        task.schedule(next(config for config in task.space.iterate() if config["k"].val == 2))


def test_ctrl_c_in_a_template_is_not_swallowed() -> None:
    def interrupted(cfg: Any) -> Any:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        create_task(interrupted)


@pytest.mark.parametrize("made", [None, 5, "schedule", ([], []), (1, 2, 3)])
def test_a_template_that_returns_something_else_is_reported_with_the_right_form(made: Any) -> None:
    with pytest.raises(TemplateError, match=r"returned .*; return \(s, \[A, B, C\]\): the schedule and the arguments"):
        create_task(lambda cfg: made)


@pytest.mark.parametrize("argument", ["A", None, 3])
def test_arguments_of_a_template_must_be_tensors(argument: Any) -> None:
    def wrong(cfg: Any) -> Any:
        a, b, s = simple(cfg)
        return s, [a, b, argument]

    with pytest.raises(TemplateError, match=f"template wrong: argument {argument!r} is not a tensor"):
        create_task(wrong)


def test_arguments_beside_a_tir_schedule_must_be_its_own() -> None:
    def template(cfg: Any) -> Any:
        a = te.placeholder((4,), name="A")
        b = te.compute((4,), lambda i: a[i] * 2, "B")
        return tir.Schedule([a, b]), [b, a]

    with pytest.raises(
        TemplateError, match=r"returned the arguments \['B', 'A'\], but its schedule's are \['A', 'B'\]"
    ):
        create_task(template)


def test_arguments_of_a_template_must_be_a_sequence() -> None:
    def wrong(cfg: Any) -> Any:
        _, b, s = simple(cfg)
        return s, b

    with pytest.raises(TemplateError, match=r"return \(s, \[A, B, C\]\)"):
        create_task(wrong)


def test_a_template_without_knobs_has_one_configuration() -> None:
    def fixed(cfg: Any) -> Any:
        a, b, s = simple(cfg)
        return s, [a, b]

    task = create_task(fixed)
    assert task.space.size == 1
    assert "B[i] = A[i] + 1.0" in task.show_ir(task.space.get(0))


def test_two_knobs_of_one_name_are_refused() -> None:
    def twice(cfg: Any) -> Any:
        cfg.define_knob("x", [1, 2])
        cfg.define_knob("x", [3])
        a, b, s = simple(cfg)
        return s, [a, b]

    with pytest.raises(SpaceError, match="x"):
        create_task(twice)


def test_a_knob_without_candidates_is_refused() -> None:
    def empty(cfg: Any) -> Any:
        cfg.define_knob("x", [])

    with pytest.raises(SpaceError, match="x"):
        create_task(empty)


def test_an_unknown_knob_is_named_with_the_near_ones() -> None:
    def misspelt(cfg: Any) -> Any:
        cfg.define_knob("unroll", [1, 2])
        return cfg["unrol"].val

    with pytest.raises(SpaceError, match=r"no knob 'unrol' in this config.*unroll"):
        create_task(misspelt)


def test_a_template_may_refuse_configurations() -> None:
    def picky(cfg: Any) -> Any:
        cfg.define_knob("x", [1, 2, 3])
        if cfg["x"].val == 2:
            cfg.raise_error("two is bad")
        a, b, s = simple(cfg)
        return s, [a, b]

    task = create_task(picky)
    with pytest.raises(InvalidConfig, match="the template refuses #1 x=2: two is bad"):
        task.schedule(task.space.get(1))
    assert task.lower(task.space.get(2)).name == "picky"


def test_refusing_the_first_configuration_does_not_end_the_declaration() -> None:
    def picky(cfg: Any) -> Any:
        cfg.define_knob("x", [1, 2])
        if cfg["x"].val == 1:
            cfg.raise_error("one is bad")
        cfg.define_knob("y", [5, 6])
        a, b, s = simple(cfg)
        return s, [a, b]

    task = create_task(picky)
    assert list(task.space.knobs) == ["x", "y"]
    with pytest.raises(InvalidConfig, match="one is bad"):
        task.schedule(task.space.get(0))
    assert task.lowered(task.space.get(1)) is not None


def test_knobs_can_be_declared_anywhere_in_the_template() -> None:
    def late(cfg: Any) -> Any:
        a, b, s = simple(cfg)
        cfg.define_split("t", s[b].op.axis[0], num_outputs=2)
        _, inner = cfg["t"].apply(s, b, s[b].op.axis[0])
        cfg.define_annotate("ann", [inner], policy="try_unroll")
        cfg["ann"].apply(s, b, [inner])
        return s, [a, b]

    task = create_task(late)
    assert [len(knob) for knob in task.space.knobs.values()] == [4, 2]


@pytest.mark.parametrize("define", [
    lambda cfg: cfg.define_knob("late", [1, 2]),
    lambda cfg: cfg.define_split("late", 8),
    lambda cfg: cfg.define_annotate("late", ["x"], policy="try_vec"),
])  # fmt: skip
def test_a_knob_that_only_some_runs_declare_is_reported_with_the_remedy(define: Any) -> None:
    def moody(cfg: Any) -> Any:
        cfg.define_knob("x", [1, 2])
        if cfg["x"].val == 2:
            define(cfg)
        a, b, s = simple(cfg)
        return s, [a, b]

    task = create_task(moody)
    task.schedule(task.space.get(0))
    with pytest.raises(SpaceError, match=r"knob 'late' was not declared by the template's first run.*give when="):
        task.schedule(task.space.get(1))


def test_a_condition_and_a_constraint_reach_the_space() -> None:
    def conditional(cfg: Any) -> Any:
        cfg.define_knob("layout", ["plain", "packed"])
        cfg.define_knob("width", [4, 8, 16], when={"layout": "packed"})
        cfg.add_constraint(lambda c: c["width"].val < 16, reads=("width",), message="too wide")
        a, b, s = simple(cfg)
        return s, [a, b]

    space = create_task(conditional).space
    assert space.size == 6
    assert space.num_valid() == 3


def test_arguments_of_one_name_can_be_declared_in_c() -> None:
    def nameless(cfg: Any) -> Any:
        a, b = te.placeholder((8,)), te.placeholder((8,))
        c = te.compute((8,), lambda i: a[i] + b[i])
        return te.create_schedule(c), [a, b, c]

    task = create_task(nameless)
    header = c_header(task.lower(task.space.get(0)))
    assert "(const float *placeholder_0, const float *placeholder_1, float *compute, void *workspace)" in header


# How a configuration is given


def test_a_configuration_is_given_as_users_have_it() -> None:
    task = rows_task()
    config = task.space.get(task.space.size - 1)
    trial = SimpleNamespace(config=config)
    values = {name: entity.value() for name, entity in config.items()}
    record = SimpleNamespace(config=config.to_json())
    program = task.lower(config)
    for given in (
        config.index,
        np.int64(config.index),
        trial,
        SimpleNamespace(best=trial),
        record,
        config.to_json(),
        values,
    ):
        assert task.lower(given) == program
        assert task.show_ir(given) == task.show_ir(config)
        assert task.show_schedule(given) == task.show_schedule(config)
        assert pb.build(task, config=given).programs == [program]


def test_knobs_may_be_called_as_the_parts_of_a_record() -> None:
    space = ConfigSpace()
    space.define_knob("index", [0, 1, 5])
    space.define_knob("mode", ["a", "b"])
    assert given_config(space, {"index": 5, "mode": "a"}) == space.get(2)
    assert given_config(space, space.get(2).to_json()) == space.get(2)


def test_what_holds_no_configuration_is_refused() -> None:
    task = rows_task()
    other = create_task("matmul", args=(8, 8, 8)).space.get(0)
    with pytest.raises(ArgumentError, match="belongs to another space; take one of"):
        task.lower(SimpleNamespace(best=SimpleNamespace(config=other)))
    with pytest.raises(SpaceError, match=r"namespace.* found no configuration that runs"):
        task.lower(SimpleNamespace(best=None))
    with pytest.raises(SpaceError, match="no knob 'tile' in this space"):
        task.lower({"tile": 1})
    with pytest.raises(SpaceError, match="True is not a configuration"):
        task.lower(True)


def test_arrays_are_no_options() -> None:
    task = create_task("test_rows", args=(6, 8))
    for odd in (np.array([]), np.zeros((2, 2))):
        with pytest.raises(ArgumentError, match="accuracy="):
            task.with_accuracy(odd)  # type: ignore[arg-type]
        with pytest.raises(ArgumentError, match="wide="):
            task.reference([], wide=odd)  # type: ignore[arg-type]
        with pytest.raises(ArgumentError, match="implementations"):
            task.with_implementations(odd)  # type: ignore[arg-type]
