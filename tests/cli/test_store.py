"""`pegbox store`: what is kept, as lists, files, and tasks to tune again."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import pegbox as pb
from pegbox.codegen import cpu_model
from pegbox.measure import Ok
from pegbox.records import Journal, Record
from pegbox.store import TuningStore
from pegbox.store.kernels import KeptCode
from pegbox.store.store import task_key

TARGET = "llvm -num-cores 1"
FAR = "far (Another Processor)"
OWN = """
import pegbox as pb
from pegbox import te

def _tripled(cfg, n: int):
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] * 3.0, name="B")
    s = te.create_schedule(b.op)
    cfg.define_split("tile", n, num_outputs=2)
    return s, [a, b]

tripled = pb.template("cli_tripled")(_tripled)
"""


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TuningStore:
    monkeypatch.setenv("PEGBOX_STORE", str(tmp_path / "store"))
    return TuningStore(tmp_path / "store")


@pytest.fixture(scope="module")
def task() -> pb.Task:
    return pb.create_task("matmul", (8, 8, 16), target=TARGET)


@pytest.fixture
def here(task: pb.Task) -> Record:
    return Record.of(task, task.space.get(0), Ok((2e-6,), 0.1, 1.7e9), tuner="random")


@pytest.fixture
def far(here: Record) -> Record:
    return replace(here, host=FAR)


def test_the_list_says_where_each_was_measured(pegbox: Any, store: TuningStore, here: Record, far: Record) -> None:
    store.merge([here, replace(far, result=Ok((1e-6,), 0.1, 1.6e9))])
    lines = pegbox("store", "list").out.splitlines()
    assert lines[0].split() == ["cost", "task", "target", "processor", "measured"]
    assert "2 us" in lines[1]
    assert f"{cpu_model()} (here)" in lines[1]
    assert "1 us" in lines[2]
    assert re.search(r"Another Processor +2020-09", lines[2])  # this one's name may be longer
    listed = json.loads(pegbox("store", "list", "matmul", "--json").out)
    assert [(each["here"], each["cost"], each["numpy"]) for each in listed] == [(True, 2e-6, None), (False, 1e-6, None)]


def test_show_has_the_configuration_and_the_size(pegbox: Any, store: TuningStore, here: Record) -> None:
    store.keep(here)
    store.kernels.keep("a", "task", KeptCode("{}", b"x" * 20_000), fits=lambda _: True)
    ran = pegbox("store", "show")
    assert f"{store.folder}: 1 records, 1 compiled kernels of 0.02 MB\nmatmul(8, 8, 16) on" in ran.out
    assert "config 0: " in ran.out
    assert json.loads(pegbox("store", "show", "--json").out)[0]["cost"] == 2e-6


@pytest.mark.parametrize("action", ["list", "show", "prune", "retune"])
def test_an_empty_store_and_other_names_are_nothing_found(
    pegbox: Any, store: TuningStore, here: Record, action: str
) -> None:
    ran = pegbox("store", action)
    assert (ran.code, "has no records yet" in ran.err) == (1, True)
    store.keep(here)
    ran = pegbox("store", action, "conv2d")
    assert (ran.code, "has nothing of conv2d; it knows matmul" in ran.err) == (1, True)


def test_a_store_that_is_turned_off_is_an_error(pegbox: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PEGBOX_STORE", "off")
    ran = pegbox("store", "list")
    assert (ran.code, "PEGBOX_STORE=off" in ran.err) == (2, True)


def test_an_export_holds_records_alone_and_is_imported_as_such(
    pegbox: Any, store: TuningStore, here: Record, far: Record, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.merge([here, far])
    store.kernels.keep("a", "task", KeptCode("{}", b"machine code"), fits=lambda _: True)
    assert pegbox("store", "export", "mine.jsonl").out == "wrote mine.jsonl (2 records)\n"
    assert set(map(Record.to_line, Journal("mine.jsonl").read())) == {here.to_line(), far.to_line()}
    assert "machine code" not in Path("mine.jsonl").read_text()
    assert pegbox("store", "export", "mine.jsonl").code == 2
    monkeypatch.setenv("PEGBOX_STORE", str(tmp_path / "another"))
    ran = pegbox("store", "import", "mine.jsonl")
    assert ran.out.startswith("2 records read, 2 of them are now the best of their task and processor\n1 other")
    assert len(TuningStore(tmp_path / "another").records()) == 2


def test_an_import_of_another_processor_is_not_the_best_here(
    pegbox: Any, store: TuningStore, task: pb.Task, far: Record
) -> None:
    Journal("far.jsonl").append(far)
    pegbox("store", "import", "far.jsonl")
    assert store.best_config(task) is None
    assert [each.processor for each in store.records()] == ["Another Processor"]


def test_an_import_takes_the_best_of_each_search_and_processor(
    pegbox: Any, store: TuningStore, here: Record, far: Record
) -> None:
    file = Journal("all.jsonl")
    for cost in (3e-6, 1e-6, 2e-6):
        file.append(replace(here, config={**here.config, "index": round(cost * 1e6)}, result=Ok((cost,), 0.1, 1.0)))
        file.append(replace(far, host="", result=Ok((cost,), 0.1, 1.0)))
    ran = pegbox("store", "import", "all.jsonl")
    assert ran.out == "6 records read, 1 of them are now the best of their task and processor\n"
    assert [each.cost for each in store.records()] == [1e-6]


@pytest.mark.parametrize("words", [["export"], ["export", "a", "b"], ["import"], ["explode"]])
def test_wrong_words_are_bad_usage(pegbox: Any, store: TuningStore, words: list[str]) -> None:
    assert pegbox("store", *words).code == 2


def test_the_action_alone_is_missing(pegbox: Any) -> None:
    assert "are required: ACTION (usage" in pegbox("store").err


def test_prune_removes_what_no_template_can_use(pegbox: Any, store: TuningStore, here: Record, far: Record) -> None:
    old = replace(here, space="0" * 64)
    gone = replace(here, kwargs={"sparse": True}, workload=("matmul", {"sparse": True}))
    own = replace(here, name="a_users_own", workload=("a_users_own", {}), ref="mine.py:own")
    store.merge([here, far, old, gone, own])
    store.kernels.keep("a", "task", KeptCode("{}", b"x"), fits=lambda _: True)
    ran = pegbox("store", "prune")
    assert "its space has changed" in ran.out
    assert "its task cannot be made" in ran.out
    assert ran.out.endswith("2 records removed, and 0.00 MB of compiled code\n")
    assert len(store.records()) == 3
    assert store.kernels.sizes() == []
    assert "it is of another processor" in pegbox("store", "prune", "--elsewhere", "matmul").out
    assert {each.name for each in store.records()} == {"matmul", "a_users_own"}
    assert len(store.records()) == 2


def _keep_code(store: TuningStore, *names: str) -> None:
    for name in names:
        store.kernels.keep(name, task_key([name, {}], TARGET, "", ""), KeptCode("{}", b"x"), fits=lambda _: True)


def test_kernels_without_records_are_shown_and_pruned(pegbox: Any, store: TuningStore) -> None:
    _keep_code(store, "matmul", "conv2d")
    ran = pegbox("store", "show")
    assert (ran.code, ran.out) == (0, f"{store.folder}: 0 records, 2 compiled kernels of 0.00 MB\n")
    assert pegbox("store", "show", "--json").out == "[]\n"
    ran = pegbox("store", "prune")
    assert (ran.code, ran.out) == (0, "0 records removed, and 0.00 MB of compiled code\n")
    assert store.kernels.sizes() == []


def test_prune_of_a_name_leaves_the_kernels_of_others(pegbox: Any, store: TuningStore, here: Record) -> None:
    store.keep(here)
    _keep_code(store, "matmul", "matmul@sketch", "conv2d", "conv2d@sketch")
    store.kernels.keep("other", "", KeptCode("{}", b"x"), fits=lambda _: True)
    assert pegbox("store", "prune", "matmul").code == 0
    assert sorted(name for _, name, _ in store.kernels.sizes()) == ["", "conv2d", "conv2d@sketch"]
    assert pegbox("store", "prune", "conv2d").code == 0
    assert [task for task, _, _ in store.kernels.sizes()] == [""]
    assert pegbox("store", "prune", "conv2d").code == 1


@pytest.fixture
def tuned(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Searches end at once; gives their tasks and options."""
    calls: list[dict[str, Any]] = []

    def tune(task: pb.Task, *, store: TuningStore, records: Path, **options: Any) -> Any:
        calls.append({"task": task, "records": records, **options})
        if len(calls) in stops:
            Journal(records).append(Record.of(task, task.space.get(1), Ok((5e-6,))))
            store.keep(Record.of(task, task.space.get(1), Ok((5e-6,))))
            return SimpleNamespace(best=None, stopped_because="interrupted")
        store.keep(Record.of(task, task.space.get(0), Ok((4e-6,))))
        return SimpleNamespace(best=SimpleNamespace(cost=4e-6, baseline=None), stopped_because="trials")

    stops: set[int] = {2}
    monkeypatch.setattr(pb, "tune", tune)
    return calls


