"""Compare pegbox's tuners with Optuna's TPE on functions of numbers, all in one run; see docs/minimize.md.

Optuna is not a dependency: install it in a virtual environment with pegbox, or beside it:

pip install optuna                                             # or: pip install --target DIR optuna
python3 benchmarks/functions.py                                # PYTHONPATH=DIR; an hour on two cores
python3 benchmarks/functions.py branin --tuners bayes --seeds 3 --trials 50

For each function and number of trials: the median over the seeds of the gap to the least value; for each tuner the gap
as a ratio to TPE's, and the share of pairs of runs in which its gap is the smaller one (a half: as good as TPE).
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import pegbox as pb

RIVAL = "optuna tpe"
Values = dict[str, Any]


@dataclass(frozen=True)
class Knob:
    """A number from `low` to `high`, or one of `choices`."""

    low: float = 0.0
    high: float = 1.0
    log: bool = False
    choices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Function:
    """A function of named values with its least value, and the standard deviation of its relative noise."""

    knobs: dict[str, Knob]
    value: Callable[[Values], float]
    least: float
    noise: float = 0.0

    def space(self) -> pb.ConfigSpace:
        space = pb.ConfigSpace()
        for name, knob in self.knobs.items():
            if knob.choices:
                space.define_knob(name, knob.choices)
            elif isinstance(knob.low, int):
                space.define_int(name, knob.low, int(knob.high), log=knob.log)
            else:
                space.define_float(name, knob.low, knob.high, log=knob.log)
        return space

    def cost(self, values: Values, rng: np.random.Generator) -> float:
        """The value as a cost, which is above 0: 1 plus the gap, with noise."""
        return (1.0 + self.value(values) - self.least) * math.exp(self.noise * rng.standard_normal())


def vector(values: Values) -> np.ndarray:
    return np.array([value for name, value in values.items() if name.startswith("x")])


def box(n: int, low: float, high: float) -> dict[str, Knob]:
    return {f"x{i}": Knob(low, high) for i in range(n)}


def sphere(v: Values) -> float:
    x = vector(v)
    return float((np.arange(1, len(x) + 1) * (x - 1.234) ** 2).sum())


def rosenbrock(v: Values) -> float:
    x = vector(v)
    return float((100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2).sum())


def branin(v: Values) -> float:
    x, y = vector(v)
    return float(
        (y - 5.1 / (4 * math.pi**2) * x**2 + 5 / math.pi * x - 6) ** 2 + 10 * (1 - 1 / (8 * math.pi)) * math.cos(x) + 10
    )


HARTMANN_A = np.array(
    [[10, 3, 17, 3.5, 1.7, 8], [0.05, 10, 17, 0.1, 8, 14], [3, 3.5, 1.7, 10, 17, 8], [17, 8, 0.05, 10, 0.1, 14]]
)
HARTMANN_P = 1e-4 * np.array(
    [
        [1312, 1696, 5569, 124, 8283, 5886],
        [2329, 4135, 8307, 3736, 1004, 9991],
        [2348, 1451, 3522, 2883, 3047, 6650],
        [4047, 8828, 8732, 5743, 1091, 381],
    ]
)


def hartmann(v: Values) -> float:
    apart = (HARTMANN_A * (vector(v) - HARTMANN_P) ** 2).sum(axis=1)
    return -float(np.array([1.0, 1.2, 3.0, 3.2]) @ np.exp(-apart))


def ackley(v: Values) -> float:
    x = vector(v) - 0.777
    waves = math.exp(float(np.cos(2 * math.pi * x).mean()))
    return -20.0 * math.exp(-0.2 * math.sqrt(float((x * x).mean()))) - waves + 20.0 + math.e


def learning_rate(v: Values) -> float:
    """A loss of a network: a valley of rate and decay, too slow on one side, divergent on the other."""
    rate, decay, momentum = math.log10(v["rate"]), math.log10(v["decay"]), v["momentum"]
    best = -2.3 + 2.0 * (momentum - 0.9)
    step = rate - best
    loss = 0.3 * step**2 if step < 0 else 2.0 * step**2
    return loss + 0.1 * (decay + 4.2) ** 2 + 3.0 * (momentum - 0.87) ** 2


def settings(v: Values) -> float:
    """A mixed one, as of a compiler or a database: a choice changes where the numbers are best."""
    best = {"none": (2.0, 0.2), "lz4": (5.0, 0.5), "zstd": (8.0, 0.7), "gzip": (3.0, 0.9)}[v["codec"]]
    base = {"none": 1.5, "lz4": 0.4, "zstd": 0.0, "gzip": 0.9}[v["codec"]]
    buffers = math.log2(v["buffers"]) - 12.3
    return (
        base
        + 0.1 * (v["level"] - best[0]) ** 2
        + 4.0 * (v["share"] - best[1]) ** 2
        + 0.05 * buffers**2
        + (0.3 if v["sync"] == "on" else 0.0)
        + 0.02 * abs(v["threads"] - 23)
    )


SETTINGS = {
    "codec": Knob(choices=("none", "lz4", "zstd", "gzip")),
    "sync": Knob(choices=("on", "off")),
    "level": Knob(1, 12),
    "threads": Knob(1, 64),
    "buffers": Knob(16, 1 << 20, log=True),
    "share": Knob(0.0, 1.0),
}
NETWORK = {"rate": Knob(1e-6, 1.0, log=True), "decay": Knob(1e-8, 1e-1, log=True), "momentum": Knob(0.5, 0.999)}
BRANIN = {"x0": Knob(-5.0, 10.0), "x1": Knob(0.0, 15.0)}

FUNCTIONS = {
    "sphere-2": Function(box(2, -5.0, 5.0), sphere, 0.0),
    "sphere-10": Function(box(10, -5.0, 5.0), sphere, 0.0),
    "rosenbrock-2": Function(box(2, -2.048, 2.048), rosenbrock, 0.0),
    "rosenbrock-5": Function(box(5, -2.048, 2.048), rosenbrock, 0.0),
    "branin": Function(BRANIN, branin, 0.39788735772973816),
    "hartmann-6": Function(box(6, 0.0, 1.0), hartmann, -3.32236801141551),
    "ackley-5": Function(box(5, -10.0, 15.0), ackley, 0.0),
    "learning-rate": Function(NETWORK, learning_rate, 0.0),
    "settings": Function(SETTINGS, settings, 0.0),
    "branin-noisy": Function(BRANIN, branin, 0.39788735772973816, noise=0.05),
    "settings-noisy": Function(SETTINGS, settings, 0.0, noise=0.05),
}


def true_gaps(function: Function, costs: list[float], proposed: list[Values]) -> list[float]:
    """The gap of the best measured one so far, without the noise, after each trial."""
    gaps, best = [], math.inf
    for cost, values in zip(costs, proposed, strict=True):
        if cost < best:
            best, gap = cost, max(0.0, function.value(values) - function.least)
        gaps.append(gap)
    return gaps


def of_pegbox(function: Function, tuner: str, seed: int, trials: int) -> list[float]:
    rng, proposed, costs = np.random.default_rng(seed), [], []

    def cost(config: pb.Config) -> float:
        proposed.append({name: config[name].val for name in function.knobs})
        costs.append(function.cost(proposed[-1], rng))
        return costs[-1]

    pb.minimize(cost, function.space(), tuner=tuner, trials=trials, seed=seed, progress=False)
    return true_gaps(function, costs, proposed)


def of_optuna(function: Function, seed: int, trials: int) -> list[float]:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    rng, proposed, costs = np.random.default_rng(seed), [], []

    def cost(trial: Any) -> float:
        values: Values = {}
        for name, knob in function.knobs.items():
            if knob.choices:
                values[name] = trial.suggest_categorical(name, knob.choices)
            elif isinstance(knob.low, int):
                values[name] = trial.suggest_int(name, knob.low, int(knob.high), log=knob.log)
            else:
                values[name] = trial.suggest_float(name, knob.low, knob.high, log=knob.log)
        proposed.append(values)
        costs.append(function.cost(values, rng))
        return costs[-1]

    optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed)).optimize(cost, n_trials=trials)
    return true_gaps(function, costs, proposed)


def run(name: str, tuner: str, trials: int, seed: int) -> tuple[list[float], float]:
    """The gaps after each trial, and the seconds of the run."""
    began = time.perf_counter()
    function = FUNCTIONS[name]
    gaps = of_optuna(function, seed, trials) if tuner == RIVAL else of_pegbox(function, tuner, seed, trials)
    gaps += gaps[-1:] * (trials - len(gaps))
    return gaps, time.perf_counter() - began


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("functions", nargs="*", default=list(FUNCTIONS), help=", ".join(FUNCTIONS))
    parser.add_argument("--tuners", default="bayes,xgb,evolution,ga,droplet,grid,random")
    parser.add_argument("--trials", default="50,100,200", help="numbers of trials at which runs are compared")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time")
    options = parser.parse_args()
    tuners = [RIVAL, *options.tuners.split(",")]
    stops = [int(stop) for stop in options.trials.split(",")]
    ratios: dict[str, list[float]] = {tuner: [] for tuner in tuners}
    wins: dict[str, list[float]] = {tuner: [] for tuner in tuners}
    seconds: dict[str, list[float]] = {tuner: [] for tuner in tuners}
    width = max(map(len, tuners)) + 2
    print("median gap to the least value (ratio to TPE's)")
    print(f"{'function':<16}{'trials':>7}" + "".join(f"{tuner:>{max(width, 17)}}" for tuner in tuners))
    with ProcessPoolExecutor(options.jobs) as pool:
        for name in options.functions:
            # By seeds, so that what else the machine does meets all tuners alike.
            made = [(seed, tuner) for seed in range(options.seeds) for tuner in tuners]
            found = list(pool.map(partial(run_pair, name, max(stops)), made))
            gaps = {
                tuner: np.array([g for (_, t), (g, _) in zip(made, found, strict=True) if t == tuner])
                for tuner in tuners
            }
            for (_, tuner), (_, spent) in zip(made, found, strict=True):
                seconds[tuner].append(spent)
            for stop in stops:
                line = f"{name:<16}{stop:>7}"
                rival = gaps[RIVAL][:, stop - 1]
                for tuner in tuners:
                    own = gaps[tuner][:, stop - 1]
                    ratio = (np.median(own) + 1e-9) / (np.median(rival) + 1e-9)
                    ratios[tuner].append(float(ratio))
                    wins[tuner].append(float((own[:, None] < rival).mean() + 0.5 * (own[:, None] == rival).mean()))
                    line += f"{f'{np.median(own):.2e} ({ratio:.2f})':>{max(width, 17)}}"
                print(line, flush=True)
    print(f"\n{'tuner':<{width}}{'ratio to TPE':>14}{'worst':>8}{'smaller gap':>13}{'s a run':>9}")
    for tuner in tuners:
        print(
            f"{tuner:<{width}}{math.exp(float(np.mean(np.log(ratios[tuner])))):>14.2f}{max(ratios[tuner]):>8.2f}"
            f"{np.mean(wins[tuner]):>13.0%}{np.median(seconds[tuner]):>9.1f}"
        )
    return 0


def run_pair(name: str, trials: int, made: tuple[int, str]) -> tuple[list[float], float]:
    seed, tuner = made
    return run(name, tuner, trials, seed)


if __name__ == "__main__":
    raise SystemExit(main())
