from __future__ import annotations

import contextlib
import os
import pickle
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pegbox.codegen.targets.cores import usable_cores
from pegbox.errors import MeasureError
from pegbox.workers import channel, descendants, fork_client, process
from pegbox.workers.channel import READY, BrokenReply, Reply, encode_reply
from pegbox.workers.process import JobError, Worker, WorkerDied, WorkerTimeout

HERE = Path(__file__).parent
LONG = 60.0


@pytest.fixture
def start() -> Iterator[Callable[..., Worker]]:
    workers: list[Worker] = []

    def start(jobs: str = "worker_jobs", **options: Any) -> Worker:
        workers.append(Worker(jobs, **options))
        return workers[-1]

    yield start
    for worker in workers:
        worker.close()


@pytest.fixture
def worker(start: Callable[..., Worker]) -> Worker:
    return start()


def gone(pid: int) -> bool:
    """Tell whether the process ended (a zombie has), waiting a while for it."""
    for _ in range(400):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except FileNotFoundError:
            return True
        if state == "Z":
            return True
        time.sleep(0.05)
    return False


def test_a_worker_answers_many_jobs_of_any_size(worker: Worker) -> None:
    assert [worker.call("add", i, 1, timeout=LONG) for i in range(3)] == [1, 2, 3]
    assert worker.call("big", 3_000_000, timeout=LONG) == b"x" * 3_000_000


def test_an_argument_that_cannot_be_pickled_leaves_the_worker_as_it_was(worker: Worker) -> None:
    with pytest.raises((TypeError, AttributeError, pickle.PicklingError)):
        worker.call("add", threading.Lock(), 1, timeout=LONG)
    assert worker.call("add", 5, 1, timeout=LONG) == 6


def test_prints_do_not_disturb_the_pickles(worker: Worker) -> None:
    assert worker.call("chatter", timeout=LONG) == "done"
    assert worker.call("add", 1, 2, timeout=LONG) == 3


def test_an_exception_comes_back_as_text_and_the_worker_lives(worker: Worker) -> None:
    with pytest.raises(JobError, match="ValueError: seven is odd"):
        worker.call("fail", timeout=LONG)
    assert worker.call("add", 1, 2, timeout=LONG) == 3


def test_death_by_a_signal_is_named_and_shows_the_last_words_of_this_job_only(worker: Worker) -> None:
    worker.call("chatter", timeout=LONG)
    with pytest.raises(WorkerDied, match=r"killed by SIGSEGV.*farewell") as caught:
        worker.call("die", int(signal.SIGSEGV), timeout=LONG)
    assert caught.value.signal == signal.SIGSEGV
    assert caught.value.tail == "farewell"
    assert not worker.alive


def test_an_exit_status_is_shown(worker: Worker) -> None:
    with pytest.raises(WorkerDied, match="exited with status 3"):
        worker.call("leave", 3, timeout=LONG)


def test_an_endless_job_is_killed_at_its_timeout(worker: Worker) -> None:
    with pytest.raises(WorkerTimeout, match=r"0\.3 s"):
        worker.call("spin", timeout=0.3)
    assert not worker.alive
    assert gone(worker.pid)


def test_a_call_on_a_dead_worker_says_so_instead_of_hanging(worker: Worker) -> None:
    worker.call("add", 1, 2, timeout=LONG)
    worker.kill()
    with pytest.raises(WorkerDied):
        worker.call("add", 1, 2, timeout=LONG)


def test_posted_jobs_run_before_the_next_call_and_their_failure_is_not_lost(worker: Worker) -> None:
    worker.post("add", 1, 2)
    assert worker.call("add", 3, 4, timeout=LONG) == 7
    worker.post("fail")
    with pytest.raises(MeasureError, match="seven is odd"):
        worker.call("add", 3, 4, timeout=LONG)


def test_a_worker_that_cannot_start_shows_why(start: Callable[..., Worker]) -> None:
    with pytest.raises(MeasureError, match="no_such_module"):
        start("no_such_module").wait_ready()


def test_memory_is_limited_and_running_out_of_it_is_an_exception(start: Callable[..., Worker]) -> None:
    worker = start(memory=256 << 20)
    assert worker.call("swallow", 1 << 20, timeout=LONG) == 1 << 20
    with pytest.raises(JobError, match="MemoryError"):
        worker.call("swallow", 1 << 30, timeout=LONG)


def test_a_worker_keeps_to_its_cores(start: Callable[..., Worker]) -> None:
    core = usable_cores()[-1]
    assert start(cores=[core]).call("cores", timeout=LONG) == [core]


def test_a_worker_is_out_of_reach_of_the_terminals_ctrl_c(worker: Worker) -> None:
    assert "SIG_IGN" in worker.call("interrupt_handler", timeout=LONG)
    assert os.getsid(worker.pid) != os.getsid(0)


