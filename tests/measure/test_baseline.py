"""The values that costs are compared with: the roofline, its cache, NumPy's time, and the sentences about both."""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import json
import math
import os
import resource
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pegbox.codegen import ArgSpec, Target
from pegbox.codegen.runtime.roof_kernels import LEAST_BYTES, copy_kernel, multiply_add_kernel, read_kernel
from pegbox.compute.numpy_program import NumpyProgram
from pegbox.errors import ArgumentError
from pegbox.measure import LocalMeasurer, Runner, RunnerWrapper
from pegbox.measure.baselines.baseline import Baseline
from pegbox.measure.baselines.numpy_time import call_overhead, time_program
from pegbox.measure.baselines.roofline import (
    Roofline,
    best_of_tries,
    cache_file,
    kept_roofline,
    measure_roofline,
    size_class,
)
from pegbox.measure.jobs import run_job
from pegbox.measure.machine import heap
from pegbox.measure.machine.heap import kept_heap
from pegbox.measure.trial.bench import Bench
from pegbox.measure.trial.check import Tolerance
from pegbox.measure.trial.trial import CandidateArrays
from pegbox.plugins.runners import local
from pegbox.task.task import create_task
from pegbox.workers.affinity import confined

TARGET = Target("llvm -mcpu=x86-64-v3 -num-cores 1")
ROOF = Roofline(1, 100.0, 20.0, 10.0)


def baseline(**changed: Any) -> Baseline:
    about = {"cores": 1, "flop": 1e9, "read": 1e6, "written": 1e6, "numpy": 40e-3, "roofline": ROOF}
    return Baseline(**{**about, **changed})


def test_the_roof_that_takes_longer_bounds() -> None:
    much = baseline()
    assert (much.bound, much.share(20e-3)) == ("multiply-add", pytest.approx(0.5))
    little = baseline(flop=1e6)
    assert (little.bound, little.share(0.4e-3)) == ("memory", pytest.approx(0.5))
    assert little.text(0.4e-3) == "NumPy 40 ms: 100.00x; 50% of the memory bandwidth, 10 GB/s (1 core)"


def test_a_bound_that_counts_slow_operations_as_fast_ones_says_so() -> None:
    little = baseline(flop=1e6, slow=("exp",)).text(4e-3)
    assert little == "NumPy 40 ms: 10.00x; 5.0% of the memory bandwidth, 10 GB/s, exp counted as nothing (1 core)"
    much = baseline(slow=("exp", "sqrt", "division")).text(20e-3)
    assert "multiply-add peak, 100 GFLOP/s, exp, sqrt and division counted as one operation (1 core)" in much


def test_what_is_read_alone_is_read_faster_than_copied() -> None:
    assert ROOF.seconds(read=3e9, written=1e9) == pytest.approx(2 / 10 + 2 / 20)
    assert ROOF.seconds(read=1e9, written=3e9) == pytest.approx(2 / 10 + 2 / 10)


def test_a_share_beyond_the_roof_is_left_out() -> None:
    assert baseline().share(9e-3) is None
    assert baseline().measured_share(9e-3) == pytest.approx(10 / 9)
    assert baseline().text(9e-3) == "NumPy 40 ms: 4.44x (1 core)"


def test_a_share_a_little_beyond_the_roof_is_all_of_it() -> None:
    assert baseline().share(9.8e-3) == 1.0
    assert "100% of the multiply-add peak" in baseline().text(9.8e-3)


@pytest.mark.parametrize("missing", ["cores", "read", "roofline"])
def test_a_damaged_baseline_is_refused(missing: str) -> None:
    form = baseline().to_json()
    if missing == "roofline":
        form["roofline"]["copy"] = None
    else:
        form[missing] = None
    with pytest.raises(ValueError, match="has the wrong form"):
        Baseline.from_json(form)


def test_only_what_is_known_is_said() -> None:
    assert baseline(numpy=None, roofline=None).text(1e-3) == ""
    assert baseline(roofline=None, cores=2).text(10e-3) == "NumPy 40 ms: 4.00x (2 cores)"
    unknown = Roofline(1, None, 20.0, 10.0)
    assert baseline(roofline=unknown).share(1.0) is None  # multiply-adds may bind, and their peak is not known
    assert baseline(roofline=unknown, flop=0.0).bound == "memory"
    assert baseline().text(float("inf")) == ""


