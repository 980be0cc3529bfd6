"""The cost of larger batches: trials to 95% of the best on recorded spaces, by the number asked for at a time.

    python3 benchmarks/batch_sizes.py                                  # two recorded spaces, some minutes
    python3 benchmarks/batch_sizes.py matmul-512x512x512 --tuners xgb:plan_size=64 --sizes 64

A cluster asks the tuner for as many configurations as it has machines. The later ones of a batch are chosen without the
results of the first. Nothing is compiled or run: costs come from the records.

"to 95%" is the median over the seeds with its bootstrap interval; "rounds" is the median number of times that the tuner
was asked until then, which is what counts where a round takes the same time for any number of configurations; "of best"
is the median speed after half of the trials, as a share of the best recorded.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any

if os.environ.get("OPENBLAS_NUM_THREADS") != "1":
    os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, "OPENBLAS_NUM_THREADS": "1"})

import pegbox as pb
from pegbox.comparison.statistics import median, median_interval
from pegbox.plugins.cli.compare import split_tuners
from pegbox.records.recorded_space import RecordedSpace
from pegbox.records.simulation import SimulatedMeasurer
from pegbox.search import Callback, SearchOptions, SearchState, Trial, run
from pegbox.search.models.inputs import tuner_over

SPACES = ("conv2d-512x7x7-nchw", "matmul-999x999x37")
TUNERS = "bayes,xgb,ga"
SIZES = (8, 16, 32, 64, 128, 256)
GOAL = 0.95


class Rounds(Callback):
    """The number of trials after each batch."""

    def __init__(self) -> None:
        self.ends: list[int] = []

    def on_batch(self, trials: Sequence[Trial], state: SearchState) -> None:
        self.ends.append(len(state.trials))


def search(space: RecordedSpace, tuner: str, seed: int, size: int, trials: int) -> tuple[float, float, float]:
    """Trials and rounds to the goal, infinite where it is not reached, and the best cost after half of the trials."""
    made: Any = tuner_over(tuner, space, seed=seed)
    rounds = Rounds()
    found = run(
        made, SimulatedMeasurer(space), SearchOptions(trials=trials, batch_size=size, callbacks=[rounds], finalists=0)
    ).trials
    goal = space.best_cost / GOAL
    reached = next((trial.number + 1 for trial in found if trial.cost <= goal), math.inf)
    asked = next((place for place, end in enumerate(rounds.ends, start=1) if end >= reached), math.inf)
    return reached, asked, min(trial.cost for trial in found[: trials // 2])


def rows(space: RecordedSpace, options: argparse.Namespace) -> Iterator[str]:
    """The lines of a table in Markdown, one for each tuner and size."""
    yield f"| tuner | asked for | to {GOAL:.0%} | rounds | of best |"
    yield "| --- | --- | --- | --- | --- |"
    for tuner in split_tuners([options.tuners]):
        for size in map(int, options.sizes.split(",")):
            found = [search(space, tuner, seed, size, options.trials) for seed in range(options.seeds)]
            reached, rounds, best = (list(column) for column in zip(*found, strict=True))
            low, high = median_interval(reached)
            shown = f"{_count(median(reached), options.trials)} [{_count(low, options.trials)}, "
            shown += f"{_count(high, options.trials)}]"
            yield (
                f"| {tuner} | {size} | {shown} | {_count(median(rounds), 0) if median(rounds) < math.inf else '-'} | "
                f"{space.best_cost / median(best):.1%} |"
            )


def _count(value: float, most: int) -> str:
    return f"{value:g}" if value < math.inf else f">{most}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("spaces", nargs="*", default=SPACES, help="names or files of recorded spaces")
    parser.add_argument("--tuners", default=TUNERS)
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)))
    parser.add_argument("--trials", type=int, default=256)
    parser.add_argument("--seeds", type=int, default=9)
    options = parser.parse_args()
    for name in options.spaces:
        space = pb.recorded_space(name)
        print(f"{space}; medians of {options.seeds} seeds\n")
        for row in rows(space, options):
            print(row, flush=True)
        print()


if __name__ == "__main__":
    main()
