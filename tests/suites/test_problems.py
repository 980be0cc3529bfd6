"""The functions of the shipped suites: the same cost each time, and the optimum that the suite declares."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pegbox.comparison.landscape import objective_landscape, recorded_landscape
from pegbox.records.recorded_space import RecordedSpace
from pegbox.search.objective import Objective, ObjectiveMeasurer
from pegbox.suites import Problem, load_suite

FUNCTIONS = [
    problem for name in ("hard", "knobs") for problem in load_suite(name) if isinstance(problem.task, Objective)
]


@pytest.mark.parametrize("problem", FUNCTIONS, ids=lambda problem: problem.name)
def test_costs_are_the_same_each_time_and_not_below_the_optimum(problem: Problem) -> None:
    again = next(p for name in ("hard", "knobs") for p in load_suite(name) if p.name == problem.name)
    rows = problem.task.space.sample(40, np.random.default_rng(3))
    costs = []
    for task in (problem.task, again.task):
        assert isinstance(task, Objective)
        configs = [task.space.config(tuple(row)) for row in rows.tolist()]
        costs.append([result.cost for _, result in ObjectiveMeasurer(task).measure(configs)])
    assert costs[0] == costs[1]
    assert min(costs[0]) >= (problem.optimum or 0.0) * (1 - 1e-9)
    assert math.isfinite(min(costs[0]))


@pytest.mark.parametrize(
    ("name", "best"),
    [
        ("rare-optimum", {"x0": 1, "x1": 6, "x2": 0, "x3": 7, "x4": 3}),
        ("deceptive", {f"x{place}": 1 for place in range(12)}),
        ("valley", {"x0": 16, "x1": 16, "x2": 16}),
        ("plateaus", {f"x{place}": value for place, value in enumerate((3, 0, 2, 1, 3, 2, 0, 1))}),
        ("algorithms", {"algorithm": "transformed", **{f"transformed{p}": (p * 2 + 1) % 5 for p in range(5)}}),
        ("large", {f"x{place}": (3 * place + 2) % 10 for place in range(18)}),
    ],
)
def test_declared_optima_are_reached(name: str, best: dict[str, object]) -> None:
    problem = next(problem for problem in FUNCTIONS if problem.name == name)
    assert isinstance(problem.task, Objective)
    space = problem.task.space
    config = space.from_json({"entity": [[knob, "ot", best[knob]] for knob in space.knobs if knob in best]})
    assert problem.task.function(config) == problem.optimum == 1.0


@pytest.mark.parametrize("name", ["deceptive", "compressor", "sort", "page-cache"])
def test_declared_optima_of_small_spaces_are_the_lowest_costs(name: str) -> None:
    problem = next(problem for problem in FUNCTIONS if problem.name == name)
    assert isinstance(problem.task, Objective)
    landscape = objective_landscape(problem.task, 1, None)
    assert not landscape.sampled
    assert landscape.optimum == pytest.approx(problem.optimum, rel=1e-9)


def test_random_search_needs_more_than_300_trials_in_the_hard_suite() -> None:
    for problem in load_suite("hard"):
        if isinstance(problem.task, RecordedSpace):
            landscape = recorded_landscape(problem.task, 1)
        else:
            assert isinstance(problem.task, Objective)
            landscape = objective_landscape(problem.task, 1, problem.optimum)
        assert landscape.random_trials > 300, problem.name