def test_a_worker_does_not_import_the_users_main_module(worker: Worker) -> None:
    assert worker.call("main_module", timeout=LONG) is None


@pytest.mark.parametrize("content", [b"\x08" * 64, encode_reply(READY, Reply(8, raised=False)), bytes(1 << 20)])
def test_what_a_job_writes_among_the_replies_is_no_reply_and_ends_the_worker(worker: Worker, content: bytes) -> None:
    with pytest.raises(BrokenReply, match="does not answer what was asked"):
        worker.call("answer_with", content, timeout=LONG)
    assert not worker.alive


def test_what_is_written_after_a_reply_is_not_taken_for_the_next_one(worker: Worker) -> None:
    worker.call("answer_later", encode_reply(READY, Reply(8, raised=False)), timeout=LONG)
    with pytest.raises(BrokenReply):
        worker.call("nap", 5.0, timeout=LONG)


def test_a_reply_that_is_too_long_is_refused(start: Callable[..., Worker]) -> None:
    worker = start(most_reply=1000)
    assert len(worker.call("big", 1000, timeout=LONG)) == 1000
    with pytest.raises(BrokenReply, match=r"1,001 bytes, 1,000"):
        worker.call("big", 1001, timeout=LONG)


def test_a_job_that_gives_something_else_than_data_has_failed(worker: Worker) -> None:
    with pytest.raises(JobError, match="set is not JSON serializable"):
        worker.call("strange", timeout=LONG)
    assert worker.call("add", 1, 2, timeout=LONG) == 3


def test_the_descriptor_of_replies_is_another_one_in_each_process_and_no_low_one(start: Callable[..., Worker]) -> None:
    found = [start().call("reply_descriptor", timeout=LONG) for _ in range(3)]
    assert min(found) > 100
    assert len(set(found)) > 1


def test_a_worker_that_closed_its_replies_is_dead(worker: Worker) -> None:
    with pytest.raises(WorkerDied):
        worker.call("answer_nothing_more", timeout=LONG)
    assert not worker.alive


def test_a_worker_that_emptied_its_stderr_has_no_last_words(worker: Worker) -> None:
    worker.call("chatter", timeout=LONG)
    with pytest.raises(WorkerDied) as caught:
        worker.call("forget_stderr", timeout=LONG)
    assert caught.value.tail == ""


def test_a_worker_that_takes_no_more_jobs_is_killed_at_the_timeout(worker: Worker) -> None:
    worker.call("stop", timeout=LONG)
    time.sleep(0.5)
    with pytest.raises(WorkerTimeout):
        worker.call("swallow", bytes(10_000_000), timeout=0.5)
    assert not worker.alive


def test_what_a_job_has_forked_is_killed_with_it_also_in_a_session_of_its_own(worker: Worker) -> None:
    left = worker.call("leave_behind", timeout=LONG)
    worker.kill()
    assert gone(left)


def test_a_worker_starts_where_its_parent_is_then(
    start: Callable[..., Worker], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    first = start().call("inherited", "PEGBOX_TEST", timeout=LONG)
    assert first == [None, None, str(Path.cwd()), sys.path[0]]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PEGBOX_TEST", "é")
    monkeypatch.syspath_prepend("elsewhere")
    assert start().call("inherited", "PEGBOX_TEST", timeout=LONG) == ["é", "é", str(tmp_path), "elsewhere"]
    monkeypatch.undo()
    assert start().call("inherited", "PEGBOX_TEST", timeout=LONG) == first


def test_limits_mask_and_priority_are_those_that_the_parent_has_now() -> None:
    script = textwrap.dedent(f"""
        import os, resource, sys
        sys.path.insert(0, {str(HERE)!r})
        from pegbox.workers.process import Worker
        def standing():
            worker = Worker("worker_jobs")
            print(*worker.call("standing", timeout={LONG}))
            worker.close()
        standing()
        os.umask(0o027)
        os.nice(3)
        resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 7, ) * 2)
        standing()
        """)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=LONG, check=True)
    (files, _, nice), now = (tuple(map(int, line.split())) for line in done.stdout.splitlines())
    assert now == (files - 7, 0o027, nice + 3)


