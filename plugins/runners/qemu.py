"""The runner "qemu": runs candidates for other architectures in an emulator, where their times mean nothing."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import secrets
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pegbox.codegen.targets import host
from pegbox.errors import MeasureError
from pegbox.measure.bench import Bench
from pegbox.measure.cores import CorePlan
from pegbox.measure.guard_band import BAND_BYTES, guarded_memory
from pegbox.measure.result import Failed, FailureKind, Result
from pegbox.measure.timing import TimingPolicy
from pegbox.measure.trial import Stage, run_interleaved, run_trial
from pegbox.plugins.runners.emulation import Emulation, EmulationFailed, check_emulator, emulator_version
from pegbox.private_folder import ProcessFolder
from pegbox.workers.descendants import MARK, kill_marked

if TYPE_CHECKING:
    from pegbox.codegen import CompiledProgram, Target


class QemuRunner:
    """Runs candidates for AArch64, RISC-V and others in QEMU's user mode, as many at once as this machine has cores.

    Values are checked as by every runner. Times are those of the emulator: records say so in their host, and nothing
    that looks for the fastest configuration of a processor takes them.

    It needs qemu-NAME and NAME-linux-gnu-gcc, where NAME is the target's architecture.

    Args:
        bench, timing, cores, max_memory: as of every runner.
        cpu: the processor to emulate, as QEMU names it ("cortex-a72"); by default one with what the target has.

    Raises `MeasureError` where a program is missing, or candidates are for this machine.
    """

    def __init__(
        self,
        bench: Bench,
        *,
        timing: TimingPolicy,
        cores: CorePlan,
        max_memory: int | None = None,
        cpu: str = "",
    ) -> None:
        self._bench = dataclasses.replace(bench, flop=0.0)  # what is too slow for a processor is not for an emulator
        self._timing, self._memory, self._cpu = timing, max_memory, cpu
        self._cores = len(cores.building)
        self._folder = ProcessFolder("qemu")
        self._mark = secrets.token_hex(16)
        self._environment = {**os.environ, MARK: self._mark}
        self._stages: list[Stage] = []
        self._lock = threading.Lock()
        self._emulations: set[Emulation] = set()
        self._turn = 0
        """How often what ran was given up."""

        self._closed = False

    @property
    def machines(self) -> int:
        """How many candidates run at the same time. See `pegbox.measure.runner.ClusterRunner`."""
        return max(1, self._cores)

    @property
    def where(self) -> str:
        """For people. See `pegbox.measure.runner.ClusterRunner`."""
        return f"in {self.machines} emulator{'s' if self.machines > 1 else ''}"

    def check_target(self, target: Target) -> None:
        """Raise `MeasureError` where no candidate can run. See `pegbox.measure.runner.TargetRunner`."""
        _check_target(target)
        check_emulator(target, self._cpu)

    @property
    def host(self) -> str:
        """For records: that nothing was timed on a processor."""
        return f"{host.EMULATED}by {emulator_version()}"

    def run(self, program: CompiledProgram, *, best: float = math.inf) -> Result:
        """Check and time one candidate. See `pegbox.measure.Runner`."""
        return self._measured(program, best, self._turn)

    def rerun(self, programs: Sequence[CompiledProgram]) -> list[Result]:
        """Time candidates in turns; where one of them fails, each is run alone instead."""
        turn = self._turn
        try:
            with self._stage() as stage, self._emulated(programs, turn) as kernels:
                return list(run_interleaved(kernels, stage, self._timing))
        except EmulationFailed:
            return [self._measured(program, math.inf, turn) for program in programs]

    def interrupt(self) -> None:
        """Give up the runs in progress."""
        with self._lock:
            self._turn += 1
            running = list(self._emulations)
        for emulation in running:
            emulation.give_up()

    def close(self) -> None:
        """End everything, with what candidates have started."""
        with self._lock:
            closed, self._closed = self._closed, True
        self.interrupt()
        if not closed:
            kill_marked(self._mark)
            self._folder.close()

    def _measured(self, program: CompiledProgram, best: float, turn: int) -> Result:
        try:
            with self._stage() as stage, self._emulated([program], turn) as (kernel,):
                return run_trial(kernel, stage, self._timing, best=best, guard=kernel.guard)
        except EmulationFailed as error:
            return Failed(error.kind, error.message)

    @contextlib.contextmanager
    def _stage(self) -> Iterator[Stage]:
        """Arrays that no other thread has."""
        with self._lock:
            stage = self._stages.pop() if self._stages else None
        stage = stage or Stage(self._bench)
        yield stage
        with self._lock:
            self._stages.append(stage)

    @contextlib.contextmanager
    def _emulated(self, programs: Sequence[CompiledProgram], turn: int) -> Iterator[list[_EmulatedKernel]]:
        """The candidates, linked; `turn` is that in which they were asked for."""
        emulations: list[Emulation] = []
        with contextlib.ExitStack() as stack:
            for program in programs:
                _check_target(program.target)
                folder = stack.enter_context(tempfile.TemporaryDirectory(dir=self._folder.path))
                emulations.append(
                    Emulation(
                        program,
                        Path(folder),
                        cpu=self._cpu,
                        environment=self._environment,
                        max_memory=self._memory,
                    )
                )
            with self._lock:
                if self._closed or turn != self._turn:
                    raise EmulationFailed(FailureKind.CRASH, "the run was given up")
                self._emulations.update(emulations)
            try:
                yield [_EmulatedKernel(emulation) for emulation in emulations]
            finally:
                with self._lock:
                    self._emulations.difference_update(emulations)


class _EmulatedKernel:
    """A candidate as trials need it. See `pegbox.measure.trial.TimedKernel`."""

    def __init__(self, emulation: Emulation) -> None:
        self._emulation = emulation

    def time_ns(self, arrays: Sequence[np.ndarray[Any, Any]], number: int) -> int:
        """Nanoseconds that `number` calls took, each in the emulator; the arrays are what they left."""
        memories = [guarded_memory(array) for array in arrays]
        places = [memory.__array_interface__["data"][0] % 64 for memory in memories]
        given = [memory.tobytes() for memory in memories]
        after, elapsed = self._emulation.call(given, places, number, before=BAND_BYTES)
        for memory, data in zip(memories, after, strict=True):
            np.copyto(memory, np.frombuffer(data, dtype=np.uint8))
        return elapsed

    @contextlib.contextmanager
    def guard(self, seconds: float) -> Iterator[None]:
        """Let no call of the body take longer."""
        self._emulation.limit = seconds if math.isfinite(seconds) else None
        yield
        self._emulation.limit = None


def _check_target(target: Target) -> None:
    if target.architecture == host.architecture():
        raise MeasureError(
            "the runner 'qemu' is for processors of another architecture than this machine's, and the target is "
            f"{str(target)!r}; give one such as --target 'llvm -mtriple=aarch64-linux-gnu -mcpu=neoverse-n1' "
            "(target=...), or leave the runner out"
        )
