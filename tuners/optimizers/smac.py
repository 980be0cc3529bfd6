"""The tuner `smac`: SMAC3's facade for hyperparameters, random forests with logarithmic expected improvement.

Lindauer et al., "SMAC3: A Versatile Bayesian Optimization Package for Hyperparameter Optimization" (JMLR 23, 2022).
"""

from __future__ import annotations

import math
import tempfile
from typing import Any

import numpy as np

from pegbox.checks import check_int
from pegbox.tuners.optimizers.library_tuner import FiniteCosts, LibraryTuner
from pegbox.tuners.optimizers.parameters import Parameter
from pegbox.tuners.rows import Digits

LEAVES = 4096
"""The largest number of leaves of a tree, more than there are trials.

By default, each tree allocates and zeroes room for 2^20.
"""


class SmacTuner(LibraryTuner):
    """SMAC's `HyperparameterOptimizationFacade`.

    `budget` is the number of trials for its initial design. It treats conditional knobs as always existing.
    """

    package = "smac"
    extra = "smac"
    modules = ("smac", "ConfigSpace")

    def __init__(self, space: Any, *, seed: int = 0, budget: int = 200) -> None:
        super().__init__(space, seed=seed, budget=budget)

    def begin(self, seed: int, *, budget: int = 200) -> None:
        import ConfigSpace
        import smac
        from smac.main.exceptions import ConfigurationSpaceExhaustedException
        from smac.runhistory import StatusType
        from smac.runhistory.encoder import RunHistoryLogScaledEncoder

        self._smac: Any = smac
        self._states: Any = StatusType
        self._exhausted: Any = ConfigurationSpaceExhaustedException
        self._kinds: Any = ConfigSpace
        known = self._kinds.ConfigurationSpace(seed=seed % 2**31)
        known.add([_parameter(self._kinds, one) for one in self._parameters.parameters])
        self._known = known
        # SMAC writes its runs to a folder, even if nothing reads them.
        self._folder = tempfile.TemporaryDirectory(prefix="pegbox-smac-")
        scenario = self._smac.Scenario(
            known,
            deterministic=True,
            n_trials=check_int("budget", budget),
            seed=seed % 2**31,
            output_directory=self._folder.name,
        )
        facade = self._smac.HyperparameterOptimizationFacade
        model = facade.get_model(scenario)
        model._rf_opts["max_leaf_nodes"] = max(LEAVES, budget)
        # Report unmeasured points as crashed, so that the model does not see them.
        encoder = RunHistoryLogScaledEncoder(scenario, considered_states=[StatusType.SUCCESS])
        self._facade: Any = facade(
            scenario, _unused, model=model, runhistory_encoder=encoder, logging_level=False, overwrite=True
        )
        self._finite = FiniteCosts()

    def propose(self) -> tuple[Digits, Any]:
        try:
            info = self._facade.ask()
        except (self._exhausted, StopIteration):  # the remaining rows were measured in place of other points
            return np.zeros(len(self._space.knobs), dtype=np.int64), None
        return self._parameters.row(dict(info.config)), info

    def learn(self, row: Digits, handle: Any, cost: float) -> None:
        types = self._smac.runhistory.dataclasses
        middle = {one.name: 0 for one in self._parameters.parameters}
        config = self._kinds.Configuration(self._known, values={**middle, **self._parameters.point(row)})
        seed = handle.seed if handle is not None else 0
        value = self._finite(cost)
        if handle is not None and handle.config != config:
            # Otherwise SMAC waits for the point forever, and compares it with all others at each trial.
            crash = types.TrialValue(cost=self._finite(math.inf), status=self._states.CRASHED)
            self._facade.tell(handle, crash, save=False)
        self._facade.tell(types.TrialInfo(config, seed=seed), types.TrialValue(cost=value), save=False)


def _unused(config: Any, seed: int = 0) -> float:
    raise AssertionError("SMAC was asked for a configuration, and not to run one")


def _parameter(kinds: Any, parameter: Parameter) -> Any:
    if parameter.choices:
        return kinds.CategoricalHyperparameter(parameter.name, list(range(parameter.choices)))
    if parameter.steps:
        return kinds.UniformIntegerHyperparameter(parameter.name, 0, parameter.steps - 1)
    return kinds.UniformFloatHyperparameter(parameter.name, 0.0, 1.0)
