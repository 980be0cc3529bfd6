"""The time that features of candidates take, before anything of a task is known, and the candidates per second later.

    python3 benchmarks/features.py                                # all templates and workloads below
    python3 benchmarks/features.py matmul conv2d sketch-softmax   # those of these names
    python3 benchmarks/features.py conv2d --python ../before/.venv/bin/python --rounds 3

Each row is a process of its own that scores `--rows` candidates, as a prediction does, in processor time: `task`
creates the task, `few` samples candidates of a few classes of programs and computes their features, `all` computes
those of a random sample of any classes, `next` those of a second one, and `warm` counts candidates per second when all
classes are known. `lower` is the rival: the time to lower as many candidates one by one (the least that features of
lowered programs cost), from a few of them, divided by `few`. With `--python` the pegbox of another interpreter (of an
older checkout) takes turns with this one, and the ratios of the medians are printed: above 1 this one is faster.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import subprocess
import sys
import time
from itertools import pairwise
from typing import Any

TEMPLATES: dict[str, tuple[str, tuple[int, ...], dict[str, Any]]] = {
    "matmul-512": ("matmul", (512, 512, 512), {}),
    "matmul-skinny": ("matmul", (33, 700, 9), {}),
    "matmul-64x3072": ("matmul", (64, 768, 3072), {}),
    "matmul-float64": ("matmul", (300, 200, 100), {"dtype": "float64"}),
    "matmul-packed": ("matmul", (128, 1024, 1024), {"weights": "packed"}),
    "batch_matmul": ("batch_matmul", (12, 128, 64, 128), {}),
    "conv2d-56": ("conv2d", (1, 64, 56, 56, 64, 3, 3), {"padding": 1}),
    "conv2d-28-NHWC": ("conv2d", (1, 128, 28, 28, 128, 3, 3), {"padding": 1, "layout": "NHWC"}),
    "conv2d-7": ("conv2d", (1, 512, 7, 7, 512, 3, 3), {"padding": 1}),
    "conv2d-stem": ("conv2d", (1, 3, 224, 224, 64, 7, 7), {"padding": 3, "stride": 2}),
    "conv2d-pointwise": ("conv2d", (1, 64, 56, 56, 256, 1, 1), {}),
    "conv2d-pointwise-NHWC": ("conv2d", (1, 256, 14, 14, 1024, 1, 1), {"layout": "NHWC"}),
    "conv2d-strided-NHWC": ("conv2d", (1, 128, 56, 56, 128, 3, 3), {"padding": 1, "stride": 2, "layout": "NHWC"}),
    "conv2d-dilated": ("conv2d", (1, 33, 40, 40, 31, 3, 3), {"padding": 2, "dilation": 2}),
    "conv2d-packed": ("conv2d", (1, 256, 14, 14, 256, 3, 3), {"padding": 1, "weights": "packed"}),
    "conv2d-float64": ("conv2d", (2, 32, 30, 30, 48, 3, 3), {"padding": 1, "dtype": "float64"}),
}
SKETCHES: dict[str, tuple[int, ...]] = {
    "matmul": (512, 512, 512), "matmul_bias_relu": (256, 512, 512), "matmul_bias_gelu": (256, 1024, 1024),
    "matmul_chain": (128, 256, 256, 128), "batch_matmul": (12, 128, 64, 128), "matmul_transposed": (256, 256, 512),
    "matmul_int8": (256, 256, 256), "attention": (4, 256, 64), "conv1d": (1, 64, 256, 128, 3, 1, 1),
    "conv2d": (1, 64, 56, 56, 128, 3, 1, 1), "conv2d_nhwc": (1, 28, 28, 128, 128, 3, 1, 1),
    "conv3d": (1, 16, 16, 28, 28, 32, 3, 1, 1), "depthwise_conv2d": (1, 144, 56, 56, 3, 1, 1),
    "conv2d_transposed": (1, 64, 16, 16, 64, 4, 2, 1), "conv2d_bn_relu": (1, 64, 56, 56, 64, 3, 1, 1),
    "conv2d_winograd": (1, 64, 28, 28, 64), "max_pool2d": (1, 64, 56, 56, 3, 2, 1), "avg_pool2d": (1, 64, 56, 56, 2),
    "row_sum": (1024, 1024), "row_min": (1024, 1024), "row_argmax": (512, 1000), "norm": (512, 512),
    "softmax": (512, 768), "layer_norm": (512, 768), "elementwise_chain": (512, 1024), "sum_and_max": (512, 1000),
}  # fmt: skip
CASES = TEMPLATES | {f"sketch-{name}": (name, args, {"space": "sketch"}) for name, args in SKETCHES.items()}
COLUMNS = {"task": -1.0, "few": -1.0, "all": -1.0, "next": -1.0, "warm": 1.0, "lower": 0.0}
"""The direction in which each figure is better: 1 up, -1 down, 0 for a ratio."""

LOWERED = 12
"""The candidates that are lowered."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="cases whose names begin like this")
    parser.add_argument("--target", default="llvm -num-cores 1")
    parser.add_argument("--rows", type=int, default=1500)
    parser.add_argument("--classes", type=int, default=48, help="the classes of `few`")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--python", help="interpreter of another pegbox to compare with")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(measured(options.names[0], options)))
        return 0
    pythons = {"this": sys.executable} | ({"other": options.python} if options.python else {})
    for case in CASES:
        if not options.names or case.startswith(tuple(options.names)):
            runs: dict[str, list[dict[str, float]]] = {name: [] for name in pythons}
            for seed in range(options.rounds):
                for name, python in pythons.items():
                    runs[name].append(in_a_process(python, case, options, seed))
            show(case, runs)
    return 0


