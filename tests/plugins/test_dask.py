"""The runner "dask" on a cluster of two workers; what every runner must do is in the contract."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tuned_models import layers, trials_in

import pegbox as pb
from pegbox.codegen import Target
from pegbox.codegen.targets.host import cpu_features
from pegbox.errors import MeasureError, TuningError
from pegbox.graph import evaluate
from pegbox.measure import CorePlan, Ok, TimingPolicy
from pegbox.plugins.cli import main
from pegbox.plugins.runners import dask, dask_client
from pegbox.plugins.runners.dask import DaskRunner
from pegbox.plugins.runners.machine import ClusterMachine, Kind, one_kind
from pegbox.testing import llvm_kernels as kernels
from pegbox.tuners.random import RandomTuner

distributed = pytest.importorskip("distributed")
dask_tasks = pytest.importorskip("pegbox.plugins.runners.dask_tasks")
dask_worker = pytest.importorskip("pegbox.plugins.runners.dask_worker")

KIND = Kind("EPYC 9575F", "znver5", ("+avx2",), 16, "0.1.0", "22.1.0")
ONE = ClusterMachine("tcp://one:1", "rack-1", KIND, measures=True)


def other(**fields: Any) -> ClusterMachine:
    return replace(ONE, address="tcp://two:1", node="rack-2", kind=replace(KIND, **fields))


def test_equal_machines_measure_together() -> None:
    assert len(one_kind([ONE, other()], here=KIND)) == 2


@pytest.mark.parametrize("fields", [{"cpu": "Xeon 8480"}, {"features": ()}, {"cores": 8}])
def test_unlike_machines_are_refused_with_a_list(fields: dict[str, Any]) -> None:
    with pytest.raises(MeasureError, match=r"differ.*host=NAME(.|\n)*rack-1 at tcp://one:1(.|\n)*rack-2"):
        one_kind([ONE, other(**fields)], here=KIND)


def test_some_of_unlike_machines_are_chosen_by_a_part_of_a_name() -> None:
    machines = [ONE, other(cpu="Xeon 8480")]
    assert one_kind(machines, here=KIND, chosen="epyc") == [ONE]
    assert one_kind(machines, here=KIND, chosen="rack-2") == machines[1:]
    with pytest.raises(MeasureError, match="host='sparc': no machine"):
        one_kind(machines, here=KIND, chosen="sparc")


def featured(*names: str, but: str) -> tuple[str, ...]:
    """Return these features, and all of this machine's but for those with a part of a name."""
    own = [name for name in cpu_features() if name.startswith("+") and "amx" not in name and but not in name]
    return (*own, *(f"+{name}" for name in ("ssse3", "sse4.1", "sse4.2", "sse4a", "avx", "avx2", "f16c", *names)))


def test_unlike_machines_are_chosen_by_a_target() -> None:
    zen3 = other(llvm_cpu="znver3", features=featured(but="avx512"))
    avx512 = ("avx512f", "avx512bw", "avx512vnni", "avx512bf16", "avx512vbmi2", "gfni")
    zen4 = replace(ONE, kind=replace(KIND, llvm_cpu="znver4", features=featured(*avx512, but="avx512fp16")))

    def chosen(cpu: str) -> list[ClusterMachine]:
        return one_kind([zen4, zen3], here=KIND, target=Target(f"llvm -mcpu={cpu}"))

    assert (chosen("znver4"), chosen("znver3"), chosen("cascadelake")) == ([zen4], [zen3], [zen4])
    with pytest.raises(MeasureError, match="differ"):
        chosen("x86-64-v3")
    with pytest.raises(
        MeasureError, match=r"target='llvm -mcpu=sapphirerapids.*no machine of the cluster(.|\n)*rack-2"
    ):
        chosen("sapphirerapids")


@pytest.mark.parametrize("fields", [{"pegbox": "0.0.9"}, {"llvm": "21.0.0"}])
def test_other_versions_than_here_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(MeasureError, match=r"other versions than this process.*install the same there"):
        one_kind([ONE, other(**fields)], here=KIND)


def test_candidates_for_chosen_machines_run_on_no_other_of_the_same_kind() -> None:
    """The workers of another search, of all machines, have the resource of all of them."""
    resources = {dask_worker.measuring_resource(KIND, chosen) for chosen in (None, "rack-1", "rack-2")}
    assert len(resources) == 3


