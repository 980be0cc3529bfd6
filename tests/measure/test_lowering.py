"""The processes that compile candidates lower them, too, if other machines time."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from scaling_template import ending, lowered_here, scaled, waiting

import pegbox as pb
from pegbox.hooks import refs
from pegbox.measure import Builder, Failed, FailureKind, LocalMeasurer, Ok, Result
from pegbox.measure.jobs.packed_task import pack_task, unpack_task
from pegbox.measure.runners.runner import RunnerWrapper
from pegbox.measure.trial.lowering import Lowered, Lowering, lower, program_key
from pegbox.plugins.runners.local import LocalRunner
from pegbox.workers.process import JobError
from tests.helpers.rack import waited


class Elsewhere(RunnerWrapper):
    """The local runner as one of other machines, which lowers as it is asked to."""

    cluster = True

    def __init__(self, bench: Any, *, timing: Any, cores: Any, max_memory: Any) -> None:
        assert not cores.timing
        super().__init__(LocalRunner(bench, timing=timing, cores=cores, max_memory=max_memory))
        self._alone = threading.Lock()
        self.runs = 0

    def run(self, program: Any, *, best: float = float("inf")) -> Result:
        with self._alone:
            self.runs += 1
            return super().run(program, best=best)


@pytest.fixture(autouse=True)
def own_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget after each test the files of users that unpacking a task in this process adopts."""
    monkeypatch.setattr(refs, "_ADOPTED", {})


@pytest.fixture(scope="module")
def task() -> pb.Task:
    return pb.create_task(scaled, args=(64,), target="llvm -num-cores 1")


@pytest.fixture(scope="module")
def measurer(task: pb.Task) -> Iterator[LocalMeasurer]:
    with LocalMeasurer(task, runner=Elsewhere, min_repeat_ms=0.1, builders=1) as measurer:
        yield measurer


def runs_of(measurer: LocalMeasurer) -> int:
    assert measurer._pipeline is not None
    return measurer._pipeline.runs.runner.inner.runs  # type: ignore[attr-defined, no-any-return]


def test_builders_lower_and_results_are_as_of_lowering_here(task: pb.Task, measurer: LocalMeasurer) -> None:
    configs = [task.space.get(index) for index in range(4)]
    lowered_here.clear()
    found = dict(measurer.measure(configs))
    assert lowered_here == []
    assert list(found) == configs
    plain, four, eight, none = found.values()
    assert isinstance(none, Failed)
    assert none.kind is FailureKind.INVALID
    assert none.message == lower(task, configs[3], 1000).message  # type: ignore[union-attr]
    assert none.phases["lower"] > 0
    for result in (plain, four, eight):
        assert isinstance(result, Ok)
        assert result.phases["lower"] > 0
        assert result.phases["build"] > 0
    assert four.cost == eight.cost, "equal programs are run once"
    assert runs_of(measurer) == 2
    assert ("timing" in four.phases) != ("timing" in eight.phases)
    assert all(result.ok for _, result in measurer.measure(configs[:1]))
    assert runs_of(measurer) == 3, "a config that comes again is measured again"


def test_the_best_are_measured_again_from_the_code_that_was_kept(task: pb.Task, measurer: LocalMeasurer) -> None:
    lowered_here.clear()
    configs = [task.space.get(0), task.space.get(1)]
    assert all(result.ok for result in measurer.remeasure(configs))
    assert all(result.ok for result in measurer.remeasure(configs))
    assert lowered_here == []


def test_a_task_with_a_generated_space_travels() -> None:
    task = pb.create_task("matmul", args=(8, 8, 8), target="llvm -num-cores 1", space="sketch")
    packed = pack_task(task)
    assert packed is not None
    assert unpack_task(packed).space.fingerprint == task.space.fingerprint


def test_a_task_that_cannot_leave_the_process_is_lowered_here() -> None:
    lock = threading.Lock()

    def locked(cfg: Any, n: int) -> Any:
        with lock:
            return scaled.function(cfg, n)

    own = pb.create_task(pb.template(name="lowered_with_a_lock")(locked), args=(64,), target="llvm -num-cores 1")
    assert pack_task(own) is None
    lowered_here.clear()
    with LocalMeasurer(own, runner=Elsewhere, min_repeat_ms=0.1, builders=1) as measurer:
        (_, result), *_ = measurer.measure([own.space.get(1)])
    assert result.ok
    assert lowered_here


