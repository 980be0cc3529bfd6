"""One sketch as a template module: the winner's program, knobs of splits alone, and other shapes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sketch_values import CASES, check_values

import pegbox as pb
from pegbox import te
from pegbox.errors import ArgumentError, TemplateError
from pegbox.loops.equal import structural_equal
from pegbox.measure import Ok
from pegbox.plugins.cli import main
from pegbox.plugins.sketch import sketch_template
from pegbox.plugins.sketch.shape_arguments import over_arguments
from pegbox.plugins.sketch.single_template import same_splits
from pegbox.records import Journal, Record, load_history
from pegbox.task.task import Task

TARGET = "llvm -mcpu=x86-64-v3 -num-cores 2"
SIZES = ("n", "m", "c", "o", "x", "y", "z", "p", "d", "batch")
"""The arguments that are extents: of any value, in even ones for winograd's tiles."""


def sampled(task: Task, count: int = 1) -> list[Any]:
    return [task.space.config(row) for row in task.space.sample(count, np.random.default_rng(0))]


def written(folder: Path, task: Task, text: str, args: tuple[Any, ...] | None = None) -> Task:
    file = folder / "written.py"
    file.write_text(text)
    name = task.name.partition("@")[0]
    return pb.create_task(f"{file}:{name}", args=task.args if args is None else args, target=task.target)


@pytest.mark.parametrize(("name", "args"), CASES.items())
def test_the_template_of_a_configuration_makes_its_program_and_others_of_other_shapes(
    tmp_path: Path, name: str, args: tuple[Any, ...]
) -> None:
    task = pb.create_task(name, args=args, space="sketch", target="llvm -num-cores 2")
    (config,) = sampled(task)
    text = sketch_template(task, config)
    assert "when=" not in text
    made = written(tmp_path, task, text)
    assert structural_equal(made.lowered(same_splits(task, config, made)), task.lowered(config), labels=False)
    named = text.partition("Other values of ")[2].partition(" are computed")[0].split(", ")
    assert len(named) >= 2
    sizes = zip(made.template.signature.parameters, args, strict=False)
    others = tuple(value + 2 if key in named and key in SIZES and value > 1 else value for key, value in sizes)
    other = written(tmp_path, task, text, others)
    wanted = pb.create_task(name, args=others, space="sketch", target=task.target)
    assert [tensor.shape for tensor in other.tensors] == [tensor.shape for tensor in wanted.tensors]
    check_values(other, sampled(other)[0])


def test_a_layer_norm_is_short(tmp_path: Path) -> None:
    task = pb.create_task("layer_norm", (64, 512), space="sketch", target=TARGET)
    assert max(len(sketch_template(task, config).splitlines()) for config in sampled(task, 20)) < 100


def test_a_sketch_by_its_name_leaves_its_other_choices_open(tmp_path: Path) -> None:
    task = pb.create_task("matmul", (16, 16, 32), space="sketch", target=TARGET)
    made = written(tmp_path, task, sketch_template(task, sketch="cache+fuse(1)"))
    assert "C_local_A_pack" in made.space.knobs
    assert "sketch" not in made.space.knobs
    check_values(made, sampled(made)[0])


def test_sizes_that_fill_no_vector_are_computed_too(tmp_path: Path) -> None:
    task = pb.create_task("matmul", (16, 16, 32), space="sketch", target=TARGET)
    text = sketch_template(task, sampled(task)[0])
    for args in ((16, 16, 5), (37, 3, 1), (1, 1, 500)):
        other = written(tmp_path, task, text, args)
        check_values(other, sampled(other)[0])


def test_a_value_that_the_code_does_not_name_is_refused(tmp_path: Path) -> None:
    task = pb.create_task("matmul", (16, 16, 32), space="sketch", target=TARGET)
    with pytest.raises(TemplateError, match="written for dtype=float32"):
        written(tmp_path, task, sketch_template(task, sampled(task)[0]), (16, 16, 32, "float64"))


def test_a_sketch_that_takes_packed_operands_is_for_one_shape(tmp_path: Path) -> None:
    task = pb.create_task("matmul", (16, 16, 32), space="sketch:layout_free=B", target=TARGET)
    (config,) = sampled(task)
    made = written(tmp_path, task, sketch_template(task, config))
    assert structural_equal(made.lowered(same_splits(task, config, made)), task.lowered(config), labels=False)
    assert made.numpy == task.numpy
    with pytest.raises(TemplateError, match="written for n=16"):
        written(tmp_path, task, (tmp_path / "written.py").read_text(), (16, 16, 64))


def test_the_command_writes_the_best_of_the_records_and_a_record_of_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    task = pb.create_task("matmul", (16, 16, 32), space="sketch", target=TARGET)
    configs = sampled(task, 3)
    for number, config in enumerate(configs):
        Journal(tmp_path / "r.jsonl").append(Record.of(task, config, Ok((1e-3 - number * 1e-4,), 0.1, 0.0, {})))
    out = tmp_path / "best.py"
    words = ["sketch", "matmul", "16", "16", "32", "--target", TARGET, "--records", str(tmp_path / "r.jsonl")]
    assert main([*words, "--out", str(out)]) == 0
    assert "--resume" in capsys.readouterr().out
    made = pb.create_task(f"{out}:matmul", (16, 16, 32), target=TARGET)
    (kept,), (result,) = load_history(Journal(out.with_suffix(".jsonl")), made)
    assert isinstance(result, Ok)
    assert result.cost == pytest.approx(8e-4)
    assert structural_equal(made.lowered(kept), task.lowered(configs[2]), labels=False)
    assert main([*words, "--out", str(out)]) == 2
    assert "--force" in capsys.readouterr().err
    assert main([*words, "--out", str(tmp_path / "b.py"), "--sketch", "tile"]) == 2


