"""Records of sketches: those of another computation, or of other rules, are refused though the knobs are equal."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pegbox as pb
from pegbox import te
from pegbox.errors import ArgumentError, RecordError, TemplateError
from pegbox.measure import Ok
from pegbox.plugins.sketch.generator import SketchGenerator
from pegbox.plugins.sketch.rules import Match, Rule, ansor_rules
from pegbox.plugins.sketch.space import SketchSpace
from pegbox.plugins.sketch.state import State
from pegbox.plugins.sketch.steps import Name
from pegbox.records import Journal, Record
from pegbox.records.history import load_history
from pegbox.search.models.inputs import load_transfer
from pegbox.task.task import Task
from pegbox.task.workload import Workload

TARGET = "llvm -mcpu=x86-64-v3 -num-cores 1"


def scaled(factor: float) -> Callable[[], list[te.Tensor]]:
    """The body of a workload, which a person edits: the knobs stay what they are."""

    def compute() -> list[te.Tensor]:
        A, B, k = te.placeholder((8, 8), name="A"), te.placeholder((8, 8), name="B"), te.reduce_axis((0, 8), name="k")
        C = te.compute((8, 8), lambda i, j: te.sum(A[i, k] * B[k, j] * factor, axis=k), name="C")
        return [A, B, C]

    return compute


def task_of(compute: Callable[[], list[te.Tensor]], rules: Any = "ansor") -> Task:
    return pb.create_task(Workload("op", compute), space=SketchGenerator(rules), target=TARGET)


def recorded(task: Task, path: Path) -> Journal:
    journal = Journal(path)
    journal.append(Record.of(task, task.space.get(1), Ok((1e-3,))))
    return journal


class Unrolling:
    """Another rule with the same knobs: the outermost loop of an output is unrolled."""

    def match(self, state: State, stage: int) -> Match:
        return Match.ALSO if state.stages[stage] == "C" and not state.tiles else Match.NO

    def apply(self, state: State, stage: int) -> list[tuple[State, int]]:
        new = state.copy()
        new.call("C", "unroll", Name(new.loops("C")[0]))
        return [(new, stage - 1)]


class Naming(Unrolling):
    def apply(self, state: State, stage: int) -> list[tuple[State, int]]:
        new = state.copy()
        new.loops("C")
        return [(new, stage - 1)]


def test_records_of_the_same_computation_and_rules_are_taken(tmp_path: Path) -> None:
    journal = recorded(task_of(scaled(2.0)), tmp_path / "op.jsonl")
    again = task_of(scaled(2.0))
    assert load_history(journal, again)[0] == [again.space.get(1)]
    assert len(pb.recorded_space(journal.path, task=again)) == 1


def test_records_of_an_edited_computation_are_refused(tmp_path: Path) -> None:
    before, after = task_of(scaled(2.0)), task_of(scaled(3.0))
    assert before.space.fingerprint == after.space.fingerprint  # the knobs say nothing of it
    journal = recorded(before, tmp_path / "op.jsonl")
    wanted = f"{before.fingerprint[:12]}.*{after.fingerprint[:12]}.*computation and rules"
    with pytest.raises(RecordError, match=wanted):
        load_history(journal, after)
    with pytest.raises(RecordError, match=wanted):
        pb.recorded_space(journal.path, task=after)
    with pb.apply_history_best(journal.path), pytest.raises(RecordError, match=wanted):
        pb.build(after)
    with pytest.raises(RecordError, match=wanted):
        pb.SimulatedRunner(pb.recorded_space(journal.path, task=before)).recorded(after)


def test_records_made_by_other_rules_are_refused(tmp_path: Path) -> None:
    made: list[list[Rule]] = [[rule, *ansor_rules()] for rule in (Unrolling(), Naming())]
    before, after = (task_of(scaled(2.0), rules) for rules in made)
    assert before.space.fingerprint == after.space.fingerprint
    journal = recorded(before, tmp_path / "op.jsonl")
    with pytest.raises(RecordError, match="rules that it was derived from have changed"):
        load_history(journal, after)


def test_experience_is_not_taken_from_an_edited_computation(tmp_path: Path) -> None:
    def of(factor: float) -> Workload:
        def compute(n: int) -> list[te.Tensor]:
            A, k = te.placeholder((n, n), name="A"), te.reduce_axis((0, n), name="k")
            return [A, te.compute((n,), lambda i: te.sum(A[i, k] * factor, axis=k), name="C")]

        return Workload("op", compute)

    before, after = (pb.create_task(of(f), (n,), space="sketch", target=TARGET) for f, n in ((2.0, 8), (3.0, 16)))
    journal = recorded(before, tmp_path / "op.jsonl")
    with pytest.raises(ArgumentError, match=r"nothing can be learned .*with a space that has changed since"):
        load_transfer(journal, after)


def test_another_generator_need_not_say_what_its_spaces_do(tmp_path: Path) -> None:
    def without(tensors: Any, target: Any) -> Any:
        space = SketchGenerator()(tensors, target)
        return lambda cfg: space(cfg)

    task = pb.create_task(Workload("op", scaled(2.0)), space=without, target=TARGET)
    assert task.fingerprint == task.space.fingerprint


def test_what_a_space_says_of_itself_has_to_be_text() -> None:
    class Numbered(SketchSpace):
        source = 7  # type: ignore[assignment]

    def generator(tensors: Any, target: Any) -> Any:
        return Numbered(SketchGenerator().sketches(tensors, target))

    with pytest.raises(TemplateError, match="source is 7; give text"):
        _ = pb.create_task(Workload("op", scaled(2.0)), space=generator, target=TARGET).fingerprint