@contextlib.contextmanager
def cluster_of(count: int, **options: Any) -> Iterator[Any]:
    given = {"resources": {"pegbox": 1}, "threads_per_worker": 1, "memory_limit": 0, **options}
    with (
        distributed.LocalCluster(n_workers=count, dashboard_address=None, silence_logs=50, **given) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with cluster_of(2) as client:
        yield client


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask, "speeds", lambda client, workers: {})


def opened(client: Any, **options: Any) -> Any:
    timing = TimingPolicy(timeout=20.0, min_repeat_ms=1.0)
    runner = DaskRunner(kernels.bench(), timing=timing, cores=CorePlan.detect(), scheduler=client, **options)
    return contextlib.closing(runner)


def test_a_search_measures_each_trial_once_and_records_the_kind(client: Any, tmp_path: Path, quick: None) -> None:
    records = tmp_path / "records.jsonl"
    task = pb.create_task("matmul", args=(8, 8, 8))
    options = {"min_repeat_ms": 0.1}
    result = pb.tune(
        task, tuner="random", trials=6, runner=client, records=records, progress=False, measure_options=options
    )
    proposed = RandomTuner(task.space, seed=0).ask(6)
    assert [trial.config for trial in result.trials] == list(proposed)
    assert result.best is not None
    assert {json.loads(line)["host"] for line in records.read_text().splitlines()} == {Kind.own().name}
    assert result.best.baseline is not None
    assert result.best.baseline.numpy
    assert result.best.baseline.roofline
    assert client.status == "running"
    assert not client.run(lambda dask_worker: [name for name in dask_worker.plugins if "pegbox" in name]).popitem()[1]


KILLED = """
import sys
sys.path.append(sys.argv[1])
from tuned_models import layers
import pegbox as pb
pb.tune_model(
    layers(), trials=10000, runner=f"dask:scheduler={sys.argv[2]}", records=sys.argv[3], tuner="random",
    progress=False, store=None, measure_options={"min_repeat_ms": 0.1},
)
"""


def test_a_search_of_a_model_that_was_killed_goes_on(client: Any, tmp_path: Path, quick: None) -> None:
    records, helpers = tmp_path / "model.jsonl", Path(__file__).parents[1] / "helpers"
    words = [sys.executable, "-c", KILLED, str(helpers), client.scheduler.address, str(records)]
    with subprocess.Popen(words) as process:
        while process.poll() is None and (not records.exists() or trials_in(records) < 3):
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
    done = trials_in(records)
    assert done >= 3
    options: dict[str, Any] = {"tuner": "random", "progress": False, "store": None}
    result = pb.tune_model(
        layers(), trials=done + 2, runner=client, records=records, measure_options={"min_repeat_ms": 0.1}, **options
    )
    assert sum(task.trials for task in result.tasks) == trials_in(records) == done + 2
    assert {json.loads(line)["host"] for line in records.read_text().splitlines()} == {Kind.own().name}
    x = np.random.default_rng(1).standard_normal((4, 8)).astype("float32")
    (given,) = result.models[0].graph.inputs
    np.testing.assert_allclose(result.module(x)[0], evaluate(result.models[0].graph, {given: x})[0], rtol=1e-4)