def test_timings_that_differ_by_many_times_make_a_range_of_ratios() -> None:
    busy, steady = (1.1e-3, 1.2e-3, 30e-3, 36e-3), (1e-3, 1.01e-3, 1.02e-3, 9e-3)
    known = {"roofline": None, "numpy": 1.2e-3}
    assert baseline(**known, numpy_costs=steady).text(1e-3, steady) == "NumPy 1.2 ms: 1.20x (1 core)"
    text = baseline(**known, numpy_costs=busy).text(1e-3, steady)
    assert text == "NumPy 1.1 ms to 36 ms: about 1.1 to 36 times NumPy's speed (1 core)"
    text = baseline(**known, numpy_costs=steady).text(1e-3, busy)
    assert text == "NumPy 1.2 ms: about 0.028 to 7.5 times NumPy's speed (1 core)"
    assert (
        baseline(**known, numpy_costs=busy)
        .text(1e-3, steady[:2])
        .endswith("; not compared: timings differ too much (1 core)")
    )


@pytest.mark.parametrize(
    "changed", [{}, {"numpy": None}, {"roofline": None}, {"numpy_costs": (1.0, 2.0)}, {"slow": ("exp",)}]
)
def test_it_goes_through_json(changed: dict[str, Any]) -> None:
    one = baseline(**changed)
    assert Baseline.from_json(json.loads(json.dumps(one.to_json()))) == one


def test_what_was_written_before_slow_operations_were_known_is_read() -> None:
    form = baseline().to_json()
    del form["slow"]
    assert Baseline.from_json(form) == baseline()


@pytest.mark.parametrize("slow", [3, "exp", [1]])
def test_slow_operations_are_names(slow: object) -> None:
    with pytest.raises(ValueError, match="baseline"):
        Baseline.from_json({**baseline().to_json(), "slow": slow})


@pytest.mark.parametrize(
    "wrong",
    [{"cores": "many"}, {"numpy": -1.0}, {"roofline": 3}, {"roofline": {}}, {"x": 1}, {"numpy_costs": 1.0}],
)
def test_what_is_no_baseline_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="baseline"):
        Baseline.from_json({**baseline().to_json(), **wrong})


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return cache_file()