def test_retune_goes_on_where_it_was_stopped(
    pegbox: Any, store: TuningStore, here: Record, far: Record, tuned: list[dict[str, Any]]
) -> None:
    for size in (8, 16, 32):
        task = pb.create_task("matmul", (8, 8, size), target=TARGET)
        store.keep(replace(Record.of(task, task.space.get(0), Ok((size * 1e-6,))), host=FAR))
    ran = pegbox("store", "retune", "--trials", "7")
    assert ran.code == 130
    assert "1/3" in ran.out
    assert "4 us" in ran.out
    assert "2/3  stopped; repeat the command to go on" in ran.out
    assert [each["trials"] for each in tuned] == [7, 7]
    ran = pegbox("store", "retune", "--trials", "7")
    assert ran.code == 0
    assert "2/2" in ran.out
    assert tuned[2]["records"] == tuned[1]["records"]
    assert tuned[2]["resume"] is True
    assert [each["task"].target.num_cores for each in tuned] == [1] * 4
    ran = pegbox("store", "retune")
    assert (ran.code, len(tuned)) == (0, 4)
    assert "nothing is left to tune" in ran.out
    assert list((store.folder / "retune").iterdir()) == []


def test_retune_leaves_out_what_it_cannot_make_and_takes_templates_of_files(
    pegbox: Any, store: TuningStore, tuned: list[dict[str, Any]], tmp_path: Path
) -> None:
    (tmp_path / "own.py").write_text(OWN)
    task = pb.create_task(f"{tmp_path / 'own.py'}:tripled", (8,), target=TARGET)
    record = replace(Record.of(task, task.space.get(0), Ok((1e-6,))), host=FAR, ref="own.py:tripled")
    unknown = replace(record, name="cli_unknown", workload=("cli_unknown", {"n": 8}), ref="own.py:tripled")
    generated = replace(record, name="cli_unknown@evil.py:g", workload=("x", {}), ref="own.py:tripled")
    store.merge([unknown, generated])
    ran = pegbox("store", "retune")
    assert (ran.code, len(tuned)) == (1, 0)
    assert "nothing is left" not in ran.out
    assert "none of the 2 remaining tasks can be made here" in ran.err
    assert "left out: cli_unknown(n=8): " in ran.err
    assert "--templates own.py" in ran.err
    ran = pegbox("store", "retune", "--templates", "own.py")
    assert [each["task"].name for each in tuned] == ["cli_tripled"]
    assert "left out: x()" in ran.err


