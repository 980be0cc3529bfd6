"""Check the default tuner on recorded spaces: a table with pass or FAIL for each line.

    python3 benchmarks/tuners.py                               # every recorded space that comes with pegbox
    python3 benchmarks/tuners.py space.jsonl --seeds 40 --tuner bayes:batch_size=4

Nothing is compiled or measured: costs come from the records. One thread is used, so the time is that of the tuners.

- Trials to 95% of the best recorded: medians over the seeds. A run that does not get there counts as infinitely long.
- Model: the cost model of `xgb` learns from random trials and scores all other configurations of the space. The figure
  is the share of a million random pairs that the scores order as the recorded costs do. Pairs that are closer together
  than two halves of the measurements of one configuration have no known order; the second line leaves them out. For
  comparison the script prints the share of pairs on which these halves agree, and the share for the tuner's own model
  after its own trials. The latter has no verdict, because that model has seen mostly fast configurations.
- Overhead: processor time of ask and tell per trial, the median over the batches. It is measured in artificial spaces
  of 2.9 million configurations (lists) and of 10^18 (ranges), and in spaces of a product and of a convolution (knobs
  and program features).
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

# Use one thread, so that sums are equal in all processes.
if os.environ.get("OPENBLAS_NUM_THREADS") != "1":
    os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, "OPENBLAS_NUM_THREADS": "1"})

import numpy as np

import pegbox as pb
from pegbox.measure.result import Ok
from pegbox.records.library import recorded_spaces
from pegbox.records.recorded_space import RecordedSpace
from pegbox.records.simulation import SimulatedMeasurer
from pegbox.search import SearchOptions, make_tuner, run
from pegbox.search.models.inputs import tuner_over
from pegbox.search.protocols import Floats
from pegbox.search.testing import matmul_cost, matmul_space, result_of
from pegbox.space import Config, ConfigSpace

Line = tuple[str, str, str, bool]
"""The name of a figure, its value, the required value, and whether it is met."""

PAIRS = 1_000_000


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("spaces", nargs="*", help="names or files of recorded spaces (default: those of pegbox)")
    parser.add_argument("--tuner", default="bayes")
    parser.add_argument("--model", default="xgb", help="the tuner whose cost model is checked")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--proposals", type=int, metavar="SEED", help=argparse.SUPPRESS)
    options = parser.parse_args()
    names = options.spaces or list(recorded_spaces())
    if not names:
        parser.error("no recorded space comes with this pegbox; give a file (see pegbox sweep)")
    if options.proposals is not None:
        print(proposals(pb.recorded_space(names[0]), options.tuner, options.proposals, options.trials))
        return 0
    lines: list[Line] = []
    for name in names:
        space = pb.recorded_space(name)
        print(f"{space}; within 95% of the best: {space.share_within(0.95):.2%}", flush=True)
        lines += show(searching(space, options.tuner, options.seeds, options.trials))
        lines += show(accuracy(space, options.model, min(options.seeds, 5), options.trials))
        print(own_accuracy(space, options.tuner, min(options.seeds, 5), options.trials), flush=True)
    lines += show(overheads(options.tuner, options.trials))
    lines += show([simulating(pb.recorded_space(names[0]), options.tuner)])
    lines += show([reproducing(names[0], options.tuner, options.trials)])
    return 0 if all(good for *_, good in lines) else 1


def show(lines: Iterable[Line]) -> list[Line]:
    """The lines, each printed as soon as it is there."""
    shown = []
    for line in lines:
        what, value, wanted, good = line
        print(f"  {'pass' if good else 'FAIL'}  {what:52} {value:>28}   {wanted}", flush=True)
        shown.append(line)
    return shown


def searching(space: RecordedSpace, tuner: str, seeds: int, trials: int) -> Iterator[Line]:
    """Medians of the trials to 95%, against random search and the genetic algorithm."""
    goal = space.best_cost / 0.95
    found = {}
    # The other tuners need more trials, which cost them little time.
    for names, budget in (([tuner], trials), (["ga", "random"], max(trials, 1000))):
        report = pb.compare(space, names, trials=budget, seeds=seeds, start=0, progress=False)
        found |= {name: [one.trials_to(goal) for one in runs] for name, runs in report.runs_of(space.name).items()}
    middle = {name: statistics.median(lengths) for name, lengths in found.items()}
    for other, part in (("random", 1 / 3), ("ga", 1 / 2)):
        ratio = middle[tuner] / middle[other]
        figures = f"{middle[tuner]:g} / {middle[other]:g} = {ratio:.2f}"
        yield f"trials to 95%, {tuner} / {other}", figures, f"at most {part:.2f}", ratio <= part
    share = float(np.mean([length <= 100 for length in found[tuner]]))
    yield "seeds at 95% by trial 100", f"{share:.0%}", "at least 90%", share >= 0.9


def accuracy(space: RecordedSpace, model: str, seeds: int, trials: int) -> Iterator[Line]:
    """Check the cost model of a tuner that was told random trials."""
    shares = [told_at_random(space, model, seed, trials) for seed in range(seeds)]
    every, clear = (statistics.median(column) for column in zip(*shares, strict=True))
    what = f"pairs in order, unseen, {model} after {trials} random"
    first, second = halves(space)
    same = f"(halves agree on {in_order(-second, first)[0]:.3f})" if len(first) > 1 else ""
    yield what, f"{every:.3f} {same}", "at least 0.85", every >= 0.85
    yield f"  of those beyond the noise of {noise_of(space):.1%}", f"{clear:.3f}", "at least 0.85", clear >= 0.85


def own_accuracy(space: RecordedSpace, tuner: str, seeds: int, trials: int) -> str:
    """Measure how well the tuner's model orders the whole space after a search."""
    shares = [unseen_pairs(space, *searched(space, tuner, seed, trials)) for seed in range(seeds)]
    every, clear = (statistics.median(column) for column in zip(*shares, strict=True))
    return f"        pairs in order, unseen, {tuner} after {trials} of its own: {every:.3f} ({clear:.3f})"


