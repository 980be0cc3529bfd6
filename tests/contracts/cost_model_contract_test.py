"""Every built-in cost model keeps the contract of cost models."""

from typing import Any, ClassVar

import numpy as np
import pytest

from pegbox.errors import ArgumentError
from pegbox.hooks import registry
from pegbox.search import CostModel, make_cost_model
from pegbox.search.testing import CostModelContract


class Registered(CostModelContract):
    spec: ClassVar[str]

    def make(self, *, seed: int = 0) -> CostModel:
        return make_cost_model(self.spec, seed=seed)


# Taken from the registry, so that no model can be left out; pytest collects classes that are called Test...
for _spec in (*registry.names("cost_model"), "xgboost:loss_type=rank"):
    _name = f"Test[{_spec}]"
    globals()[_name] = type(_name, (Registered,), {"spec": _spec, "__module__": __name__})


def test_every_built_in_cost_model_is_registered() -> None:
    assert {"xgboost", "ridge"} <= set(registry.names("cost_model"))


class Constant:
    """Learns nothing, whatever it is given."""

    def fit(self, features: Any, costs: Any) -> None:
        self.first = costs[0] if len(costs) else 0.0

    def predict(self, features: Any) -> Any:
        return np.full(len(features), self.first)


class Refusing(Constant):
    def fit(self, features: Any, costs: Any) -> None:
        raise ArgumentError("not today")


@pytest.mark.parametrize(
    ("model", "check"),
    [
        (Constant, "test_learns_the_order_of_easy_data"),
        (Constant, "test_takes_failures"),
        (Constant, "test_takes_costs_that_are_all_alike"),
        (Constant, "test_refuses_what_is_no_number"),
        (Constant, "test_refuses_to_learn_from_too_few"),
        (Refusing, "test_refuses_to_learn_from_too_few"),
    ],
)
def test_the_contract_catches_a_model_that_breaks_it(model: Any, check: str) -> None:
    class Broken(CostModelContract):
        def make(self, *, seed: int = 0) -> CostModel:
            made: CostModel = model()
            return made

    with pytest.raises(AssertionError):
        getattr(Broken(), check)()
