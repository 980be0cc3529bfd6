"""The cores of the threads of parallel kernels."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np
import pytest
from lowered_programs import PARALLEL, function, get, loop, put
from processors import on_this_machine

from pegbox.codegen import Kernel, Target, build, emit
from pegbox.codegen.runtime import team
from pegbox.codegen.targets.cores import usable_cores
from pegbox.expr.nodes import Buffer
from pegbox.loops.nodes import Function, seq
from pegbox.workers.affinity import confined

CORES = usable_cores()
T = TypeVar("T")

pytestmark = [
    on_this_machine,
    pytest.mark.skipif(
        len(CORES) < 2 or not hasattr(os, "sched_getaffinity"), reason="needs two cores, and to see their use"
    ),
]


def doubled(count: int) -> Function:
    a, c = Buffer("a", (count,)), Buffer("c", (count,))
    return function([a, c], [c], loop("i", count, lambda i: put(c, i, get(a, i) * 2.0), PARALLEL))


def kernel(threads: int) -> Kernel:
    return build(emit(doubled(1000), Target(f"llvm -num-cores {threads}")))


def call(kernel: Kernel) -> None:
    a, c = np.ones(1000, np.float32), np.zeros(1000, np.float32)
    kernel(a, c)
    assert (c == 2).all()


def masks() -> dict[int, set[int]]:
    """The cores of every thread of this process that is none of Python's."""
    known = {thread.native_id for thread in threading.enumerate()}
    found = {}
    for number in {int(entry.name) for entry in Path("/proc/self/task").iterdir()} - known:
        with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
            found[number] = os.sched_getaffinity(number)
    return found


def in_new_thread(body: Callable[[], T]) -> T:
    """Return the result of `body` in a thread that has no team yet."""
    found: list[T] = []
    thread = threading.Thread(target=lambda: found.append(body()))
    thread.start()
    thread.join()
    return found[0]


def team_after(*steps: Callable[[], None]) -> tuple[list[set[int]], set[int]]:
    """The cores of the threads that the steps have started, and of the thread that took them."""

    def body() -> tuple[list[set[int]], set[int]]:
        before = masks()
        for step in steps:
            step()
        return [mask for thread, mask in masks().items() if thread not in before], os.sched_getaffinity(0)

    return in_new_thread(body)


def test_threads_of_a_team_of_all_cores_have_one_each_and_the_caller_stays_free() -> None:
    whole = kernel(len(CORES))
    threads, caller = team_after(lambda: call(whole))
    assert len(threads) == len(CORES) - 1
    assert all(len(mask) == 1 for mask in threads)
    assert len(set.union(*threads)) == len(threads)
    assert caller == set(CORES)


def test_a_timing_leaves_the_caller_as_free_as_before() -> None:
    whole = kernel(len(CORES))
    arrays = np.ones(1000, np.float32), np.zeros(1000, np.float32)
    threads, caller = team_after(lambda: whole.time_ns(arrays, 3) and None)
    assert len(set.union(*threads)) == len(threads) == len(CORES) - 1
    assert caller == set(CORES)


@pytest.mark.parametrize("core", CORES[:2])
def test_a_team_follows_its_caller(core: int, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = kernel(len(CORES))

    def on_core() -> None:
        with monkeypatch.context() as patch:
            patch.setattr(team, "_current_core", lambda: core)
            team.latest.clear()  # machine code reads the core itself
            call(whole)

    threads, _ = team_after(lambda: call(whole), on_core)
    assert set.union(*threads) == set(CORES) - {core}


@pytest.mark.parametrize("size", [len(CORES), len(CORES) + 1])
def test_a_team_moves_to_the_cores_of_a_mask_that_is_changed_later(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(team, "_LOOK_SECONDS", 0.0)
    there = CORES[-1]
    same = kernel(size)

    def on_core() -> None:
        with confined([there]):
            call(same)

    threads, _ = team_after(lambda: call(same), on_core)
    assert threads == [{there}] * (size - 1)
    threads, _ = team_after(lambda: call(same), on_core, lambda: call(same))
    assert all(len(mask) == (1 if size == len(CORES) else len(CORES)) for mask in threads)


def test_a_smaller_or_larger_team_is_left_to_the_system() -> None:
    other = kernel(len(CORES) + 1)
    threads, _ = team_after(lambda: call(other))
    assert threads == [set(CORES)] * len(CORES)


def test_threads_that_a_team_leaves_to_a_larger_one_are_left_to_the_system() -> None:
    whole, other = kernel(len(CORES)), kernel(len(CORES) + 1)
    threads, _ = team_after(lambda: call(whole), lambda: call(other))
    assert threads == [set(CORES)] * len(CORES)


def test_a_team_that_is_made_anew_gets_its_cores_again() -> None:
    whole, other = kernel(len(CORES)), kernel(len(CORES) + 1)
    threads, _ = team_after(lambda: call(whole), lambda: call(other), lambda: call(whole))
    assert [len(mask) for mask in threads] == [1] * (len(CORES) - 1)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_has_a_team_of_its_own() -> None:
    """The runtime would wait there for threads that only its parent has, and its cores are the parent's."""
    whole = kernel(len(CORES))

    def in_fork() -> int:
        call(whole)
        before = masks()
        pid = os.fork()
        if not pid:
            _end_after(10, lambda: call(whole), lambda: in_new_thread(lambda: call(whole)), lambda: _fork_again(whole))
        status = os.waitpid(pid, 0)[1]
        assert masks() == before
        return status

    assert in_new_thread(in_fork) == 0


def _fork_again(whole: Kernel) -> None:
    if pid := os.fork():
        assert os.waitpid(pid, 0)[1] == 0
    else:
        _end_after(5, lambda: call(whole))


def _end_after(seconds: int, *steps: Callable[[], None]) -> None:
    """Take the steps and end this process, which is a fork, with 0 where all went well in so many seconds."""
    signal.alarm(seconds)
    try:
        for step in steps:
            step()
        os._exit(0)
    finally:
        os._exit(1)


@pytest.mark.parametrize("setting", team.SETTINGS)
def test_what_the_user_says_of_the_places_of_threads_holds(setting: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(setting, "false")
    whole = kernel(len(CORES))
    threads, _ = team_after(lambda: call(whole))
    assert threads == [set(CORES)] * (len(CORES) - 1)


def test_all_loops_of_a_kernel_have_one_team() -> None:
    a, b, c = Buffer("a", (3,)), Buffer("b", (50,)), Buffer("c", (3,))
    body = seq(
        loop("i", 3, lambda i: put(c, i, get(a, i)), PARALLEL), loop("j", 50, lambda j: put(b, j, get(a, 0)), PARALLEL)
    )
    program = emit(function([a, b, c], [b, c], body), Target("llvm -num-cores 8"))
    assert program.num_threads == 8
    assert program.ll.count(", i32 8, i32 0)") == 2
    assert emit(doubled(3), Target("llvm -num-cores 8")).num_threads == 3
