"""Processes take jobs in turn; those that die, are killed or idle are replaced."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest

from pegbox.errors import MeasureError
from pegbox.workers.pool import IdleTimer, Pool
from pegbox.workers.process import GivenUp, JobError, Worker, WorkerDied

LONG = 60.0


@pytest.fixture
def pool_of() -> Iterator[Callable[..., Pool]]:
    pools: list[Pool] = []

    def make(size: int, **options: Any) -> Pool:
        pools.append(Pool(lambda place: Worker("worker_jobs"), size, **options))
        return pools[-1]

    yield make
    for pool in pools:
        pool.close()


def add(pool: Pool) -> int:
    with pool.worker() as worker:
        result: int = worker.call("add", 1, 2, timeout=LONG)
        return result


def pid_of(pool: Pool) -> int:
    with pool.worker() as worker:
        return worker.pid


def places(pool: Pool) -> list[int]:
    """The places whose processes may begin a job now, in the order in which they do."""
    taken = []
    while pool._next() is not None:
        taken.append(pool._take(pool.turn))
    for place, worker in taken:
        pool._put_back(place, worker)
    return [place for place, _ in taken]


def test_a_process_that_is_there_is_taken_before_another_starts(pool_of: Callable[..., Pool]) -> None:
    pool = pool_of(3)
    first = pid_of(pool)
    assert [pid_of(pool), pid_of(pool)] == [first, first]
    with pool.worker() as one, pool.worker() as other:
        assert one.pid == first != other.pid


def test_a_job_that_fails_leaves_its_process_and_one_that_dies_is_replaced(pool_of: Callable[..., Pool]) -> None:
    pool = pool_of(1)
    first = pid_of(pool)
    with pytest.raises(JobError, match="seven is odd"), pool.worker() as worker:
        worker.call("fail", timeout=LONG)
    assert pid_of(pool) == first
    with pytest.raises(WorkerDied), pool.worker() as worker:
        worker.call("die", int(signal.SIGSEGV), timeout=LONG)
    assert add(pool) == 3
    assert pid_of(pool) != first


def test_the_oldest_process_is_taken_and_the_one_standing_by_steps_in_for_it(pool_of: Callable[..., Pool]) -> None:
    pool = pool_of(2)
    pool.start(1)
    first = pid_of(pool)
    pool.start(2)
    pool.wait_ready()
    with pool.worker() as one, pool.worker() as other:
        second = other.pid
        assert one.pid == first != second
    for _ in range(2):
        assert pid_of(pool) == first
    with pytest.raises(WorkerDied), pool.worker() as worker:
        worker.call("die", int(signal.SIGSEGV), timeout=LONG)
    assert pid_of(pool) == second


def test_a_body_that_is_interrupted_leaves_no_reply_to_the_next(pool_of: Callable[..., Pool]) -> None:
    pool = pool_of(1)

    def interrupted() -> None:
        with pool.worker() as worker:
            worker.post("nap", 0.1)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert add(pool) == 3


def test_an_interruption_ends_jobs_and_gives_up_those_that_wait(pool_of: Callable[..., Pool]) -> None:
    pool, begun = pool_of(1), threading.Event()

    def spin() -> object:
        with pool.worker() as worker:
            begun.set()
            return worker.call("spin", timeout=LONG)

    with ThreadPoolExecutor(3) as threads:
        running = threads.submit(spin)
        assert begun.wait(LONG)
        waiting = threads.submit(add, pool)
        pool.interrupt()
        assert isinstance(running.exception(LONG), WorkerDied)
        assert waiting.exception(LONG) is None or isinstance(waiting.exception(), GivenUp)
    assert add(pool) == 3


def test_a_job_of_an_earlier_turn_is_given_up(pool_of: Callable[..., Pool]) -> None:
    pool = pool_of(1)
    turn = pool.turn
    pool.interrupt()
    with pytest.raises(GivenUp), pool.worker(turn):
        pass


def test_close_ends_what_runs_and_refuses_what_comes(pool_of: Callable[..., Pool]) -> None:
    pool, begun = pool_of(2), threading.Event()

    def spin() -> object:
        with pool.worker() as worker:
            begun.set()
            return worker.call("spin", timeout=LONG)

    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(spin)
        assert begun.wait(LONG)
        pool.close()
        pool.close()
        assert isinstance(running.exception(LONG), WorkerDied)
    with pytest.raises(GivenUp):
        add(pool)


def test_the_guest_begins_first_and_rests_in_silence(pool_of: Callable[..., Pool]) -> None:
    pool = pool_of(2, guest=1)
    pool.start(2)
    assert places(pool) == [1, 0]
    with pool.silence():
        assert places(pool) == [0]
    assert places(pool) == [1, 0]


def test_silence_waits_for_the_job_of_the_guest(pool_of: Callable[..., Pool]) -> None:
    pool, silent = pool_of(2, guest=1), threading.Event()

    def rest() -> None:
        with pool.silence():
            silent.set()

    with ExitStack() as guest, ExitStack() as other:
        guest.enter_context(pool.worker())
        other.enter_context(pool.worker())
        thread = threading.Thread(target=rest)
        thread.start()
        other.close()
        assert not silent.wait(0.05)
    thread.join(LONG)
    assert silent.is_set()


def test_without_a_guest_silence_is_free(pool_of: Callable[..., Pool]) -> None:
    pool = pool_of(1)
    with pool.silence():
        assert places(pool) == [0]


def test_processes_without_a_job_end_and_the_next_job_starts_one(pool_of: Callable[..., Pool]) -> None:
    pool = pool_of(1, idle=0.05)
    with pool.worker() as worker:
        first = worker.pid
        time.sleep(0.2)
        assert worker.call("add", 1, 2, timeout=LONG) == 3
    deadline = time.monotonic() + LONG
    while worker.alive and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not worker.alive
    assert pid_of(pool) != first


def test_where_no_process_can_start_the_job_says_so() -> None:
    def start(place: int) -> Worker:
        raise OSError("too many open files")

    pool = Pool(start, 1)
    for _ in range(2):  # the place stays free
        with pytest.raises(MeasureError, match="could not start: too many open files"):
            add(pool)


def test_a_timer_that_is_restarted_waits_again_and_one_that_is_stopped_does_nothing() -> None:
    rung = threading.Event()
    timer = IdleTimer(0.02, rung.set)
    timer.restart()
    assert rung.wait(LONG)
    rung.clear()
    timer.restart()
    timer.stop()
    assert not rung.wait(0.1)
    timer.restart()
    assert rung.wait(LONG)
