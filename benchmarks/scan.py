"""Recurrences without a template: tune sketches of scans, then time them beside NumPy and torch in one process.

    python3 benchmarks/scan.py                             # all rows
    python3 benchmarks/scan.py cumsum rnn --trials 48      # those workloads
    python3 benchmarks/scan.py --args "cumsum 4096 256 1"

Rows are running sums along each axis, an exponential moving average, running maxima with the sums of a softmax, the
recurrence of a selective scan (a state-space model), and a recurrent cell. The rivals are torch (`pip install torch`;
left out if it is not installed) and NumPy, in the words that they have: for recurrences a loop over the rows in Python.
Results are compared before anything is timed. Then all take turns, pinned to one core with one thread each. The output
shows medians and the ratio to the best rival.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from matmul import settle_environment
from sketch import arrays_of, chosen_rows, parser_of_rows, timed, tuned

import pegbox as pb
from pegbox import te

ROWS = (
    "cumsum 1024 1024 1", "cumsum 1024 1024 0", "cumsum 16384 64 1", "average 1024 1024", "maxima 1024 1024",
    "selective 256 64 16", "rnn 128 256",
)  # fmt: skip


@pb.workload("cumsum")
def cumsum(rows: int, columns: int, axis: int) -> list[te.Tensor]:
    """Running sums along an axis."""
    data = te.placeholder((rows, columns), name="data")
    return [data, te.cumsum(data, axis)]


@pb.workload("average")
def average(time: int, n: int) -> list[te.Tensor]:
    """An exponential moving average."""
    data, state = te.placeholder((time, n), name="data"), te.placeholder((time, n), name="state")
    first = te.compute((1, n), lambda t, i: data[t, i], name="first")
    step = te.compute((time, n), lambda t, i: state[t - 1, i] * 0.9 + data[t, i] * 0.1, name="step")
    return [data, te.scan(first, step, state, name="average")]


@pb.workload("maxima")
def maxima(time: int, n: int) -> list[te.Tensor]:
    """The sums of a softmax over the rows so far, with their maxima subtracted."""
    data, high, total = (te.placeholder((time, n), name=name) for name in ("data", "high", "total"))
    new = te.compute((time, n), lambda t, i: te.max(high[t - 1, i], data[t, i]), name="new")
    step = te.compute(
        (time, n),
        lambda t, i: total[t - 1, i] * te.exp(high[t - 1, i] - new[t, i]) + te.exp(data[t, i] - new[t, i]),
        name="step",
    )
    first = te.compute((1, n), lambda t, i: data[t, i], name="first")
    one = te.compute((1, n), lambda t, i: 1.0, name="one")
    highs, totals = te.scan([first, one], [new, step], [high, total], name="maxima")
    return [data, te.compute((time, n), lambda t, i: highs[t, i] + te.log(totals[t, i]), name="out")]


@pb.workload("selective")
def selective(time: int, channels: int, states: int) -> list[te.Tensor]:
    """h = exp(d a) h + d b x, y = sum(h c): the inner part of a state-space model with inputs that select."""
    x, d = (te.placeholder((time, channels), name=name) for name in "xd")
    b, c = (te.placeholder((time, states), name=name) for name in "bc")
    a = te.placeholder((channels, states), name="a")
    shape = (time, channels, states)
    h = te.placeholder(shape, name="h")
    first = te.compute((1, channels, states), lambda t, i, n: d[t, i] * b[t, n] * x[t, i], name="first")
    step = te.compute(
        shape, lambda t, i, n: te.exp(d[t, i] * a[i, n]) * h[t - 1, i, n] + d[t, i] * b[t, n] * x[t, i], name="step"
    )
    hidden = te.scan(first, step, h, name="hidden")
    n = te.reduce_axis((0, states), name="n")
    y = te.compute((time, channels), lambda t, i: te.sum(hidden[t, i, n] * c[t, n], axis=n), name="y")
    return [x, d, b, c, a, y]


@pb.workload("rnn")
def rnn(time: int, n: int) -> list[te.Tensor]:
    """h = tanh(W h / sqrt(n) + x), which forgets, so that errors of rounding do not grow."""
    x, w, h = te.placeholder((time, n), name="x"), te.placeholder((n, n), name="w"), te.placeholder((time, n), name="h")
    k = te.reduce_axis((0, n), name="k")
    product = te.compute((time, n), lambda t, i: te.sum(w[i, k] * h[t - 1, k], axis=k), name="product")
    step = te.compute((time, n), lambda t, i: te.tanh(product[t, i] * n**-0.5 + x[t, i]), name="step")
    first = te.compute((1, n), lambda t, i: te.tanh(x[t, i]), name="first")
    return [x, w, te.scan(first, step, h, name="hidden")]


def main() -> int:
    options = parser_of_rows(__doc__, "cumsum 4096 256 1", trials=48).parse_args()
    settle_environment(options)
    for name, args in chosen_rows(options, ROWS):
        print_row(name, args, options)
    return 0


def print_row(name: str, args: tuple[int, ...], options: argparse.Namespace) -> None:
    task = pb.create_task(name, args=args, space="sketch", target=options.target)
    result = tuned(task, options)
    kernel, arrays = pb.build(task, config=result.best.config), arrays_of(task)
    kernel(*arrays)
    calls = {**in_numpy(name, args, arrays), **in_torch(name, args, arrays)}
    for rival, call in calls.items():
        np.testing.assert_allclose(arrays[-1], np.asarray(call()), rtol=2e-3, atol=2e-3, err_msg=rival)
    ns = timed({"ours": (kernel, arrays)}, calls, options.rounds)
    best = min(value for key, value in ns.items() if key != "ours")
    others = ", ".join(f"{key} {value / 1e3:.1f}" for key, value in ns.items() if key != "ours")
    print(
        f"{name} {'x'.join(map(str, args))}: ours {ns['ours'] / 1e3:.1f} µs, {others}; ratio {best / ns['ours']:.2f}; "
        f"{len(result.trials)} trials in {result.elapsed:.0f} s; {result.best.config}",
        flush=True,
    )


def in_numpy(name: str, args: tuple[int, ...], arrays: list[np.ndarray]) -> dict[str, Callable[[], Any]]:
    """NumPy's own function, or a loop over the rows."""
    x, *others = arrays[:-1]
    if name == "cumsum":
        return {"NumPy": lambda: np.cumsum(x, args[2], out=np.empty_like(x))}
    if name == "maxima":
        return {"NumPy": lambda: np.logaddexp.accumulate(x, 0)}

    def average() -> np.ndarray:
        made = np.empty_like(x)
        made[0] = x[0]
        for t in range(1, len(x)):
            made[t] = made[t - 1] * 0.9 + x[t] * 0.1
        return made

    def selective() -> np.ndarray:
        d, b, c, a = others
        decay, new = np.exp(d[:, :, None] * a), (d * x)[:, :, None] * b[:, None]
        for t in range(1, len(x)):
            new[t] += decay[t] * new[t - 1]
        return np.einsum("tin,tn->ti", new, c)

    def rnn() -> np.ndarray:
        made, w = np.tanh(x), others[0] * np.float32(args[1] ** -0.5)
        for t in range(1, len(x)):
            made[t] = np.tanh(w @ made[t - 1] + x[t])
        return made

    return {"NumPy": {"average": average, "selective": selective, "rnn": rnn}[name]}


def in_torch(name: str, args: tuple[int, ...], arrays: list[np.ndarray]) -> dict[str, Callable[[], Any]]:
    """torch's own function, where there is one."""
    try:
        import torch
    except ImportError:
        return {}
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    x, *others = (torch.from_numpy(array) for array in arrays[:-1])
    if name == "cumsum":
        return {"torch": lambda: torch.cumsum(x, args[2])}
    if name == "maxima":
        return {"torch": lambda: torch.logcumsumexp(x, 0)}
    if name == "rnn":
        n = args[1]
        cell = torch.nn.RNN(n, n, bias=False)
        cell.weight_ih_l0.copy_(torch.eye(n))
        cell.weight_hh_l0.copy_(others[0] * n**-0.5)
        return {"torch": lambda: cell(x)[0]}
    return {}


if __name__ == "__main__":
    sys.exit(main())
