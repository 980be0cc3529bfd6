"""Two spaces of one computation: the report says which one is better."""

from __future__ import annotations

from typing import Any

import pytest

import pegbox as pb
from pegbox.search import Comparison
from pegbox.search.testing import ArtificialMeasurer
from pegbox.task.task import Task

TARGET = "llvm -mcpu=x86-64-v3 -num-cores 1"
SEEDS = 6


def template(target: str = TARGET) -> Task:
    return pb.create_task("matmul", (16, 16, 16), target=target)


def sketch(name: str = "matmul") -> Task:
    return pb.create_task(name, (16, 16, 16), space="sketch", target=TARGET)


def compared(tasks: list[Task], costs: dict[str, float], spread: float = 0.01, **options: Any) -> Comparison:
    """A comparison in which a configuration costs what its task's space costs, and a little by its index."""

    def measurer(task: Any) -> Any:
        return ArtificialMeasurer(lambda config: costs[task.name] * (1 + spread * (config.index % 97) / 97))

    settings = {"trials": 3, "seeds": SEEDS, "measurer": measurer, **options}
    return pb.comparison.compare(tasks, ["random"], **settings)


def test_a_template_and_the_sketches_of_its_computation_are_compared(tmp_path: Any) -> None:
    report = compared([template(), sketch()], {"matmul": 2e-3, "matmul@sketch": 1e-3})
    (words,) = report.space_words()
    assert words.startswith("matmul@sketch(16, 16, 16) has a better space than matmul(16, 16, 16), which computes the")
    assert "(p = 0.0022): the best 1" in words
    assert words.endswith("x).")
    assert words in " ".join(report.table().split()).replace("\n", " ")
    report.to_html(tmp_path / "report.html")
    assert words in (tmp_path / "report.html").read_text()
    report.save(tmp_path / "report.json")
    assert Comparison.load(tmp_path / "report.json").space_words() == [words]


def test_spaces_that_are_alike_cannot_be_told_apart() -> None:
    report = compared([template(), sketch()], {"matmul": 1e-3, "matmul@sketch": 1e-3}, spread=0.5)
    (words,) = report.space_words()
    assert words.startswith("The spaces of ")
    assert "which compute the same, cannot be told apart (p = " in words


def test_a_space_in_which_nothing_is_valid_is_the_worse_one() -> None:
    report = compared([template(), sketch()], {"matmul": 1e-3, "matmul@sketch": float("inf")})
    (words,) = report.space_words()
    assert words.startswith("matmul(16, 16, 16) has a better space than matmul@sketch(16, 16, 16)")
    assert words.endswith("against nothing valid.")
    both = compared([template(), sketch()], {"matmul": float("inf"), "matmul@sketch": float("inf")})
    assert both.space_words()[0].endswith("no run found anything valid.")


@pytest.mark.parametrize(
    ("other", "why"),
    [
        (sketch("matmul_transposed"), "they give other values for the same inputs."),
        (
            template("llvm -mcpu=znver4 -num-cores 1"),
            f"their targets are {TARGET!r} and 'llvm -mcpu=znver4 -num",
        ),
        (
            pb.create_task("matmul", (16, 16, 16), space="sketch:layout_free=B", target=TARGET),
            "argument 1 is the input B: float32[16, 16] in one and the input B_packed: float32[",
        ),
        (pb.create_task("matmul", (16, 16, 8), space="sketch", target=TARGET), None),
    ],
    ids=["values", "target", "packed", "other work"],
)
def test_tasks_that_compute_something_else_are_not_compared(other: Task, why: str | None, tmp_path: Any) -> None:
    report = compared([template(), other], {"matmul": 2e-3, other.name: 1e-3})
    assert not report.space_verdicts()
    names = " and ".join(task.name for task in report.tasks)
    said = [] if why is None else [f"The spaces of {names} are not compared: {why}"]
    words = report.space_words()
    assert [word[: len(text)] for word, text in zip(words, said, strict=True)] == said
    report.save(tmp_path / "report.json")
    assert Comparison.load(tmp_path / "report.json").space_words() == words
