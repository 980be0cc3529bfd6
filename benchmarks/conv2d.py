"""Convolutions: tune, then time our kernels against torch's (oneDNN), side by side in one process.

    python3 benchmarks/conv2d.py                               # the layers of a ResNet, and an odd one, both layouts
    python3 benchmarks/conv2d.py 64x56x56-128x3x3-p1           # CxHxW-OxKHxKW, -s stride, -p padding, -d dilation
    python3 benchmarks/conv2d.py --layout NHWC --records convs.jsonl    # go on where an earlier run was stopped

Needs torch (`pip install torch`, any build for CPUs). Each shape is tuned with `--trials` trials, then timed pinned to
one core in rounds of (ours, torch, multiply-add peak); medians are quoted. Both sides take and give arrays in the
user's layout and weights as the user has them, so that packing them counts for both: torch gets contiguous tensors for
NCHW, and tensors in `channels_last` for NHWC, whose memory is our NHWC and OHWI. Ours is timed inside machine code, as
the tuner does, and once more as a Python call ("as a call"); torch is `torch.nn.functional.conv2d` with one thread, a
Python call that also makes its result's array. The results are compared before anything is timed.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import sys
import time
from dataclasses import dataclass
from typing import Any

# As in matmul.py: one thread, and no settings that slow other libraries down.
_TRAPS = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")
if any(name in os.environ for name in _TRAPS) or os.environ.get("OMP_NUM_THREADS") != "1":
    env = {k: v for k, v in os.environ.items() if k not in _TRAPS} | {"OMP_NUM_THREADS": "1"}
    os.execve(sys.executable, [sys.executable, *sys.argv], env)

import numpy as np  # noqa: E402
from peak import peak_kernel  # noqa: E402

import pegbox as pb  # noqa: E402

try:
    import torch
except ImportError:
    raise SystemExit("benchmarks/conv2d.py compares with torch, which is not installed: pip install torch") from None

SHAPES = (
    "64x56x56-128x3x3-p1", "3x224x224-64x7x7-s2-p3", "64x56x56-64x3x3-p1", "128x28x28-128x3x3-p1",
    "256x14x14-256x3x3-p1", "512x7x7-512x3x3-p1", "64x56x56-128x1x1-s2", "17x29x31-33x3x5-d2",
)  # fmt: skip
_SHAPE = re.compile(r"(\d+)x(\d+)x(\d+)-(\d+)x(\d+)x(\d+)((?:-[spd]\d+)*)")
_OPTIONS = {"s": "stride", "p": "padding", "d": "dilation"}


@dataclass(frozen=True)
class Case:
    text: str
    sizes: tuple[int, ...]  # C, H, W, O, KH, KW
    options: dict[str, int]
    layout: str

    def task(self) -> pb.Task:
        options = {**self.options, "layout": self.layout}
        return pb.create_task("conv2d", args=(1, *self.sizes), kwargs=options, target="llvm -num-cores 1")


def main() -> int:
    options = parse()
    header = True
    for text in options.shapes:
        for layout in options.layout:
            row = one_case(parsed(text, layout), options)
            print_row(row, header=header)
            header = False
    return 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shapes", nargs="*", default=SHAPES, help="as 64x56x56-128x3x3-p1 (-s2: stride, -d2: dilation)")
    parser.add_argument("--layout", nargs="+", default=("NCHW", "NHWC"), choices=("NCHW", "NHWC"))
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--tuner", default=None, help="pb.tune's default where it is not given")
    parser.add_argument("--records", help="keep the trials in this file, and go on from those that are in it")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=31)
    parser.add_argument("--core", type=int, default=min(os.sched_getaffinity(0)))
    return parser.parse_args()


def parsed(text: str, layout: str) -> Case:
    found = _SHAPE.fullmatch(text)
    if found is None:
        raise SystemExit(f"{text!r} is no convolution: write CxHxW-OxKHxKW, as 64x56x56-128x3x3-p1")
    *sizes, rest = found.groups()
    given = {_OPTIONS[part[0]]: int(part[1:]) for part in rest.split("-") if part}
    return Case(text, tuple(map(int, sizes)), given, layout)


def tuned(case: Case, options: argparse.Namespace) -> tuple[pb.Task, Any]:
    task = case.task()
    more: dict[str, Any] = {"tuner": options.tuner} if options.tuner else {}
    if options.records:
        more |= {"records": options.records, "resume": os.path.exists(options.records)}
    result = pb.tune(task, trials=options.trials, seed=options.seed, progress=False, **more)
    if result.best is None:
        raise SystemExit(f"no valid kernel for {case.text}: {result.failures}")
    return task, result


def one_case(case: Case, options: argparse.Namespace) -> dict[str, str]:
    task, result = tuned(case, options)
    ours = pb.build(task, config=result.best.config)
    rng = np.random.default_rng(0)
    data, weight, out = (rng.uniform(-1, 1, spec.shape).astype(spec.dtype) for spec in task.arguments())
    rival = torch_call(case, data, weight)
    ours(data, weight, out)
    np.testing.assert_allclose(out, in_layout(rival(), case.layout), rtol=1e-3, atol=1e-3)
    ns = timed(ours, [data, weight, out], rival, options)
    return {
        "shape": case.text,
        "layout": case.layout,
        "ours µs": f"{ns['ours'] / 1e3:.1f}",
        "GFLOP/s": f"{task.flop / ns['ours']:.1f}",
        "as a call µs": f"{ns['call'] / 1e3:.1f}",
        "torch µs": f"{ns['torch'] / 1e3:.1f}",
        "GFLOP/s ": f"{task.flop / ns['torch']:.1f}",
        "ratio": f"{ns['torch'] / ns['ours']:.2f}",
        "of peak": f"{task.flop / ns['ours'] * ns['peak']:.0%}",
        "trials": str(len(result.trials)),
        "best at": found_at(result),
        "config": str(result.best.config),
    }


def found_at(result: Any) -> str:
    """The trial that found the best; one of an earlier run is not among those of this one."""
    found = (i for i, trial in enumerate(result.trials, 1) if trial.config == result.best.config)
    return str(next(found, "earlier"))


def torch_call(case: Case, data: np.ndarray, weight: np.ndarray) -> Any:
    """A call of torch on the same memory: `channels_last` tensors are logically NCHW and OIHW."""
    torch.set_num_threads(1)
    x, w = torch.from_numpy(data), torch.from_numpy(weight)
    if case.layout == "NHWC":
        x, w = x.permute(0, 3, 1, 2), w.permute(0, 3, 1, 2)
        assert x.is_contiguous(memory_format=torch.channels_last)

    def call() -> torch.Tensor:
        with torch.no_grad():
            return torch.nn.functional.conv2d(x, w, **case.options)

    return call


def in_layout(result: torch.Tensor, layout: str) -> np.ndarray:
    return (result if layout == "NCHW" else result.permute(0, 2, 3, 1)).contiguous().numpy()


def timed(ours: Any, arrays: list[np.ndarray], rival: Any, options: argparse.Namespace) -> dict[str, float]:
    """Nanoseconds of a call (for the peak: of one operation): medians of rounds in which all take turns."""
    peak, peak_flop = peak_kernel("float32")
    x = np.zeros(peak.args[0].shape, np.float32)
    affinity = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {options.core})
    number = max(1, round(4e6 / max(ours.time_ns(arrays, 2) / 2, 1)))  # about 4 ms a sample
    for _ in range(10):  # torch keeps what it has prepared for a shape
        rival()
    samples: dict[str, list[float]] = {"ours": [], "torch": [], "call": [], "peak": []}
    for _ in range(options.rounds):
        samples["ours"].append(ours.time_ns(arrays, number) / number)
        samples["torch"].append(_python_ns(rival, number))
        samples["call"].append(_python_ns(lambda: ours(*arrays), number))
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
        return max(len(name), 24 if name == "shape" else 9)

    if header:
        print("  ".join(f"{name:>{width(name)}}" for name in row), flush=True)
    print("  ".join(f"{value:>{width(name)}}" for name, value in row.items()), flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