@pytest.mark.parametrize("size", [256, 1 << 20])
def test_limits_are_measured_on_lines_and_pages_of_their_own(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    starts, faults = [], []

    class Meter:
        args = tuple(ArgSpec(name, (size,), "int64", is_output=True) for name in "xyz")

        def time_ns(self, arrays: list[np.ndarray], number: int) -> int:
            before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
            arrays[0][:] = 1  # faults where its pages were not written
            faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
            starts.extend(array.ctypes.data % 64 for array in arrays)
            return 1000 * number

    for make in ("read_kernel", "copy_kernel"):
        monkeypatch.setattr(f"pegbox.codegen.runtime.roof_kernels.{make}", lambda nbytes, target: Meter())
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    measure_roofline("int64", 8 * size, TARGET, [min(os.sched_getaffinity(0))])
    assert set(starts) == {0}
    assert max(faults) < 100  # of 2,048 pages


def test_a_roofline_is_measured_three_times_for_a_type_and_a_size(cache: Path) -> None:
    measured: list[int] = []

    def measure(nbytes: int) -> Roofline:
        measured.append(nbytes)
        return ROOF

    for nbytes in (1e6, 0.9e6, 1e6, 1e6, 0.9e6):
        assert kept_roofline("float32", nbytes, TARGET, 1, measure) == ROOF
    assert len(measured) == 3
    kept_roofline("float64", 1e6, TARGET, 1, measure)
    kept_roofline("float32", 1e8, TARGET, 1, measure)
    kept_roofline("float32", 1e6, TARGET, 2, measure)
    assert len(measured) == 6
    assert cache.is_file()


def test_measured_anew_the_faster_is_kept(cache: Path) -> None:
    def found(**changed: float) -> Any:
        return lambda nbytes: dataclasses.replace(ROOF, **changed)

    kept_roofline("float32", 1e6, TARGET, 1, found())
    again = kept_roofline("float32", 1e6, TARGET, 1, found(gflops=120.0, read=5.0), anew=True)
    assert again == Roofline(1, 120.0, 20.0, 10.0)
    assert kept_roofline("float32", 1e6, TARGET, 1, found()) == again


def test_a_core_that_was_disturbed_the_first_time_does_not_keep_the_limits_low(cache: Path) -> None:
    rates = iter([50.0, 100.0, 80.0, 1.0])
    found = [
        kept_roofline("float32", 1e6, TARGET, 1, lambda nbytes: dataclasses.replace(ROOF, gflops=next(rates)))
        for _ in range(4)
    ]
    assert [roofline.gflops for roofline in found if roofline] == [50.0, 100.0, 100.0, 100.0]


@pytest.mark.parametrize(
    ("rates", "tries"),
    [
        ([100.0, 99.0, 98.0, 500.0], 3),
        ([40.0, 60.0, 100.0, 70.0, 99.0, 500.0], 5),  # a neighbour comes and goes
        ([*range(1, 200)], 12),  # two never agree
    ],
)
def test_limits_are_tried_until_two_tries_agree(
    rates: list[float], tries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("time.sleep", pauses.append)
    steady, unsteady = iter([1.0] * 12), iter(rates)
    found = best_of_tries([lambda: next(steady), lambda: next(unsteady)])
    assert found == [1.0, max(rates[:tries])]
    assert next(unsteady) == rates[tries]
    assert len(pauses) >= tries - 1
    assert min(pauses) > 0


@pytest.mark.parametrize("damage", ["", "{}", "[]", '{"version": 2, "rooflines": {"x": {"cores": -1}}}', "\0"])
def test_a_damaged_or_missing_cache_is_measured_again(cache: Path, damage: str) -> None:
    cache.parent.mkdir(parents=True)
    cache.write_text(damage)
    assert kept_roofline("float32", 1e6, TARGET, 1, lambda nbytes: ROOF) == ROOF
    assert kept_roofline("float32", 1e6, TARGET, 1, lambda nbytes: None) == ROOF


def test_a_kept_limit_that_is_no_number_is_measured_again(cache: Path) -> None:
    kept_roofline("float32", 1e6, TARGET, 1, lambda nbytes: ROOF)
    cache.write_text(cache.read_text().replace('"read": 20.0', '"read": null'))
    assert kept_roofline("float32", 1e6, TARGET, 1, lambda nbytes: ROOF) == ROOF


def test_a_folder_that_cannot_be_written_to_fails_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert kept_roofline("float32", 1e6, TARGET, 1, lambda nbytes: ROOF) == ROOF


def test_sizes_are_powers_of_four_no_larger_than_the_share() -> None:
    target = Target("llvm -num-cores 4 -caches=256,2048,0")
    assert size_class(1.0, target, 1) == LEAST_BYTES
    assert size_class(4 * LEAST_BYTES, target, 1) == 4 * LEAST_BYTES
    assert size_class(16 * LEAST_BYTES - 1, target, 1) == 4 * LEAST_BYTES
    assert size_class(16 * LEAST_BYTES, target, 4) == 4 * LEAST_BYTES


@pytest.mark.parametrize(
    ("kilobytes", "measured"),
    [
        (40, 16), (48, 16), (49, 64), (64, 64), (300, 256), (1024, 1024), (2048, 1024), (2049, 4096), (4095, 4096),
        (5000, 4096), (20_000, 16_384), (90_000, 65_536), (120_000, 131_072), (10_000_000, 131_072),
    ],
)  # fmt: skip
def test_memory_is_measured_beyond_the_caches_that_a_share_exceeds(kilobytes: int, measured: int) -> None:
    target = Target("llvm -num-cores 1 -caches=48,2048,98304")
    found = size_class(kilobytes << 10, target, 1)
    assert found == measured << 10
    assert size_class(found, target, 1) == found


def test_the_kernels_do_what_they_are_called() -> None:
    target = Target("llvm -num-cores 1")
    read, copy = read_kernel(LEAST_BYTES, target), copy_kernel(LEAST_BYTES, target)
    source = np.arange(copy.args[0].shape[0])
    copied = np.zeros_like(source)
    copy(source, copied)
    np.testing.assert_array_equal(copied, source)
    values = np.arange(read.args[0].shape[0]) * 5
    joined = np.zeros(read.args[1].shape, dtype="int64")
    read(values, joined)
    assert joined.sum() == values.sum()
    with pytest.raises(ArgumentError, match="float32 and float64"):
        multiply_add_kernel("float16", target)


def test_measuring_gives_rates_above_zero() -> None:
    target = Target("llvm -num-cores 1")
    with confined((0,)):  # what measures confines its process
        found = measure_roofline("float32", LEAST_BYTES, target, (0,))
        integers = measure_roofline("int32", LEAST_BYTES, target, (0,))
    assert found.gflops is not None
    assert min(found.gflops, found.read, found.copy) > 0
    assert integers.gflops is None


def bench(expected: float) -> Bench:
    x = np.ones((4,), dtype="float32")
    specs = (ArgSpec("x", (4,), "float32", False), ArgSpec("y", (4,), "float32", True))
    return Bench(specs, (x,), (np.full((4,), expected, dtype="float32"),), Tolerance(1e-5, 1e-5))


def test_numpy_is_timed_only_where_its_answer_is_right() -> None:
    lines = ["y = np.empty(4, 'float32')", "return (lambda: np.add(inputs[0], 1.0, out=y)), [y]"]
    text = "\n    ".join(["def prepare(inputs):", *lines])
    program = NumpyProgram(text)
    costs = time_program(program, bench(2.0))
    assert costs is not None
    assert len(costs) > 1
    assert min(costs) > 0
    assert time_program(program, bench(3.0)) is None


@pytest.mark.parametrize(
    ("cores", "tried", "fastest"), [([3], [1], 2.0), ([2, 3, 4], [1, 3], 1.5), ([2, 3], [1, 2], 2.0)]
)
def test_numpy_runs_with_one_thread_and_with_all_and_the_faster_counts(
    cores: list[int], tried: list[int], fastest: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []
    monkeypatch.setattr(run_job, "pin", lambda cores: None)
    monkeypatch.setattr(run_job, "_stage", CandidateArrays(bench(2.0)))
    monkeypatch.setattr(run_job, "blas_threads", lambda count: contextlib.nullcontext(threads.append(count)))
    monkeypatch.setattr(run_job, "time_program", lambda program, bench: ({1: 2.0, 2: 24.0, 3: 1.5}[threads[-1]],))
    assert run_job.time_numpy(NumpyProgram(""), cores) == (fastest,)
    assert threads == tried


def test_a_measurer_asks_the_process_that_runs_candidates(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "_BASELINE_SECONDS", 100.0)  # on a busy machine, NumPy's import alone takes some
    task = create_task("matmul", args=(8, 8, 8), target="llvm -num-cores 1")
    with LocalMeasurer(task) as measurer:
        found = measurer.baseline(1.0)
        assert found is not None
        assert found.numpy is not None
        assert found.roofline is not None
        assert (found.cores, found.flop, found.read, found.written) == (1, 1024.0, 512.0, 256.0)
        assert cache.is_file()
        impossible = measurer.baseline(1e-12)  # measured anew, and left out
        assert impossible is not None
        assert impossible.share(1e-12) is None
    assert task.numpy is not None


def test_a_runner_that_knows_nothing_of_it_is_not_asked() -> None:
    class Silent(Runner):
        def run(self, *_: object, **__: object) -> Any: ...

        rerun = run

    task = create_task("matmul", args=(8, 8, 8), target="llvm -num-cores 1")
    with LocalMeasurer(task, runner=lambda bench, **_: Silent()) as measurer:
        assert measurer.baseline(1.0) is None


class Counting(Runner):
    """A runner that gives other timings of NumPy each time."""

    compares = True

    def __init__(self, *answers: object) -> None:
        self.answers = iter(answers)

    def time_numpy(self, program: NumpyProgram, *, threads: int) -> Any:
        return next(self.answers)

    def roofline(self, dtype: str, nbytes: int, target: Target) -> Roofline:
        return ROOF

    def run(self, *_: object, **__: object) -> Any: ...

    rerun = run


def test_limits_that_a_kernel_comes_near_are_measured_again(cache: Path) -> None:
    task = create_task("matmul", args=(8, 8, 8), target="llvm -num-cores 1")
    asked: list[int] = []

    class Asked(Counting):
        def roofline(self, dtype: str, nbytes: int, target: Target) -> Roofline:
            asked.append(nbytes)
            return Roofline(1, 1.0 + len(asked), 100.0, 100.0)

    with LocalMeasurer(task, runner=lambda bench, **_: Asked(*[1.0] * 3)) as measurer:  # type: ignore[arg-type,return-value]
        for share, times in ((0.5, 1), (0.5, 1), (0.97, 2)):
            found = measurer.baseline(1024.0 / 2.0 * 1e-9 / share)
            assert found is not None
            assert found.roofline == Roofline(1, 1.0 + times, 100.0, 100.0)
            assert len(asked) == times


def test_numpys_timings_of_all_calls_count(cache: Path) -> None:
    task = create_task("matmul", args=(8, 8, 8), target="llvm -num-cores 1")
    runner = Counting([1.0, 2.0, 3.0], None, 4.0)
    with LocalMeasurer(task, runner=lambda bench, **_: runner) as measurer:  # type: ignore[arg-type,return-value]
        for numpy, costs in ((2.0, (1.0, 2.0, 3.0)), (2.0, (1.0, 2.0, 3.0)), (2.5, (1.0, 2.0, 3.0, 4.0))):
            found = measurer.baseline(1.0)
            assert found is not None
            assert (found.numpy, found.numpy_costs) == (numpy, costs)


def test_a_wrapper_of_a_runner_passes_on_what_results_are_compared_with() -> None:
    task = create_task("matmul", args=(8, 8, 8), target="llvm -num-cores 1")
    assert task.numpy is not None
    wrapper = RunnerWrapper(Counting([1.0]))
    assert wrapper.compares
    assert wrapper.time_numpy(task.numpy, threads=1) == [1.0]
    assert wrapper.roofline("float32", 1, TARGET) == ROOF


def test_what_numpy_frees_stays_with_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    set_to: dict[int, int] = {}
    monkeypatch.setattr(heap.ctypes, "CDLL", lambda name: SimpleNamespace(mallopt=set_to.__setitem__))
    with kept_heap():
        assert set_to[heap._MMAP_MAX] == 0
        assert set_to[heap._TRIM_THRESHOLD] > 1 << 30
    assert set_to[heap._MMAP_MAX] > 0
    assert set_to[heap._TRIM_THRESHOLD] < 1 << 30


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="malloc is not glibc's")
def test_a_warm_call_with_temporaries_faults_in_no_pages() -> None:
    array = np.ones(1 << 19)

    def faults() -> int:
        before = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt
        for _ in range(4):
            np.exp(array * 2 + array * 3)
        return resource.getrusage(resource.RUSAGE_THREAD).ru_minflt - before

    with kept_heap():
        faults()
        assert faults() < 100  # a temporary has 1024 pages


def test_of_threads_that_waited_for_cores_the_speed_is_a_range_of_quantiles() -> None:
    numpy, costs = (38e-3, *[40e-3] * 9, 4.0), (10e-3, 20e-3, 21e-3, 22e-3, 23e-3, 24e-3, 25e-3, 26e-3, 27e-3, 2.0)
    text = baseline(cores=2, roofline=None, numpy_costs=numpy).text(23e-3, costs, run_queue_wait=0.44)
    assert text == "NumPy 40 ms: about 1.5 to 4.0 times NumPy's speed (2 cores)"
    same = baseline(cores=2, roofline=None, numpy_costs=(40e-3,) * 3).text(20e-3, (20e-3,) * 3, run_queue_wait=0.44)
    assert same == "NumPy 40 ms: about 2.0 times NumPy's speed (2 cores)"
    few = baseline(cores=2, roofline=None).text(20e-3, (20e-3,) * 5, run_queue_wait=0.44)
    waits = "the kernel's threads spent 44% of the time waiting for a core"
    assert few == f"NumPy 40 ms; not compared: {waits} (2 cores)"
    assert not baseline(cores=2).is_comparable((20e-3,) * 5, 0.44)
    assert baseline(cores=2, roofline=None).text(20e-3, run_queue_wait=0.05) == "NumPy 40 ms: 2.00x (2 cores)"
    # Of one thread the wait is not in the costs.
    assert baseline(roofline=None).text(20e-3, run_queue_wait=0.44) == "NumPy 40 ms: 2.00x (1 core)"


def test_the_time_of_numpys_call_is_not_compared_with_a_kernel_that_python_does_not_call() -> None:
    known: dict[str, Any] = {"numpy": 551e-9, "roofline": None}
    text = baseline(**known, numpy_call=400e-9).text(1.4e-9)
    assert "551 ns, mostly the overhead of the Python call, which the kernel's time excludes; not compared" in text
    assert baseline(**known, numpy_call=40e-9).text(1.1e-9) == "NumPy 551 ns: 500.91x (1 core)"
    made = baseline(numpy_call=4e-7)
    assert Baseline.from_json(made.to_json()) == made
    old = {name: value for name, value in made.to_json().items() if name != "numpy_call"}
    assert Baseline.from_json(old).numpy_call == 0.0


def test_a_reason_is_given_where_numpy_has_no_time() -> None:
    made = baseline(numpy=None, numpy_missing="NumPy has no erf")
    assert made.text(20e-3).startswith("no NumPy baseline: NumPy has no erf; 50% of the multiply-add peak")
    assert baseline(numpy=None, numpy_missing="x", roofline=None).text(1.0) == "no NumPy baseline: x (1 core)"
    assert Baseline.from_json(made.to_json()) == made
    with pytest.raises(ValueError, match="a reason"):
        Baseline.from_json({**made.to_json(), "numpy_missing": 3})


def test_the_time_of_a_call_is_measured() -> None:
    assert 0 < call_overhead() < math.inf
