"""Faults on clusters: errors with the remedy, and clients that vanish. Kills are in test_dask_kills.py."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import os
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import pegbox as pb
from pegbox.codegen.runtime import openmp
from pegbox.errors import MeasureError
from pegbox.measure import CorePlan, Failed, FailureKind, LocalMeasurer, Ok, TimingPolicy
from pegbox.plugins.runners import dask_client, machine_lock
from pegbox.plugins.runners.dask import DaskRunner
from pegbox.plugins.runners.dask_client import connected
from pegbox.plugins.runners.dask_machines import check_memory, find_machines
from pegbox.testing import llvm_kernels as kernels
from pegbox.workers.process import GivenUp
from tests.helpers.rack import waited

distributed = pytest.importorskip("distributed")
dask_tasks = pytest.importorskip("pegbox.plugins.runners.dask_tasks")
dask_worker = pytest.importorskip("pegbox.plugins.runners.dask_worker")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """One worker, in this process and so quick to start, that could run four tasks at a time."""
    options = {"resources": {"pegbox": 1}, "threads_per_worker": 4, "memory_limit": 0, "protocol": "tcp"}
    with distributed.LocalCluster(
        n_workers=1, processes=False, dashboard_address=None, silence_logs=50, **options
    ) as cluster:
        yield cluster


@contextlib.contextmanager
def client_of(cluster: Any) -> Iterator[Any]:
    with distributed.Client(cluster, set_as_default=False) as client:
        yield client


def opened(client: Any) -> DaskRunner:
    timing = TimingPolicy(timeout=20.0, min_repeat_ms=1.0)
    return DaskRunner(kernels.bench(), timing=timing, cores=CorePlan.detect(), scheduler=client)


@contextlib.contextmanager
def tasks_of(cluster: Any) -> Iterator[Any]:
    state = dask_worker.WorkerState("pegbox-tests")
    with client_of(cluster) as client:
        yield dask_tasks.Tasks(client, state, start="dask worker", resume="; --resume")


ANYWHERE = dask_tasks.Where({}, patience=1.0)


def states(cluster: Any) -> list[str]:
    plugins = [worker.plugins for worker in cluster.workers.values()]
    return [name for each in plugins for name in each if name.startswith("pegbox")]


@contextlib.contextmanager
def listening(answer: Callable[[socket.socket], object]) -> Iterator[str]:
    """The address of a port behind which something else than Dask is."""
    with socket.create_server(("127.0.0.1", 0)) as server, contextlib.ExitStack() as open_ones:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    answer(open_ones.enter_context(server.accept()[0]))

        threading.Thread(target=serve, daemon=True).start()
        yield f"tcp://127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize(
    "answer",
    [lambda _: None, lambda s: s.sendall(b"SSH-2.0-OpenSSH_9.2\r\n"), lambda s: s.close()],
    ids=["says nothing", "speaks another protocol", "hangs up"],
)
def test_a_port_where_something_else_listens_is_refused(
    answer: Callable[[socket.socket], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dask_client, "_CONNECT_SECONDS", 0.3)
    with listening(answer) as address, pytest.raises(MeasureError) as error, connected(address):
        pass
    assert f"scheduler='{address}': no Dask scheduler answers there" in str(error.value)
    assert "'dask scheduler'" in str(error.value)


@pytest.mark.parametrize("address", ["tcp://no-such-host.invalid:8786", "tcp://127.0.0.1", "http://127.0.0.1:8787", ""])
def test_what_is_no_address_is_refused_at_once(address: str) -> None:
    with pytest.raises(MeasureError, match=r"no Dask scheduler answers there \(.+\); start one"), connected(address):
        pass


def test_the_address_of_a_worker_is_refused(cluster: Any) -> None:
    address = cluster.workers[0].address
    with pytest.raises(MeasureError, match=f"scheduler='{address}': a Dask worker answers there"), connected(address):
        pass


def test_tls_without_certificates_is_refused_with_the_setting(cluster: Any) -> None:
    address = cluster.scheduler_address.replace("tcp:", "tls:")
    with pytest.raises(MeasureError, match=r"TLS.*distributed\.comm\.tls"), connected(address):
        pass


def test_another_version_of_distributed_is_refused(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    words = (
        rf"other versions of distributed than this process \(2020\.1\)(.|\n)*{{}} at tcp.*: {distributed.__version__}"
    )
    with client_of(cluster) as client:
        monkeypatch.setattr(dask_client, "version", lambda package: "2020.1")
        with pytest.raises(MeasureError, match=words.format("worker")):
            find_machines(client)
    with pytest.raises(MeasureError, match=words.format("scheduler")), connected(cluster.scheduler_address):
        pass


@pytest.mark.parametrize("resources", [{"pegbx": 1}, {"pegbox": 0.5}])
def test_resources_that_do_not_let_a_worker_measure_are_listed(
    cluster: Any, resources: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    state = cluster.workers[0].state
    monkeypatch.setattr(state, "total_resources", resources)
    with client_of(cluster) as client:
        workers = client.scheduler_info()["workers"]
        info = {"workers": {address: {**each, "resources": resources} for address, each in workers.items()}}
        monkeypatch.setattr(client, "scheduler_info", lambda n_workers=-1: info)
        listed = ", ".join(f"{name}={count}" for name, count in resources.items())
        with pytest.raises(
            MeasureError, match=rf"none of the 1 workers .* \(they have {listed}\).*--resources pegbox=1"
        ):
            find_machines(client)


def test_parallel_candidates_need_an_openmp_runtime_there(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openmp, "candidates", lambda: iter(["libnone.so"]))
    openmp.addresses.cache_clear()
    program = kernels.compiled(kernels.good())
    with client_of(cluster) as client, contextlib.closing(opened(client)) as runner:
        assert str(find_machines(client)[0]).endswith("no OpenMP runtime")
        with pytest.raises(MeasureError, match=r"candidates have 4 threads.*no OpenMP runtime; install libgomp there"):
            runner.run(program._replace(num_threads=4))
        assert isinstance(runner.run(program), Ok)


def test_a_worker_of_several_threads_measures_one_candidate_at_a_time(cluster: Any) -> None:
    with client_of(cluster) as client, contextlib.closing(opened(client)) as runner:
        found: list[Any] = []
        program = kernels.compiled(kernels.good())
        threads = [threading.Thread(target=lambda: found.append(runner.run(program))) for _ in range(4)]
        most = 0
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            most = max(most, len(cluster.workers[0].state.executing))
            time.sleep(0.002)
        assert [type(result) for result in found] == [Ok] * 4
        assert most <= 1


def test_the_bench_leaves_the_workers_with_its_client(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_worker, "LEASE", 0.05)
    with client_of(cluster) as other, contextlib.closing(opened(other)) as staying:
        names = states(cluster)
        with client_of(cluster) as client:
            gone = opened(client)
            assert len(states(cluster)) > len(names)
        waited(lambda: states(cluster) == names)
        assert isinstance(staying.run(kernels.compiled(kernels.good())), Ok)
        gone.close()
    # The worker may have been faster than its client. The client then does not wait until the state is gone.
    waited(lambda: not states(cluster))


def test_workers_do_not_leave_before_the_scheduler_knows_the_client(
    cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    handlers = cluster.scheduler.stream_handlers
    update_graph = handlers["update-graph"]

    async def late(**graph: object) -> None:
        await asyncio.sleep(0.3)
        await update_graph(**graph)

    monkeypatch.setattr(dask_worker, "LEASE", 0.05)
    monkeypatch.setitem(handlers, "update-graph", late)
    with tasks_of(cluster) as tasks:
        time.sleep(0.5)
        assert states(cluster)
        tasks.close()
    waited(lambda: not states(cluster))


def test_what_is_told_to_all_workers_does_not_wait_for_one_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_tasks, "_BRIEF_SECONDS", 0.05)
    hanging, said = threading.Event(), []
    dask_tasks.briefly(lambda: (said.append("give up"), hanging.wait(10)))
    assert said == ["give up"]
    assert not hanging.is_set()
    hanging.set()


def test_only_the_candidate_that_ends_workers_fails(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    both, together = threading.Barrier(2), threading.Semaphore(1)
    first = threading.local()
    died = distributed.KilledWorker("a", SimpleNamespace(address="tcp://one:1"), 3)

    def answered(tasks: Any, where: object, turn: int, method: str, arguments: tuple[str]) -> str:
        if not hasattr(first, "over"):  # they are on one worker, which four times ends
            first.over = True
            both.wait(10)
            raise died
        alone = together.acquire(blocking=False)
        time.sleep(0.05)
        if alone:
            together.release()
        if arguments == ("guilty",) or not alone:
            raise died
        return "measured"

    monkeypatch.setattr(dask_tasks.Tasks, "_answer", answered)
    with tasks_of(cluster) as tasks, ThreadPoolExecutor(2) as threads:
        guilty, innocent = threads.map(lambda which: tasks.ask(ANYWHERE, "run", which), ["guilty", "innocent"])
    assert innocent == "measured"
    assert isinstance(guilty, Failed)
    assert "several workers ended" in guilty.message


def test_a_scheduler_that_hangs_has_no_workers(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def hangs(*arguments: object, **options: object) -> None:
        await asyncio.sleep(30)

    monkeypatch.setattr(dask_tasks, "_POLL_SECONDS", 0.0)
    with tasks_of(cluster) as tasks:
        assert tasks.workers(ANYWHERE)
        monkeypatch.setattr(dask_tasks, "_ANSWER_SECONDS", 0.05)
        monkeypatch.setattr(tasks._client, "scheduler", SimpleNamespace(processing=hangs, identity=hangs))
        asked = threading.Event()
        threading.Thread(target=lambda: tasks.workers(ANYWHERE) or asked.set(), daemon=True).start()
        assert asked.wait(10)
        monkeypatch.undo()


@pytest.mark.parametrize("answer", [None, "nothing"], ids=["never answers", "never knows the task"])
def test_a_scheduler_that_hangs_ends_a_new_search(
    cluster: Any, answer: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def status(keys: list[str]) -> dict[str, None]:
        if not answer:
            await asyncio.sleep(30)
        return dict.fromkeys(keys)

    monkeypatch.setattr(dask_tasks, "_LEASE_SECONDS", 0.05)
    with client_of(cluster) as client:
        monkeypatch.setattr(client.scheduler, "get_task_status", status)
        began = time.monotonic()
        with pytest.raises(MeasureError, match=r"tcp://\S+ has not taken a task for 0\.05 s: it hangs, .*; --resume"):
            dask_tasks.Tasks(client, dask_worker.WorkerState("pegbox-hung"), start="dask worker", resume="; --resume")
        assert time.monotonic() - began < 15
        monkeypatch.undo()


def test_workers_that_are_there_and_take_nothing_end_the_search(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_tasks, "_POLL_SECONDS", 0.01)
    with tasks_of(cluster) as tasks:
        nowhere = {"pure": False, "resources": {"none": 1}}
        monkeypatch.setattr(dask_tasks.Tasks, "_submit", lambda tasks, *task: tasks._client.submit(print, **nowhere))
        remedy = r"took none of .* for 0\.05 s.*paused.*--memory-limit.*--resume"
        with pytest.raises(MeasureError, match=remedy):
            tasks.ask(dask_tasks.Where({}, patience=0.05), "run")


def test_finalists_whose_workers_end_are_timed_one_by_one(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = dask_tasks.Tasks.ask

    def ask(tasks: Any, where: object, method: str, *arguments: Any) -> Any:
        if method == "rerun":
            return Failed(FailureKind.CRASH, "several workers ended")
        return asked(tasks, where, method, *arguments)

    monkeypatch.setattr(dask_tasks.Tasks, "ask", ask)
    program = kernels.compiled(kernels.good())
    with client_of(cluster) as client, contextlib.closing(opened(client)) as runner:
        assert all(isinstance(result, Ok) for result in runner.rerun([program, program]))


def test_a_worker_that_cannot_write_is_named_with_the_remedy(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: object, **options: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(dask_worker, "LocalRunner", full)
    with (
        client_of(cluster) as client,
        contextlib.closing(opened(client)) as runner,
        pytest.raises(MeasureError, match=r"cannot measure: .*No space left.*--local-directory DIR.*TMPDIR=DIR"),
    ):
        runner.run(kernels.compiled(kernels.good()))


def test_a_worker_without_any_folder_for_temporary_files_is_named(
    cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none() -> str:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found")

    with client_of(cluster) as client, contextlib.closing(opened(client)) as runner:
        monkeypatch.setattr(machine_lock.tempfile, "gettempdir", none)
        with pytest.raises(MeasureError, match=r"cannot measure: .*No usable temporary.*TMPDIR=DIR"):
            runner.run(kernels.compiled(kernels.good()))


@pytest.fixture
def own_locks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Others may measure on this machine."""
    monkeypatch.setattr(machine_lock.tempfile, "gettempdir", lambda: str(tmp_path))
    return tmp_path