def test_workers_are_compared_once(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A search of a model opens a runner for each round."""
    asked: list[Any] = []

    def speeds(client: Any, workers: Any) -> dict[str, float]:
        asked.append(workers)
        return {"one": 1.0, "two": 2.0}

    monkeypatch.setattr(dask, "speeds", speeds)
    monkeypatch.setattr(dask, "_compared", set())
    with pytest.warns(RuntimeWarning, match="differ by 100%"), opened(client):
        pass
    with opened(client):
        pass
    assert len(asked) == 1


def test_what_a_dying_worker_measures_is_measured_by_another(client: Any, quick: None) -> None:
    with opened(client) as runner:
        found: list[Any] = []
        slow = kernels.compiled(kernels.slow(400_000_000))
        thread = threading.Thread(target=lambda: found.append(runner.run(slow)))
        thread.start()
        name = runner._tasks._name
        deadline = time.monotonic() + 20
        while not (busy := _busy(client, name)) and time.monotonic() < deadline:
            time.sleep(0.02)
        os.kill(busy[0], signal.SIGKILL)
        thread.join(30)
        assert isinstance(found[0], Ok), found
        assert isinstance(runner.run(kernels.compiled(kernels.good())), Ok)


def _busy(client: Any, name: str) -> list[int]:
    """The processes of the workers that measure."""

    def busy(dask_worker: Any) -> int:
        state = dask_worker.plugins[name]
        return os.getpid() if state._runner is not None and state._alone.locked() else 0

    return [pid for pid in client.run(busy).values() if pid]


def test_the_cluster_command_lists_machines_with_their_speed(client: Any, capsys: pytest.CaptureFixture[str]) -> None:
    client.wait_for_workers(2, timeout=60)
    with opened(client) as runner:
        assert isinstance(runner.run(kernels.compiled(kernels.good())), Ok)
    assert main(["cluster", client.scheduler.address]) == 0
    printed = capsys.readouterr().out
    assert printed.count(str(Kind.own())) == 2
    assert "the fastest has" in printed
    counts = re.findall(r"\n  (?:no trials|(\d+) trials?: \d+ of process \d+ on .*)(?=\n)", printed)
    assert len(counts) == 2
    assert any(counts)


@pytest.mark.parametrize("pages", [True, False])
def test_the_dashboard_is_linked_where_the_scheduler_has_its_pages(
    pages: bool, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A scheduler without bokeh serves a page at that address, which says so."""
    scheduler = client.cluster.scheduler
    monkeypatch.setattr(scheduler.http_application, "applications", ["bokeh"] if pages else [])
    monkeypatch.setitem(scheduler.services, "dashboard", scheduler.http_server)
    assert ("/status" in dask_client.dashboard_of(client)) == pages


def test_the_fixed_kernel_leaves_its_bench_where_dask_clears_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that is killed meanwhile removes nothing itself."""
    made: list[Any] = []

    def local(*_: object, folder: str = "", **__: object) -> Any:
        made.append(folder)
        return SimpleNamespace(roofline=lambda *_: None, close=lambda: None)

    monkeypatch.setattr(dask_worker, "LocalRunner", local)
    monkeypatch.setattr(dask_worker, "get_worker", lambda: SimpleNamespace(local_directory=str(tmp_path)))
    assert dask_worker.speed() == 0.0
    assert made == [str(tmp_path)]


def test_workers_without_the_resource_are_refused_with_the_command_that_starts_one() -> None:
    words = r"none of the 1 workers .* has the resource 'pegbox'.*dask worker"
    with cluster_of(1, resources={}, processes=False) as client, pytest.raises(MeasureError, match=words):
        opened(client)


def test_a_cluster_without_workers_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_client, "_JOIN_SECONDS", 1e9)
    words = "has no worker; start one on each machine: dask worker tcp"
    with cluster_of(0) as client, pytest.raises(MeasureError, match=words):
        opened(client, patience=0.0)


@pytest.mark.parametrize("address", ["nonsense", "foo://host:8786", "tcp://127.0.0.1:9"])
def test_an_address_without_scheduler_is_an_error_of_the_search(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_client, "_CONNECT_SECONDS", 0.2)
    task = pb.create_task("matmul", args=(8, 8, 8))
    with pytest.raises(TuningError, match=f"scheduler='{address}': no Dask scheduler answers there"):
        pb.tune(task, trials=2, runner=f"dask:scheduler={address}", progress=False)


def test_a_client_that_was_closed_is_refused() -> None:
    with cluster_of(0, processes=False) as client:
        client.close()
    with pytest.raises(MeasureError, match="is closed; make another one"):
        opened(client)


def test_candidates_for_another_processor_are_refused(client: Any, quick: None) -> None:
    with opened(client) as runner:
        runner._kind = replace(runner._kind, features=(), llvm_cpu="znver3")
        cores = kernels.compiled(kernels.good()).target.num_cores
        with pytest.raises(MeasureError, match=f"'llvm -mcpu=znver3 -num-cores {cores}'"):
            runner.run(kernels.compiled(kernels.good()))


def test_a_cluster_that_loses_its_workers_ends_the_search(monkeypatch: pytest.MonkeyPatch, quick: None) -> None:
    monkeypatch.setattr(dask_tasks, "_POLL_SECONDS", 0.05)
    with cluster_of(1, processes=False) as client, opened(client, patience=0.1) as runner:
        client.retire_workers(list(client.scheduler_info()["workers"]))
        with pytest.raises(MeasureError, match=r"no worker for these tasks for 0.1 s.*--resume"):
            runner.run(kernels.compiled(kernels.good()))


def test_a_scheduler_that_goes_ends_the_search(quick: None) -> None:
    with cluster_of(1, processes=False) as client, opened(client) as runner:
        endless = kernels.compiled(kernels.endless())
        threading.Timer(0.5, client.cluster.close).start()
        with pytest.raises(MeasureError, match=r"is gone.*--resume"):
            runner.run(endless, best=100.0)
