"""The speed of predicted configurations, relative to the fastest that is known, in spaces that were recorded.

    python3 benchmarks/prediction.py                       # a line for each space; some minutes
    python3 benchmarks/prediction.py --time                # the time of a prediction, in a fresh process each
    python3 benchmarks/prediction.py --held-out            # shapes from which no model learns, by the shipped model
    python3 benchmarks/prediction.py --again 4             # measure predictions again, beside the 4 best of each space
    python3 benchmarks/prediction.py --measure matmul conv2d         # measure predictions for sketches of workloads

Nothing is measured without --again or --measure: the candidates are the recorded configurations, and the fastest of
them is the best that is known. The model is trained as the shipped one is (`experience.py`), on other shapes only
("shape"), and on other shapes on other machines only ("machine"). Shapes are left out in six groups, so that a
prediction knows even less than it would of a new shape.

The fastest of many recorded costs is partly the luckiest. With --again, the predicted configuration and the fastest
recorded ones are built and timed in turns, in the spaces of this machine's processor; the ratio is that of the fastest
of these to the prediction.

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
from functools import partial
from typing import TypeAlias

import numpy as np
from experience import HELD_OUT, sample_of, source_of, spaces, trained
from sketch import arrays_of

import pegbox as pb
from pegbox.codegen import Kernel, Target
from pegbox.search.models.experience import ShippedSource
from pegbox.search.models.prediction import GUARDED, described, is_doomed, predicted_configs, shipped_model
from pegbox.search.models.trees import Trees
from pegbox.task.task import Task

GROUPS = 6

ROUNDS, SAMPLE_NS = 60, 3e5
"""The samples of a kernel that is timed again, and the length of each."""

TIMED = ("matmul 512 512 512", "conv2d 1 64 56 56 64 3 3 padding=1", "softmax 512 768", "layer_norm 512 768")

MEASURED = {
    "matmul": (100, 333, 777), "matmul_bias_relu": (250, 128, 300), "matmul_bias_gelu": (180, 300, 400),
    "matmul_chain": (100, 200, 150, 250), "batch_matmul": (16, 48, 128, 50), "matmul_transposed": (150, 500, 200),
    "matmul_int8": (200, 300, 150), "attention": (6, 96, 48), "conv1d": (1, 48, 200, 80, 3, 1, 1),
    "conv2d": (1, 32, 14, 14, 80, 3, 1, 1), "conv2d_nhwc": (1, 20, 20, 40, 72, 3, 1, 1),
    "conv3d": (1, 12, 6, 20, 20, 24, 3, 1, 1), "depthwise_conv2d": (1, 64, 28, 28, 3, 1, 1),
    "conv2d_transposed": (1, 24, 12, 12, 40, 4, 2, 1), "conv2d_bn_relu": (1, 40, 24, 24, 56, 3, 1, 1),
    "conv2d_winograd": (1, 48, 24, 24, 48), "max_pool2d": (2, 32, 28, 28, 2, 2), "avg_pool2d": (1, 40, 30, 30, 3, 2),
    "row_sum": (300, 700), "row_min": (250, 800), "row_argmax": (200, 900), "norm": (90, 2000),
    "softmax": (100, 1000), "layer_norm": (200, 500), "sum_and_max": (400, 600), "elementwise_chain": (300, 500),
}  # fmt: skip


@dataclass(frozen=True)
class Known:
    """A recorded space, with the rows that experience has of it."""

    space: pb.RecordedSpace
    source: ShippedSource

    @property
    def cpu(self) -> str:
        return Target(self.source.target).cpu

    @property
    def task(self) -> Task:
        assert isinstance(self.space.task, Task)
        return self.space.task

    def first(self, model: Trees) -> int:
        """Find the first prediction among the configurations of `sample_of`."""
        scores = model(described(self.source.measured.features, Target(self.source.target)))
        configs = sample_of(self.space)
        order: list[int] = np.argsort(-scores, kind="stable")[:GUARDED].tolist()
        return next((place for place in order if not is_doomed(self.task, configs[place])), order[0])

    def speed(self, model: Trees) -> float:
        """Compute the relative speed of the first prediction."""
        costs = self.source.measured.costs
        return float(np.min(costs) / costs[self.first(model)])

    def speed_again(self, model: Trees, count: int) -> float:
        """Time the first prediction and the `count` fastest configurations in turns; compute the relative speed."""
        configs = sample_of(self.space)
        places = {"ours": self.first(model)}
        places |= {str(place): place for place in np.argsort(self.source.measured.costs)[:count].tolist()}
        ns = least_ns({name: pb.build(self.task, config=configs[place]) for name, place in places.items()}, self.task)
        return min(ns.values()) / ns["ours"]


def least_ns(kernels: dict[str, Kernel], task: Task) -> dict[str, float]:
    """Time kernels in turns; return the least nanoseconds of a call of each.

    Samples are short, and the least of many counts: other programs lengthen most of the long ones.
    """
    arrays = arrays_of(task)
    number = max(1, round(SAMPLE_NS / max(min(kernels["ours"].time_ns(arrays, 1) for _ in range(3)), 1)))
    ns = dict.fromkeys(kernels, float("inf"))
    for _ in range(ROUNDS):
        for name, kernel in kernels.items():
            ns[name] = min(ns[name], kernel.time_ns(arrays, number) / number)
    return ns


Judge: TypeAlias = Callable[[Known, Trees], float]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--time", action="store_true")
    parser.add_argument("--measure", nargs="*", choices=MEASURED, metavar="WORKLOAD")
    parser.add_argument("--left-out", choices=("shape", "machine"), help="only this comparison")
    parser.add_argument("--held-out", action="store_true", help="only the shapes from which no model learns")
    parser.add_argument("--again", type=int, metavar="BEST", help="measure again, beside so many of the best")
    options = parser.parse_args()
    if options.time:
        times()
    elif options.measure is not None:
        measure(options.measure or list(MEASURED))
    else:
        judge = Known.speed if options.again is None else partial(Known.speed_again, count=options.again)
        if options.held_out:
            held_out(judge)
        else:
            compare(options.left_out, judge)
    return 0


def held_out(judge: Judge) -> None:
    known = (Known(space, source_of(space)) for space in spaces(HELD_OUT))
    report("held out", [(one, judge(one, shipped_model())) for one in known if is_near(one, judge)])


def compare(wanted: str | None, judge: Judge) -> None:
    known = [Known(space, source_of(space)) for space in spaces()]
    shapes = sorted({one.source.shape for one in known})
    places = np.random.default_rng(1).permutation(len(shapes))
    group = {shapes[place]: number % GROUPS for number, place in enumerate(places)}
    several = [one for one in known if len({other.cpu for other in known if is_like(one, other)}) > 1]
    left_out: dict[str, Callable[[Known], str]] = {"shape": lambda one: "", "machine": lambda one: one.cpu}
    for name in (wanted,) if wanted else tuple(left_out):
        asked = [one for one in (known if name == "shape" else several) if is_near(one, judge)]
        report(f"{name} left out", speeds(known, asked, left_out[name], group, judge))


def is_near(one: Known, judge: Judge) -> bool:
    """Check if a space was recorded on a processor of this machine's kind, where it is measured again."""
    return judge is Known.speed or one.cpu == Target("llvm").cpu


