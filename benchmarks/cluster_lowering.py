"""The gain of lowering candidates where they are compiled: searches on a real cluster of several workers.

Run: python benchmarks/cluster_lowering.py [--machines 1 2 4] [--trials 96] [--rounds 3] [--size 256]

A scheduler and workers are processes of this machine. The same random configurations of a matmul, whose runs are short,
are measured with lowering in this process and with lowering by the builders, in turns. The table gives the trials a
second, the processor time that this process spends on a trial, and the limit that it sets: the trials a second of a
cluster with machines and builders enough. All processes share the cores of this machine, so the trials a second are not
those of a cluster; the processor time of this process is. Figures are medians of the rounds.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from typing import Any

import numpy as np
from cluster import cluster

import pegbox as pb
from pegbox.measure import LocalMeasurer
from pegbox.plugins.runners.dask import DaskRunner

_WARM = 4
"""The configurations before the clock starts: builders start, and unpack the task."""


class LowersHere(DaskRunner):
    """A runner whose candidates are lowered by the searching process."""

    lowers = property(lambda self: False)  # type: ignore[assignment]


class LowersAtBuilders(DaskRunner):
    """A runner whose candidates are lowered where they are compiled, also with one machine."""

    lowers = property(lambda self: True)  # type: ignore[assignment]


RUNNERS: dict[str, type[DaskRunner]] = {"this process": LowersHere, "the builders": LowersAtBuilders}


def searched(address: str, runner: type[DaskRunner], size: int, trials: int, seed: int) -> tuple[float, float]:
    """Measure random configurations; return trials a second, and the seconds of this process for a trial."""
    task = pb.create_task("matmul", args=(size, size, size), target="llvm -num-cores 1")
    rows = task.space.sample(_WARM + trials, np.random.default_rng(seed)).tolist()
    configs = [task.space.config(tuple(row)) for row in rows]
    options: dict[str, Any] = {"repeats": 1, "min_repeat_ms": 0.1, "runner_options": {"scheduler": address}}
    with LocalMeasurer(task, runner=runner, **options) as measurer:
        list(measurer.measure(configs[:_WARM]))
        began = time.perf_counter(), time.process_time()
        done = len(list(measurer.measure(configs[_WARM:])))
        clock, cpu = time.perf_counter() - began[0], time.process_time() - began[1]
    return done / clock, cpu / done


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--machines", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--trials", type=int, default=96)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--size", type=int, default=256)
    given = parser.parse_args()
    print(f"{os.cpu_count()} cores, {given.trials} trials, {given.rounds} rounds, matmul of {given.size}")
    print(f"{'machines':>8}  {'lowered by':<12} {'trials/s':>9} {'CPU ms a trial':>15} {'limit, trials/s':>16}")
    for machines in given.machines:
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in RUNNERS}
        with cluster(machines) as (address, _):
            for seed in range(given.rounds):
                for name, runner in RUNNERS.items():
                    found[name].append(searched(address, runner, given.size, given.trials, seed))
        for name, rounds in found.items():
            rate, cpu = (statistics.median(column) for column in zip(*rounds, strict=True))
            print(f"{machines:>8}  {name:<12} {rate:9.1f} {cpu * 1e3:15.2f} {1 / cpu:16.0f}", flush=True)


if __name__ == "__main__":
    main()
