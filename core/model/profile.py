"""`Profile`: the time of each kernel of a module."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pegbox.checks import check_int
from pegbox.codegen.targets.target import Target
from pegbox.graph.graph import Array
from pegbox.measure.baselines.baseline import UNSTEADY
from pegbox.measure.baselines.roofline import Roofline, kept_roofline, measure_roofline, size_class
from pegbox.measure.machine.cores import CorePlan
from pegbox.measure.machine.run_delay import on_core
from pegbox.model.node_work import NodeWork
from pegbox.task.speed_text import format_seconds, format_speed
from pegbox.workers.affinity import confined

if TYPE_CHECKING:
    from pegbox.model.module import Module

_SLOWEST = 40
"""The largest number of printed kernels."""


@dataclass(frozen=True)
class ProfileRow:
    """A kernel's part of a call.

    Attributes:
        work: the work of its nodes.
        seconds: the median of the calls in which no other program used its core.
        share: the share of the sum of all kernels.
    """

    work: NodeWork
    seconds: float
    share: float

    @property
    def gflops(self) -> float:
        """Billions of arithmetic operations per second."""
        return self.work.least.flop / self.seconds * 1e-9 if self.seconds else 0.0

    @property
    def gigabytes(self) -> float:
        """Gigabytes of the arguments per second, each counted once."""
        moved = self.work.least.read + self.work.least.written
        return moved / self.seconds * 1e-9 if self.seconds else 0.0

    @property
    def of_peak(self) -> float | None:
        """The share of the machine's binding limit, arithmetic or memory; None if unknown."""
        return self.work.least.share(self.seconds)

    @property
    def speed(self) -> str:
        """The speed as text, in the units of the binding limit."""
        least = self.work.least
        flop = 0.0 if least.bound == "memory" else least.flop
        return format_speed(self.seconds, flop=flop, bytes_moved=least.read + least.written)


@dataclass(frozen=True)
class Profile:
    """The kernels of a module in the order of their calls.

    Attributes:
        rows: the kernels.
        seconds: the median of calls of the whole module, alternating with those that read the clock; waits of this
            thread for its core do not count.
    """

    rows: tuple[ProfileRow, ...]
    seconds: float

    @property
    def kernel_seconds(self) -> float:
        """The sum of the kernels."""
        return sum(row.seconds for row in self.rows)

    def __str__(self) -> str:
        shown = sorted(self.rows, key=lambda row: -row.seconds)[:_SLOWEST]
        head = ["nodes", "operators", "kernel", "us", "speed", "of peak", "of total"]
        cells = [head, *(_cells(row) for row in self.rows if row in shown)]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = [
            "  ".join(
                [*(cell.ljust(width) for cell, width in zip(row[:3], widths, strict=False)),
                 *(cell.rjust(width) for cell, width in zip(row[3:], widths[3:], strict=True))]
            )
            for row in cells
        ]  # fmt: skip
        if left := [row for row in self.rows if row not in shown]:
            lines.append(f"{len(left)} faster ones: {format_seconds(sum(row.seconds for row in left))}")
        kernels = f"{len(self.rows)} kernels {format_seconds(self.kernel_seconds)}"
        return "\n".join([*lines, f"{kernels}, whole call {format_seconds(self.seconds)}"])


def profile(module: Module, inputs: Sequence[Array], *, calls: int) -> Profile:
    """Time a module and its kernels."""
    check_int("profile: calls", calls, maximum=10_000)
    found: list[NDArray[Any]] = []
    whole: list[int] = []
    for _ in range(calls + 1):  # the first call warms up
        found.append(module.kernel_times(inputs))
        whole.append(on_core(lambda: module.time_ns(inputs)))
    steps = np.array([_undisturbed(times) for times in np.array(found[1:]).T]) * 1e-9
    works = module.compiled.works
    total = max(float(steps[: len(works)].sum()), 1e-9)
    target = module.compiled.sequence.target
    rows = [
        ProfileRow(_with_limits(work, target), float(seconds), float(seconds) / total)
        for work, seconds in zip(works, steps, strict=False)  # copies of outputs follow the kernels
    ]
    return Profile(tuple(rows), _undisturbed(np.array(whole[1:])) * 1e-9)


def _undisturbed(times: NDArray[Any]) -> float:
    """Compute the median of times, without calls that waited for their core."""
    return float(np.median(times[times <= UNSTEADY * times.min()]))


def _with_limits(work: NodeWork, target: Target) -> NodeWork:
    size = size_class(work.least.read + work.least.written, target, target.num_cores)
    return replace(work, least=replace(work.least, roofline=_roofline(work.dtype, size, target)))


@cache
def _roofline(dtype: str, nbytes: int, target: Target) -> Roofline | None:
    """Find the limits of this machine; measure them if they are not known well."""
    cores = CorePlan.detect(threads=target.num_cores).running(target.num_cores)

    def measure(size: int) -> Roofline:
        with confined(cores[:1]):
            return measure_roofline(dtype, size, target, cores)

    return kept_roofline(dtype, nbytes * target.num_cores, target, len(cores), measure)


def _cells(row: ProfileRow) -> list[str]:
    work = row.work
    of_peak = "-" if row.of_peak is None else f"{row.of_peak:.0%}"
    return [
        ", ".join(work.names),
        "+".join(work.kinds),
        work.kernel,
        f"{row.seconds * 1e6:.1f}",
        row.speed or "-",
        of_peak,
        f"{row.share:.1%}",
    ]
