from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pegbox.codegen.targets.host import usable_cores
from pegbox.errors import MeasureError
from pegbox.measure.channel import READY, BrokenReply, Reply, encode_reply
from pegbox.measure.process import JobError, Worker, WorkerDied, WorkerTimeout

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
    """Whether the process ended (a zombie has), waiting a while for it."""
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


@pytest.mark.parametrize("job", ["spin", "nap"])
def test_a_worker_ends_when_its_parent_is_killed(job: str) -> None:
    script = textwrap.dedent(f"""
        import sys, time
        sys.path.append({str(HERE)!r})
        from pegbox.measure.process import Worker
        worker = Worker("worker_jobs")
        worker.wait_ready()
        worker.post({job!r}, *[1000.0] * ({job!r} == "nap"))
        print(worker.pid, flush=True)
        time.sleep(1000)
    """)
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    parent.stdout.close()
    assert gone(pid)
