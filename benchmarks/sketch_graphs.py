"""Sketches of graphs that other libraries have kernels for: gated units, transposed weights, deconvolutions.

    python3 benchmarks/sketch_graphs.py                                 # all rows
    python3 benchmarks/sketch_graphs.py swiglu linear --trials 48       # those of some graphs
    python3 benchmarks/sketch_graphs.py --args "linear 4 512 1376"
    python3 benchmarks/sketch_graphs.py --beside ~/older/bin/python3    # and the kernels of another version of pegbox

Each row tunes the sketches of a graph and times the kernel in turns with torch (`pip install torch`; left out where it
is not installed) and, with `--beside`, with the kernel that another interpreter's pegbox has tuned in a process of its
own with the same options. All are pinned to one core with one thread each; results are compared first. The output has
the medians of the rounds, the minima in parentheses, and how many times as long as ours each takes. The graphs without
a gate, a transposition or a stride show that a change of the rules leaves them as fast as they were.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from matmul import settle_environment
from sketch import arrays_of, chosen_rows, parser_of_rows, tuned
from sketch import rivals as library_rivals

import pegbox as pb
from pegbox import te

ROWS = (
    "swiglu 1 512 1376", "swiglu 16 256 688", "swiglu 16 512 1376", "swiglu 64 512 1376", "swiglu 7 300 1000",
    "linear 1 512 1376", "linear 4 512 1376", "linear 16 512 1376", "linear 64 512 1376", "linear 5 300 1000",
    "attention_scores 8 64 64",
    "conv2d_transposed 1 64 16 16 64 4 2 1", "conv2d_transposed 1 32 28 28 16 4 2 1",
    "conv2d_transposed 1 64 14 14 32 3 2 1", "conv2d_transposed 1 32 10 10 24 5 3 2",
    "matmul_bias_relu 512 512 512", "matmul_bias_relu 250 500 1000", "matmul_bias_relu 128 256 688",
    "conv2d 1 64 56 56 64 3 1 1", "conv2d 1 32 112 112 32 3 1 1", "conv2d 1 256 14 14 256 3 1 1",
    "softmax 512 1000", "layer_norm 512 1024",
)  # fmt: skip


def product(x: te.Tensor, w: te.Tensor, name: str) -> te.Tensor:
    """x times the transpose of weights that have a row for each output."""
    k = te.reduce_axis((0, x.shape[1]), name=f"k_{name}")
    return te.compute((x.shape[0], w.shape[0]), lambda i, j: te.sum(x[i, k] * w[j, k], axis=k), name=name)


@pb.workload
def linear(tokens: int, inputs: int, outputs: int) -> list[te.Tensor]:
    x, w = te.placeholder((tokens, inputs), name="X"), te.placeholder((outputs, inputs), name="W")
    return [x, w, product(x, w, "C")]


@pb.workload
def swiglu(tokens: int, hidden: int, inner: int) -> list[te.Tensor]:
    """The feed-forward layer of many language models (Shazeer, "GLU Variants Improve Transformer", 2020)."""
    x, wd = te.placeholder((tokens, hidden), name="X"), te.placeholder((hidden, inner), name="Wd")
    wg, wu = (te.placeholder((inner, hidden), name=name) for name in ("Wg", "Wu"))
    gate, up = product(x, wg, "gate"), product(x, wu, "up")
    gated = te.compute(gate.shape, lambda i, j: gate[i, j] * te.sigmoid(gate[i, j]) * up[i, j], name="gated")
    return [x, wg, wu, wd, product(gated, wd, "down")]


@pb.workload
def attention_scores(heads: int, tokens: int, width: int) -> list[te.Tensor]:
    q, k = (te.placeholder((heads, tokens, width), name=name) for name in "QK")
    r = te.reduce_axis((0, width), name="r")
    shape = heads, tokens, tokens
    return [q, k, te.compute(shape, lambda b, i, j: te.sum(q[b, i, r] * k[b, j, r], axis=r), name="S")]


GRAPHS = {"linear": linear, "swiglu": swiglu, "attention_scores": attention_scores}


def main() -> int:
    parser = parser_of_rows(__doc__, "linear 4 512 1376", trials=48)
    parser.add_argument("--beside", metavar="PYTHON", help="an interpreter with another version of pegbox")
    parser.add_argument("--serve", metavar="ROW", help=argparse.SUPPRESS)
    options = parser.parse_args()
    settle_environment(options)
    if options.serve:
        return serve(options.serve, options)
    for name, args in chosen_rows(options, ROWS):
        print_row(name, args, options)
    return 0


def kernel_of(name: str, args: tuple[int, ...], options: argparse.Namespace) -> tuple[pb.Task, Any]:
    task = pb.create_task(GRAPHS.get(name, name), args=args, space="sketch", target=options.target)
    return task, pb.build(task, config=tuned(task, options).best.config)


def print_row(name: str, args: tuple[int, ...], options: argparse.Namespace) -> None:
    with other_kernel(name, args, options) as other:
        start = time.perf_counter()
        task, kernel = kernel_of(name, args, options)
        elapsed = time.perf_counter() - start
        arrays = arrays_of(task)
        kernel(*arrays)
        calls: dict[str, Callable[[int], float]] = {"ours": lambda number: kernel.time_ns(arrays, number) / number}
        if (call := rival(name, args, arrays)) is not None:
            np.testing.assert_allclose(arrays[-1], np.asarray(call()), rtol=5e-3, atol=5e-3)
            calls["torch"] = lambda number: timed(call, number)
        if other is not None:
            calls["beside"] = other
        samples = rounds_of(calls, options.rounds)
    ours = samples.pop("ours")
    others = "".join(f", {key} {shown(values)} {ratios(values, ours)}" for key, values in samples.items())
    speed = task.flop / statistics.median(ours)
    row = f"{name} {'x'.join(map(str, args))}"
    print(f"{row}: ours {shown(ours)}{others}; {speed:.0f} GFLOP/s; {elapsed:.0f} s", flush=True)


def shown(values: list[float]) -> str:
    return f"{statistics.median(values) / 1e3:.1f} µs ({min(values) / 1e3:.1f})"


def ratios(values: list[float], ours: list[float]) -> str:
    return f"= {statistics.median(values) / statistics.median(ours):.2f} times ({min(values) / min(ours):.2f})"


def rounds_of(calls: dict[str, Callable[[int], float]], rounds: int) -> dict[str, list[float]]:
    """Nanoseconds per call in rounds in which all take turns, pinned to one core."""
    affinity = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(affinity)})
    number = max(1, round(4e6 / max(calls["ours"](2), 1)))
    samples: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            samples[name].append(call(number))
    os.sched_setaffinity(0, affinity)
    return samples


def timed(call: Callable[[], Any], number: int) -> float:
    start = time.perf_counter_ns()
    for _ in range(number):
        call()
    return (time.perf_counter_ns() - start) / number


@contextmanager
def other_kernel(
    name: str, args: tuple[int, ...], options: argparse.Namespace
) -> Iterator[Callable[[int], float] | None]:
    """Tune the kernel of another interpreter's pegbox, and give the function that times it; None without one."""
    if not options.beside:
        yield None
        return
    command = [options.beside, str(Path(__file__).resolve()), "--serve", " ".join(map(str, (name, *args)))]
    command += ["--trials", str(options.trials), "--seed", str(options.seed), "--target", options.target]
    command += ["--tuner", options.tuner] if options.tuner else []
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        answers, requests = process.stdout, process.stdin
        if answers.readline().strip() != "ready":
            raise SystemExit(f"{options.beside} could not tune {name}; its message is above")

        def ask(number: int) -> float:
            print(number, file=requests, flush=True)
            return float(json.loads(answers.readline()))

        yield ask
        requests.close()


