"""Trials of kernels that are plain Python: what is run, how often, and what comes of it."""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from pegbox.measure import Failed, FailureKind, Ok, TimingPolicy
from pegbox.measure.machine import run_delay
from pegbox.measure.machine.run_delay import Reading, WaitMeter
from pegbox.measure.trial.cache_flush import CacheFlush
from pegbox.measure.trial.trial import CandidateArrays, run_interleaved, run_trial
from pegbox.testing import llvm_kernels as kernels


class PythonKernel:
    """Adds, and claims to have taken `seconds(call)` per call."""

    def __init__(self, seconds: Callable[[int], float], *, log: list[Any] | None = None, label: str = "") -> None:
        self.seconds, self.calls, self.numbers = seconds, 0, list[int]()
        self.log, self.label = log, label

    def time_ns(self, arrays: Sequence[Any], number: int) -> int:
        a, b, c = arrays
        np.add(a, b, out=c)
        self.calls += 1
        self.numbers.append(number)
        if self.log is not None:
            self.log.append(self.label)
        return int(self.seconds(self.calls) * number * 1e9)


def stage() -> CandidateArrays:
    return CandidateArrays(kernels.bench())


def test_arrays_of_an_aligned_bench_begin_at_cache_lines() -> None:
    bench = dataclasses.replace(kernels.bench(), aligned=True)
    stages = [CandidateArrays(bench) for _ in range(8)]  # any one of NumPy's arrays may do so by chance
    assert all(array.ctypes.data % 64 == 0 for each in stages for array in each.arrays)
    assert run_trial(PythonKernel(lambda call: 1e-4), stages[0], TimingPolicy()).ok


def test_a_steady_kernel_gets_its_repeats_with_enough_calls_each() -> None:
    kernel = PythonKernel(lambda call: 1e-4)
    result = run_trial(kernel, stage(), TimingPolicy(repeats=3, min_repeat_ms=5))
    assert isinstance(result, Ok)
    assert np.allclose(result.costs, [1e-4] * 3)
    assert kernel.numbers[-3:] == [50, 50, 50]
    assert not result.partial
    assert set(result.phases) == {"first_run", "check", "timing"}


def test_a_slow_kernel_is_called_no_more_than_needed() -> None:
    kernel = PythonKernel(lambda call: 0.2)
    result = run_trial(kernel, stage(), TimingPolicy(repeats=3))
    assert isinstance(result, Ok)
    assert len(result.costs) == 3
    assert kernel.numbers == [1, 1, 1, 1]  # the checked one and three warm ones


def test_a_kernel_far_behind_is_not_timed_further() -> None:
    kernel = PythonKernel(lambda call: 0.025)
    result = run_trial(kernel, stage(), TimingPolicy(), best=0.011)
    assert isinstance(result, Ok)
    assert result.partial
    assert kernel.numbers == [1, 1, 1]


def test_one_interruption_does_not_rule_a_good_kernel_out() -> None:
    kernel = PythonKernel(lambda call: 0.03 if call == 2 else 0.01)
    result = run_trial(kernel, stage(), TimingPolicy(), best=0.01)
    assert isinstance(result, Ok)
    assert not result.partial
    assert np.allclose(result.costs, 0.01)


def test_a_kernel_hopelessly_behind_is_called_once() -> None:
    kernel = PythonKernel(lambda call: 1.0)
    result = run_trial(kernel, stage(), TimingPolicy(), best=0.01)
    assert isinstance(result, Ok)
    assert (result.partial, result.costs, kernel.numbers) == (True, (1.0,), [1])


def test_a_slow_cold_call_is_not_held_against_a_fast_kernel() -> None:
    result = run_trial(PythonKernel(lambda call: 4e-3 if call == 1 else 1e-4), stage(), TimingPolicy(), best=1e-4)
    assert isinstance(result, Ok)
    assert not result.partial
    assert np.allclose(result.costs, 1e-4)


def test_a_noisy_kernel_near_the_best_is_timed_more_often_than_a_noisy_ordinary_one() -> None:
    def noisy(call: int) -> float:
        return 1e-4 * (1 + 0.05 * (call % 2))

    near = run_trial(PythonKernel(noisy), stage(), TimingPolicy(max_repeats=9), best=1e-4)
    ordinary = run_trial(PythonKernel(noisy), stage(), TimingPolicy(max_repeats=9), best=0.7e-4)
    assert isinstance(near, Ok)
    assert isinstance(ordinary, Ok)
    assert len(near.costs) == 9
    assert len(ordinary.costs) == 3


