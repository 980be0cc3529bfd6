"""Builders share the timing core with candidates, and leave it to them while these are timed."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest

from pegbox.codegen import CompiledProgram, Program, compile_program
from pegbox.codegen.targets.cores import usable_cores
from pegbox.measure import Failed
from pegbox.measure.builder import Builder
from pegbox.measure.process import Worker, WorkerDied
from pegbox.testing import llvm_kernels as kernels


@pytest.fixture
def builder() -> Iterator[Builder]:
    made = Builder(workers=1, shared=usable_cores()[-1:], timeout=60.0)
    yield made
    made.close()


def taken(builder: Builder) -> list[int]:
    """The places of the builders that may begin now, in the order in which they do."""
    working = []
    while builder._free() is not None:
        working.append(builder._take())
    for place, worker in working:
        builder._put_back(place, worker)
    return [place for place, _ in working]


def test_the_builder_on_the_timing_core_begins_first(builder: Builder) -> None:
    assert builder.size == 2
    assert taken(builder) == [1, 0]


def test_it_rests_in_silence(builder: Builder) -> None:
    with builder.silence():
        assert taken(builder) == [0]
    assert taken(builder) == [1, 0]


def test_silence_waits_for_its_build(builder: Builder) -> None:
    (place, shared), (_, one) = builder._take(), builder._take()
    silent = threading.Event()

    def time() -> None:
        with builder.silence():
            silent.set()

    thread = threading.Thread(target=time)
    thread.start()
    builder._put_back(0, one)
    assert not silent.wait(0.05)
    builder._put_back(place, shared)
    thread.join()
    assert silent.is_set()


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
    [(signal.SIGABRT, True, [True, False]), (signal.SIGKILL, True, [True]), (signal.SIGABRT, False, [False])],
)
def test_where_llvm_dies_of_scalar_loops_they_stay_scalar(
    builder: Builder, monkeypatch: pytest.MonkeyPatch, killed_by: int, scalar_loops: bool, tried: list[bool]
) -> None:
    seen: list[bool] = []

    def call(self: Worker, job: str, program: Program, *, timeout: float) -> bytes:
        seen.append(program.scalar_loops)
        if len(seen) == 1:
            raise WorkerDied(-killed_by, "Assertion failed")
        return bytes(8)

    monkeypatch.setattr(Worker, "call", call)
    built = builder.build(replace(kernels.good(), scalar_loops=scalar_loops))
    assert seen == tried
    assert isinstance(built, CompiledProgram if len(tried) == 2 else Failed)


def test_without_shared_cores_silence_is_free() -> None:
    builder = Builder(workers=1)
    with builder.silence():
        assert taken(builder) == [0]
    builder.close()
