"""Configs go in, results come out: the whole path with the built-in runner."""

from __future__ import annotations

import contextlib
import math
import os
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from adding_task import AddingConfig, AddingTask

import pegbox as pb
from pegbox.codegen import Target
from pegbox.codegen.targets import host
from pegbox.codegen.targets.cores import usable_cores
from pegbox.errors import ArgumentError, CompileError, InvalidConfig, MeasureError, UnknownName
from pegbox.measure import CorePlan, Failed, FailureKind, LocalMeasurer, Ok, Result
from pegbox.measure.pipeline.candidate import DuplicatePrograms
from pegbox.measure.runners.runner import RUN_GIVEN_UP, Runner, RunnerWrapper
from pegbox.plugins.runners.local import LocalRunner
from pegbox.testing import llvm_kernels as kernels
from pegbox.workers.affinity import confined
from pegbox.workers.process import Worker

HERE = Path(__file__).parent
GOOD = AddingConfig("good")


def raising(error: BaseException) -> Callable[[], Any]:
    def make() -> Any:
        raise error

    return make


@pytest.fixture
def open_measurer() -> Iterator[Callable[..., LocalMeasurer]]:
    measurers: list[LocalMeasurer] = []

    def open_measurer(task: AddingTask | None = None, **options: Any) -> LocalMeasurer:
        measurers.append(LocalMeasurer(task or AddingTask(), **{"min_repeat_ms": 0.5, "timeout": 5.0, **options}))  # type: ignore[arg-type]
        return measurers[-1]

    yield open_measurer
    for measurer in measurers:
        measurer.close()


def measure(measurer: LocalMeasurer, *configs: AddingConfig) -> list[Result]:
    pairs = list(measurer.measure(configs))  # type: ignore[arg-type]
    assert [config for config, _ in pairs] == list(configs)
    return [result for _, result in pairs]


def workers_of(pid: int) -> set[int]:
    """The processes that it has started, and those that these have started, and so on."""
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[1]) == pid and fields[0] != "Z":
            found |= {int(stat.parent.name)} | workers_of(int(stat.parent.name))
    return found


def test_every_way_to_fail_is_a_result_and_the_good_ones_are_measured(open_measurer: Any) -> None:
    cases: list[tuple[Callable[[], Any], FailureKind | None, str]] = [
        (kernels.good, None, ""),
        (raising(InvalidConfig("tile too big: 8x64")), FailureKind.INVALID, "tile too big: 8x64"),
        (raising(ZeroDivisionError("by zero")), FailureKind.INVALID, "ZeroDivisionError: by zero (test_local"),
        (raising(SystemExit(0)), FailureKind.INVALID, "SystemExit: 0"),
        (raising(CompileError("no such intrinsic")), FailureKind.COMPILE_ERROR, "no such intrinsic"),
        (kernels.long, FailureKind.INVALID, "2,0"),
        (kernels.unparsable, FailureKind.COMPILE_ERROR, "expected instruction opcode"),
        (kernels.wrong, FailureKind.WRONG_RESULT, "[77]"),
        (kernels.segfault, FailureKind.CRASH, "SIGSEGV"),
        (kernels.endless, FailureKind.TIMEOUT, "stopped"),
        (kernels.greedy, FailureKind.RUN_ERROR, "memory"),
        (kernels.good, None, ""),
    ]
    configs = [AddingConfig(f"case{i}", make) for i, (make, _, _) in enumerate(cases)]
    results = measure(open_measurer(), *configs)
    for result, (_, kind, words) in zip(results, cases, strict=True):
        assert (result.kind if isinstance(result, Failed) else None) is kind, result
        assert words in getattr(result, "message", ""), result


def test_a_result_tells_where_its_time_went(open_measurer: Any) -> None:
    before = time.time()
    (result,) = measure(open_measurer(), GOOD)
    assert isinstance(result, Ok)
    assert set(result.phases) == {"lower", "build", "load", "first_run", "check", "timing", "ship"}
    assert result.total_seconds == pytest.approx(sum(result.phases.values()))
    assert before <= result.timestamp <= time.time()


def test_later_candidates_are_compared_with_the_best_so_far(open_measurer: Any) -> None:
    slow = AddingConfig("slow", lambda: kernels.slow(5_000_000))
    measurer = open_measurer()
    results = measure(measurer, slow)
    assert not results[0].partial  # type: ignore[union-attr]
    measure(measurer, GOOD)
    (again,) = measure(measurer, slow)
    assert again.partial  # type: ignore[union-attr]


