"""The scores of Willemsen et al.'s own package on the same records, within its prediction intervals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pegbox as pb
from pegbox.comparison.aggregate.performance import cutoff_trials, performance, performance_in_time
from pegbox.comparison.landscape import Landscape, recorded_landscape
from pegbox.comparison.runs import Run

HERE = Path(__file__).parent / "willemsen"
REPORT: dict[str, Any] = json.loads((HERE / "report.json").read_text())
TRIALS = 80


@pytest.fixture(scope="module")
def landscape() -> Landscape:
    return recorded_landscape(pb.recorded_space(HERE / "space_T4.json"), 200)


def runs_of(name: str) -> list[Run]:
    """The runs of the file, whose costs are milliseconds."""
    return [
        Run(
            task="synthetic",
            tuner=name,
            seed=seed,
            curve=tuple(cost / 1e3 for cost in run["curve"]),
            final_cost=run["curve"][-1] / 1e3,
            times=tuple(run["times"]),
        )
        for seed, run in enumerate(REPORT["strategies"][name]["runs"])
    ]


def test_optimum_median_and_cutoff_are_the_same(landscape: Landscape) -> None:
    assert landscape.optimum == pytest.approx(REPORT["optimum"] / 1e3)
    assert landscape.median == pytest.approx(REPORT["median"] / 1e3)
    # Theirs is the cost at the expected rank, ours the expected cost, which is higher: a long tail of costs counts.
    assert cutoff_trials(landscape, 200) == pytest.approx(REPORT["cutoff_trials"], rel=0.35)


def test_the_baseline_is_theirs_up_to_the_difference_of_mean_and_rank(landscape: Landscape) -> None:
    theirs = np.array(REPORT["baseline"])[: len(landscape.random)] / 1e3
    ours = np.array(landscape.random[: len(theirs)])
    way = landscape.median - landscape.optimum
    assert np.all(np.abs(ours - theirs)[2:] < 0.06 * way)


@pytest.mark.parametrize("name", ["random", "climber"])
def test_scores_are_within_their_interval(landscape: Landscape, name: str) -> None:
    low, high = REPORT["strategies"][name]["interval"]
    in_time = float(performance_in_time(runs_of(name), landscape, TRIALS).mean())
    in_trials = float(performance(runs_of(name), landscape, TRIALS).mean())
    assert low <= in_time <= high
    assert low <= in_trials <= high


def test_the_order_of_the_searches_is_theirs(landscape: Landscape) -> None:
    scores = {name: performance_in_time(runs_of(name), landscape, TRIALS).mean() for name in ("random", "climber")}
    theirs = {name: REPORT["strategies"][name]["score"] for name in scores}
    assert sorted(scores, key=scores.__getitem__) == sorted(theirs, key=theirs.__getitem__)
