"""Make `space_T4.json` and `report.json`: a space, runs on it, and the evaluation of autotuning_methodology 1.1.0.

    python3 -m venv venv && venv/bin/python -m pip install autotuning_methodology==1.1.0 kernel_tuner==1.5.0
    venv/bin/python make.py

The space and both searches are synthetic, made by this script from one seed. The package evaluates the runs; its
baseline, cutoff, curves with prediction intervals and scores are written down as they are.
"""

from __future__ import annotations

import itertools
import json
import math
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from autotuning_methodology.baseline import RandomSearchCalculatedBaseline
from autotuning_methodology.caching import ResultsDescription
from autotuning_methodology.curves import StochasticOptimizationAlgorithm
from autotuning_methodology.searchspace_statistics import SearchspaceStatistics

HERE = Path(__file__).parent
SIZES = (8, 6, 8)
TRIALS, REPEATS = 80, 30
TIMES, PERFORMANCES = ["compilation", "runtimes"], ["time"]


def main() -> None:
    rng = np.random.default_rng(28)
    configs = list(itertools.product(*map(range, SIZES)))
    costs = {config: cost_of(config, rng) for config in configs}
    seconds = {config: round(0.5 + float(rng.random()), 3) for config in configs}
    file = HERE / "space_T4.json"
    file.write_text(json.dumps(document(costs, seconds), indent=None, separators=(",", ":")) + "\n")
    stats = SearchspaceStatistics("synthetic", "none", True, TIMES, PERFORMANCES, file, full_validate=False)
    _, end, time_start, time_end = stats.cutoff_point_fevals_time_start_end(0.01, 0.95)
    baseline = RandomSearchCalculatedBaseline(stats)
    times = np.linspace(time_start, time_end, 1000)
    report: dict[str, Any] = {
        "made": "autotuning_methodology 1.1.0 of Willemsen et al., on runs of make.py",
        "cutoff_trials": int(end),
        "seconds": [float(time_start), float(time_end)],
        "optimum": float(stats.total_performance_absolute_optimum()),
        "median": float(stats.total_performance_median()),
        "baseline": [float(cost) for cost in baseline.get_curve_over_fevals(np.arange(1, int(end) + 1))],
        "strategies": {},
    }
    for name, search in (("random", random_search), ("climber", climber)):
        runs = [search(costs, np.random.default_rng([28, seed])) for seed in range(REPEATS)]
        report["strategies"][name] = evaluated(name, runs, costs, seconds, stats, baseline, times)
    (HERE / "report.json").write_text(json.dumps(report) + "\n")


def cost_of(config: tuple[int, ...], rng: np.random.Generator) -> float:
    """Compute a cost in milliseconds: a bowl with an interaction, and noise."""
    a, b, c = config
    smooth = 1.0 + 0.08 * (a - 5) ** 2 + 0.15 * (b - 2) ** 2 + 0.1 * ((a + c) % 4)
    return round(float(smooth * rng.lognormal(0.0, 0.03)), 6)


def document(costs: dict[tuple[int, ...], float], seconds: dict[tuple[int, ...], float]) -> dict[str, Any]:
    results = [
        {
            "configuration": dict(zip("abc", config, strict=True)),
            "times": {"compilation": seconds[config], "runtimes": [cost / 1e3]},
            "invalidity": "correct",
            "correctness": 1,
            "measurements": [{"name": "time", "value": cost, "unit": "ms"}],
            "objectives": ["time"],
        }
        for config, cost in costs.items()
    ]
    return {"schema_version": "1.0.0", "metadata": {"timeunit": "seconds"}, "results": results}


def random_search(costs: dict[tuple[int, ...], float], rng: np.random.Generator) -> list[tuple[int, ...]]:
    configs = list(costs)
    return [configs[place] for place in rng.permutation(len(configs))[:TRIALS]]


def climber(costs: dict[tuple[int, ...], float], rng: np.random.Generator) -> list[tuple[int, ...]]:
    """Change one value of the best configuration at a time; where all its neighbours are known, draw any."""
    configs = list(costs)
    done = [configs[place] for place in rng.permutation(len(configs))[:5]]
    while len(done) < TRIALS:
        best = min(done, key=costs.__getitem__)
        near = [config for config in configs if sum(x != y for x, y in zip(config, best, strict=True)) == 1]
        fresh = [config for config in near if config not in done] or [one for one in configs if one not in done]
        done.append(fresh[int(rng.integers(len(fresh)))])
    return done


def evaluated(name: str, runs: Any, costs: Any, seconds: Any, stats: Any, baseline: Any, times: Any) -> dict[str, Any]:
    performances = np.array([[costs[config] for config in run] for run in runs]).T
    spent = np.array([[seconds[config] + costs[config] / 1e3 for config in run] for run in runs]).T
    compiling = np.array([[seconds[config] for config in run] for run in runs]).T
    best, until = np.minimum.accumulate(performances, axis=0), np.cumsum(spent, axis=0)
    with tempfile.TemporaryDirectory() as folder:
        described = ResultsDescription(
            Path(folder), "synthetic", "none", name, name, True, TIMES, PERFORMANCES, minimization=True
        )
        described.set_results(
            {
                "fevals_results": np.repeat(np.arange(1, TRIALS + 1)[:, None], len(runs), axis=1),
                "objective_time_results": until,
                "objective_performance_results": performances,
                "objective_performance_best_results": best,
                "objective_performance_stds": np.zeros_like(best),
                "objective_time_results_per_key": np.stack([compiling, spent - compiling]),
                "objective_performance_results_per_key": performances[None],
            }
        )
        curve = StochasticOptimizationAlgorithm(described)
        _, _, middle, low, high = curve.get_curve_over_time(
            times, dist=stats.objective_performances_total_sorted, confidence_level=0.95, return_split=False
        )
    standard = baseline.get_standardised_curves(times, [middle, low, high], x_type="time")
    score, worst, best_score = (float(np.mean(values)) for values in standard)
    assert math.isfinite(score)
    return {
        "score": score,
        "interval": sorted([worst, best_score]),
        "curve": [float(value) for value in standard[0][::50]],
        "runs": [
            {"curve": best[:, place].tolist(), "times": np.round(until[:, place], 6).tolist()}
            for place in range(len(runs))
        ],
    }


if __name__ == "__main__":
    main()