def report(name: str, found: Sequence[tuple[Known, float]]) -> None:
    """Print the relative speeds of spaces, and those of each kind of space and of each processor together."""
    for one, speed in found:
        print(f"{name:16} {one.cpu + ' ' + one.source.measured.name:70.70} {speed:7.0%}")
    for kind in ("templates", "sketches", *sorted({one.cpu for one, _ in found})):
        values = [speed for one, speed in found if kind in (one.cpu, "sketches" if is_sketch(one) else "templates")]
        if values:
            print(
                f"{kind}, {name}: median {statistics.median(values):.1%}, minimum {min(values):.0%}, "
                f"{sum(value < 0.75 for value in values)} of {len(values)} below 75%",
                flush=True,
            )


def is_sketch(one: Known) -> bool:
    return one.space.name.partition("-")[0].endswith("_sketch")


def is_like(one: Known, other: Known) -> bool:
    """Check if two spaces are both of templates, or both of sketches."""
    return is_sketch(one) == is_sketch(other)


def speeds(
    known: Sequence[Known], asked: Sequence[Known], machine: Callable[[Known], str], group: dict[str, int], judge: Judge
) -> list[tuple[Known, float]]:
    """Predict the first configuration of each space from those of other groups, measured on another machine."""
    models: dict[tuple[int, str], Trees] = {}
    found = []
    for one in asked:
        number, cpu = wanted = group[one.source.shape], machine(one)
        if wanted not in models:
            models[wanted] = trained([e.source for e in known if group[e.source.shape] != number and e.cpu != cpu])
        found.append((one, judge(one, models[wanted])))
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
        ns = least_ns(kernels, task)
        ratios.append(ns["tuned"] / ns["ours"])
        print(f"{name}: {ratios[-1]:.2f} of the speed after 64 random trials; predicted in {seconds:.2f} s", flush=True)
    print(f"median of {len(ratios)}: {statistics.median(ratios):.2f}, minimum {min(ratios):.2f}")


if __name__ == "__main__":
    raise SystemExit(main())
