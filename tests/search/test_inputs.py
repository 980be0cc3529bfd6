"""The inputs of tuners from programs: features, and records of other shapes."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pegbox as pb
from pegbox.errors import ArgumentError, RecordError, UnknownName
from pegbox.features import ProgramFeatures
from pegbox.measure import Failed, FailureKind, Ok, Result
from pegbox.records import Journal, Record
from pegbox.records.journal import RecordWarning
from pegbox.records.recorded_space import RecordedSpace
from pegbox.search.models.inputs import load_transfer, program_features
from pegbox.space import Config

TEMPLATES = str(Path(__file__).parents[1] / "helpers" / "task_templates.py")


@pytest.fixture(scope="module")
def task() -> Any:
    return pb.create_task(f"{TEMPLATES}:rows", args=(8, 4))


@pytest.fixture(scope="module")
def other() -> Any:
    return pb.create_task(f"{TEMPLATES}:rows", args=(16, 8))


@pytest.fixture
def old(tmp_path: Path, other: Any) -> Path:
    journal = Journal(tmp_path / "old.jsonl")
    for index, result in enumerate([Ok((1.0,)), Ok((2.0,)), Failed(FailureKind.CRASH, "killed"), Ok((3.0,))]):
        journal.append(Record.of(other, other.space.get(index), result))
    journal.append(Record.of(other, other.space.get(0), Ok((1.5,)), remeasured=True))
    return journal.path


@pytest.fixture
def recorded(task: Any) -> RecordedSpace:
    return RecordedSpace("rows", task.space, {config: Ok((1.0,)) for config in task.space.iterate()}, task=task)


class Curious:
    """Keeps what it is given, and proposes nothing."""

    given: dict[str, Any] = {}  # noqa: RUF012

    def __init__(self, space: Any, *, seed: int = 0, program: Any = None, transfer: Any = ()) -> None:
        type(self).given = {"space": space, "program": program, "transfer": transfer}

    def ask(self, n: int) -> Sequence[Config]:
        return list(self.given["space"].iterate())[:1]

    def tell(self, configs: Sequence[Config], results: Sequence[Result]) -> None:
        pass


def test_a_tuner_that_declares_it_is_given_features_of_programs(recorded: RecordedSpace) -> None:
    pb.tune(recorded, tuner=Curious, trials=1, progress=False)
    program = Curious.given["program"]
    assert isinstance(program, ProgramFeatures)
    rows = np.array([config.digits for config in recorded.results][:5])
    assert program(rows).shape == (5, len(program.names))
    assert Curious.given["transfer"] == ()


def test_imported_spaces_have_no_programs(task: Any) -> None:
    imported = RecordedSpace("t4", task.space, {task.space.get(0): Ok((1.0,))})
    assert program_features(imported) is None
    pb.tune(imported, tuner=Curious, trials=1, progress=False)
    assert Curious.given["program"] is None


@pytest.mark.parametrize("wrap", [str, Path, Journal, lambda path: [path]])
def test_records_of_other_shapes_are_handed_over(recorded: RecordedSpace, old: Path, other: Any, wrap: Any) -> None:
    pb.tune(recorded, tuner=Curious, trials=1, transfer=wrap(old), progress=False)
    (transfer,) = Curious.given["transfer"]
    assert transfer.name.startswith("test_rows(n=16, m=8")
    assert transfer.costs.tolist() == [1.5, 2.0, np.inf, 3.0]
    rows = np.array([other.space.get(index).digits for index in range(4)])
    assert np.array_equal(transfer.features, ProgramFeatures(other)(rows))
    assert transfer.features.shape[1] == len(Curious.given["program"].names)


def test_what_is_of_no_use_is_skipped_with_a_word(recorded: RecordedSpace, old: Path, task: Any) -> None:
    journal = Journal(old)
    journal.append(Record.of(task, task.space.get(0), Ok((1.0,))))
    first = journal.read()[0]
    journal.append(dataclasses.replace(first, target="llvm -mcpu=skylake -num-cores 7"))
    journal.append(dataclasses.replace(first, space="ab" * 32))
    journal.append(dataclasses.replace(first, name="nowhere", workload=("nowhere", {})))
    with pytest.warns(RecordWarning) as caught:
        found = load_transfer(old, recorded)
    assert len(found) == 1
    said = " ".join(str(warning.message) for warning in caught)
    for why in ("the task itself", "of the target 'llvm -mcpu=skylake", "has changed since", "nowhere"):
        assert why in said


def test_nothing_of_use_is_an_error(recorded: RecordedSpace, tmp_path: Path, task: Any) -> None:
    journal = Journal(tmp_path / "own.jsonl")
    journal.append(Record.of(task, task.space.get(0), Ok((1.0,))))
    with pytest.raises(ArgumentError, match=r"nothing can be learned for test_rows\(n=8.*own\.jsonl.*the task itself"):
        pb.tune(recorded, tuner=Curious, transfer=journal.path, progress=False)
    with pytest.raises(RecordError, match=r"'none\.jsonl' is neither a file nor a recorded space"):
        pb.tune(recorded, tuner=Curious, transfer="none.jsonl", progress=False)


def test_a_tuner_that_learns_nothing_from_others_says_so(recorded: RecordedSpace, old: Path) -> None:
    with pytest.raises(ArgumentError, match="the tuner random cannot learn from other shapes"):
        pb.tune(recorded, tuner="random", transfer=old, progress=False)


def test_imported_spaces_have_no_other_shapes(task: Any, old: Path) -> None:
    imported = RecordedSpace("t4", task.space, {task.space.get(0): Ok((1.0,))})
    with pytest.raises(ArgumentError, match="t4 has no template"):
        pb.tune(imported, tuner=Curious, transfer=old, progress=False)


def test_an_unknown_runner_leaves_no_file_of_records(task: Any, tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="no runner 'nope'"):
        pb.tune(task, runner="nope", records=tmp_path / "records.jsonl", progress=False)
    assert list(tmp_path.iterdir()) == []
