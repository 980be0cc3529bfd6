"""A trial of a loaded kernel: run it on poisoned outputs, check the answer, then time it under the policy.

All kinds of runners share this: it needs only an object with `time_ns` and NumPy arrays, no processes and no LLVM.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from pegbox.measure.machine.run_delay import WaitMeter, on_core
from pegbox.measure.result import Failed, Ok, Result
from pegbox.measure.trial.bench import Bench, Values
from pegbox.measure.trial.cache_flush import CacheFlush
from pegbox.measure.trial.check import Array, GuardedArray, magnitude_of, poison, same_bytes
from pegbox.measure.trial.output_check import Check, check_output
from pegbox.measure.trial.timing import TimingPolicy

_PROBE_SECONDS = 1e-3


class TimedKernel(Protocol):
    """A kernel with the method that trials call."""

    def time_ns(self, arrays: Sequence[Array], number: int) -> int:
        """Return the nanoseconds of `number` calls."""
        ...


Guard = Callable[[float], AbstractContextManager[object]]


@dataclass
class CandidateArrays:
    """The arrays for candidates, in guard bands: a copy of the inputs, and outputs reused in each trial."""

    bench: Bench
    arrays: tuple[Array, ...] = field(init=False)
    _guarded: tuple[GuardedArray, ...] = field(init=False)
    _values: Values = field(init=False)
    _magnitudes: tuple[float, ...] = field(init=False)
    _flush: CacheFlush | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self._guarded = tuple(
            GuardedArray(spec.shape, spec.dtype, aligned=self.bench.aligned) for spec in self.bench.args
        )
        self.arrays = tuple(guarded.array for guarded in self._guarded)
        self.use(self.bench.values)

    def use(self, values: Values) -> None:
        """Copy these inputs in, expect their outputs from now on, and poison the outputs."""
        self._values = values
        self._magnitudes = tuple(map(magnitude_of, values.expected))
        for (_, array), given in zip(self._named(outputs=False), values.inputs, strict=True):
            np.copyto(array, given)
        for guarded in self._guarded:
            guarded.restore()
        self.poison()

    def poison(self) -> None:
        """Fill the outputs with values that cannot be right."""
        for _, array in self._named(outputs=True):
            poison(array)

    def check(self) -> Check:
        """Check the arrays after a run, and repair damage outside the outputs."""
        if (outside := self._written_outside()) is not None:
            return Check(outside)
        error = 0.0
        outputs = zip(self._named(outputs=True), self._values.expected, self._magnitudes, strict=True)
        for (name, array), expected, magnitude in outputs:
            found = check_output(name, array, expected, self.bench.tolerance, magnitude)
            if found.fault:
                return found
            error = max(error, found.error)
        for (name, array), pristine in zip(self._named(outputs=False), self._values.inputs, strict=True):
            if not same_bytes(array, pristine):
                np.copyto(array, pristine)
                return Check(f"the candidate wrote to its input {name!r}")
        return Check(error=error)

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

    def flush(self, nbytes: int) -> None:
        """Let this many bytes of other memory pass through the caches."""
        if self._flush is None:
            self._flush = CacheFlush(nbytes)
        self._flush()

    def write(self, names: Collection[str]) -> None:
        """Write the inputs of these names again."""
        for (name, array), pristine in zip(self._named(outputs=False), self._values.inputs, strict=True):
            if name in names:
                np.copyto(array, pristine)


def run_trial(
    kernel: TimedKernel,
    stage: CandidateArrays,
    policy: TimingPolicy,
    *,
    best: float = math.inf,
    guard: Guard = contextlib.nullcontext,
) -> Result:
    """Check and time one candidate. `best` is the best cost so far, in seconds per call.

    `guard(seconds)` wraps every series of calls and may cut it off, even by killing the process.
    """
    watch = _Watch()
    stage.poison()
    meter = WaitMeter()
    with guard(policy.first_call_limit(best, flop=stage.bench.flop)):
        first = _seconds(kernel, stage, 1)
    run_queue_wait = meter.share()
    watch.lap("first_run")
    checked = stage.check()
    watch.lap("check")
    if checked.fault:
        return Failed(checked.kind, checked.fault, phases=watch.phases)
    known: dict[str, Any] = {"phases": watch.phases, "error": checked.error}
    if policy.far_behind(first, best, cold=True):
        return Ok((max(first, 1e-9),), partial=True, run_queue_wait=run_queue_wait, **known)
    stage.poison()
    watch.lap("check")
    meter = WaitMeter()
    with guard(max(policy.timeout - first, 0.1)):
        per_call = _probe(kernel, stage)
        if policy.far_behind(per_call, best):
            # One interruption must not rule out a good candidate.
            per_call = min(per_call, _probe(kernel, stage))
        partial = policy.far_behind(per_call, best)
        costs = (per_call,) if partial else _repeat(kernel, stage, policy, per_call, best)
    run_queue_wait = meter.share()
    watch.lap("timing")
    checked = stage.check()
    watch.lap("check")
    if checked.fault:
        message = f"right in its first call, not in later ones: {checked.fault}"
        return Failed(checked.kind, message, phases=watch.phases)
    return Ok(costs, partial=partial, run_queue_wait=run_queue_wait, **known)


def run_interleaved(
    kernels: Sequence[TimedKernel],
    stage: CandidateArrays,
    policy: TimingPolicy,
    *,
    guard: Guard = contextlib.nullcontext,
) -> list[Result]:
    """Time kernels that passed before in turns, A B C A B C ..., so that a slow minute hits all alike.

    Then check each again, on the known inputs and on the fresh ones of the bench.
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
        checks = [_checked_again(kernel, stage) for kernel in kernels]
    stage.use(stage.bench.values)
    return [
        Failed(check.kind, check.fault, phases={"timing": spent})
        if check.fault
        else Ok(own, phases={"timing": spent}, run_queue_wait=run_queue_wait, error=check.error)
        for own, check in zip(costs, checks, strict=True)
    ]


