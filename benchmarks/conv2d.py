"""Convolutions: tune, then time our kernels and those of other libraries side by side in one process.

    python3 benchmarks/conv2d.py                               # layers of a ResNet and other shapes, both layouts
    python3 benchmarks/conv2d.py 64x56x56-128x3x3-p1           # CxHxW-OxKHxKW, -s stride, -p padding, -d dilation
    python3 benchmarks/conv2d.py --layout NHWC --records convs.jsonl    # continue an earlier run
    python3 benchmarks/conv2d.py --target "llvm -mcpu=x86-64-v3 -num-cores 1"

There are two groups:

- "plain": the weights are as the user has them, and packing them counts for all, at each call. The rivals are torch
  (oneDNN) and ONNX Runtime with the weights as an input.
- "packed": the weights were packed before: ours by `pegbox.templates.pack_weights`, oneDNN's by torch's
  `mkldnn_reorder_conv2d_weight`, ONNX Runtime's as an initializer.

A rival that is not installed is left out (`pip install torch onnxruntime onnx`). Each shape is tuned with `--trials`
trials. Then our kernel, the rivals and the multiply-add peak are timed in turns, pinned to one core. The output shows
medians and the ratio to the best rival of the group. Results are compared before anything is timed.

Data and results are in the user's layout: torch gets contiguous tensors for NCHW, and tensors in `channels_last` for
NHWC, whose memory is our NHWC and OHWI; ONNX Runtime takes NCHW only. Our kernel is timed inside machine code, as in a
search, and once more as a Python call ("as a call"). The rivals are Python calls that also allocate their result.
GFLOP/s count all operations of the convolution, including those on the zeros of the border; "of peak" excludes these,
because a kernel may skip them.

If the vectors of `--target` are narrower than the machine's, environment variables limit torch and oneDNN to those
(`matmul_rivals.limits`). ONNX Runtime cannot be limited and is left out.
"""

from __future__ import annotations

import argparse
import itertools
import math
import os
import re
import statistics
import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from conv_rivals import rivals
from matmul import is_limited, settle_environment
from peak import peak_kernel, share_of_peak

import pegbox as pb
from pegbox.templates import pack_weights
from pegbox.templates.conv_shape import conv_of

SHAPES = (
    "64x56x56-128x3x3-p1", "3x224x224-64x7x7-s2-p3", "64x56x56-64x3x3-p1", "128x28x28-128x3x3-p1",
    "256x14x14-256x3x3-p1", "512x7x7-512x3x3-p1", "64x56x56-128x1x1-s2", "17x29x31-33x3x5-d2",
    "24x112x112-40x5x5-s2-p2", "256x14x14-512x1x1-s2", "96x30x30-160x3x3-p1", "144x28x28-40x1x1",
    "35x35x35-67x3x3-s2", "12x97x61-29x5x3-p2",
)  # fmt: skip
_SHAPE = re.compile(r"(\d+)x(\d+)x(\d+)-(\d+)x(\d+)x(\d+)((?:-[spd]\d+)*)")
_OPTIONS = {"s": "stride", "p": "padding", "d": "dilation"}


@dataclass(frozen=True)
class Case:
    text: str
    sizes: tuple[int, ...]  # C, H, W, O, KH, KW
    options: dict[str, int]
    layout: str
    group: str
    target: str

    def task(self) -> pb.Task:
        options = {**self.options, "layout": self.layout}
        if self.group == "packed":
            options["weights"] = "packed"
        return pb.create_task("conv2d", args=(1, *self.sizes), kwargs=options, target=self.target)


def main() -> int:
    options = parse()
    settle_environment(options)
    header = True
    for text in options.shapes:
        for layout, group in itertools.product(options.layout, options.weights):
            row = one_case(parsed(text, layout, group, options.target), options)
            print_row(row, header=header)
            header = False
    return 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shapes", nargs="*", default=SHAPES, help="as 64x56x56-128x3x3-p1 (-s2: stride, -d2: dilation)")
    parser.add_argument("--layout", nargs="+", default=("NCHW", "NHWC"), choices=("NCHW", "NHWC"))
    parser.add_argument("--weights", nargs="+", default=("plain", "packed"), choices=("plain", "packed"))
    parser.add_argument("--target", default="llvm -num-cores 1", help="a target of one core; default: this machine")
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--tuner", default=None, help="default: that of pb.tune")
    parser.add_argument("--records", help="keep the trials in this file, and continue after those that it holds")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=31)
    parser.add_argument("--core", type=int, default=min(os.sched_getaffinity(0)))
    return parser.parse_args()


