"""`Subject`: the computation or function that is searched, as results name it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pegbox.checks import check_float, check_text
from pegbox.measure.result import Ok, Result
from pegbox.task.speed_text import format_cost, format_speed

if TYPE_CHECKING:
    from pegbox.task.group import Tasks


@dataclass(frozen=True)
class Subject:
    """The computation or function that is searched.

    Attributes:
        name: its name in results.
        task: the task, or group of tasks, whose programs results show; None for a function, or if only a space is
            known.
        flop: operations of one call, 0 if unknown; they turn seconds into GFLOP/s.
        bytes_moved: the smallest number of bytes of one call, for a speed in GB/s without arithmetic.
        unit: the unit of the costs, "s" for seconds.
    """

    name: str = ""
    task: Tasks | None = field(default=None, compare=False)
    flop: float = 0.0
    bytes_moved: float = 0.0
    unit: str = "s"

    def __post_init__(self) -> None:
        check_text("name", self.name)
        check_text("unit", self.unit)
        check_float("flop", self.flop)
        check_float("bytes_moved", self.bytes_moved)

    def gflops(self, result: Result) -> float:
        """Compute the GFLOP/s of a result; 0 if it failed, or the operations are unknown."""
        return self.flop / result.cost / 1e9 if isinstance(result, Ok) and self.flop else 0.0

    def speed(self, cost: float) -> str:
        """Write a cost with its unit, and the speed if it is known."""
        speed = format_speed(cost, flop=self.flop, bytes_moved=self.bytes_moved)
        return f"{format_cost(cost, self.unit)}{f', {speed}' if speed else ''}"
