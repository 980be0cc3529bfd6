"""Damaged records, whatever the damage: they are read as what they say, or refused with a RecordError."""

from __future__ import annotations

import contextlib
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from damage import damaged
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pegbox as pb
from pegbox.errors import PegboxError, RecordError
from pegbox.measure import Failed, FailureKind, Ok
from pegbox.plugins.cli import history
from pegbox.plugins.kernel_tuner.reader import KernelTunerReader
from pegbox.records import History, Journal, Record, best, best_of_each
from pegbox.records.history import load_history
from pegbox.search.models.inputs import load_transfer

TEMPLATES = str(Path(__file__).parents[1] / "helpers" / "task_templates.py")
TASK = pb.create_task(f"{TEMPLATES}:rows", args=(8, 4))
OTHER = pb.create_task(f"{TEMPLATES}:rows", args=(16, 4))
RESULTS = (
    Ok((1e-3, 2e-3), 0.5, 1700000000.0, {"build": 0.4, "timing": 0.1}),
    Ok((1e-2,), 0.2, 1700000001.0, {"build": 0.1}, partial=True),
    Failed(FailureKind.CRASH, "killed by SIGSEGV", 0.1, 1700000002.0, {"build": 0.03}),
)
FORMS = tuple(
    json.loads(Record.of(TASK, TASK.space.get(i), result, tuner="random", seed=0, remeasured=i == 1).to_line())
    for i, result in enumerate(RESULTS)
)
GOOD = "".join(json.dumps(form) + "\n" for form in FORMS)
OFTEN = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))


def readers(path: Path) -> list[Callable[[], Any]]:
    """Everything that reads a file of records, and what is then asked of it."""
    return [
        lambda: History(Journal(path).read()).best_config(TASK),
        lambda: [str(History(Journal(path).read())), best(Journal(path).read()), best_of_each(Journal(path).read())],
        lambda: load_history(Journal(path), TASK),
        lambda: [(str(summary), json.dumps(summary.to_json())) for summary in history.summaries([path])],
        lambda: str(pb.recorded_space(path)) + str(pb.recorded_space(path).best_cost),
        lambda: pb.recorded_space(path, TASK).share_within(0.5),
        lambda: pb.pack_space(path, path.with_suffix(".gz")),
        lambda: load_transfer(path, OTHER),
        lambda: [record.to_line() for record in Journal(path).read()],
    ]


def check(reader: Callable[[], Any], path: Path) -> None:
    """It reads the file, or says in one of pegbox's errors why it does not."""
    with warnings.catch_warnings(), contextlib.suppress(PegboxError):
        warnings.simplefilter("ignore")
        reader()


@pytest.mark.parametrize("number", range(9))
@OFTEN
@given(line=st.sampled_from(FORMS).flatmap(damaged), last=st.booleans(), ended=st.booleans())
def test_a_damaged_line_is_read_or_refused(tmp_path: Path, number: int, line: str, last: bool, ended: bool) -> None:
    path = tmp_path / "records.jsonl"
    whole = f"{GOOD}{line}" if last else f"{line}\n{GOOD}{line}"
    path.write_bytes(f"{whole}{chr(10) * ended}".encode(errors="surrogatepass"))
    check(readers(path)[number], path)


def test_arguments_with_an_object_among_them_are_a_workload_of_their_own(tmp_path: Path) -> None:
    target, name, args, kwargs = FORMS[0]["input"]
    path = tmp_path / "records.jsonl"
    other = {"input": [target, name, [{"index": 1}, *args[1:]], kwargs], "workload": [name, {"n": {"index": 1}}]}
    path.write_text(json.dumps({**FORMS[0], **other}) + f"\n{GOOD}")
    with pytest.raises(RecordError, match=r"holds several workloads.*choose one: args=\(\{'index': 1\}, 4\)"):
        pb.recorded_space(path)


@OFTEN
@given(line=st.sampled_from(FORMS).flatmap(damaged))
def test_a_line_that_is_read_is_written_again_as_it_was(line: str) -> None:
    try:
        record = Record.from_line(line)
    except RecordError:
        return
    with contextlib.suppress(RecordError):  # infinities, which JSON reads and cannot write
        assert Record.from_line(record.to_line()) == record