def test_a_best_cost_from_elsewhere_counts(open_measurer: Any) -> None:
    (result,) = measure(open_measurer(best=1e-7), AddingConfig("slow", lambda: kernels.slow(5_000_000)))
    assert result.partial  # type: ignore[union-attr]


def test_configs_beyond_the_window_are_not_lowered_ahead(open_measurer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    # Where one core does everything, a chunk is built before it is timed.
    monkeypatch.setattr("pegbox.measure.pipeline.pipeline._CHUNK", 4)
    task = AddingTask()
    configs = [AddingConfig(f"c{i}") for i in range(20)]
    results = open_measurer(task, builders=1).measure(configs)
    next(results)
    assert len(task.lowered) < 20
    assert len(list(results)) == 19
    assert task.lowered == [config.name for config in configs]


def test_measuring_nothing_gives_nothing(open_measurer: Any) -> None:
    assert measure(open_measurer()) == []


def test_candidates_of_several_threads_run_after_every_build_of_the_batch(open_measurer: Any) -> None:
    events: list[str] = []

    class Watching(AddingTask):
        def lower(self, config: AddingConfig) -> Any:
            events.append("lower")
            return super().lower(config)

    measurer = open_measurer(Watching(), runner=watched_runner(events))
    measure(measurer, *(AddingConfig(f"c{i}", lambda: kernels.good(threads=2)) for i in range(9)))
    assert events == ["lower"] * 9 + ["run"] * 9


def test_a_result_has_the_number_of_threads_of_its_candidate(open_measurer: Any) -> None:
    measurer = open_measurer()
    one, two = AddingConfig("one"), AddingConfig("two", lambda: kernels.good(threads=2))
    assert [result.threads for result in measure(measurer, one, two)] == [1, 2]
    assert [result.threads for result in measurer.remeasure([two, one])] == [2, 1]


def test_a_target_of_several_cores_builds_a_whole_batch_on_all_of_them_first(open_measurer: Any) -> None:
    events: list[str] = []

    class Watching(AddingTask):
        def lower(self, config: AddingConfig) -> Any:
            events.append("lower")
            return super().lower(config)

    task = Watching(target=Target.host(num_cores=2))
    measure(open_measurer(task, runner=watched_runner(events)), *(AddingConfig(f"c{i}") for i in range(9)))
    assert events == ["lower"] * 9 + ["run"] * 9


def test_an_interrupt_during_the_wait_for_silence_begins_no_run(
    open_measurer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    measurer = open_measurer(runner=watched_runner(events))
    waiting, quiet = threading.Event(), threading.Event()

    @contextlib.contextmanager
    def silence() -> Iterator[None]:
        waiting.set()
        assert quiet.wait(60)
        yield

    def leave() -> None:
        with contextlib.suppress(MeasureError):
            measure(measurer, GOOD)

    monkeypatch.setattr(measurer._builder, "silence", silence)
    thread = threading.Thread(target=leave)
    thread.start()
    assert waiting.wait(60)
    threading.Timer(0.05, quiet.set).start()
    measurer.close()
    thread.join(60)
    assert events == []


def watched_runner(events: list[str]) -> Any:
    from pegbox.plugins.runners.local import LocalRunner

    class Watched(LocalRunner):
        def run(self, program: Any, *, best: float = math.inf) -> Result:
            events.append("run")
            return super().run(program, best=best)

    return Watched


class ThreeMachines(Runner):
    """A runner that gives no result before three candidates run, and the first of them last."""

    cluster, machines, host = True, 3, "a rack"

    def __init__(self, bench: Any, *, timing: Any, cores: CorePlan, max_memory: Any) -> None:
        assert not cores.timing  # nothing is timed here
        self.together = threading.Barrier(3)
        self.names: list[str] = []

    def run(self, program: Any, *, best: float = math.inf) -> Result:
        place = self.together.wait(20)
        time.sleep(0.02 * place)
        self.names.append(program.name)
        return Ok((float(len(self.names)),))

    def rerun(self, programs: Any) -> list[Result]:
        return [Ok((1.0,)) for _ in programs]

    def interrupt(self) -> None:
        self.together.abort()

    def close(self) -> None:
        self.together.abort()


def test_a_cluster_measures_several_at_once_and_results_keep_the_order_of_asking(open_measurer: Any) -> None:
    configs = [AddingConfig(str(number)) for number in range(6)]
    measurer = open_measurer(runner=ThreeMachines)
    assert measurer.machines == 3
    results = measure(measurer, *configs)
    assert sorted(result.cost for result in results) == [1, 2, 3, 4, 5, 6]
    assert {result.host for result in results} == {"a rack"}
    assert [result.host for result in measurer.remeasure(configs[:1])] == ["a rack"]


def test_fewer_cores_of_a_cluster_than_threads_are_reported() -> None:
    class TwoCores(ThreeMachines):
        cores = 2

    task = pb.create_task("matmul", args=(4, 4, 4), target="llvm -num-cores 16")
    words = "-num-cores 16, but the machines that measure are a rack: threads share.*give -num-cores 2 to tune for them"
    with LocalMeasurer(task, runner=TwoCores) as measurer, pytest.warns(RuntimeWarning, match=words):
        assert measurer.machines == 3


def test_on_one_core_nothing_is_lowered_while_a_candidate_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pegbox.measure.pipeline.pipeline._CHUNK", 8)
    events: list[str] = []

    class Watching(AddingTask):
        def lower(self, config: AddingConfig) -> Any:
            events.append("lower")
            return super().lower(config)

    with confined(usable_cores()[:1]):
        assert not CorePlan.detect().overlap
        with LocalMeasurer(Watching(), runner=watched_runner(events), min_repeat_ms=0.1) as measurer:  # type: ignore[arg-type]
            results = measure(measurer, *(AddingConfig(f"c{i}") for i in range(11)))
    assert all(result.ok for result in results)
    # More than the pipeline's window; in two parts, so that object code does not pile up.
    assert events == ["lower"] * 8 + ["run"] * 8 + ["lower"] * 3 + ["run"] * 3


def test_a_worker_standing_by_that_cannot_start_ends_nothing() -> None:
    from pegbox.plugins.runners.local import LocalRunner

    class Unlucky(LocalRunner):
        _started = 0

        def _start(self) -> Worker:
            self._started += 1
            return Worker("no_such_module") if self._started == 2 else super()._start()

    with confined(usable_cores()[:1]), LocalMeasurer(AddingTask(), runner=Unlucky, min_repeat_ms=0.1) as measurer:  # type: ignore[arg-type]
        results = measure(measurer, *(AddingConfig(f"c{i}") for i in range(3)))
    assert all(result.ok for result in results)


def test_the_affinity_of_the_caller_is_its_own_again(open_measurer: Any) -> None:
    before = usable_cores()
    measure(open_measurer(), GOOD, AddingConfig("bad", raising(ValueError("no"))))
    assert usable_cores() == before


def test_measuring_again_builds_nothing_anew(open_measurer: Any) -> None:
    task = AddingTask()
    measurer = open_measurer(task)
    configs = [AddingConfig("a", lambda: kernels.slow(100_000)), AddingConfig("b", lambda: kernels.slow(100_000))]
    assert all(result.ok for result in measure(measurer, *configs))
    task.lowered.clear()
    first, second = measurer.remeasure(configs)
    assert task.lowered == []
    assert isinstance(first, Ok)
    assert isinstance(second, Ok)
    assert len(first.costs) == len(second.costs) >= 5


def test_what_is_known_from_records_is_built_once_to_be_measured_again(open_measurer: Any) -> None:
    task = AddingTask()
    measurer = open_measurer(task)
    assert all(result.ok for _ in range(2) for result in measurer.remeasure([GOOD]))
    assert len(task.lowered) == 1


def test_equal_programs_are_measured_once(open_measurer: Any) -> None:
    events: list[str] = []
    program, slower = kernels.good(), kernels.slow(10)
    measurer = open_measurer(AddingTask(duplicates=True), runner=watched_runner(events))
    first, second, later = (AddingConfig(name, lambda: program) for name in ("a", "b", "later"))
    other = AddingConfig("slow", lambda: slower)
    one, same, unlike = measure(measurer, first, second, other)
    assert events == ["run", "run"]
    assert isinstance(one, Ok)
    assert isinstance(same, Ok)
    assert isinstance(unlike, Ok)
    assert same.costs == one.costs
    assert set(same.phases) == {"lower"}
    assert same.total_seconds == same.phases["lower"]
    assert [result.cost for result in measure(measurer, later)] == [one.cost]
    assert events == ["run", "run"]


def test_a_configuration_that_comes_again_is_measured_again(open_measurer: Any) -> None:
    events: list[str] = []
    program = kernels.good()
    again = AddingConfig("again", lambda: program)
    measurer = open_measurer(AddingTask(duplicates=True), runner=watched_runner(events))
    measure(measurer, again)
    measure(measurer, again)
    assert events == ["run", "run"]


def test_a_duplicate_of_what_was_given_up_is_measured(open_measurer: Any) -> None:
    program = kernels.good()
    # One builder: what is built first runs first, and the endless one would run for two minutes.
    measurer = open_measurer(AddingTask(duplicates=True), timeout=120.0, best=100.0, builders=1)
    waiting = AddingConfig("waiting", lambda: program)
    results = measurer.measure([GOOD, AddingConfig("endless", kernels.endless), waiting])
    assert next(results)[1].ok
    results.close()
    (after,) = measure(measurer, AddingConfig("second", lambda: program))
    assert after.ok
    assert "build" in after.phases


def test_measuring_again_builds_what_it_has_not_seen(open_measurer: Any) -> None:
    bad = AddingConfig("bad", raising(InvalidConfig("never")))
    good, failed = open_measurer().remeasure([GOOD, bad])
    assert isinstance(good, Ok)
    assert isinstance(failed, Failed)


def test_leaving_early_gives_up_the_rest_and_the_measurer_stays_usable(open_measurer: Any) -> None:
    # One builder: what is built first runs first, and the endless one would run for two minutes.
    measurer = open_measurer(timeout=120.0, best=100.0, builders=1)
    results = measurer.measure([GOOD, AddingConfig("endless", kernels.endless), AddingConfig("never")])
    assert next(results)[1].ok
    began = time.monotonic()
    results.close()
    (after,) = measure(measurer, AddingConfig("after"))
    assert after.ok
    assert time.monotonic() - began < 60


def test_what_is_done_beside_measurements_keeps_off_the_timing_core(open_measurer: Any) -> None:
    cores = usable_cores()
    aside = open_measurer().beside()
    if len(cores) < 2:
        assert aside is None  # one core: everything is timed in silence
        return
    with aside:
        assert set(usable_cores()) < set(cores)
        assert cores[-1] not in usable_cores()
    assert usable_cores() == cores
    assert open_measurer(AddingTask(target=Target.host(num_cores=2))).beside() is None


def test_more_threads_than_cores_are_reported_once_where_kernels_are_timed(open_measurer: Any) -> None:
    cores = len(usable_cores())
    message = f"-num-cores {cores + 3}, but this process may use {cores} core.*give -num-cores {cores} to tune for this"
    with pytest.warns(RuntimeWarning, match=message) as caught:
        open_measurer(AddingTask(target=Target.host(num_cores=cores + 3)))
    assert [Path(one.filename).name for one in caught] == [Path(__file__).name]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        open_measurer(AddingTask(target=Target.host()))
        pb.build(pb.create_task("matmul", args=(8, 8, 8), target=f"llvm -num-cores {cores + 3}"), config=0)


def test_closing_ends_every_process(open_measurer: Any) -> None:
    open_measurer().close()  # the fork server and the watchdog stay
    before = workers_of(os.getpid())
    measurer = open_measurer()
    measure(measurer, GOOD)
    assert workers_of(os.getpid()) - before
    measurer.close()
    deadline = time.monotonic() + 10
    while workers_of(os.getpid()) - before and time.monotonic() < deadline:  # the supervisor of one just begun
        time.sleep(0.01)
    assert not workers_of(os.getpid()) - before
    measurer.close()


def test_closing_from_another_thread_ends_a_measurement_with_an_error(open_measurer: Any) -> None:
    measurer = open_measurer(timeout=120.0, best=100.0, builders=1)
    results = measurer.measure([GOOD, AddingConfig("endless", kernels.endless), *map(AddingConfig, "abcdefgh")])
    assert next(results)[1].ok
    heard: list[BaseException] = []

    def go_on() -> None:
        try:
            list(results)
        except BaseException as error:
            heard.append(error)

    thread = threading.Thread(target=go_on, daemon=True)
    thread.start()
    measurer.close()
    thread.join(30)
    assert not thread.is_alive()
    assert [str(error) for error in heard] == ["the measurer was closed; make another one"]
    assert isinstance(heard[0], MeasureError)


@pytest.mark.parametrize("call", ["measure", "remeasure", "baseline"])
def test_a_closed_measurer_measures_no_more(open_measurer: Any, call: str) -> None:
    measurer = open_measurer()
    measurer.close()
    with pytest.raises(MeasureError, match="was closed"):
        list(getattr(measurer, call)([GOOD])) if call != "baseline" else measurer.baseline(1.0)


def test_a_broken_reference_is_an_error_not_a_failed_candidate(open_measurer: Any) -> None:
    class Broken(AddingTask):
        def reference(self, inputs: list[Any], *, wide: bool = False) -> list[Any]:
            return [inputs[0][:7]]

    with pytest.raises(MeasureError, match="reference"):
        measure(open_measurer(Broken()), GOOD)


@pytest.mark.parametrize(
    "options",
    [{"timeout": 0}, {"repeats": 0}, {"min_repeat_ms": -1}, {"build_timeout": 0}, {"builders": 0}, {"max_memory": 0},
     {"best": 0}, {"max_block": 0}],
)  # fmt: skip
def test_an_option_outside_its_domain_is_refused(options: dict[str, Any]) -> None:
    (name,) = options
    with pytest.raises(ArgumentError, match=name):
        LocalMeasurer(AddingTask(), **options)  # type: ignore[arg-type]


def test_an_unknown_runner_lists_the_near_names() -> None:
    with pytest.raises(UnknownName, match="local"):
        LocalMeasurer(AddingTask(), runner="locall")  # type: ignore[arg-type]


def test_a_slow_build_is_cut_off(open_measurer: Any) -> None:
    measurer = open_measurer(build_timeout=0.0001)
    (result,) = measure(measurer, GOOD)
    assert isinstance(result, Failed)
    assert result.kind is FailureKind.TIMEOUT
    assert "compiling" in result.message


@pytest.mark.parametrize("runner", [LocalRunner, lambda bench, **given: RunnerWrapper(LocalRunner(bench, **given))])
def test_code_for_another_architecture_is_refused_before_it_is_compiled(runner: Any) -> None:
    name = "aarch64" if host.architecture() != "aarch64" else "riscv64"
    task = AddingTask(target=Target(f"llvm -mtriple={name}-linux-gnu -num-cores 1"))
    message = f"is of the architecture .*, not {name}.*--runner dask"
    with LocalMeasurer(task, runner=runner) as measurer, pytest.raises(MeasureError, match=message):  # type: ignore[arg-type]
        list(measurer.measure([GOOD]))
    assert task.lowered == []


def test_a_batch_that_is_left_early_leaves_others_of_the_measurer_alone(open_measurer: Any) -> None:
    measurer = open_measurer(AddingTask())
    first = measurer.measure([AddingConfig(f"a{i}") for i in range(12)])
    next(first)
    second = measurer.measure([AddingConfig(f"b{i}") for i in range(6)])
    next(second)
    second.close()
    assert len(list(first)) == 11


def test_a_program_that_was_given_up_with_another_batch_is_run_again() -> None:
    duplicates, go, found = DuplicatePrograms(), threading.Event(), {}
    given_up, alive = threading.Event(), threading.Event()

    def abandoned() -> Result:
        go.wait(10)
        return RUN_GIVEN_UP

    def share(name: str, run: Callable[[], Result], event: threading.Event) -> None:
        found[name] = duplicates.share(AddingConfig(name), b"key", run, event)  # type: ignore[arg-type]

    first = threading.Thread(target=share, args=("first", abandoned, given_up))
    second = threading.Thread(target=share, args=("second", lambda: Ok((1.0,)), alive))
    first.start()
    given_up.set()
    second.start()
    go.set()
    for thread in (first, second):
        thread.join(10)
    assert isinstance(found["second"], Ok)


def test_a_wrapper_of_a_runner_has_its_methods_and_powers() -> None:
    class Lowering(Runner):
        def run(self, program: Any, *, best: float = math.inf) -> Result:
            return Ok((1.0,))

        def rerun(self, programs: Any) -> list[Result]:
            return [Ok((1.0,)) for _ in programs]

    class Building(RunnerWrapper):
        def build(self, job: Any, *, timeout: float) -> Any:
            return None

    assert (RunnerWrapper(Lowering()).lowers, Building(Lowering()).lowers) == (True, False)
    wrapper = RunnerWrapper(Lowering())
    RunnerWrapper.close(wrapper)
    wrapper.interrupt = lambda: None  # type: ignore[method-assign]