def test_a_task_that_another_process_cannot_make_is_lowered_here(
    task: pb.Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pegbox.measure.pipeline.pipeline.pack_task", lambda task: b"no pickle")
    lowered_here.clear()
    with LocalMeasurer(task, runner=Elsewhere, min_repeat_ms=0.1, builders=1) as measurer:
        results = [result for _, result in measurer.measure([task.space.get(0), task.space.get(1)])]
    assert all(result.ok for result in results)
    assert lowered_here


def test_the_answer_of_a_builder_is_the_program_of_this_process(task: pb.Task) -> None:
    packed = pack_task(task)
    assert packed is not None
    assert unpack_task(packed).space.fingerprint == task.space.fingerprint
    with contextlib.closing(Builder(workers=1)) as builder:
        config = task.space.get(1)
        lowered = builder.build(Lowering(packed, config.digits, max_block=1000))
        assert isinstance(lowered, Lowered)
        assert lowered.key == program_key(unpack_task(packed).lower(config))
        assert lowered.program.args == tuple(task.arguments())
        refused = builder.build(Lowering(packed, config.digits, max_block=1))
        assert isinstance(refused, Failed)
        assert "above max_block=1" in refused.message
        with pytest.raises(JobError):
            builder.build(Lowering(b"no pickle", config.digits, max_block=1000))


@pytest.mark.parametrize(
    ("end", "kind", "message"),
    [
        ("exit", FailureKind.INVALID, "the process that lowered it exited with status 3"),
        ("abort", FailureKind.INVALID, "the process that lowered it was killed by SIGABRT"),
        ("never", FailureKind.TIMEOUT, "lowering took longer than 0.5 s"),
    ],
)
def test_a_config_that_ends_the_process_which_lowers_it_is_reported_as_such(
    end: str, kind: FailureKind, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = pb.create_task(ending, args=(64,), target="llvm -num-cores 1")
    bad, good = (next(c for c in own.space.iterate() if c["end"].val == value) for value in (end, "well"))
    packed = pack_task(own)
    assert packed is not None
    with contextlib.closing(Builder(workers=1, timeout=60.0)) as builder:
        assert isinstance(builder.build(Lowering(packed, good.digits, max_block=1000)), Lowered)
        with monkeypatch.context() as patched:
            patched.setattr("pegbox.measure.pipeline.builder.LOWERING_SECONDS", 0.5 if end == "never" else 60.0)
            failed = builder.build(Lowering(packed, bad.digits, max_block=1000))
        assert isinstance(failed, Failed)
        assert failed.kind is kind
        assert failed.message.startswith(message)
        assert isinstance(builder.build(Lowering(packed, good.digits, max_block=1000)), Lowered)


def test_a_compilation_has_its_own_limit_after_lowering(task: pb.Task) -> None:
    packed = pack_task(task)
    assert packed is not None
    with contextlib.closing(Builder(workers=1)) as builder:
        failed = builder.build(Lowering(packed, task.space.get(1).digits, max_block=1000), timeout=1e-6)
    assert isinstance(failed, Failed)
    assert (failed.kind, failed.message) == (FailureKind.TIMEOUT, "compiling took longer than 1e-06 s")


def test_closing_gives_up_builds_that_wait(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    own = pb.create_task(waiting, args=(str(tmp_path),), target="llvm -num-cores 1")
    measurer = LocalMeasurer(own, runner=Elsewhere, min_repeat_ms=0.1, builders=1)
    heard: list[BaseException] = []

    def measure() -> None:
        try:
            list(measurer.measure([own.space.get(number) for number in range(1, 16)]))
        except BaseException as error:
            heard.append(error)

    thread = threading.Thread(target=measure, daemon=True)
    thread.start()
    waited(lambda: list(tmp_path.iterdir()))
    builder = measurer._builder
    (worker,) = builder._pool._working
    pid = worker.pid
    closing = threading.Thread(target=measurer.close, daemon=True)
    closing.start()
    for each in (closing, thread):
        each.join(60)
        assert not each.is_alive()
    assert [str(error) for error in heard] == ["the measurer was closed; make another one"]
    waited(lambda: not Path(f"/proc/{pid}").exists())
    assert builder.size == 0
    assert len(list(tmp_path.iterdir())) == 1, "no build that waited has begun"
    assert set(threading.enumerate()) <= before


def test_a_runner_that_compiles_programs_alone_is_given_programs(task: pb.Task) -> None:
    class Compiles(Elsewhere):
        lowers = functools.cached_property(lambda self: False)  # type: ignore[assignment]

    lowered_here.clear()
    with LocalMeasurer(task, runner=Compiles, min_repeat_ms=0.1, builders=1) as measurer:
        (_, result), *_ = measurer.measure([task.space.get(1)])
    assert result.ok
    assert lowered_here
