"""A file may name its templates and workloads as pegbox's own are named."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import pegbox as pb
from pegbox.errors import PluginError, RecordError, TemplateError, UnknownName
from pegbox.hooks import registry
from pegbox.hooks.refs import import_file
from pegbox.hooks.sources import Sources
from pegbox.measure import Ok
from pegbox.measure.jobs.packed_task import pack_task, unpack_task
from pegbox.records import Record, best, registered_task
from pegbox.records.history import matching
from pegbox.records.library import choose_records

TARGET = "llvm -num-cores 1"
SOURCE = """
import pegbox as pb
from pegbox import te
from pegbox.templates.batch_matmul import batch_matmul

def scaled(n, factor=2.0):
    x = te.placeholder((n,), name="X")
    return [x, te.compute((n,), lambda i: x[i] * factor, name="Y")]

@pb.template
def matmul(cfg, M, N, K, dtype="float32", weights="plain"):
    x, y = scaled(M)
    s = te.create_schedule(y.op)
    cfg.define_split("rows", s[y].op.axis[0], num_outputs=2)
    cfg["rows"].apply(s, y, s[y].op.axis[0])
    return s, [x, y]

@pb.template("batch_matmul")
def wrapper(cfg, B, M, N, K):
    return batch_matmul.function(cfg, B, M, N, K)

@pb.workload
def softmax(n):
    return scaled(n, 3.0)

@pb.workload("attention")
def own_attention(n):
    return scaled(n, 4.0)

def conv2d(cfg, n):
    return matmul.function(cfg, n, n, n)
"""


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A file with such names, which no other test finds in the registry."""
    path = tmp_path_factory.mktemp("own") / "own.py"
    path.write_text(SOURCE)
    registry.plugins()
    module = import_file(path).__name__
    yield path
    for kind, name in [
        ("template", "matmul"),
        ("template", "batch_matmul"),
        ("workload", "softmax"),
        ("workload", "attention"),
    ]:
        registry.unregister(kind, name, owner=module)
    del sys.modules[module]


def test_a_place_means_the_function_in_the_file(path: Path) -> None:
    assert list(pb.create_task(f"{path}:matmul", args=(8, 8, 8)).space.knobs) == ["rows"]
    assert list(pb.create_task(f"{path}:conv2d", args=(8,)).space.knobs) == ["rows"]
    assert (
        "mr" in pb.create_task(f"{path}:batch_matmul", args=(2, 16, 16, 16)).space.knobs
    )  # not the one that it imports
    for name, factor in [("softmax", 3), ("attention", 4)]:
        task = pb.create_task(f"{path}:{name}", args=(8,), space="sketch")
        (made,) = task.reference([np.ones(8, np.float32)])
        assert made[0] == factor


def test_a_place_of_a_workload_is_an_operator(path: Path) -> None:
    for name, factor in [("softmax", 3), ("attention", 4)]:
        made = pb.operator(f"{path}:{name}", target=TARGET, store=None)(np.ones(8, np.float32))
        np.testing.assert_array_equal(made, np.full(8, factor, np.float32))


def test_a_bare_name_says_how_each_is_written(path: Path) -> None:
    remedy = rf"write 'pegbox\.templates\.matmul:matmul' or '{path}:matmul', or rename one"
    for make in (lambda: pb.create_task("matmul", args=(8, 8, 8)), lambda: pb.operator("matmul")(np.ones((8, 8)))):
        with pytest.raises(PluginError, match=remedy):
            make()
    assert "mr" in pb.create_task("pegbox.templates.matmul:matmul", args=(8, 8, 8)).space.knobs
    with pytest.raises(TemplateError, match=r"own\.py:attention' is a workload: a computation without"):
        pb.create_task(f"{path}:attention", args=(8,))


def test_other_processes_get_the_function_of_the_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Sources, "install", lambda sources: None)  # it lasts as long as the process
    task = pb.create_task(f"{path}:matmul", args=(8, 8, 8))
    assert pickle.loads(pickle.dumps(task)).space.fingerprint == task.space.fingerprint
    packed = pack_task(task)
    assert packed is not None
    assert unpack_task(packed).name == "matmul"


def records_of(path: Path) -> tuple[pb.Task, pb.Task, list[Record]]:
    """Make a record of the file's product and one of pegbox's own, of the same arguments."""
    own = pb.create_task(f"{path}:matmul", args=(16, 16, 16), target=TARGET)
    built_in = pb.create_task("pegbox.templates.matmul:matmul", args=(16, 16, 16), target=TARGET)
    first = next(iter(built_in.space.iterate()))
    return own, built_in, [Record.of(own, own.space.get(0), Ok((1.0,))), Record.of(built_in, first, Ok((2.0,)))]


def test_a_record_means_the_template_it_was_made_with(path: Path) -> None:
    own, built_in, records = records_of(path)
    assert [registered_task(record).fingerprint for record in records] == [own.fingerprint, built_in.fingerprint]
    softmax = pb.create_task(f"{path}:softmax", args=(8,), space="sketch")
    record = Record.of(softmax, softmax.space.get(0), Ok((1.0,)))
    assert registered_task(record).fingerprint == softmax.fingerprint


def test_a_record_of_another_file_is_no_registered_task(path: Path) -> None:
    _, _, (record, _) = records_of(path)
    elsewhere = Record.from_line(record.to_line().replace("own.py", "elsewhere.py").replace(record.space, "0" * 64))
    with pytest.raises(UnknownName, match=r"no template 'matmul' of elsewhere\.py:matmul is imported here"):
        registered_task(elsewhere)


def test_a_record_of_an_edited_file_is_of_that_file(path: Path) -> None:
    own, _, (record, _) = records_of(path)
    assert registered_task(replace(record, space="0" * 64)).fingerprint == own.fingerprint


def test_one_file_of_records_holds_both(path: Path) -> None:
    own, built_in, records = records_of(path)
    assert matching(records, own) == records[:1]
    assert matching(records, built_in) == records[1:]
    assert best(records, built_in) == records[1]
    assert choose_records(records, "r.jsonl", task=own) == records[:1]
    assert choose_records(records, "r.jsonl", task=built_in) == records[1:]
    other = replace(records[1], ref="other.py:matmul", space="0" * 64)
    with pytest.raises(RecordError, match=r"several templates: matmul, other\.py:matmul; choose one: task="):
        choose_records([records[1], other], "r.jsonl")
    with pytest.raises(RecordError, match=r"they are of own\.py:matmul, or the template, its knobs"):
        matching(records[:1], built_in)
