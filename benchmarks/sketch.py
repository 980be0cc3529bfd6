"""Kernels without a template: tune sketches of named workloads, then time them beside other libraries in one process.

    python3 benchmarks/sketch.py                                        # all rows
    python3 benchmarks/sketch.py softmax conv2d --trials 100            # those workloads
    python3 benchmarks/sketch.py --args "matmul 512 384 640" --templates
    python3 benchmarks/sketch.py --args "matmul 64 1024 1024" --layout-free B --templates

The rivals are NumPy for products and torch (`pip install torch`; a rival that is not installed is left out), and with
`--templates` the hand-written template of the same computation, tuned with as many trials. With `--layout-free INPUT`
there are also the sketches that take this input packed ahead, and the templates with weights="packed". Results are
compared before anything is timed. Then all take turns, pinned to one core with one thread each. The output shows
medians, the ratio to the best rival (that packs nothing ahead), and how long deriving the sketches took. If
the vectors of --target are narrower than the machine's, environment variables limit the libraries to those vectors.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matmul import settle_environment

import pegbox as pb
from pegbox import te
from pegbox.templates import pack_weights

ROWS = (
    "matmul_bias_relu 1024 1024 1024", "matmul_bias_relu 1000 999 1001", "matmul_bias_gelu 256 1024 1024",
    "conv2d 1 64 56 56 128 3 1 1", "conv2d_bn_relu 1 64 56 56 64 3 1 1", "conv2d_bn_relu 1 128 28 28 128 3 1 1",
    "conv2d_bn_relu 1 256 14 14 256 3 1 1", "conv2d_bn_relu 1 512 7 7 512 3 1 1", "depthwise_conv2d 1 144 56 56 3 1 1",
    "softmax 1024 1024", "layer_norm 1024 1024",
)  # fmt: skip


def main() -> int:
    parser = parser_of_rows(__doc__, "matmul 512 384 640", trials=200)
    parser.add_argument("--templates", action="store_true", help="tune the hand-written template too")
    parser.add_argument("--layout-free", metavar="INPUT", help="tune the sketches with this input packed ahead too")
    options = parser.parse_args()
    settle_environment(options)
    for name, args in chosen_rows(options, ROWS):
        print_row(name, args, options)
    return 0


def parser_of_rows(text: str | None, example: str, *, trials: int) -> argparse.ArgumentParser:
    """The options of scripts that print a row for each of some workloads."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workloads", nargs="*", help="only the rows of these workloads")
    parser.add_argument("--args", action="append", help=f'other rows, as "{example}"')
    add_options(parser, trials=trials)
    return parser


