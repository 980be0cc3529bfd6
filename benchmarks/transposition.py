"""Transpositions of images and matrices beside a copy of the same bytes, NumPy, torch and ONNX Runtime.

    python3 benchmarks/transposition.py
    python3 benchmarks/transposition.py --rows 1x96x112x112:0231 64x1000:10 --target 'llvm -mcpu=x86-64-v3'

Kernels are untuned: they have the first configuration of the space `transposition`. All run on one core in turns, by
the clock of `memory_bound.py`; each cell is the fastest call. `of copy` is the speed relative to a copy by pegbox.
Results are compared before anything is timed.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from memory_bound import Call, bound_call, fastest

import pegbox as pb
from pegbox import te

Array = np.ndarray[Any, Any]
ROWS = (
    "1x3x224x224:0231", "1x64x56x56:0231", "1x56x56x64:0312", "1x112x112x96:0312", "1x768x14x14:0231",
    "1x14x14x768:0312", "4x130x33x31:0231", "1x1024x64x64:0231", "1x128x128x256:0312", "1x197x6x64:0231", "512x768:10",
)  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="+", default=ROWS, help="a shape, and the order of its axes in the result")
    parser.add_argument("--seconds", type=float, default=2, help="seconds per row of the table")
    parser.add_argument("--target", default="llvm -mcpu=native")
    options = parser.parse_args()
    names = "pegbox", "copy", "NumPy", "torch", "ONNX Runtime"
    print(f"| shape | order | {' | '.join(f'{name} µs' for name in names)} | of copy |")
    print("| --- | --- |" + " ---: |" * (len(names) + 1))
    for row in options.rows:
        shape, order = row.split(":")
        best = measured(tuple(map(int, shape.split("x"))), tuple(map(int, order)), options)
        cells = " | ".join(f"{best[name] * 1e-3:.1f}" if name in best else "" for name in names)
        print(f"| {shape} | {order} | {cells} | {best['copy'] / best['pegbox']:.2f} |", flush=True)
    return 0


def measured(shape: tuple[int, ...], order: tuple[int, ...], options: argparse.Namespace) -> dict[str, float]:
    """Return the nanoseconds of the fastest call of each."""
    x = np.random.default_rng(0).standard_normal(shape, "float32")
    expected = x.transpose(order)
    found, copied, made = np.empty(expected.shape, "float32"), np.empty_like(x), np.empty(expected.shape, "float32")
    kernel, copy = (ours(shape, axes, options.target) for axes in (order, tuple(range(len(shape)))))
    calls: dict[str, Call] = {
        "pegbox": lambda: kernel(x, found),
        "copy": lambda: copy(x.reshape(-1), copied.reshape(-1)),
        "NumPy": lambda: np.copyto(made, expected),
        **torch_call(x, order),
        **onnx_call(x, order),
    }
    kernel(x, found)
    np.testing.assert_array_equal(found, expected)
    for rival in calls.keys() & {"torch", "ONNX Runtime"}:
        np.testing.assert_array_equal(np.asarray(calls[rival]()), expected)
    return fastest(calls, options.seconds)


def ours(shape: tuple[int, ...], order: tuple[int, ...], target: str) -> pb.Kernel:
    """Build a kernel that was not tuned; a copy is one of a line."""
    target = f"{target} -num-cores 1"
    if order == tuple(sorted(order)):
        line = te.placeholder((int(np.prod(shape)),), name="x")
        copy = te.compute(line.shape, lambda i: line[i], name="y")
        s = te.create_schedule(copy.op)
        s[copy].vectorize(s[copy].split(copy.op.axis[0], factor=32)[1])
        return pb.build(s, [line, copy], target=target)
    x, places = te.placeholder(shape, name="x"), np.argsort(order)
    y = te.compute(tuple(shape[n] for n in order), lambda *at: x(*(at[n] for n in places)), name="y")
    return pb.build(pb.create_task([x, y], space="transposition", target=target))


def torch_call(x: Array, order: tuple[int, ...]) -> dict[str, Call]:
    try:
        import torch
    except ImportError:
        return {}
    torch.set_num_threads(1)
    given = torch.from_numpy(x).permute(order)
    made = torch.empty(given.shape)
    return {"torch": lambda: made.copy_(given)}


def onnx_call(x: Array, order: tuple[int, ...]) -> dict[str, Call]:
    """Make a call whose arrays stay bound."""
    try:
        import onnxruntime  # noqa: F401 - for `bound_call`
        from onnx import TensorProto, helper
    except ImportError:
        return {}
    made = np.empty([x.shape[n] for n in order], "float32")
    infos = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, each.shape) for name, each in (("x", x), ("y", made))
    ]
    graph = helper.make_graph([helper.make_node("Transpose", ["x"], ["y"], perm=order)], "g", infos[:1], infos[1:])
    return {"ONNX Runtime": bound_call(graph, x, made)}


if __name__ == "__main__":
    raise SystemExit(main())