def test_the_outputs_are_poisoned_so_that_doing_nothing_is_wrong() -> None:
    class Idle(PythonKernel):
        def time_ns(self, arrays: Sequence[Any], number: int) -> int:
            return 1

    prepared = stage()
    assert run_trial(PythonKernel(lambda call: 1e-4), prepared, TimingPolicy()).ok
    result = run_trial(Idle(lambda call: 0.0), prepared, TimingPolicy())
    assert isinstance(result, Failed)
    assert result.kind is FailureKind.WRONG_RESULT


def test_inputs_that_were_written_to_are_put_right_for_the_next_candidate() -> None:
    class Spoiler(PythonKernel):
        def time_ns(self, arrays: Sequence[Any], number: int) -> int:
            super().time_ns(arrays, number)
            arrays[0][3] = 100.0
            return 1000

    prepared = stage()
    result = run_trial(Spoiler(lambda call: 0.0), prepared, TimingPolicy())
    assert isinstance(result, Failed)
    assert "'A'" in result.message
    assert run_trial(PythonKernel(lambda call: 1e-4), prepared, TimingPolicy()).ok


class Adding(PythonKernel):
    """Adds, but does `extra(call, a, b, c)` after each call."""

    def __init__(self, extra: Callable[..., object]) -> None:
        super().__init__(lambda call: 1e-4)
        self.extra = extra

    def time_ns(self, arrays: Sequence[Any], number: int) -> int:
        elapsed = super().time_ns(arrays, number)
        self.extra(self.calls, *arrays)
        return elapsed


def failure(results: Sequence[Any]) -> str:
    (result,) = results
    assert isinstance(result, Failed), result
    assert result.kind is FailureKind.WRONG_RESULT
    return result.message


def memory_around(array: Any, *, before: int, behind: int) -> Any:
    """The bytes of an array with so many around it."""
    start = array.ctypes.data - before
    return np.ctypeslib.as_array((ctypes.c_uint8 * (before + array.nbytes + behind)).from_address(start))


@pytest.mark.parametrize(("argument", "name"), [(0, "input 'A'"), (1, "input 'B'"), (2, "output 'C'")])
@pytest.mark.parametrize("call", [1, 2, 4])
def test_a_write_outside_of_an_argument_names_it_and_the_distance(argument: int, name: str, call: int) -> None:
    def extra(now: int, *arrays: Any) -> None:
        if now == call:
            around = memory_around(arrays[argument], before=64, behind=64)
            around[60:64] = 1
            around[-62:-60] = 1

    prepared = stage()
    said = failure([run_trial(Adding(extra), prepared, TimingPolicy())])
    assert f"outside of its {name}: 4 bytes before it were written, the first at -4" in said
    assert "2 bytes behind it were written, the last at +4" in said
    assert ("not in later ones" in said) == (call > 1)
    assert run_trial(Adding(lambda *_: None), prepared, TimingPolicy()).ok


def test_arguments_lie_as_in_ordinary_arrays() -> None:
    for array in stage().arrays:
        ordinary = np.empty_like(array)
        assert array.ctypes.data % 16 == ordinary.ctypes.data % 16 == 0


@pytest.mark.parametrize("call", [2, 3, 6])
def test_a_kernel_that_is_wrong_only_in_a_later_call_fails(call: int) -> None:
    def extra(now: int, a: Any, b: Any, c: Any) -> None:
        if now >= call:
            c[77] = 5

    said = failure([run_trial(Adding(extra), stage(), TimingPolicy())])
    assert said.startswith("right in its first call, not in later ones: 1 of 4096 elements of output 'C' are wrong")


def test_a_kernel_that_writes_nothing_any_more_fails() -> None:
    class Lazy(PythonKernel):
        def time_ns(self, arrays: Sequence[Any], number: int) -> int:
            return super().time_ns(arrays, number) if not self.calls else 10_000 * number

    assert "never written" in failure([run_trial(Lazy(lambda call: 1e-4), stage(), TimingPolicy())])


def test_a_kernel_that_remembers_its_first_answer_fails_on_other_inputs() -> None:
    kept: list[Any] = []

    def extra(now: int, a: Any, b: Any, c: Any) -> None:
        kept.append(c.copy())
        c[:] = kept[0]

    kernel, prepared = Adding(extra), stage()
    assert run_trial(kernel, prepared, TimingPolicy()).ok
    good = Adding(lambda *_: None)
    first, second = run_interleaved([kernel, good], prepared, TimingPolicy())
    assert "right on the first inputs, not on others" in failure([first])
    assert second.ok
    assert run_trial(good, prepared, TimingPolicy()).ok  # on the first inputs again


