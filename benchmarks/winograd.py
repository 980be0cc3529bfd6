"""Winograd convolutions: tune, then time them beside the direct ones and other libraries in one process.

    python3 benchmarks/winograd.py                             # layers of 3 × 3 and 5 × 5, NHWC
    python3 benchmarks/winograd.py 96x30x30-160x3x3-p1 --layout NCHW --m 2 3 4
    python3 benchmarks/winograd.py --records wino.jsonl        # continue an earlier run

The weights are packed ahead on all sides. Shapes, options and rivals are those of `conv2d.py`. For each shape and each
m (0: what the template chooses) our Winograd kernel, our direct one (`conv2d`), the rivals and the multiply-add peak
are timed in turns, pinned to one core; the output shows medians. GFLOP/s are those of the direct sum, so that "of peak"
may be above 1. Errors are the largest ones, against sums in float64, relative to the largest output.
"""

from __future__ import annotations

import argparse
import itertools
import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from conv2d import Case, arrays_of, parsed, print_row, timed, tuned
from conv_rivals import rivals
from matmul import is_limited, settle_environment

import pegbox as pb
from pegbox.templates import pack_weights

SHAPES = (
    "64x56x56-64x3x3-p1", "128x28x28-128x3x3-p1", "256x14x14-256x3x3-p1", "96x30x30-160x3x3-p1", "80x40x40-96x3x3-p1",
    "192x17x17-128x3x3-p1", "160x20x20-200x3x3-p1", "72x50x34-88x3x3-p1", "512x7x7-512x3x3-p1", "16x64x64-16x3x3-p1",
    "64x28x28-96x5x5-p2",
)  # fmt: skip


@dataclass(frozen=True)
class WinogradCase(Case):
    """A convolution by tiles of m × m outputs; 0: as the template chooses."""

    m: int = 0

    def task(self) -> pb.Task:
        direct = super().task()
        return pb.create_task("conv2d_winograd", direct.args, {**direct.kwargs, "m": self.m}, target=self.target)


def main() -> int:
    parser = options_of(__doc__, SHAPES, ("NHWC",))
    parser.add_argument("--m", nargs="+", type=int, default=(0,), help="outputs along a tile; 0: the template chooses")
    options = parser.parse_args()
    settle_environment(options)
    header = True
    for text, layout, m in itertools.product(options.shapes, options.layout, options.m):
        direct = parsed(text, layout, "packed", options.target)
        print_row(one_case(direct, WinogradCase(**vars(direct), m=m), options), header=header)
        header = False
    return 0


def options_of(description: str | None, shapes: Sequence[str], layouts: Sequence[str]) -> argparse.ArgumentParser:
    """Make the parser of a comparison with direct convolutions."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shapes", nargs="*", default=shapes, help="as 64x56x56-128x3x3-p1")
    parser.add_argument("--layout", nargs="+", default=layouts, choices=("NCHW", "NHWC"))
    parser.add_argument("--target", default="llvm -num-cores 1", help="a target of one core; default: this machine")
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--tuner", default=None, help="default: that of pb.tune")
    parser.add_argument("--records", help="keep the trials in this file, and continue after those that it holds")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=31)
    parser.add_argument("--core", type=int, default=min(os.sched_getaffinity(0)))
    return parser


def one_case(direct: Case, other: Case, options: argparse.Namespace) -> dict[str, str]:
    """Tune and time the convolution by another algorithm, beside the direct one and the rivals."""
    data, weight, out = arrays_of(direct)
    exact = exact_result(direct, data, weight)
    others = rivals("packed", data, weight, direct.layout, direct.options)
    if is_limited(options):
        others.pop("ORT", None)
    named = dict(others)
    for name, call in others.items():
        np.testing.assert_allclose(call(), exact, rtol=1e-3, atol=1e-3, err_msg=name)
    task, result = tuned(other, options)
    ours, packed = pb.build(task, config=result.best.config), pack_weights(task, weight)
    ours(data, packed, out)
    error = error_of(out, exact)
    plain_task, plain_result = tuned(direct, options)
    plain, panels = pb.build(plain_task, config=plain_result.best.config), pack_weights(plain_task, weight)
    others["direct"] = lambda: plain(data, panels, out)
    others["direct"]()
    plain_error = error_of(out, exact)
    ns = timed(ours, [data, packed, out], others, pb.Target(direct.target), options)
    best = min((ns[name] for name in named), default=float("nan"))
    return {
        "shape": direct.text,
        "layout": direct.layout,
        **({"m": str(result.best.config["m"].val)} if isinstance(other, WinogradCase) else {}),
        "ours µs": f"{ns['ours'] / 1e3:.1f}",
        "GFLOP/s": f"{task.flop / ns['ours']:.1f}",
        "of peak": f"{task.flop / ns['ours'] * ns['peak']:.2f}",
        "direct µs": f"{ns['direct'] / 1e3:.1f}",
        "rivals µs": ", ".join(f"{name} {ns[name] / 1e3:.1f}" for name in named),
        "ratio": f"{best / ns['ours']:.2f}",
        "error": f"{error:.1e}",
        "of direct": f"{plain_error:.1e}",
        "config": str(result.best.config),
    }


def exact_result(case: Case, data: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Compute the convolution in float64; weights are OIHW or OHWI."""
    if case.layout == "NCHW":
        data, weight = data.transpose(0, 2, 3, 1), weight.transpose(0, 2, 3, 1)
    stride, pad, dilation = (
        case.options.get(name, usual) for name, usual in (("stride", 1), ("padding", 0), ("dilation", 1))
    )
    padded = np.pad(data.astype(np.float64), ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    _, kh, kw, _ = weight.shape
    rows, columns = (size - (k - 1) * dilation for size, k in zip(padded.shape[1:3], (kh, kw), strict=True))
    sums = sum(
        padded[:, y : y + rows : stride, x : x + columns : stride] @ weight[:, i, j].astype(np.float64).T
        for i, y in enumerate(range(0, kh * dilation, dilation))
        for j, x in enumerate(range(0, kw * dilation, dilation))
    )
    found = np.asarray(sums)
    return found.transpose(0, 3, 1, 2) if case.layout == "NCHW" else found


def error_of(out: np.ndarray, exact: np.ndarray) -> float:
    return float(np.abs(out - exact).max() / np.abs(exact).max())


if __name__ == "__main__":
    raise SystemExit(main())