def _checked_again(kernel: TimedKernel, stage: CandidateArrays) -> Check:
    """Check a kernel again on the known inputs and on the fresh ones; return the first fault, or the larger error."""
    known = stage.bench.values, "right in its first call, not in later ones"
    fresh = stage.bench.fresh, "right on the first inputs, not on others"
    error = 0.0
    for values, when in (known, fresh):
        if values is None:
            continue
        stage.use(values)
        _seconds(kernel, stage, 1)
        found = stage.check()
        if found.fault:
            return found._replace(fault=f"{when}: {found.fault}")
        error = max(error, found.error)
    return Check(error=error)


def _probe(kernel: TimedKernel, stage: CandidateArrays) -> float:
    """Time a warm call in seconds, over enough calls to fill a millisecond."""
    seconds = _seconds(kernel, stage, 1)
    if seconds < _PROBE_SECONDS:
        number = math.ceil(_PROBE_SECONDS / max(seconds, 1e-7))
        seconds = _seconds(kernel, stage, number) / number
    return max(seconds, 1e-9)


def _repeat(
    kernel: TimedKernel, stage: CandidateArrays, policy: TimingPolicy, per_call: float, best: float
) -> tuple[float, ...]:
    number = policy.calls(per_call)
    # A long enough probe of one call counts as a timing.
    costs = [per_call] if number == 1 and not policy.flush_cache else []
    while policy.wants_more(costs, best, spent=sum(costs) * number):
        costs.append(_timing(kernel, stage, policy, number))
    return tuple(costs)


def _timing(kernel: TimedKernel, stage: CandidateArrays, policy: TimingPolicy, number: int) -> float:
    if policy.flush_cache:
        stage.flush(policy.flushed_bytes)
    stage.write(policy.fresh_inputs)
    return max(_seconds(kernel, stage, number) / number, 1e-12)


def _seconds(kernel: TimedKernel, stage: CandidateArrays, number: int) -> float:
    """Time `number` calls together, without waits for the core."""
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
