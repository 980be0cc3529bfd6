"""Builders compile what they can, and the death of one costs no candidate."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from pegbox.codegen import CompiledProgram, Program, compile_program
from pegbox.codegen.targets.cores import usable_cores
from pegbox.measure import Failed
from pegbox.measure.pipeline.builder import GIVEN_UP, Builder
from pegbox.testing import llvm_kernels as kernels
from pegbox.workers.process import Worker, WorkerDied


@pytest.fixture
def builder() -> Iterator[Builder]:
    made = Builder(workers=1, shared=usable_cores()[-1:], timeout=60.0)
    yield made
    made.close()


def test_builds_go_on_in_silence(builder: Builder) -> None:
    with builder.silence():
        built = [builder.build(kernels.good()) for _ in range(2)]
    assert all(isinstance(each, CompiledProgram) for each in built)


@pytest.mark.optimizer
def test_builders_make_the_code_that_users_get(builder: Builder) -> None:
    codes = []
    for scalar_loops in (True, False):
        program = replace(kernels.good(), scalar_loops=scalar_loops)
        built = builder.build(program)
        assert isinstance(built, CompiledProgram)
        assert built.object_code == compile_program(program).object_code
        codes.append(built.object_code)
    assert codes[0] != codes[1]


@pytest.mark.parametrize(
    ("killed_by", "scalar_loops", "tried"),
    [
        (signal.SIGABRT, True, [True, False]),  # LLVM's own failure: scalar loops stay scalar
        (signal.SIGABRT, False, [False]),  # it would fail again
        (signal.SIGKILL, True, [True, True]),
        (signal.SIGKILL, False, [False, False]),
    ],
)
@pytest.mark.parametrize("deaths", [1, 2])
def test_a_program_whose_builder_died_is_compiled_once_more(
    builder: Builder,
    monkeypatch: pytest.MonkeyPatch,
    killed_by: int,
    scalar_loops: bool,
    tried: list[bool],
    deaths: int,
) -> None:
    seen: list[bool] = []

    def call(self: Worker, job: str, program: Program, *, timeout: float) -> bytes:
        seen.append(program.scalar_loops)
        if len(seen) <= deaths:
            raise WorkerDied(-killed_by, "Assertion failed")
        return bytes(8)

    monkeypatch.setattr(Worker, "call", call)
    built = builder.build(replace(kernels.good(), scalar_loops=scalar_loops))
    assert seen == tried
    assert isinstance(built, CompiledProgram if len(tried) > deaths else Failed)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_builder_that_is_killed_from_outside_costs_no_candidate(
    builder: Builder, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    own, killed = Worker.call, []

    def call(self: Worker, job: str, program: Program, *, timeout: float) -> object:
        if not killed:
            self.wait_ready()
            killed.append(self.pid)
            os.kill(self.pid, number)
        return own(self, job, program, timeout=timeout)

    monkeypatch.setattr(Worker, "call", call)
    assert isinstance(builder.build(kernels.good()), CompiledProgram)
    assert killed


def test_an_interruption_gives_up_all_builds_and_starts_none_again(
    builder: Builder, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, calls, begun = Worker.call, [], threading.Semaphore(0)

    def call(self: Worker, job: str, program: Program, *, timeout: float) -> object:
        calls.append(self)
        self.wait_ready()
        os.kill(self.pid, signal.SIGSTOP)  # it will not answer
        begun.release()
        return own(self, job, program, timeout=timeout)

    monkeypatch.setattr(Worker, "call", call)
    with ThreadPoolExecutor(builder.size + 2) as pool:
        builds = [pool.submit(builder.build, kernels.good()) for _ in range(builder.size + 2)]
        for _ in range(builder.size):
            assert begun.acquire(timeout=60)
        builder.interrupt()
        assert [build.result(60) for build in builds] == [GIVEN_UP] * len(builds)
    assert len(calls) == builder.size
    monkeypatch.undo()
    assert isinstance(builder.build(kernels.good()), CompiledProgram)