@pytest.mark.usefixtures("new_server")
def test_a_variable_that_the_server_has_and_its_client_no_more_is_missing(
    start: Callable[..., Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PEGBOX_TEST", "1")
    assert start().call("inherited", "PEGBOX_TEST", timeout=LONG)[:2] == ["1", "1"]
    monkeypatch.delenv("PEGBOX_TEST")
    assert start().call("inherited", "PEGBOX_TEST", timeout=LONG)[:2] == [None, None]


def parent_of(pid: int) -> int:
    """The number of a process's parent."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def server_of(worker: Worker) -> int:
    return parent_of(worker.call("parent", timeout=LONG))


def stop(pid: int) -> None:
    """Stop a process, and wait until it is."""
    os.kill(pid, signal.SIGSTOP)
    while not descendants.is_stopped(pid):
        time.sleep(0.001)


@pytest.fixture
def new_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A test that begins without a fork server, and ends those that it makes."""
    monkeypatch.setattr(fork_client, "_servers", [])
    yield
    fork_client._end()


def test_workers_share_a_server_of_one_thread_and_each_has_a_parent_of_its_own(start: Callable[..., Worker]) -> None:
    parents = {start().call("parent", timeout=LONG) for _ in range(2)}
    (server,) = {parent_of(parent) for parent in parents}
    assert len(parents) == 2
    assert os.listdir(f"/proc/{server}/task") == [str(server)]
    assert len({os.getsid(pid) for pid in (server, *parents)}) == 3


def test_a_variable_that_is_read_at_the_start_of_programs_needs_another_server(
    start: Callable[..., Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    old = start()
    before = server_of(old)
    monkeypatch.setenv("OPENBLAS_VERBOSE", "0")
    new = start()
    after = server_of(new)
    assert after != before
    for worker in (old, new):
        with pytest.raises(WorkerDied, match="exited with status 5"):
            worker.call("leave", 5, timeout=LONG)
        worker.close()
    monkeypatch.undo()
    start()
    assert gone(before)
    assert gone(after)


def test_a_server_that_is_killed_costs_nothing(start: Callable[..., Worker]) -> None:
    old = start()
    server = server_of(old)
    os.kill(server, signal.SIGKILL)
    assert gone(server)
    assert old.call("add", 1, 2, timeout=LONG) == 3
    assert server_of(start()) != server
    with pytest.raises(WorkerDied, match="exited with status 3"):
        old.call("leave", 3, timeout=LONG)
    assert not old.alive


@pytest.mark.usefixtures("new_server")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
@pytest.mark.parametrize("warm", [False, True])
def test_a_server_that_is_killed_or_stopped_is_replaced_and_who_waits_goes_on(
    start: Callable[..., Worker], number: int, warm: bool
) -> None:
    if warm:
        start().wait_ready()
    else:
        waiting = [start(), start()]
    server = fork_client._servers[0].pid
    os.kill(server, number)
    if warm:
        waiting = [start(), start()]
    for worker in waiting:
        worker.post("swallow", 1 << 20)
        worker.post("big", bytes(1 << 20))  # more than a pipe takes
        assert worker.call("add", 1, 2, timeout=LONG) == 3
    (new,) = {server_of(worker) for worker in waiting}
    assert new != server
    assert gone(server)


@pytest.mark.usefixtures("new_server")
def test_a_server_that_cannot_start_shows_why(start: Callable[..., Worker], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fork_client, "_BOOT", "raise ImportError('no such server')")
    with pytest.raises(
        MeasureError, match=r"could not start: the fork server exited with status 1: (.|\n)*no such server"
    ):
        start().wait_ready()


@pytest.mark.usefixtures("new_server")
@pytest.mark.parametrize(
    ("boot", "reason"),
    [
        ("import os; os.kill(os.getpid(), 9)", "the fork server was killed by SIGKILL"),
        ("import os; os.kill(os.getpid(), 19)", "the fork server: it was stopped"),
        ("import time; time.sleep(600)", "the fork server: it did not answer in time"),
    ],
)
def test_servers_that_are_lost_each_time_are_the_reason(
    start: Callable[..., Worker], monkeypatch: pytest.MonkeyPatch, boot: str, reason: str
) -> None:
    monkeypatch.setattr(fork_client, "_BOOT", boot)
    monkeypatch.setattr(process, "_START_SECONDS", 1.0 if "sleep" in boot else LONG)
    with pytest.raises(MeasureError, match=f"could not start: {reason}$"):
        start().wait_ready()


@pytest.mark.usefixtures("new_server")
def test_a_server_that_is_gone_when_it_is_asked_is_the_reason(
    start: Callable[..., Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    start().wait_ready()
    fork_client._servers[0].end()
    monkeypatch.setattr(fork_client.ForkServer, "fits", lambda self, environment, warm: True)  # it has gone since
    with pytest.raises(MeasureError, match=r"could not start: the fork server was killed by SIGKILL$"):
        start().wait_ready()


@pytest.mark.usefixtures("new_server")
def test_a_server_that_takes_nothing_more_is_replaced(
    start: Callable[..., Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    start().wait_ready()
    full = fork_client._servers[0]
    stop(full.pid)
    monkeypatch.setattr(channel, "is_stopped", lambda pid: False)
    with contextlib.suppress(BlockingIOError):
        while True:
            full._socket.send(b"f")
    assert start().call("add", 1, 2, timeout=LONG) == 3
    assert gone(full.pid)


@pytest.mark.usefixtures("new_server")
def test_a_kill_wakes_who_waits_for_a_silent_server(
    start: Callable[..., Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fork_client, "_BOOT", "import time; time.sleep(600)")
    worker = start()
    ended: list[object] = []

    def wait() -> None:
        with pytest.raises(WorkerDied) as caught:
            worker.wait_ready()
        ended.append(caught.value.signal)

    thread = threading.Thread(target=wait)
    thread.start()
    time.sleep(0.1)
    worker.kill()
    thread.join(LONG)
    assert ended == [signal.SIGKILL]
    assert not worker.alive


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_worker_that_is_killed_or_stopped_before_it_is_ready_is_replaced(
    start: Callable[..., Worker], number: int
) -> None:
    worker = start()
    worker.post("nap", 0.3)
    first = worker.pid
    os.kill(first, number)
    assert worker.call("add", 1, 2, timeout=LONG) == 3
    assert worker.pid != first
    assert gone(first)


def test_a_candidate_that_stops_its_parent_stops_nothing_else(start: Callable[..., Worker], worker: Worker) -> None:
    parent = worker.call("signal_parent", int(signal.SIGSTOP), timeout=LONG)
    assert start().call("add", 1, 2, timeout=LONG) == 3
    with pytest.raises(WorkerDied, match="exited with status 3"):
        worker.call("leave", 3, timeout=LONG)
    worker.close()
    assert gone(parent)


def test_a_candidate_that_kills_its_parent_has_ended(worker: Worker) -> None:
    pid = worker.pid
    with pytest.raises(WorkerDied, match="its exit status is lost"):
        worker.call("kill_parent_and_spin", timeout=LONG)
    assert not worker.alive
    assert gone(pid)


def test_a_server_without_work_ends() -> None:
    script = "from pegbox.workers import fork_server; fork_server.IDLE = 0.01; fork_server.main()"
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert subprocess.run([sys.executable, "-c", script], stdin=theirs, timeout=LONG).returncode == 0


@pytest.mark.usefixtures("new_server")
def test_a_server_has_loaded_what_its_workers_need(start: Callable[..., Worker]) -> None:
    workers = [start(warm="worker_jobs"), start(warm="worker_jobs"), start()]
    first, second, cold = (worker.call("warmed_by", timeout=LONG) for worker in workers)
    assert first == second == server_of(workers[0])
    assert cold is None
    assert server_of(workers[2]) != first


@pytest.mark.usefixtures("new_server")
def test_a_server_loads_nothing_where_libraries_do_not_survive_a_fork(
    start: Callable[..., Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fork_client, "_WARMS_UP", False)
    assert start(warm="worker_jobs").call("warmed_by", timeout=LONG) is None


def test_a_fork_of_the_process_has_a_server_of_its_own() -> None:
    script = textwrap.dedent(f"""
        import os, sys
        sys.path.append({str(HERE)!r})
        from pegbox.workers import fork_client
        from pegbox.workers.process import Worker
        worker = Worker("worker_jobs")
        server = fork_client._servers[0].pid
        if pid := os.fork():
            assert os.waitpid(pid, 0)[1] == 0
            assert worker.call("add", 1, 2, timeout=60) == 3
            assert fork_client._servers[0].pid == server
            worker.close()
        else:
            other = Worker("worker_jobs")
            assert other.call("add", 1, 2, timeout=60) == 3
            assert fork_client._servers[0].pid != server
            other.close()
    """)
    subprocess.run([sys.executable, "-c", script], check=True, timeout=LONG)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_workers_end_when_their_client_is_killed_whatever_they_do(number: int) -> None:
    script = textwrap.dedent(f"""
        import os, signal, sys, time
        sys.path.append({str(HERE)!r})
        from pegbox.workers import channel, descendants, fork_client, process
        from pegbox.workers.process import Worker
        workers = [Worker("worker_jobs") for _ in range(4)]
        pids = [fork_client._servers[0].pid]
        for worker in workers:
            pids += [worker.pid, worker.call("parent", timeout=60)]
        workers[0].post("spin")
        workers[1].post("nap", 1000.0)
        os.kill(workers[2].pid, signal.SIGSTOP)
        for pid in (pids[0], pids[-1], workers[3].pid):  # the server, a supervisor, its worker
            os.kill(pid, signal.SIGSTOP)
        print(*pids, flush=True)
        time.sleep(1000)
    """)
    client = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert client.stdout is not None
    started = [int(pid) for pid in client.stdout.readline().split()]
    assert len(started) == 9
    client.send_signal(number)
    client.wait()
    client.stdout.close()
    assert all(gone(pid) for pid in started)
