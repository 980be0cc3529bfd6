"""The division of CPU cores into timing and compiling cores."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

from pegbox.codegen.targets.cores import apart_first, siblings, usable_cores
from pegbox.origin import users_level

_MANY = 4


@dataclass(frozen=True)
class CorePlan:
    """A division of the cores that this process may use (its affinity mask is respected, never widened).

    `timing` are the cores for a one-thread candidate, `building` those for the builders and for the tuning process
    while it lowers, `every` the whole mask. With `overlap`, building may continue while a one-thread candidate is
    timed; without it, everything waits for silence. `timing` is empty if other machines time: then nothing waits.
    """

    timing: tuple[int, ...]
    building: tuple[int, ...]
    every: tuple[int, ...]
    overlap: bool

    @classmethod
    def detect(cls, *, threads: int = 1) -> CorePlan:
        """Make the plan for candidates of `threads` threads, on the cores of the calling thread's affinity mask."""
        every = usable_cores()
        if threads > 1 or len(every) < 2:
            return cls(every[-1:], every, every, overlap=False)
        timing = every[-1]
        others = every[:-1]
        # A sibling hyperthread shares the timing core's execution units: leave it idle if others remain.
        quiet = tuple(core for core in others if core not in siblings(timing))
        return cls((timing,), quiet or others, every, overlap=True)

    @classmethod
    def here(cls, threads: int) -> CorePlan:
        """Choose cores as `detect` does; warn if there are fewer cores than threads."""
        cores = len(usable_cores())
        usable = f"{cores} core{'s' if cores != 1 else ''}"
        warn_of_threads(threads, cores, f"this process may use {usable}", "this machine")
        return cls.detect(threads=threads)

    @classmethod
    def elsewhere(cls) -> CorePlan:
        """Make the plan for candidates that other machines time."""
        every = usable_cores()
        return cls((), every, every, overlap=True)

    @property
    def shared(self) -> tuple[int, ...]:
        """The timing cores, if few others build, so that they build while nothing is timed.

        With more builders, the lowering in one process is the bottleneck.
        """
        return self.timing if self.overlap and len(self.building) < _MANY else ()

    def running(self, threads: int) -> tuple[int, ...]:
        """Choose as many cores for a candidate as it has threads."""
        return self.timing if threads <= 1 else apart_first(self.every)[:threads]

    def timed_on(self, threads: int) -> int:
        """Count the cores for a candidate of `threads` threads; on other machines, assume as many."""
        return len(self.running(threads)) if self.timing else threads

    def silent(self, threads: int) -> bool:
        """Decide if a candidate of `threads` threads must be timed while no other pegbox process runs."""
        return bool(self.timing) and (threads > 1 or not self.overlap)


def warn_of_threads(threads: int, cores: int, there: str, machine: str) -> None:
    """Warn if candidates of `threads` threads are timed on fewer cores; `there` and `machine` name these."""
    if threads > cores:
        warnings.warn(
            f"the target has -num-cores {threads}, but {there}: threads share cores, so timings do not show the "
            f"speed of {threads} cores; give -num-cores {cores} to tune for {machine}",
            RuntimeWarning,
            stacklevel=users_level(),
        )
