"""Every registered tuner keeps the contract of tuners."""

from typing import Any, ClassVar

import numpy as np
import pytest

from pegbox.hooks import registry
from pegbox.search import Tuner, make_tuner
from pegbox.search.testing import TunerContract, small_space
from pegbox.space import Config, ConfigSpace

WITH_OPTIONS = ("xgb:loss_type=rank,plan_size=16", "xgb:cost_model=ridge:degree=2")

SLOW = {"optuna_gp"}
"""Tuners that would take minutes to pass: a tenth of a second for each proposal."""

LIBRARY_BATCH = 4
"""The batch of tuners of other libraries, which take milliseconds to choose a single configuration: four rounds of it
go past their random start."""

CHEAP = {"forest": "forest:trees=10"}
"""The options with which a tuner is tested, if its defaults take long."""

MODULES: dict[str, tuple[str, ...]] = {
    name: modules
    for name in registry.names("tuner")
    if (modules := getattr(registry.resolve("tuner", name), "modules", ()))
}
"""The modules of other libraries that tuners need; a tuner whose library is not installed is skipped."""


class Registered(TunerContract):
    spec: ClassVar[str]

    def make(self, space: ConfigSpace, *, seed: int = 0) -> Tuner:
        for module in MODULES.get(self.spec, ()):
            pytest.importorskip(module)
        return make_tuner(CHEAP.get(self.spec, self.spec), space, seed=seed)


# Taken from the registry, so that no tuner can be left out; pytest collects classes that are called Test...
for _spec in (*sorted(set(registry.names("tuner")) - SLOW), *WITH_OPTIONS):
    _name = f"Test[{_spec}]"
    _own = {"spec": _spec, "__module__": __name__} | ({"batch": LIBRARY_BATCH} if MODULES.get(_spec) else {})
    globals()[_name] = type(_name, (Registered,), _own)


def test_every_built_in_tuner_is_registered() -> None:
    assert {"bayes", "random", "grid", "ga", "xgb", "evolution", "droplet"} <= set(registry.names("tuner"))


class Sloppy:
    """Breaks one promise at a time."""

    def __init__(self, space: ConfigSpace, *, seed: int = 0, fault: str) -> None:
        self.space, self.fault = space, fault
        self.rng = np.random.default_rng(None if fault == "unseeded" else seed)
        self.seen: set[Config] = set()

    def ask(self, n: int) -> list[Config]:
        rows = self.space.sample(n + 1 if self.fault == "too many" else n, self.rng)
        configs = [self.space.config(row) for row in rows.tolist()]
        if self.fault == "twice":
            return configs[:1] * 2
        fresh = [config for config in configs if config not in self.seen]
        if self.fault != "forgets":
            self.seen.update(fresh)
        return fresh

    def tell(self, configs: Any, results: Any) -> None:
        if self.fault == "brittle" and not any(result.ok for result in results):
            raise ValueError("nothing to learn from")
        if self.fault != "forgets":
            self.seen.update(configs)


@pytest.mark.parametrize(
    ("fault", "check"),
    [
        ("too many", "test_gives_no_more_than_it_is_asked_for"),
        ("twice", "test_never_proposes_a_configuration_twice"),
        ("forgets", "test_never_proposes_what_history_told"),
        ("unseeded", "test_same_seed_and_same_measurements_give_the_same_proposals"),
        ("gives up", "test_stays_inside_a_listed_space"),
        ("brittle", "test_survives_nothing_but_failures"),
        ("gives up", "test_visits_a_whole_small_space_and_then_proposes_nothing"),
    ],
)
def test_the_contract_catches_a_tuner_that_breaks_it(fault: str, check: str) -> None:
    class Broken(TunerContract):
        def make(self, space: ConfigSpace, *, seed: int = 0) -> Tuner:
            return Sloppy(space, seed=seed, fault=fault)

    with pytest.raises((AssertionError, ValueError)):
        getattr(Broken(), check)()


def test_the_small_space_has_the_size_that_it_says() -> None:
    assert small_space().num_valid() == len(list(small_space().iterate())) == 44
