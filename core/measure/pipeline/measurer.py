"""The base class of measurers, which measure configurations for a search."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from pegbox.errors import ArgumentError
from pegbox.shown import value_text

if TYPE_CHECKING:
    from pegbox.measure.baselines.baseline import Baseline
    from pegbox.measure.result import Result
    from pegbox.space import Config


class Measurer(ABC):
    """A measurer runs configurations and returns their costs.

    Derive from it; only `measure` and `remeasure` lack a default.
    """

    clock: Callable[[], float] = time.monotonic
    """The clock of the search: a simulation's is virtual."""

    compiles: bool = False
    """True if a candidate is compiled first."""

    machines: int = 1
    """The number of configurations measured at the same time."""

    host: str = ""
    """The kind of the machines that measure; empty for this one."""

    where: str = ""
    """The machines that measure, for people ("on 8 machines"); empty for this one."""

    compares: bool = False
    """True if `baseline` may return something."""

    uneven: str = ""
    """A reason why `measure` and `remeasure` may disagree on one configuration, for people, or empty."""

    @abstractmethod
    def measure(self, configs: Sequence[Config], /) -> Iterator[tuple[Config, Result]]:
        """Yield one result for each configuration, as soon as it is available, in any order."""

    @abstractmethod
    def remeasure(self, configs: Sequence[Config], /) -> Sequence[Result]:
        """Measure a few configs again carefully, interleaved; return results in the order of `configs`."""

    def baseline(self, cost: float) -> Baseline | None:
        """Return the baseline to compare costs with; `cost` is the best."""
        return None

    def beside(self) -> AbstractContextManager[None] | None:
        """Return a context for work that must not disturb measurements; None if all work does."""
        return nullcontext()

    def wait_until_quiet(self) -> bool:
        """Wait, for a few seconds at most, until other programs leave the cores alone; False if that is pointless."""
        return False


def check_measurer(measurer: object) -> Measurer:
    """Return the measurer. Raises `ArgumentError` for anything else."""
    if isinstance(measurer, Measurer):
        return measurer
    raise ArgumentError(
        f"measurer={value_text(measurer)} is not a measurer: derive its class from pegbox.search.Measurer"
    )