def serve(row: str, options: argparse.Namespace) -> int:
    """Tune a row, then answer each number of calls with their time."""
    name, *words = row.split()
    task, kernel = kernel_of(name, tuple(map(int, words)), options)
    arrays = arrays_of(task)
    kernel(*arrays)
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    print("ready", flush=True)
    for line in sys.stdin:
        print(json.dumps(kernel.time_ns(arrays, int(line)) / int(line)), flush=True)
    return 0


def rival(name: str, args: tuple[int, ...], arrays: list[np.ndarray]) -> Callable[[], Any] | None:
    """The same computation by torch; None where it is not installed."""
    try:
        import torch
        import torch.nn.functional as f
    except ImportError:
        return None
    if name not in GRAPHS and name != "conv2d_transposed":
        return library_rivals(name, args, arrays).get("torch")
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    t = [torch.from_numpy(array) for array in arrays[:-1]]
    if name == "linear":
        return lambda: f.linear(t[0], t[1])
    if name == "swiglu":
        return lambda: f.linear(f.silu(f.linear(t[0], t[1])).mul_(f.linear(t[0], t[2])), t[3])
    if name == "attention_scores":
        return lambda: torch.bmm(t[0], t[1].transpose(1, 2))
    return lambda: f.conv_transpose2d(t[0], t[1], stride=args[6], padding=args[7])


if __name__ == "__main__":
    sys.exit(main())