def chosen_rows(options: argparse.Namespace, rows: Sequence[str]) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The workloads that the options ask for, with their arguments."""
    for row in options.args or [r for r in rows if not options.workloads or r.split()[0] in options.workloads]:
        name, *words = row.split()
        yield name, tuple(map(int, words))


def add_options(parser: argparse.ArgumentParser, *, trials: int) -> None:
    """The options of scripts that tune sketches and time them beside rivals."""
    parser.add_argument("--trials", type=int, default=trials)
    parser.add_argument("--target", default="llvm -num-cores 1")
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tuner", default=None, help="default: that of pb.tune")


def print_row(name: str, args: tuple[int, ...], options: argparse.Namespace) -> None:
    start = time.perf_counter()
    task = pb.create_task(name, args=args, space="sketch", target=options.target)
    derived = time.perf_counter() - start
    result = tuned(task, options)
    kernel = pb.build(task, config=result.best.config)
    arrays = arrays_of(task)
    kernel(*arrays)
    calls = {name: call for name, call in rivals(name, args, arrays).items() if call is not None}
    for rival, call in calls.items():
        np.testing.assert_allclose(arrays[-1], np.asarray(call()), rtol=2e-3, atol=2e-3, err_msg=rival)
    kernels = {"ours": (kernel, arrays)}
    if options.layout_free:
        kernels["packed ahead"] = packed_ahead(name, args, task, arrays, options)
    for weights in ("plain", "packed") if options.layout_free else ("plain",):
        template = template_of(name, args, weights, options) if options.templates else None
        if template is not None:
            kernels["template" if weights == "plain" else "packed template"] = template
    ns = timed(kernels, calls, options.rounds)
    best = min((value for key, value in ns.items() if key in (*calls, "template")), default=float("nan"))
    others = ", ".join(f"{key} {value / 1e3:.1f}" for key, value in ns.items() if key != "ours")
    print(
        f"{name} {'x'.join(map(str, args))}: ours {ns['ours'] / 1e3:.1f} µs, {others}; ratio {best / ns['ours']:.2f}; "
        f"{task.flop / ns['ours']:.1f} GFLOP/s; derived in {derived * 1e3:.0f} ms; {len(result.trials)} trials in "
        f"{result.elapsed:.0f} s; {result.best.config}",
        flush=True,
    )


def tuned(task: pb.Task, options: argparse.Namespace, *, records: Path | None = None) -> Any:
    more: dict[str, Any] = {"tuner": options.tuner} if options.tuner else {}
    if records:
        more |= {"records": records, "resume": True}
    result = pb.tune(task, trials=options.trials, seed=options.seed, progress=False, store=None, **more)
    if result.best is None:
        raise SystemExit(f"no valid kernel for {task}")
    return result


def packed_ahead(
    name: str, args: tuple[int, ...], plain: pb.Task, arrays: list[np.ndarray], options: argparse.Namespace
) -> tuple[Any, list[np.ndarray]]:
    """The tuned kernel of the sketches that take an input packed, with its arrays; its results are compared."""
    space = f"sketch:layout_free={options.layout_free}"
    task = pb.create_task(name, args=args, space=space, target=options.target)
    result = tuned(task, options)
    print(f"packed ahead: {len(result.trials)} trials in {result.elapsed:.0f} s; {result.best.config}", flush=True)
    inputs = [spec.name for spec in plain.arguments()]
    given = [pack_weights(task, a) if n == options.layout_free else a for n, a in zip(inputs, arrays, strict=True)]
    given[-1] = np.empty_like(arrays[-1])
    kernel = pb.build(task, config=result.best.config)
    kernel(*given)
    np.testing.assert_allclose(given[-1], arrays[-1], rtol=2e-3, atol=2e-3)
    return kernel, given


def template_of(
    name: str, args: tuple[int, ...], weights: str, options: argparse.Namespace
) -> tuple[Any, list[np.ndarray]] | None:
    """Tune the hand-written template of the same computation, if there is one; return its kernel, with arrays."""
    task = template_task(name, args, weights, options)
    return task and (pb.build(task, config=tuned(task, options).best.config), arrays_of(task))


def template_task(name: str, args: tuple[int, ...], weights: str, options: argparse.Namespace) -> pb.Task | None:
    """Make the task of the template that computes the same as a workload; None if there is none."""
    kwargs: dict[str, Any] = {"weights": "packed"} if weights == "packed" else {}
    epilogue = {"matmul_bias_relu": bias_relu, "matmul_bias_gelu": bias_gelu}.get(name)
    if epilogue is not None:
        name = "matmul"
    elif name in ("conv2d", "conv2d_bn_relu"):
        name, (n, c, y, x, o, k, stride, padding) = "conv2d", args
        args, kwargs = (n, c, y, x, o, k, k), {"stride": stride, "padding": padding} | kwargs
    elif name == "depthwise_conv2d":
        n, c, y, x, k, stride, padding = args
        args, kwargs = (n, c, y, x, k, k), {"stride": stride, "padding": padding} | kwargs
    elif name == "attention":
        heads, n, d = args
        args = (1, heads, n, n, d)
    elif name not in ("matmul", "softmax", "layer_norm"):
        return None
    return pb.create_task(name, args=args, kwargs=kwargs, target=options.target, epilogue=epilogue)


def bias_relu(c: te.Tensor) -> list[te.Tensor]:
    bias = te.placeholder(c.shape[1:], name="bias")
    return [bias, te.compute(c.shape, lambda i, j: te.maximum(c[i, j] + bias[j], 0.0), name="relu")]


def bias_gelu(c: te.Tensor) -> list[te.Tensor]:
    bias = te.placeholder(c.shape[1:], name="bias")
    x = te.compute(c.shape, lambda i, j: c[i, j] + bias[j], name="biased")
    factor = (2 / np.pi) ** 0.5

    def gelu(x: te.Expr) -> te.Expr:
        return 0.5 * x * (1.0 + te.tanh(factor * (x + 0.044715 * x * x * x)))

    return [bias, te.compute(c.shape, lambda i, j: gelu(x[i, j]), name="gelu")]


def arrays_of(task: pb.Task) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.uniform(-1, 1, spec.shape).astype(spec.dtype) for spec in task.arguments()]


def rivals(name: str, args: tuple[int, ...], arrays: list[np.ndarray]) -> dict[str, Callable[[], Any] | None]:
    """The same computation by other libraries."""
    found: dict[str, Callable[[], Any] | None] = {}
    if name == "matmul_bias_relu":
        a, b, bias, _ = arrays
        found["NumPy"] = lambda: np.maximum(a @ b + bias, 0)
    elif name == "matmul":
        found["NumPy"] = lambda: arrays[0] @ arrays[1]
    try:
        import torch
        import torch.nn.functional as f
    except ImportError:
        return found
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    t = [torch.from_numpy(array) for array in arrays[:-1]]
    if name == "matmul_bias_relu":
        found["torch"] = lambda: f.relu(torch.addmm(t[2], t[0], t[1]))
    elif name == "matmul_bias_gelu":
        found["torch"] = lambda: f.gelu(torch.addmm(t[2], t[0], t[1]), approximate="tanh")
    elif name == "conv2d":
        found["torch"] = lambda: f.conv2d(t[0], t[1], stride=args[6], padding=args[7])
    elif name == "conv2d_bn_relu":
        found["torch"] = fused_conv(f, t, args[6], args[7])
    elif name == "depthwise_conv2d":
        weight = t[1][:, None]
        found["torch"] = lambda: f.conv2d(t[0], weight, stride=args[5], padding=args[6], groups=args[1])
    elif name == "softmax":
        found["torch"] = lambda: f.softmax(t[0], 1)
    elif name == "layer_norm":
        found["torch"] = lambda: f.layer_norm(t[0], (args[1],), t[1], t[2])
    return found


def fused_conv(f: Any, t: list[Any], stride: int, padding: int) -> Callable[[], Any]:
    """Batch normalization folded into the weights ahead of time, as torch does at inference, and oneDNN's ReLU."""
    weight = t[1] * t[3][:, None, None, None]
    bias = t[2] * t[3] + t[4]
    return lambda: f.conv2d(t[0], weight, bias, stride=stride, padding=padding).relu_()


def timed(kernels: dict[str, tuple[Any, list[np.ndarray]]], calls: dict[str, Any], rounds: int) -> dict[str, float]:
    """Nanoseconds per call: medians of rounds in which all take turns."""
    affinity = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(affinity)})
    kernel, arrays = kernels["ours"]
    number = max(1, round(4e6 / max(kernel.time_ns(arrays, 2) / 2, 1)))
    samples: dict[str, list[float]] = {}
    for _ in range(rounds):
        for name, (each, given) in kernels.items():
            samples.setdefault(name, []).append(each.time_ns(given, number) / number)
        for name, call in calls.items():
            start = time.perf_counter_ns()
            for _ in range(number):
                call()
            samples.setdefault(name, []).append((time.perf_counter_ns() - start) / number)
    os.sched_setaffinity(0, affinity)
    return {name: statistics.median(values) for name, values in samples.items()}


if __name__ == "__main__":
    sys.exit(main())
