"""Programs are compiled on the workers of a Dask cluster, never while a candidate is timed there."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import pegbox as pb
from pegbox.codegen import CompiledProgram, Target, compile_program
from pegbox.errors import ArgumentError
from pegbox.hooks import refs
from pegbox.measure import CorePlan, Failed, Lowered, Lowering, Ok, TimingPolicy
from pegbox.measure.jobs.packed_task import pack_task, unpack_task
from pegbox.measure.result import FailureKind
from pegbox.measure.trial.lowering import program_key
from pegbox.plugins.runners import dask, machine_lock
from pegbox.plugins.runners.dask import DaskRunner
from pegbox.plugins.runners.machine_lock import alone, building
from pegbox.testing import llvm_kernels as kernels

distributed = pytest.importorskip("distributed")
dask_tasks = pytest.importorskip("pegbox.plugins.runners.dask_tasks")


@pytest.fixture(scope="module")
def runner() -> Iterator[DaskRunner]:
    """Return a runner on one machine that measures and one that only compiles."""
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, resources={"pegbox": 1}, processes=False, memory_limit=0,
            dashboard_address=None, silence_logs=50,
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):  # fmt: skip
        cluster.worker_spec["apart"] = {
            "cls": distributed.Worker,
            "options": {"nthreads": 1, "memory_limit": 0, "dashboard": False},
        }
        cluster.sync(cluster._correct_state)
        client.wait_for_workers(2, timeout=30)
        timing = TimingPolicy(timeout=20.0, min_repeat_ms=1.0)
        made = DaskRunner(kernels.bench(), timing=timing, cores=CorePlan.detect(), scheduler=client)
        with contextlib.closing(made):
            yield made


@pytest.mark.optimizer
def test_workers_compile_what_this_machine_would(runner: DaskRunner) -> None:
    program = kernels.good()
    built = runner.build(program, timeout=60.0)
    assert isinstance(built, CompiledProgram)
    assert built._replace(seconds=0.0) == compile_program(program, apart=False)._replace(seconds=0.0)
    assert isinstance(runner.run(built), Ok)


def test_workers_lower_what_they_compile(runner: DaskRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refs, "_ADOPTED", {})  # unpacking adopts files of users
    task = pb.create_task("matmul", args=(16, 16, 16), target="llvm -num-cores 1")
    packed = pack_task(task)
    assert packed is not None
    config = task.space.get(0)
    lowered = runner.build(Lowering(packed, config.digits, max_block=10_000), timeout=60.0)
    assert isinstance(lowered, Lowered)
    assert lowered.program.args == tuple(task.arguments())
    assert lowered.key == program_key(unpack_task(packed).lower(config))
    assert runner.build(Lowering(b"no pickle", config.digits, max_block=10_000), timeout=60.0) is None


def test_a_program_that_llvm_refuses_has_failed_to_compile(runner: DaskRunner) -> None:
    built = runner.build(kernels.unparsable(), timeout=60.0)
    assert isinstance(built, Failed)
    assert built.kind == FailureKind.COMPILE_ERROR


def test_a_machine_compiles_while_it_times_nothing(runner: DaskRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    assert runner.machines == 1
    assert runner.builders == 2
    monkeypatch.setattr(runner._tasks, "pending", lambda where: 1)
    assert runner.builders == 1  # on the worker that measures nothing


def test_where_no_worker_compiles_nothing_is_built(runner: DaskRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers with other versions have another resource."""
    monkeypatch.setattr(runner, "_compiled", dask_tasks.Where({"pegbox-build-others": 1}, patience=0.0))
    assert runner.builders == 0
    assert runner.build(kernels.good(), timeout=60.0) is None


def test_a_runner_that_cannot_begin_leaves_nothing_on_the_workers(
    runner: DaskRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    def plugins() -> Any:
        return runner._tasks._client.run(lambda dask_worker: set(dask_worker.plugins))

    def ends(client: object, workers: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(dask, "_compare", ends)
    before = plugins()
    with pytest.raises(KeyboardInterrupt):
        DaskRunner(kernels.bench(), timing=TimingPolicy(), cores=CorePlan.detect(), scheduler=runner._tasks._client)
    assert plugins() == before


def test_builds_here_leave_the_workers_alone() -> None:
    with pytest.raises(ArgumentError, match="builds='there'"):
        DaskRunner(kernels.bench(), timing=TimingPolicy(), cores=CorePlan.detect(), builds="there")


def test_nothing_is_compiled_while_a_candidate_is_timed_and_nobody_overtakes_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(machine_lock.tempfile, "gettempdir", lambda: str(tmp_path))  # others may measure here
    order: list[str] = []
    waiting = threading.Event()

    def do(name: str, how: Any) -> None:
        waiting.set()
        with how():
            order.append(name)

    with building(), building():  # two at a time
        threads = []
        for name, how in (("time", alone), ("build", building)):
            waiting.clear()
            threads.append(threading.Thread(target=do, args=(name, how)))
            threads[-1].start()
            waiting.wait()
            threads[-1].join(0.1)
        assert order == []
    for thread in threads:
        thread.join(20)
    assert order == ["time", "build"]


def test_a_target_says_all_that_compiling_elsewhere_needs() -> None:
    target = Target("llvm -num-cores 3")
    assert target.explicit.features == ",".join([target.features] * 2)
    assert (target.explicit.cpu, target.explicit.num_cores) == (target.cpu, 3)
    other = Target("llvm -mtriple=aarch64-linux-gnu -num-cores 2")
    assert other.explicit == other


def test_who_looks_again_takes_no_result_from_others(runner: DaskRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_tasks, "_POLL_SECONDS", 0.001)
    monkeypatch.setattr(dask_tasks, "perform", lambda name, turn, method, given: bytes(given))
    where = dask_tasks.Where({}, patience=20.0)
    with ThreadPoolExecutor(16) as threads:
        found = list(threads.map(lambda value: runner._tasks.ask(where, "any", value), range(100)))
    assert [len(each) for each in found] == list(range(100))
