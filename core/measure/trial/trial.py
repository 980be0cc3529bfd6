"""A trial of a loaded kernel: run it on poisoned outputs, check the answer, then time it as the policy says.

Runners of every kind share this: it needs an object with `time_ns` and NumPy arrays, no processes and no LLVM.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from pegbox.measure.machine.run_delay import WaitMeter, on_core
from pegbox.measure.result import Failed, FailureKind, Ok, Result
from pegbox.measure.trial.bench import Bench, Values
from pegbox.measure.trial.check import Array, GuardedArray, difference, poison, same_bytes
from pegbox.measure.trial.timing import TimingPolicy

_PROBE_SECONDS = 1e-3
_FLUSH_BYTES = 64 << 20


class TimedKernel(Protocol):
    """A kernel as trials call it."""

    def time_ns(self, arrays: Sequence[Array], number: int) -> int:
        """Return the nanoseconds of `number` calls."""
        ...


Guard = Callable[[float], AbstractContextManager[object]]


@dataclass
class CandidateArrays:
    """The arrays that candidates run on, in guard bands: a copy of the inputs, and outputs reused in each trial."""

    bench: Bench
    arrays: tuple[Array, ...] = field(init=False)
    _guarded: tuple[GuardedArray, ...] = field(init=False)
    _values: Values = field(init=False)
    _flusher: Array | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self._guarded = tuple(GuardedArray(spec.shape, spec.dtype) for spec in self.bench.args)
        self.arrays = tuple(guarded.array for guarded in self._guarded)
        self.use(self.bench.values)

    def use(self, values: Values) -> None:
        """Copy these inputs in, expect their outputs from now on, and poison the outputs."""
        self._values = values
        for (_, array), given in zip(self._named(outputs=False), values.inputs, strict=True):
            np.copyto(array, given)
        for guarded in self._guarded:
            guarded.restore()
        self.poison()

    def poison(self) -> None:
        """Fill the outputs with values that cannot be right."""
        for _, array in self._named(outputs=True):
            poison(array)

    def complaint(self) -> str | None:
        """Say what is wrong after a run; None if nothing is. Damage outside of the outputs is repaired."""
        if (outside := self._written_outside()) is not None:
            return outside
        for (name, array), expected in zip(self._named(outputs=True), self._values.expected, strict=True):
            if (found := difference(name, array, expected, self.bench.tolerance)) is not None:
                return found
        for (name, array), pristine in zip(self._named(outputs=False), self._values.inputs, strict=True):
            if not same_bytes(array, pristine):
                np.copyto(array, pristine)
                return f"the candidate wrote to its input {name!r}"
        return None

    def _written_outside(self) -> str | None:
        found = []
        for spec, guarded in zip(self.bench.args, self._guarded, strict=True):
            if overrun := guarded.overrun():
                guarded.restore()
                found.append(f"its {'output' if spec.is_output else 'input'} {spec.name!r}: {overrun}")
        return f"the candidate wrote outside of {'; and of '.join(found)}" if found else None

    def _named(self, *, outputs: bool) -> list[tuple[str, Array]]:
        """List the outputs or the inputs, with their names."""
        specs = zip(self.bench.args, self.arrays, strict=True)
        return [(spec.name, array) for spec, array in specs if spec.is_output == outputs]

    def flush(self) -> None:
        """Push the arrays out of the caches by writing something larger than most last-level caches."""
        if self._flusher is None:
            self._flusher = np.zeros(_FLUSH_BYTES // 8, dtype=np.int64)
        np.add(self._flusher, 1, out=self._flusher)


def run_trial(
    kernel: TimedKernel,
    stage: CandidateArrays,
    policy: TimingPolicy,
    *,
    best: float = math.inf,
    guard: Guard = contextlib.nullcontext,
) -> Result:
    """Check and time one candidate. `best` is the best cost so far, in seconds per call.

    `guard(seconds)` wraps every stretch of calls and may cut it off, by killing the process if it must.
    """
    watch = _Watch()
    stage.poison()
    meter = WaitMeter()
    with guard(policy.first_call_limit(best, flop=stage.bench.flop)):
        first = _seconds(kernel, stage, 1)
    run_queue_wait = meter.share()
    watch.lap("first_run")
    wrong = stage.complaint()
    watch.lap("check")
    if wrong is not None:
        return Failed(FailureKind.WRONG_RESULT, wrong, phases=watch.phases)
    if policy.far_behind(first, best, cold=True):
        return Ok((max(first, 1e-9),), phases=watch.phases, partial=True, run_queue_wait=run_queue_wait)
    stage.poison()
    watch.lap("check")
    meter = WaitMeter()
    with guard(max(policy.timeout - first, 0.1)):
        per_call = _probe(kernel, stage)
        if policy.far_behind(per_call, best):
            # One interruption must not rule a good candidate out.
            per_call = min(per_call, _probe(kernel, stage))
        partial = policy.far_behind(per_call, best)
        costs = (per_call,) if partial else _repeat(kernel, stage, policy, per_call, best)
    run_queue_wait = meter.share()
    watch.lap("timing")
    wrong = stage.complaint()
    watch.lap("check")
    if wrong is not None:
        message = f"right in its first call, not in later ones: {wrong}"
        return Failed(FailureKind.WRONG_RESULT, message, phases=watch.phases)
    return Ok(costs, phases=watch.phases, partial=partial, run_queue_wait=run_queue_wait)


def run_interleaved(
    kernels: Sequence[TimedKernel],
    stage: CandidateArrays,
    policy: TimingPolicy,
    *,
    guard: Guard = contextlib.nullcontext,
) -> list[Result]:
    """Time kernels that were right before in turns, A B C A B C ..., so that a slow minute hits all alike.

    Then check each again, on the inputs that it knows and on the fresh ones of the bench.
    """
    began = time.perf_counter()
    meter = WaitMeter()
    with guard(policy.timeout * len(kernels)):
        numbers = [policy.calls(_probe(kernel, stage)) for kernel in kernels]
        rounds: list[list[float]] = []
        allowed = policy.timeout / 2 * len(kernels)
        while len(rounds) < policy.rounds and (not rounds or time.perf_counter() - began < allowed):
            rounds.append([_timing(k, stage, policy, n) for k, n in zip(kernels, numbers, strict=True)])
    spent = (time.perf_counter() - began) / max(1, len(kernels))
    costs = list(zip(*rounds, strict=True))
    run_queue_wait = meter.share()
    with guard(policy.timeout * len(kernels)):
        wrong = [_wrong_again(kernel, stage) for kernel in kernels]
    stage.use(stage.bench.values)
    return [
        Ok(own, phases={"timing": spent}, run_queue_wait=run_queue_wait)
        if message is None
        else Failed(FailureKind.WRONG_RESULT, message, phases={"timing": spent})
        for own, message in zip(costs, wrong, strict=True)
    ]


def _wrong_again(kernel: TimedKernel, stage: CandidateArrays) -> str | None:
    """Run a kernel once more on the known inputs and once on the fresh ones; say what is wrong."""
    known = stage.bench.values, "right in its first call, not in later ones"
    fresh = stage.bench.fresh, "right on the first inputs, not on others"
    for values, when in (known, fresh):
        if values is None:
            continue
        stage.use(values)
        _seconds(kernel, stage, 1)
        if (found := stage.complaint()) is not None:
            return f"{when}: {found}"
    return None


def _probe(kernel: TimedKernel, stage: CandidateArrays) -> float:
    """Time a warm call in seconds, over enough calls that a millisecond passes."""
    seconds = _seconds(kernel, stage, 1)
    if seconds < _PROBE_SECONDS:
        number = math.ceil(_PROBE_SECONDS / max(seconds, 1e-7))
        seconds = _seconds(kernel, stage, number) / number
    return max(seconds, 1e-9)


def _repeat(
    kernel: TimedKernel, stage: CandidateArrays, policy: TimingPolicy, per_call: float, best: float
) -> tuple[float, ...]:
    number = policy.calls(per_call)
    # A probe of one call that was long enough is a timing like any other.
    costs = [per_call] if number == 1 and not policy.flush_cache else []
    while policy.wants_more(costs, best, spent=sum(costs) * number):
        costs.append(_timing(kernel, stage, policy, number))
    return tuple(costs)


def _timing(kernel: TimedKernel, stage: CandidateArrays, policy: TimingPolicy, number: int) -> float:
    if policy.flush_cache:
        stage.flush()
    return max(_seconds(kernel, stage, number) / number, 1e-12)


def _seconds(kernel: TimedKernel, stage: CandidateArrays, number: int) -> float:
    """Time `number` calls together, on the core."""
    return on_core(lambda: kernel.time_ns(stage.arrays, number)) * 1e-9


class _Watch:
    """A watch that counts the seconds of each phase of a trial."""

    def __init__(self) -> None:
        self.phases: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, phase: str) -> None:
        now = time.perf_counter()
        self.phases[phase] = self.phases.get(phase, 0.0) + now - self._last
        self._last = now