def test_retune_has_no_task_of_whole_models(
    pegbox: Any, store: TuningStore, far: Record, tuned: list[dict[str, Any]]
) -> None:
    key = ("model_variant", {"tasks": "0a1b"})
    store.merge([replace(far, name=key[0], args=("net",), kwargs={}, workload=key)])
    ran = pegbox("store", "retune")
    assert (ran.code, ran.err, tuned) == (0, "", [])
    assert "nothing is left to tune" in ran.out


def test_retune_names_a_file_of_templates_that_is_not_there(
    pegbox: Any, store: TuningStore, far: Record, tuned: list[dict[str, Any]]
) -> None:
    store.keep(far)
    ran = pegbox("store", "retune", "--templates", "nowhere.py")
    assert (ran.code, "--templates: there is no file 'nowhere.py'" in ran.err, tuned) == (2, True, [])


def test_retune_takes_a_target_and_all_cores_for_kernels_of_several(
    pegbox: Any, store: TuningStore, far: Record, tuned: list[dict[str, Any]]
) -> None:
    store.keep(replace(far, target="llvm -mcpu=haswell -num-cores 48"))
    pegbox("store", "retune")
    pegbox("store", "retune", "--target", "llvm -mcpu=x86-64-v3 -num-cores 2")
    cores = pb.Target.host().num_cores
    assert [str(each["task"].target).split(" ", 2)[2] for each in tuned] == [f"-num-cores {cores}", "-num-cores 2"]


def test_tune_says_that_calls_use_the_result(
    pegbox: Any, store: TuningStore, task: pb.Task, here: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = _measured(monkeypatch)
    words = ["tune", "matmul", 8, 8, 16, "--target", TARGET, "--tuner", "random", "--trials", 4, "--no-records"]
    assert "store:   calls of this shape use the result from now on, in every program\n" in pegbox(*words).out
    measured[0] = 10.0
    assert "store:   calls of this shape use an earlier result, which is faster: " in pegbox(*words, "--seed", 5).out
    monkeypatch.setenv("PEGBOX_STORE", "off")
    assert "store:" not in pegbox(*words).out


def _measured(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Costs are the numbers of configurations times a factor, which the test may change."""
    from pegbox.search.testing import ArtificialMeasurer

    factor = [1.0]

    def factory(options: Any, **given: Any) -> Callable[..., ArtificialMeasurer]:
        return lambda task, **more: ArtificialMeasurer(lambda config: factor[0] * (1.0 + config.index))

    monkeypatch.setattr("pegbox.search.tune.local_measurer", factory)
    return factor
