"""Tuners over the optimizers of other libraries; their contract is tested in tests/contracts."""

import sys
from importlib import metadata

import pytest

from pegbox.errors import ArgumentError, PluginError
from pegbox.hooks import registry
from pegbox.search import Tuner, make_tuner
from pegbox.search.testing import matmul_cost, matmul_space, result_of
from pegbox.space import ConfigSpace
from pegbox.tuners.optimizers.library_tuner import FiniteCosts, LibraryTuner

OTHERS = ("optuna_tpe", "optuna_gp", "optuna_cmaes", "optuna_nsga2", "nevergrad", "forest", "smac", "kernel_tuner")


def made(name: str, space: ConfigSpace) -> Tuner:
    kind = registry.resolve("tuner", name)
    for module in kind.modules:
        pytest.importorskip(module)
    return make_tuner(name, space, seed=1)


def bowl() -> ConfigSpace:
    space = ConfigSpace()
    space.define_knob("a", list(range(12)))
    space.define_knob("b", list(range(12)))
    space.define_knob("kind", ["slow", "fast", "odd"])
    return space


def bowl_cost(config: object) -> float:
    a, b, kind = (config[name].val for name in ("a", "b", "kind"))  # type: ignore[index]
    return 1e-3 * (1 + (a - 8) ** 2 + (b - 3) ** 2 + {"slow": 30, "fast": 0, "odd": 60}[kind])


@pytest.mark.parametrize("name", OTHERS)
def test_it_learns_where_the_costs_are_low(name: str) -> None:
    tuner = made(name, bowl())
    costs = []
    for _ in range(60):
        (config,) = tuner.ask(1)
        costs.append(bowl_cost(config))
        tuner.tell([config], [result_of(costs[-1])])
    assert sorted(costs[30:])[12] < sorted(costs[:10])[5]


def test_smac_does_not_wait_for_points_that_were_not_measured() -> None:
    tuner = made("smac", matmul_space())  # its constraints make others of most points
    for _ in range(20):
        (config,) = tuner.ask(1)
        tuner.tell([config], [result_of(matmul_cost(config))])
    known = tuner._facade.runhistory
    assert not known.get_running_trials()
    assert sum(value.status == tuner._states.SUCCESS for value in known.values()) == 20
    assert len(known) > 20


@pytest.mark.parametrize("name", OTHERS)
def test_the_library_and_its_version_are_named(name: str) -> None:
    tuner = made(name, bowl())
    assert isinstance(tuner, LibraryTuner)
    assert tuner.library == f"{tuner.package} {metadata.version(tuner.package)}"


@pytest.mark.parametrize("name", OTHERS)
def test_what_others_measured_is_learned_from(name: str) -> None:
    space = matmul_space()
    tuner = made(name, space)
    known = [space.get(index) for index in range(0, space.size, space.size // 12)]
    tuner.tell(known, [result_of(matmul_cost(config)) for config in known])
    assert not set(known) & set(tuner.ask(3))


@pytest.mark.parametrize("name", OTHERS)
def test_a_library_that_is_missing_is_named_with_the_command(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kind = registry.resolve("tuner", name)
    monkeypatch.setitem(sys.modules, kind.modules[0], None)
    with pytest.raises(PluginError, match=rf"needs the package {kind.package}.*pip install 'pegbox\[{kind.extra}\]'"):
        make_tuner(name, bowl())


def test_an_optimizer_that_nevergrad_does_not_have_is_refused() -> None:
    pytest.importorskip("nevergrad")
    with pytest.raises(ArgumentError, match="no optimizer 'NoSuch'"):
        make_tuner("nevergrad:optimizer=NoSuch", bowl())


def test_a_strategy_that_kernel_tuner_does_not_have_is_refused() -> None:
    pytest.importorskip("kernel_tuner")
    with pytest.raises(ArgumentError, match=r"strategy.*genetic_algoritm.*genetic_algorithm"):
        make_tuner("kernel_tuner:strategy=genetic_algoritm", bowl())


@pytest.mark.parametrize("strategy", ["dual_annealing", "diff_evo", "simulated_annealing", "mls"])
def test_other_strategies_of_kernel_tuner_propose_new_configurations(strategy: str) -> None:
    pytest.importorskip("kernel_tuner")
    tuner = make_tuner(f"kernel_tuner:strategy={strategy}", bowl(), seed=1)
    asked = []
    for _ in range(30):
        (config,) = tuner.ask(1)
        asked.append(config)
        tuner.tell([config], [result_of(bowl_cost(config))])
    assert len(set(asked)) == 30
    assert tuner._strategy.error is None
    assert len(tuner._asked) > 5


def test_failures_count_as_the_worst_that_ran() -> None:
    finite = FiniteCosts()
    assert [finite(cost) for cost in (float("inf"), 2.0, 1.0, float("inf"))] == [1.0, 2.0, 1.0, 2.0]
