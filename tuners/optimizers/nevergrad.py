"""The tuner `nevergrad`: the optimizers of Nevergrad, by default NGOpt, which chooses one by the space and the trials.

Bennet et al., "Nevergrad: Black-Box Optimization Platform" (SIGEVOlution 14, 2021).
"""

from __future__ import annotations

from typing import Any

from pegbox.checks import check_int
from pegbox.errors import ArgumentError
from pegbox.tuners.optimizers.library_tuner import FiniteCosts, LibraryTuner
from pegbox.tuners.optimizers.parameters import Parameter
from pegbox.tuners.rows import Digits


class NevergradTuner(LibraryTuner):
    """An optimizer of Nevergrad.

    `optimizer` is its name in Nevergrad's registry. `budget` is the number of trials for which it plans, by which NGOpt
    chooses an algorithm. It treats conditional knobs as always existing.
    """

    package = "nevergrad"
    extra = "nevergrad"
    modules = ("nevergrad",)

    def __init__(self, space: Any, *, seed: int = 0, optimizer: str = "NGOpt", budget: int = 200) -> None:
        super().__init__(space, seed=seed, optimizer=optimizer, budget=budget)

    def begin(self, seed: int, *, optimizer: str = "NGOpt", budget: int = 200) -> None:
        import nevergrad

        registry: Any = nevergrad.optimizers.registry
        if optimizer not in registry:
            raise ArgumentError(f"nevergrad has no optimizer {optimizer!r}; see sorted(nevergrad.optimizers.registry)")
        known = {one.name: _parameter(nevergrad.p, one) for one in self._parameters.parameters}
        parametrization = nevergrad.p.Dict(**known)
        parametrization.random_state.seed(seed % 2**32)
        self._optimizer: Any = registry[optimizer](
            parametrization=parametrization, budget=check_int("budget", budget), num_workers=1
        )
        self._finite = FiniteCosts()

    def propose(self) -> tuple[Digits, Any]:
        candidate = self._optimizer.ask()
        return self._parameters.row(candidate.value), candidate

    def learn(self, row: Digits, handle: Any, cost: float) -> None:
        if handle is None:
            middle = {one.name: 0 for one in self._parameters.parameters}
            handle = self._optimizer.parametrization.spawn_child(new_value={**middle, **self._parameters.point(row)})
        self._optimizer.tell(handle, self._finite(cost))


def _parameter(kinds: Any, parameter: Parameter) -> Any:
    if parameter.choices:
        return kinds.Choice(list(range(parameter.choices)))
    if parameter.steps:
        return kinds.Scalar(lower=0, upper=parameter.steps - 1).set_integer_casting()
    return kinds.Scalar(lower=0.0, upper=1.0)
