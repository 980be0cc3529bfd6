"""The speed of predicted configurations, relative to the fastest that is known, in spaces that were recorded.

    python3 benchmarks/prediction.py                       # a line for each space; some minutes
    python3 benchmarks/prediction.py --time                # the time of a prediction, in a fresh process each
    python3 benchmarks/prediction.py --measure matmul conv2d         # measure predictions for sketches of workloads

Nothing is measured without --measure: the candidates are the recorded configurations, and the fastest of them is the
best that is known. The model is trained as the shipped one is (`experience.py`), on other shapes only ("shape"), and on
other shapes on other machines only ("machine"). Shapes are left out in six groups, so that a prediction knows even less
than it would of a new shape.

With --measure, sketches of small shapes, which the model has not seen, are tuned by 64 trials on one core. Then the
predicted kernel and the tuned one are timed in turns.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from experience import sample_of, spaces, trained
from sketch import arrays_of, timed

import pegbox as pb
from pegbox.codegen import Target
from pegbox.search.models.experience import ShippedSource, shipped_sources
from pegbox.search.models.prediction import GUARDED, described, is_doomed, predicted_configs
from pegbox.search.models.trees import Trees
from pegbox.task.task import Task

GROUPS = 6

TIMED = ("matmul 512 512 512", "conv2d 1 64 56 56 64 3 3 padding=1", "softmax 512 768", "layer_norm 512 768")

MEASURED = {
    "matmul": (100, 333, 777), "matmul_bias_relu": (250, 128, 300), "batch_matmul": (16, 48, 128, 50),
    "conv2d": (1, 32, 14, 14, 80, 3, 1, 1), "depthwise_conv2d": (1, 64, 28, 28, 3, 1, 1), "row_sum": (300, 700),
    "softmax": (100, 1000), "layer_norm": (200, 500), "norm": (90, 2000), "max_pool2d": (2, 32, 28, 28, 2, 2),
}  # fmt: skip


@dataclass(frozen=True)
class Known:
    """A recorded space, with the rows that experience has of it."""

    space: pb.RecordedSpace
    source: ShippedSource

    @property
    def cpu(self) -> str:
        return Target(self.source.target).cpu

    def speed(self, model: Trees) -> float:
        """Compute the relative speed of the first prediction."""
        costs = self.source.measured.costs
        scores = model(described(self.source.measured.features, Target(self.source.target)))
        task, configs = self.space.task, sample_of(self.space)
        assert isinstance(task, Task)
        order = np.argsort(-scores, kind="stable")[:GUARDED].tolist()
        first = next((place for place in order if not is_doomed(task, configs[place])), order[0])
        return float(np.min(costs) / costs[first])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--time", action="store_true")
    parser.add_argument("--measure", nargs="*", choices=MEASURED, metavar="WORKLOAD")
    parser.add_argument("--left-out", choices=("shape", "machine"), help="only this comparison")
    options = parser.parse_args()
    if options.time:
        times()
    elif options.measure is not None:
        measure(options.measure or list(MEASURED))
    else:
        compare(options.left_out)
    return 0


def compare(wanted: str | None) -> None:
    known = [Known(space, source) for space, source in zip(spaces(), shipped_sources(), strict=True)]
    shapes = sorted({one.source.shape for one in known})
    places = np.random.default_rng(1).permutation(len(shapes))
    group = {shapes[place]: number % GROUPS for number, place in enumerate(places)}
    several = [one for one in known if len({other.cpu for other in known if is_like(one, other)}) > 1]
    left_out: dict[str, Callable[[Known], str]] = {"shape": lambda one: "", "machine": lambda one: one.cpu}
    for name in (wanted,) if wanted else tuple(left_out):
        found = speeds(known, known if name == "shape" else several, left_out[name], group)
        for one, speed in found:
            print(f"{name:7} {one.cpu + ' ' + one.source.measured.name:70.70} {speed:7.0%}")
        for kind in ("templates", "sketches"):
            values = [speed for one, speed in found if is_sketch(one) == (kind == "sketches")]
            if values:
                print(
                    f"{kind}, {name} left out: median {statistics.median(values):.1%}, minimum {min(values):.0%}, "
                    f"{sum(value < 0.75 for value in values)} of {len(values)} below 75%",
                    flush=True,
                )


def is_sketch(one: Known) -> bool:
    return one.space.name.partition("-")[0].endswith("_sketch")


def is_like(one: Known, other: Known) -> bool:
    """Check if two spaces are both of templates, or both of sketches."""
    return is_sketch(one) == is_sketch(other)


def speeds(
    known: Sequence[Known], asked: Sequence[Known], machine: Callable[[Known], str], group: dict[str, int]
) -> list[tuple[Known, float]]:
    """Predict the first configuration of each space from those of other groups, measured on another machine."""
    models: dict[tuple[int, str], Trees] = {}
    found = []
    for one in asked:
        number, cpu = wanted = group[one.source.shape], machine(one)
        if wanted not in models:
            models[wanted] = trained([e.source for e in known if group[e.source.shape] != number and e.cpu != cpu])
        found.append((one, one.speed(models[wanted])))
    return found


def times() -> None:
    """Print the seconds of predictions, the loading of the model included, each in a fresh process."""
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        for text in TIMED:
            print(f"{text}: {pool.apply(seconds_of, (text,))}", flush=True)


def seconds_of(text: str) -> str:
    name, *words = text.split()
    numbers = tuple(int(word) for word in words if word.isdigit())
    options = {key: int(value) for key, _, value in (word.partition("=") for word in words) if value}
    space = {"space": "sketch"} if name in ("softmax", "layer_norm") else {}
    task = pb.create_task(name, args=numbers, kwargs=options, target="llvm -num-cores 1", **space)
    began, used = time.perf_counter(), time.process_time()
    next(predicted_configs(task))
    return f"{time.perf_counter() - began:.2f} s, of them {time.process_time() - used:.2f} s of the processor"


def measure(names: Sequence[str]) -> None:
    ratios = []
    for name in names:
        task = pb.create_task(name, args=MEASURED[name], space="sketch", target="llvm -num-cores 1")
        began = time.perf_counter()
        config = next(predicted_configs(task))
        seconds = time.perf_counter() - began
        result = pb.tune(task, trials=64, tuner="random", progress=False, store=None)
        assert result.best is not None
        kernels = {"ours": pb.build(task, config=config), "tuned": pb.build(task, config=result.best.config)}
        arrays = arrays_of(task)
        ns = timed({label: (kernel, arrays) for label, kernel in kernels.items()}, {}, 21)
        ratios.append(ns["tuned"] / ns["ours"])
        print(f"{name}: {ratios[-1]:.2f} of the speed after 64 random trials; predicted in {seconds:.2f} s", flush=True)
    print(f"median of {len(ratios)}: {statistics.median(ratios):.2f}, minimum {min(ratios):.2f}")


if __name__ == "__main__":
    raise SystemExit(main())
