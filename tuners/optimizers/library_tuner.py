"""`LibraryTuner`: the base of tuners whose proposals come from an optimizer of an installed library."""

from __future__ import annotations

import importlib
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from importlib import metadata
from typing import Any, ClassVar

import numpy as np

from pegbox.errors import PluginError
from pegbox.measure import Result
from pegbox.search import BaseTuner
from pegbox.space import Config, ConfigSpace
from pegbox.tuners.optimizers.parameters import SpaceParameters
from pegbox.tuners.optimizers.repair import Repair
from pegbox.tuners.rows import Digits
from pegbox.tuners.visited_set import VisitedSet


class LibraryTuner(BaseTuner, ABC):
    """A tuner that asks an optimizer for a point, proposes the closest new configuration, and tells the optimizer the
    result.

    The optimizer sees only the values of the knobs and the costs, without features of programs, experience or
    constraints. Subclasses name the `package` of the library, the `extra` of pegbox that installs it, and all `modules`
    that the optimizer imports.
    """

    package: ClassVar[str]
    extra: ClassVar[str]
    modules: ClassVar[tuple[str, ...]]

    batch_size = 1
    experienced = False

    def __init__(self, space: ConfigSpace, *, seed: int = 0, **options: Any) -> None:
        for name in self.modules:
            self._check_import(name)
        self._space = space
        self._rng = np.random.default_rng(seed)
        self._parameters = SpaceParameters(space)
        self._visited = VisitedSet(space)
        self._repair = Repair(self._visited, self._rng)
        self._open: dict[Config, Any] = {}
        self.begin(seed, **options)

    @property
    def library(self) -> str:
        """The library and its version, for reports."""
        return f"{self.package} {metadata.version(self.package)}"

    @abstractmethod
    def begin(self, seed: int) -> None:
        """Make the optimizer."""

    @abstractmethod
    def propose(self) -> tuple[Digits, Any]:
        """Return the row, (knobs,), of the optimizer's next point, which may be invalid, and its handle."""

    @abstractmethod
    def learn(self, row: Digits, handle: Any, cost: float) -> None:
        """Tell the optimizer the cost of a row, infinite if it failed; the handle of other rows is None."""

    def ask(self, n: int) -> list[Config]:
        found: list[Config] = []
        while len(found) < n:
            row, handle = self.propose()
            repaired = self._repair(row)
            if repaired is None:
                break
            (config,) = self._visited.configs(repaired[None, :])
            self._open[config] = handle
            found.append(config)
        return found

    def tell(self, configs: Sequence[Config], results: Sequence[Result]) -> None:
        self._visited.mark(configs)
        for config, result in zip(configs, results, strict=True):
            self.learn(np.array(config.digits, dtype=np.int64), self._open.pop(config, None), result.cost)

    def _check_import(self, module: str) -> None:
        try:
            importlib.import_module(module)
        except ImportError as error:
            raise PluginError(
                f"the tuner {type(self).__name__} needs the package {self.package}, and importing {module} fails: "
                f"{error}; install it with: pip install 'pegbox[{self.extra}]'"
            ) from error


class FiniteCosts:
    """Costs for optimizers that need finite numbers: a failure counts as the worst that ran so far."""

    def __init__(self) -> None:
        self._worst = 0.0

    def __call__(self, cost: float) -> float:
        if math.isfinite(cost):
            self._worst = max(self._worst, cost)
            return cost
        return self._worst or 1.0