def told_at_random(space: RecordedSpace, tuner: str, seed: int, trials: int) -> tuple[float, float]:
    learner: Any = made(tuner, space, seed)
    configs = list(space.results)
    told = [configs[place] for place in np.random.default_rng(seed).permutation(len(configs))[:trials]]
    learner.tell(told, [space.results[config] for config in told])
    learner.ask(1)  # that is when it learns
    return unseen_pairs(space, learner, told)


def searched(space: RecordedSpace, tuner: str, seed: int, trials: int) -> tuple[Any, list[Config]]:
    learner: Any = made(tuner, space, seed)
    told: list[Config] = []
    while len(told) < trials:
        asked = learner.ask(min(learner.batch_size, trials - len(told)))
        learner.tell(asked, [space.results[config] for config in asked])
        told += asked
    return learner, told


def made(tuner: str, space: RecordedSpace, seed: int) -> Any:
    return tuner_over(tuner, space, seed=seed)


def unseen_pairs(space: RecordedSpace, learner: Any, told: Sequence[Config]) -> tuple[float, float]:
    """The share of pairs in the right order: of all, and of those further apart than the noise."""
    seen = set(told)
    unseen = [config for config in space.results if config not in seen]
    costs = np.array([space.results[config].cost for config in unseen])
    return in_order(learner.score(unseen), costs, noise_of(space))


def in_order(scores: Floats, costs: Floats, noise: float = 0.0) -> tuple[float, float]:
    """Return the share of a million pairs, all and those beyond the noise, whose higher score has the lower cost."""
    one, other = np.random.default_rng(0).integers(0, len(costs), (2, PAIRS))
    apart = np.abs(np.log(costs[one] / costs[other]))
    right = np.sign(scores[one] - scores[other]) * np.sign(costs[other] - costs[one]) * 0.5 + 0.5
    return float(right[apart > 0].mean()), float(right[apart > noise].mean())