def test_a_bench_without_other_inputs_checks_on_those_that_it_has() -> None:
    prepared = CandidateArrays(dataclasses.replace(kernels.bench(), fresh=None))
    assert [result.ok for result in run_interleaved([Adding(lambda *_: None)], prepared, TimingPolicy())] == [True]
    late = Adding(lambda now, a, b, c: np.negative(c, out=c) if now > 1 else None)
    assert "not in later ones" in failure(run_interleaved([late], prepared, TimingPolicy()))


def test_every_call_happens_under_the_guard() -> None:
    limits: list[float] = []

    @contextlib.contextmanager
    def guard(seconds: float) -> Iterator[None]:
        limits.append(seconds)
        yield
        limits.append(-1.0)

    run_trial(PythonKernel(lambda call: 0.5), stage(), TimingPolicy(timeout=8.0), best=math.inf, guard=guard)
    assert limits == [1.0, -1.0, 7.5, -1.0]


def test_interleaved_kernels_take_turns() -> None:
    log: list[str] = []
    made = [PythonKernel(lambda call: 0.01, log=log, label=label) for label in "ABC"]
    results = run_interleaved(made, stage(), TimingPolicy(rounds=3))
    assert "".join(log) == "ABC" + "ABC" * 3 + "AABBCC"  # at last each on the inputs that it knows, and on others
    assert [len(result.costs) for result in results] == [3, 3, 3]


def test_a_flushed_cache_means_one_call_at_a_time() -> None:
    kernel = PythonKernel(lambda call: 1e-5)
    run_trial(kernel, stage(), TimingPolicy(flush_cache=True, repeats=3))
    assert kernel.numbers[-3:] == [1, 1, 1]


@pytest.mark.parametrize(("given", "size"), [(800, 100), (1 << 40, 8 << 20)])
def test_a_flush_writes_all_of_its_memory(given: int, size: int) -> None:
    flush = CacheFlush(given)
    flush()
    flush()
    assert flush.memory.shape == (size,)
    assert (flush.memory == 2).all()


def test_fresh_inputs_are_written_between_the_flush_and_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    arrays = stage()
    first, second = arrays.bench.args[:2]
    assert not first.is_output
    written: list[object] = []

    def copied(array: np.ndarray[Any, Any], source: np.ndarray[Any, Any]) -> None:
        named = zip(arrays.bench.args, arrays.arrays, strict=True)
        written.append(next(spec.name for spec, own in named if own is array))
        array[...] = source

    monkeypatch.setattr(np, "copyto", copied)
    monkeypatch.setattr(CacheFlush, "__call__", lambda self: written.append("flush"))
    kernel = PythonKernel(lambda call: 1e-5, log=written, label="call")
    run_trial(kernel, arrays, TimingPolicy(flush_cache=800, fresh_inputs=(first.name,), repeats=3))
    assert written[-3:] == ["flush", first.name, "call"]
    assert second.name not in written


class SharedCore:
    """A core on which every third timing waits for another program four times as long as it computes."""

    def __init__(self) -> None:
        self.clock = self.run_queue_wait = self.calls = 0

    def time_ns(self, arrays: Sequence[Any], number: int) -> int:
        a, b, c = arrays
        np.add(a, b, out=c)
        self.calls += 1
        wait = 4 * number * 100_000 if self.calls % 3 == 0 else 0
        self.run_queue_wait += wait
        self.clock += number * 100_000 + wait
        return number * 100_000 + wait

    def reading(self) -> Reading:
        return Reading(self.clock, self.run_queue_wait, 0, self.clock)


def test_what_the_thread_waited_for_its_core_is_not_in_its_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = SharedCore()
    monkeypatch.setattr(run_delay, "reading", kernel.reading)
    result = run_trial(kernel, stage(), TimingPolicy())
    (again,) = run_interleaved([kernel], stage(), TimingPolicy())
    assert isinstance(result, Ok)
    assert kernel.run_queue_wait > 0
    assert [*result.costs, *again.costs] == pytest.approx([1e-4] * (len(result.costs) + len(again.costs)))


def test_the_share_of_waiting_is_that_of_all_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WaitMeter, "share", lambda self: 0.25)
    kernel = PythonKernel(lambda call: 1e-4)
    result = run_trial(kernel, stage(), TimingPolicy())
    (again,) = run_interleaved([kernel], stage(), TimingPolicy())
    assert isinstance(result, Ok)
    hopeless = run_trial(PythonKernel(lambda call: 1.0), stage(), TimingPolicy(), best=0.01)
    assert isinstance(hopeless, Ok)
    assert (result.run_queue_wait, again.run_queue_wait, hopeless.run_queue_wait) == (0.25, 0.25, 0.25)