@contextlib.contextmanager
def held(folder: Path) -> Iterator[None]:
    """Hold the lock as a process that measures on this machine and hangs."""
    with open(folder / "pegbox-measuring.lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def is_waited_for(folder: Path) -> bool:
    with open(folder / "pegbox-measuring-queue.lock", "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


@pytest.mark.parametrize("how", [machine_lock.alone, machine_lock.building])
def test_who_gives_up_waits_for_the_lock_no_longer_and_never_has_it(how: Any, own_locks: Path) -> None:
    looks = iter([False, False, True])
    with held(own_locks), pytest.raises(GivenUp), how(lambda: next(looks)):
        pass
    for _ in range(2):  # as the one and the other
        with machine_lock.alone(), pytest.raises(GivenUp), machine_lock.building(lambda: True):
            pass


def test_a_candidate_that_waits_for_its_machine_is_given_up_there(cluster: Any, own_locks: Path) -> None:
    def busy() -> bool:
        return any(worker.state.executing for worker in cluster.workers.values())

    with client_of(cluster) as client, contextlib.closing(opened(client)) as runner, ThreadPoolExecutor(1) as threads:
        with held(own_locks):
            result = threads.submit(runner.run, kernels.compiled(kernels.good()))
            assert waited(busy)
            runner.interrupt()
            assert isinstance(result.result(10), Failed)
            assert waited(lambda: not busy())
        assert isinstance(runner.run(kernels.compiled(kernels.good())), Ok)


def test_a_search_whose_builds_wait_for_another_process_ends(cluster: Any, own_locks: Path) -> None:
    task = pb.create_task("matmul", args=(4, 4, 4))
    with client_of(cluster) as client, ThreadPoolExecutor(1) as threads:
        measurer = LocalMeasurer(task, runner=client, builders=1, runner_options={"builds": "here"})
        assert measurer.machines == 1
        with held(own_locks):
            configs = [task.space.get(number) for number in range(3)]
            results = threads.submit(lambda: list(measurer.measure(configs)))
            assert waited(lambda: is_waited_for(own_locks))
            closing = threading.Thread(target=measurer.close, daemon=True)
            closing.start()
            closing.join(10)
            assert not closing.is_alive()
            with pytest.raises(MeasureError, match="closed"):
                results.result(10)


@pytest.mark.skipif(os.name != "posix" or os.getuid() != 0, reason="needs root, to be somebody else")
def test_users_share_the_lock_of_a_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o1777)
        monkeypatch.setattr(machine_lock.tempfile, "gettempdir", lambda: folder)
        for user in (65534, 65533):
            assert os.waitpid(_locking(user), 0)[1] == 0


def test_a_lock_whose_file_another_user_makes_meanwhile_is_taken(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Linux refuses to create another's file in a folder of all users, if it is not said to be new."""
    true_open = os.open

    def others_open(path: Path, flags: int, mode: int = 0o777) -> int:
        if not path.exists():
            os.close(true_open(path, os.O_CREAT))
            raise FileNotFoundError
        if flags & os.O_CREAT and not flags & os.O_EXCL:
            raise PermissionError
        return true_open(path, flags, mode)

    monkeypatch.setattr(machine_lock.tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr(machine_lock.os, "open", others_open)
    with machine_lock.alone():
        assert len(list(tmp_path.iterdir())) == 2


def _locking(user: int) -> int:
    """A fork of this process, as that user, which takes the lock and ends."""
    if pid := os.fork():
        return pid
    try:
        os.umask(0o77)
        os.setuid(user)
        with machine_lock.alone():
            os._exit(0)
    finally:
        os._exit(1)


def test_a_worker_that_cannot_write_is_set_aside(monkeypatch: pytest.MonkeyPatch) -> None:
    """The search goes on with the others, with one warning; where there are none, that is its error."""
    options = {"resources": {"pegbox": 1}, "threads_per_worker": 1, "memory_limit": 0, "protocol": "tcp"}
    full: set[str] = set()
    opening = dask_worker.MeasuringState._open

    def open_where_there_is_room(state: Any) -> Any:
        if state._worker.address in full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return opening(state)

    monkeypatch.setattr(dask_worker.MeasuringState, "_open", open_where_there_is_room)
    program = kernels.compiled(kernels.good())
    with (
        distributed.LocalCluster(
            n_workers=2, processes=False, dashboard_address=None, silence_logs=50, **options
        ) as cluster,
        client_of(cluster) as client,
    ):
        full.add(cluster.workers[0].address)
        warning = pytest.warns(RuntimeWarning, match="No space left.*make room there.*goes on with other workers")
        with contextlib.closing(opened(client)) as runner, warning as warned, ThreadPoolExecutor(4) as threads:
            found = list(threads.map(lambda _: runner.run(program), range(4)))
            assert all(isinstance(result, Ok) for result in found)
            assert runner.machines == 1
        assert len([w for w in warned if "No space left" in str(w.message)]) == 1
        full.add(cluster.workers[1].address)
        with contextlib.closing(opened(client)) as runner, pytest.raises(MeasureError, match="No space left"), warning:
            runner.run(program)


def test_workers_with_too_little_memory_are_named(cluster: Any) -> None:
    with client_of(cluster) as client:
        check_memory(client, 1 << 40)  # its workers have no limit
        limited = {"tcp://one": {"memory_limit": 10_000_000}, "tcp://two": {"memory_limit": 30_000_000}, "x": {}}
        asked = SimpleNamespace(scheduler_info=lambda n_workers: {"workers": limited})
        with pytest.raises(MeasureError, match=r"take 10 MB, .* memory.*: tcp://one \(10 MB\); .*--memory-limit"):
            check_memory(asked, 10_000_000)