def halves(space: RecordedSpace) -> tuple[Floats, Floats]:
    """Two costs of each configuration: the medians of the first and of the second half of its measurements."""
    costs = [result.costs for result in space.results.values() if isinstance(result, Ok) and len(result.costs) > 1]
    first = np.array([statistics.median(held[: len(held) // 2]) for held in costs])
    return first, np.array([statistics.median(held[len(held) // 2 :]) for held in costs])


def noise_of(space: RecordedSpace) -> float:
    """The median difference between the two halves."""
    first, second = halves(space)
    return float(np.median(np.abs(np.log(first / second)))) if len(first) else 0.0


def overheads(tuner: str, trials: int) -> Iterator[Line]:
    artificial = matmul_space()
    yield overhead(f"{artificial.size:.1e} configurations, lists", make_tuner(tuner, artificial), trials, matmul_cost)
    ranges = ConfigSpace()
    for name in "xyz":
        ranges.define_int(name, 1, 10**6)
    yield overhead(f"{ranges.size:.1e} configurations, ranges", make_tuner(tuner, ranges), trials, bowl)
    luck = np.random.default_rng(0)
    for template, args, kwargs in (
        ("matmul", (128, 3072, 768), {}),
        ("conv2d", (1, 128, 28, 28, 128, 3, 3), {"padding": 1, "layout": "NHWC"}),
    ):
        task = pb.create_task(template, args=args, kwargs=kwargs, target="llvm -num-cores 1")
        what = f"{task.space.size:.1e} configurations, {template}"
        yield overhead(what, tuner_over(tuner, task), trials, lambda _: 1e-3 * float(luck.lognormal()))


def bowl(config: Config) -> float:
    """Compute a smooth cost of numbers from 1 to 10^6."""
    return 1e-3 * (1.0 + sum((config[name].val / 10**6 - 0.37) ** 2 for name in "xyz"))


def overhead(what: str, tuner: Any, trials: int, cost: Callable[[Config], float]) -> Line:
    """Measure the overhead of a tuner; the costs are artificial."""
    spent = []
    told = 0
    while told < trials:
        start = time.process_time()
        asked = tuner.ask(min(getattr(tuner, "batch_size", 16), trials - told))
        thinking = time.process_time() - start
        results = [result_of(cost(one)) for one in asked]
        start = time.process_time()
        tuner.tell(asked, results)
        spent += [(thinking + time.process_time() - start) / len(asked)] * len(asked)
        told += len(asked)
    middle = statistics.median(spent) * 1e3
    return f"own time a trial, {what}", f"{middle:.2f} ms", "at most 5 ms", middle <= 5.0


def simulating(space: RecordedSpace, tuner: str) -> Line:
    start = time.process_time()
    pb.compare(space, [tuner, "ga", "random"], trials=200, seeds=10, progress=False)
    spent = time.process_time() - start
    return "10 seeds x 3 tuners x 200 trials, simulated", f"{spent:.1f} s", "under 60 s", spent < 60.0


def proposals(space: RecordedSpace, tuner: str, seed: int, trials: int) -> str:
    """The configurations of a run, in order."""
    result = run(made(tuner, space, seed), SimulatedMeasurer(space), SearchOptions(trials=trials, finalists=0))
    return " ".join(str(trial.config.index) for trial in result.trials)


def reproducing(name: str, tuner: str, trials: int) -> Line:
    """Run three seeds in two processes each, with different hash seeds."""
    same = True
    for seed in range(3):
        outputs = {
            subprocess.run(
                [sys.executable, __file__, name, "--tuner", tuner, "--trials", str(trials), "--proposals", str(seed)],
                env={**os.environ, "PYTHONHASHSEED": hashes},
                check=True,
                capture_output=True,
                text=True,
            ).stdout
            for hashes in ("1", "2")
        }
        same &= len(outputs) == 1
    return f"3 seeds x {trials} trials in two processes", "the same" if same else "different", "the same", same


if __name__ == "__main__":
    raise SystemExit(main())
