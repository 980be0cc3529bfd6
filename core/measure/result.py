"""The results of measuring: `Ok` with its costs, or `Failed` with the reason."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TypeAlias

from pegbox.codegen.targets.host import EMULATED


class FailureKind(IntEnum):
    """The reason why a candidate has no cost. Records store the numbers as error numbers (0 is success).

    `NOT_RECORDED` says nothing about the candidate: a simulated run has no measurement of the config. It does not count
    as a failure, and records refuse it.
    """

    INVALID = 1
    COMPILE_ERROR = 2
    RUN_ERROR = 3
    CRASH = 4
    WRONG_RESULT = 5
    TIMEOUT = 6
    INACCURATE = 7
    NOT_RECORDED = -1

    def __str__(self) -> str:
        return self.name.lower().replace("_", " ")


@dataclass(frozen=True, slots=True)
class Ok:
    """A candidate that ran and gave the right answer.

    `costs` are seconds per call, one per repeat; `total_seconds` is the duration of the whole trial; `timestamp` is in
    seconds since the epoch; `phases` has the seconds of each phase of the trial. `partial` marks a candidate dropped
    after its first run because it was far behind the best. `run_queue_wait` is the share of the timing in which threads
    of the candidate waited for a core that other programs used, 0 if unknown: costs of one thread exclude that time,
    those of several include it. `host` is the kind of machine that measured it, if it is not this one, or the record's
    machine. `threads` is the number of threads of the candidate, 0 if unknown. `error` is the largest error of an
    output against a float64 reference, relative to the largest magnitude of the output: 0 if all outputs are integers,
    None if unknown.
    """

    costs: tuple[float, ...]
    total_seconds: float = 0.0
    timestamp: float = 0.0
    phases: dict[str, float] = field(default_factory=dict)
    partial: bool = False
    run_queue_wait: float = 0.0
    host: str = field(default="", compare=False)
    threads: int = 0
    error: float | None = None

    @property
    def wait_in_costs(self) -> float:
        """The part of `run_queue_wait` that the costs include: 0 for a single thread."""
        return 0.0 if self.threads == 1 else self.run_queue_wait

    @property
    def ok(self) -> bool:
        return True

    @property
    def emulated(self) -> bool:
        """True if an emulator ran the candidate: its seconds show nothing about a processor."""
        return self.host.startswith(EMULATED)

    @property
    def cost(self) -> float:
        """The median of the costs, in seconds."""
        return statistics.median(self.costs)


@dataclass(frozen=True, slots=True)
class Failed:
    """A candidate without a cost: `kind` for programs, `message` for people; `host` is that of `Ok`."""

    kind: FailureKind
    message: str
    total_seconds: float = 0.0
    timestamp: float = 0.0
    phases: dict[str, float] = field(default_factory=dict)
    host: str = field(default="", compare=False)

    @property
    def ok(self) -> bool:
        return False

    @property
    def emulated(self) -> bool:
        """True if an emulator ran the candidate, as for `Ok`."""
        return self.host.startswith(EMULATED)

    @property
    def cost(self) -> float:
        """Infinity, so that failed trials sort behind every measured one."""
        return math.inf


Result: TypeAlias = Ok | Failed