@pytest.mark.parametrize(
    "line",
    [
        json.dumps({**FORMS[0], "result": [[1e-3], 0, 10**400, 0.0]}),
        json.dumps({**FORMS[0], "result": [[1e-3], 0, 0.1, 10**400]}),
        json.dumps({**FORMS[0], "result": [[10**400], 0, 0.1, 0.0]}),
        json.dumps({**FORMS[0], "phases": {"build": 10**400}}),
        json.dumps(FORMS[0]).replace("0.5", "1" * 5000),
        "[" * 100_000,
        json.dumps(FORMS[0]).replace('"seed": 0', f'"seed": {"[" * 500}{"]" * 500}'),
        json.dumps(FORMS[0]).replace("[8, 4]", "[" * 500 + "]" * 500),
    ],
)
def test_numbers_and_brackets_beyond_all_measure_are_refused_with_their_place(line: str, tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    path.write_text(f"{GOOD}{line}\n{GOOD}")
    with pytest.raises(RecordError, match=r"records\.jsonl', line 4: "):
        Journal(path).read()


@pytest.mark.parametrize(
    "change",
    [
        {"tuner": 5},
        {"seed": "0"},
        {"seed": 0.5},
        {"host": []},
        {"space": 7},
        {"version": True},
        {"version": 0},
        {"remeasured": "no"},
        {"workload": ["rows"]},
        {"workload": ["rows", 5]},
        {"workload": {}},
        {"config": {"index": "1", "entity": []}},
        {"config": {"index": 1, "entity": [["tile_y"]]}},
        {"config": {"index": 1, "entity": {"tile_y": 2}}},
        {"input": [None, "rows", [8, 4], {}]},
        {"input": ["llvm", 5, [8, 4], {}]},
        {"input": ["llvm", "rows", 8, {}]},
        {"input": ["llvm", "rows", [8, 4], []]},
        {"result": [[1e-3], 0, 0.1, float("nan")]},
        {"result": [[1e-3], 0, 0.1, float("inf")]},
        {"result": [[1e-3], 0, 1e308, 0.0]},
        {"result": [[1e-3], 0, True, 0.0]},
        {"result": [[True], 0, 0.1, 0.0]},
        {"result": [["1"], 0, 0.1, 0.0]},
        {"result": ["1", 0, 0.1, 0.0]},
        {"result": [[1e-3], 0.0, 0.1, 0.0]},
        {"result": [[1e-3], "0", 0.1, 0.0]},
        {"result": [[1e9], 4, 0.1, 0.0], "message": 5},
        {"partial": 1},
        {"run_queue_wait": 1.5},
        {"run_queue_wait": "0.5"},
        {"threads": -1},
        {"threads": "2"},
        {"phases": [["build", 1.0]]},
        {"phases": {"build": "1"}},
    ],
)
def test_a_field_of_another_kind_is_refused_and_named(change: dict[str, Any]) -> None:
    (name,) = list(change)[:1]
    with pytest.raises(RecordError, match=name if name not in ("input", "result") else "."):
        Record.from_line(json.dumps({**FORMS[0], **change}))


T4 = {
    "results": [
        {
            "timestamp": "2023-12-21 10:44:42.236642+00:00",
            "configuration": {"block": block, "mode": "a"},
            "times": {"compilation": 600.0, "benchmark": 80.0, "runtimes": [2.0, 2.1]},
            "invalidity": "correct",
            "correctness": 1,
            "measurements": [{"name": "time", "value": 2.0, "unit": "ms"}, {"name": "GFLOP/s", "value": 3, "unit": ""}],
            "objectives": ["time"],
        }
        for block in (16, 32)
    ],
    "metadata": {"device_name": "NVIDIA A100"},
}
CACHE = {
    "device_name": "NVIDIA A100",
    "kernel_name": "convolution",
    "tune_params_keys": ["block", "unroll"],
    "tune_params": {"block": [16, 32], "unroll": [0, 1]},
    "cache": {
        "16,0": {
            "block": 16,
            "unroll": 0,
            "time": 1.0,
            "times": [1.0, 1.1],
            "compile_time": 100.0,
            "timestamp": "2023-1-1",
        },
        "32,1": {"time": "RuntimeFailedConfig", "GFLOP/s": 5.0},
    },
}
KTT = {
    "Metadata": {"TimeUnit": "Microseconds", "Device": "A100"},
    "Results": [
        {
            "KernelName": "gemm",
            "Configuration": [{"Name": "block", "Value": value, "ValueType": "Int64"}],
            "Status": "Ok",
            "TotalDuration": 15.5,
            "ComputationResults": [{"Duration": 15.0, "Overhead": 3.0}],
        }
        for value in (1, 2)
    ],
}


@pytest.mark.parametrize("objective", [None, "GFLOP/s"])
@OFTEN
@given(text=st.sampled_from([T4, CACHE, KTT]).flatmap(damaged))
def test_damaged_results_of_other_tools_are_read_or_refused(tmp_path: Path, objective: str | None, text: str) -> None:
    path = tmp_path / "results.json"
    path.write_bytes(text.encode(errors="surrogatepass"))
    check(lambda: str(KernelTunerReader().read(path, objective=objective)), path)
    check(lambda: str(pb.recorded_space(path, objective=objective).best_cost), path)


@OFTEN
@given(text=damaged({"device": [{"device_name": "A100"}]}))
def test_damaged_metadata_beside_results_does_no_harm(tmp_path: Path, text: str) -> None:
    (tmp_path / "A100_T4.json").write_text(json.dumps(T4))
    (tmp_path / "A100-metadata.json").write_bytes(text.encode(errors="surrogatepass"))
    assert len(KernelTunerReader().read(tmp_path / "A100_T4.json")) == 2