def measured(case: str, options: argparse.Namespace) -> dict[str, float]:
    """Measure one case in this process; templates, plugins and NumPy are loaded before."""
    import numpy as np

    import pegbox as pb
    from pegbox.errors import PegboxError
    from pegbox.features import ProgramFeatures

    template, args, kwargs = CASES[case]
    space = {"space": kwargs["space"]} if "space" in kwargs else {}
    arguments = {name: value for name, value in kwargs.items() if name != "space"}

    def created() -> pb.Task:
        return pb.create_task(template, args=args, kwargs=arguments, target=options.target, **space)

    created()
    rng = np.random.default_rng(options.seed)
    clock = time.process_time
    marks = [clock()]
    task = created()
    marks.append(clock())
    features = ProgramFeatures(task)
    count = min(options.rows, task.space.size)
    if hasattr(features, "sample"):
        features(features.sample(count, rng, classes=options.classes))
    else:
        features(task.space.sample(count, rng))
    marks.append(clock())
    features = ProgramFeatures(task)
    features(task.space.sample(count, rng))
    marks.append(clock())
    rows = task.space.sample(count, rng)
    marks.append(clock())
    features(rows)
    marks.append(clock())
    features(rows)
    marks.append(clock())
    for row in rows[:LOWERED]:
        with contextlib.suppress(PegboxError):
            task.lowered(task.space.config(row))
    marks.append(clock())
    made, few, every, _, after, warm, lowered = (b - a for a, b in pairwise(marks))
    return {
        "task": made, "few": few, "all": every, "next": after, "warm": len(rows) / max(warm, 1e-6),
        "lower": lowered / min(LOWERED, len(rows)) * count / few,
    }  # fmt: skip


def in_a_process(python: str, case: str, options: argparse.Namespace, seed: int) -> dict[str, float]:
    command = [python, __file__, case, "--child", "--target", options.target, "--rows", str(options.rows)]
    command += ["--classes", str(options.classes), "--seed", str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def show(case: str, runs: dict[str, list[dict[str, float]]]) -> None:
    middle = {
        name: {key: statistics.median(run[key] for run in found) for key in COLUMNS} for name, found in runs.items()
    }
    for name, figures in middle.items():
        seconds = "  ".join(f"{key} {figures[key]:6.2f} s" for key in ("task", "few", "all", "next"))
        print(
            f"{case:>24} {name:>5}: {seconds}  warm {figures['warm']:8,.0f}/s  lower {figures['lower']:6.1f}x",
            flush=True,
        )
    if len(middle) == 2:
        ratios = [
            f"{key} {(middle['this'][key] / middle['other'][key]) ** power:6.2f}"
            for key, power in COLUMNS.items()
            if power
        ]
        print(f"{case:>24} ratio: {'  '.join(ratios)}", flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
