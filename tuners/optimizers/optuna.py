"""The tuners `optuna_tpe`, `optuna_gp`, `optuna_cmaes` and `optuna_nsga2`: samplers of Optuna with their defaults.

Akiba et al., "Optuna: A Next-generation Hyperparameter Optimization Framework" (KDD 2019). Bergstra et al., "Algorithms
for Hyper-Parameter Optimization" (NeurIPS 2011): TPE; Hansen and Ostermeier, "Completely Derandomized
Self-Adaptation in Evolution Strategies" (2001): CMA-ES; Deb et al., "A Fast and Elitist Multiobjective Genetic
Algorithm: NSGA-II" (2002).
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from pegbox.tuners.optimizers.library_tuner import FiniteCosts, LibraryTuner
from pegbox.tuners.optimizers.parameters import Parameter
from pegbox.tuners.rows import Digits


class OptunaTuner(LibraryTuner):
    """The base of the tuners of Optuna's samplers.

    A conditional knob is a parameter only if it exists.
    """

    package = "optuna"
    extra = "optuna"
    modules: ClassVar[tuple[str, ...]] = ("optuna",)
    sampler: ClassVar[str]
    options: ClassVar[dict[str, Any]] = {}

    learns_repaired: ClassVar[bool] = True
    """True if the sampler learns the cost for the measured configuration.

    Otherwise it learns the cost for the point that it drew, which the update of an evolution strategy needs.
    """

    def begin(self, seed: int) -> None:
        import optuna

        self._optuna: Any = optuna
        self._optuna.logging.set_verbosity(self._optuna.logging.ERROR)
        sampler = getattr(self._optuna.samplers, self.sampler)(seed=seed % 2**32, **self.options)
        self._study: Any = self._optuna.create_study(sampler=sampler)
        self._finite = FiniteCosts()

    def propose(self) -> tuple[Digits, Any]:
        trial = self._study.ask()
        digits: list[int] = []
        for place, knob in enumerate(self._parameters.knobs):
            if self._parameters.exists(place, digits):
                digits.append(knob.digit({one.name: _suggested(trial, one) for one in knob.parameters}))
            else:
                digits.append(-1)
        row: Digits = np.maximum(np.array(digits, dtype=np.int64), 0)
        return row, (trial, row)

    def learn(self, row: Digits, handle: Any, cost: float) -> None:
        trial, proposed = handle or (None, row)
        value = self._finite(cost)
        if trial is not None and (not self.learns_repaired or (row == proposed).all()):
            self._study.tell(trial, value)
            return
        if trial is not None:
            self._study.tell(trial, state=self._optuna.trial.TrialState.FAIL)
        point = self._parameters.point(row)
        known = {one.name: _distribution(self._optuna, one) for one in self._parameters.parameters}
        distributions = {name: known[name] for name in point}
        self._study.add_trial(self._optuna.trial.create_trial(params=point, distributions=distributions, value=value))


def _distribution(optuna: Any, parameter: Parameter) -> Any:
    kinds = optuna.distributions
    if parameter.choices:
        return kinds.CategoricalDistribution(tuple(range(parameter.choices)))
    return kinds.IntDistribution(0, parameter.steps - 1) if parameter.steps else kinds.FloatDistribution(0.0, 1.0)


def _suggested(trial: Any, parameter: Parameter) -> float | int:
    """Let the trial suggest a value of the parameter."""
    if parameter.choices:
        value: float | int = trial.suggest_categorical(parameter.name, tuple(range(parameter.choices)))
        return value
    if parameter.steps:
        value = trial.suggest_int(parameter.name, 0, parameter.steps - 1)
        return value
    value = trial.suggest_float(parameter.name, 0.0, 1.0)
    return value


class OptunaTPETuner(OptunaTuner):
    """The tree-structured Parzen estimator, Optuna's default."""

    sampler = "TPESampler"


class OptunaGPTuner(OptunaTuner):
    """A Gaussian process with logarithmic expected improvement; it needs PyTorch."""

    sampler = "GPSampler"
    extra = "optuna-gp"
    modules = ("optuna", "torch")


class OptunaCMAESTuner(OptunaTuner):
    """CMA-ES; categories and conditional knobs are random."""

    sampler = "CmaEsSampler"
    modules = ("optuna", "cmaes")
    options: ClassVar[dict[str, Any]] = {"warn_independent_sampling": False}
    learns_repaired = False


class OptunaNSGA2Tuner(OptunaTuner):
    """The genetic algorithm NSGA-II, which is elitist with one objective."""

    sampler = "NSGAIISampler"
    learns_repaired = False