def parsed(text: str, layout: str, group: str, target: str) -> Case:
    found = _SHAPE.fullmatch(text)
    if found is None:
        raise SystemExit(f"{text!r} is not a convolution: write CxHxW-OxKHxKW, as 64x56x56-128x3x3-p1")
    *sizes, rest = found.groups()
    given = {_OPTIONS[part[0]]: int(part[1:]) for part in rest.split("-") if part}
    return Case(text, tuple(map(int, sizes)), given, layout, group, target)


def tuned(case: Case, options: argparse.Namespace) -> tuple[pb.Task, Any]:
    task = case.task()
    more: dict[str, Any] = {"tuner": options.tuner} if options.tuner else {}
    if options.records:
        more |= {"records": options.records, "resume": os.path.exists(options.records)}
    result = pb.tune(task, trials=options.trials, seed=options.seed, progress=False, store=None, **more)
    if result.best is None:
        raise SystemExit(f"no valid kernel for {case.text}: {result.failures}")
    return task, result


def one_case(case: Case, options: argparse.Namespace) -> dict[str, str]:
    task, result = tuned(case, options)
    ours = pb.build(task, config=result.best.config)
    data, weight, out = arrays_of(case)
    others = rivals(case.group, data, weight, case.layout, case.options)
    if is_limited(options):
        others.pop("ORT", None)
    ours_weight = pack_weights(task, weight) if case.group == "packed" else weight
    ours(data, ours_weight, out)
    for name, call in others.items():
        np.testing.assert_allclose(out, call(), rtol=1e-3, atol=1e-3, err_msg=name)
    ns = timed(ours, [data, ours_weight, out], others, pb.Target(case.target), options)
    best = min((ns[name] for name in others), default=math.nan)
    return {
        "shape": case.text,
        "layout": case.layout,
        "weights": case.group,
        "ours µs": f"{ns['ours'] / 1e3:.1f}",
        "GFLOP/s": f"{task.flop / ns['ours']:.1f}",
        "as a call µs": f"{ns['call'] / 1e3:.1f}",
        "rivals µs": ", ".join(f"{name} {ns[name] / 1e3:.1f}" for name in others),
        "GFLOP/s ": f"{task.flop / best:.1f}",
        "ratio": f"{best / ns['ours']:.2f}",
        "of peak": share_of_peak(inside(task) * task.flop / ns["ours"], 1 / ns["peak"]),
        "trials": str(len(result.trials)),
        "best at": found_at(result),
        "config": str(result.best.config),
    }


def inside(task: pb.Task) -> float:
    """Share of the operations that multiply elements of the image; a kernel may skip those of the border."""
    conv = conv_of(task)
    return conv.inside(0) * conv.inside(1)


def arrays_of(case: Case) -> list[np.ndarray]:
    """Data, weights as the user has them, and an empty result."""
    task = replace(case, group="plain").task()
    rng = np.random.default_rng(0)
    return [rng.uniform(-1, 1, spec.shape).astype(spec.dtype) for spec in task.arguments()]


def found_at(result: Any) -> str:
    """The number of the trial that found the best, or "earlier" if an earlier run found it."""
    found = (i for i, trial in enumerate(result.trials, 1) if trial.config == result.best.config)
    return str(next(found, "earlier"))


def timed(
    ours: Any, arrays: list[np.ndarray], others: dict[str, Any], target: pb.Target, options: argparse.Namespace
) -> dict[str, float]:
    """Nanoseconds per call (for the peak: per operation): medians of rounds in which all take turns."""
    peak, peak_flop = peak_kernel("float32", target)
    x = np.zeros(peak.args[0].shape, np.float32)
    affinity = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {options.core})
    number = max(1, round(4e6 / max(ours.time_ns(arrays, 2) / 2, 1)))  # about 4 ms a sample
    calls = {**others, "call": lambda: ours(*arrays)}
    for call in calls.values():  # a library keeps what it has prepared for a shape
        _python_ns(call, 10)
    samples: dict[str, list[float]] = {name: [] for name in ("ours", "peak", *calls)}
    for _ in range(options.rounds):
        samples["ours"].append(ours.time_ns(arrays, number) / number)
        for name, call in calls.items():
            samples[name].append(_python_ns(call, number))
        samples["peak"].append(peak.time_ns([x], 1) / peak_flop)
    os.sched_setaffinity(0, affinity)
    return {name: statistics.median(values) for name, values in samples.items()}


def _python_ns(call: Any, number: int) -> float:
    start = time.perf_counter_ns()
    for _ in range(number):
        call()
    return (time.perf_counter_ns() - start) / number


def print_row(row: dict[str, str], *, header: bool) -> None:
    def width(name: str) -> int:
        return max(len(name), {"shape": 24, "rivals µs": 27}.get(name, 9))

    if header:
        print("  ".join(f"{name:>{width(name)}}" for name in row), flush=True)
    print("  ".join(f"{value:>{width(name)}}" for name, value in row.items()), flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