def test_arguments_that_the_template_names_otherwise_may_be_given_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    task = pb.create_task("matmul_transposed", (9, 11, 13), space="sketch", target=TARGET)
    Journal(tmp_path / "r.jsonl").append(Record.of(task, sampled(task)[0], Ok((1e-3,), 0.1, 0.0, {})))
    out = tmp_path / "mt.py"
    named = [f"{name}={value}" for name, value in task.workload[1].items() if name != "dtype"]
    words = ["sketch", "matmul_transposed", *named, "--target", TARGET, "--records", str(tmp_path / "r.jsonl")]
    assert main([*words, "--out", str(out)]) == 0
    assert f"pegbox tune {out}:matmul_transposed --records" in capsys.readouterr().out
    assert "k_1" in out.read_text()


def test_records_without_a_valid_trial_write_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "r.jsonl").write_text("")
    words = ["sketch", "matmul", "8", "8", "8", "--records", str(tmp_path / "r.jsonl"), "--out", str(tmp_path / "o.py")]
    assert main(words) == 1
    assert "no valid record" in capsys.readouterr().err
    assert not (tmp_path / "o.py").exists()


def test_what_is_no_sketch_is_refused() -> None:
    task = pb.create_task("matmul", (8, 8, 8), space="sketch", target=TARGET)
    with pytest.raises(ArgumentError, match="has no sketch 'tiles'; did you mean 'tile'") as caught:
        sketch_template(task, sketch="tiles")
    assert str(caught.value).count("cache+fuse(1)") == 1
    with pytest.raises(ArgumentError, match="give a config"):
        sketch_template(task)
    with pytest.raises(ArgumentError, match="space='sketch'"):
        sketch_template(pb.create_task("matmul", (8, 8, 8), target=TARGET), sketch="tile")


def test_a_sketch_may_be_dropped_from_the_module_of_all(tmp_path: Path) -> None:
    file = tmp_path / "all.py"
    assert main(["sketch", "layer_norm", "8", "32", "--out", str(file), "--target", TARGET]) == 0
    text = file.read_text()
    start = text.index("SKETCHES = {")
    entries = text[start : text.index("}", start)].splitlines()[1:]
    assert len(entries) > 4
    for keep in (entries[:1], entries[2:4], entries[-1:]):
        left = "\n".join(entry for entry in text.splitlines() if entry not in entries or entry in keep)
        some = tmp_path / f"some_{len(keep)}_{entries.index(keep[0])}.py"
        some.write_text(left)
        task = pb.create_task(f"{some}:layer_norm", (8, 32), target=TARGET)
        assert len(task.space.knobs["sketch"]) == len(keep)
        check_values(task, sampled(task)[0])


def lines_over(**sizes: int) -> tuple[list[str], list[str]]:
    def lines(values: Any) -> list[str] | None:
        n, k = values["n"], values.get("k", 1)
        if n % k:
            return None
        A = te.placeholder((n, 3), name="A7")
        return [repr(A.shape), f"x[{n // k}] * {1 / n} + {(n + 3) // 2}"]

    return over_arguments(lines, sizes)


def test_numbers_become_expressions_of_the_arguments() -> None:
    assert lines_over(n=16) == (["(n, 3)", "x[n] * (1 / n) + ((n + 3) // 2)"], ["n"])
    text, varied = lines_over(n=16, k=2)
    assert varied == ["n", "k"]
    assert text[1] == "x[n // k] * (1 / n) + ((n + 2) // 2)"  # n is even


@pytest.mark.parametrize(
    "line",
    [
        lambda n: f"x * {n}" if n % 2 else f"x + {n}",
        lambda n: f"x[{min(n, 100)}]",
        lambda n: f"x[{max(n, 8)}]",
        lambda n: "x" if n < 1000 else f"x + {n}",
    ],
)
def test_an_argument_whose_code_has_another_form_for_other_values_stays_as_it_is(line: Callable[[int], str]) -> None:
    assert over_arguments(lambda values: [line(values["n"])], {"n": 12}) == ([line(12)], [])


@pytest.mark.parametrize(
    ("number", "varied"), [(lambda n: 1.00000004 / n, []), (lambda n: float(np.float32(1 / n)), ["n"])]
)
def test_a_number_keeps_the_digits_of_its_type(number: Callable[[int], float], varied: list[str]) -> None:
    assert over_arguments(lambda values: [f"x * {number(values['n'])!r}"], {"n": 10})[1] == varied


def test_a_shape_whose_code_is_too_deep_is_not_asked_for(tmp_path: Path) -> None:
    def summed(n: int, m: int) -> list[te.Tensor]:
        A = te.placeholder((n, m), name="A")
        return [A, te.compute((m,), lambda j: sum((A[i, j] for i in range(1, n)), A[0, j]), name="C")]

    task = pb.create_task(summed, args=(150, 8), space="sketch", target=TARGET)
    assert "Other values of m are computed" in sketch_template(task, sampled(task)[0])


def test_an_argument_that_the_numbers_do_not_show_stays_as_it_is() -> None:
    assert over_arguments(lambda values: [f"f({values['n'] ** 3 % 17})"], {"n": 5}) == (["f(6)"], [])
