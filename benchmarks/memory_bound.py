"""Softmax, normalizations and activations against a copy of the same bytes, torch and ONNX Runtime.

    python3 benchmarks/memory_bound.py                        # rows that no cache holds, and rows that a cache holds
    python3 benchmarks/memory_bound.py --mbytes 64 0.2 --columns 1024 197 --seconds 2

Kernels are untuned: they have predicted configurations. All run on one core in turns; each cell is the fastest
call, since noise only adds. A copy reads and writes each byte once, as the operators do at least; `copy` is a kernel of
pegbox with ordinary stores, `around` one whose large results use nontemporal stores, as those of long rows and of
functions do. `numpy.copyto` may do either. `of copy` is the speed relative to `copy`, `of fastest` to the fastest of
the three.
Nanoseconds are those of an element. Results are compared before anything is timed. torch allocates its results at each
call, which costs more than the operator where they are large.

Arrays lie `--distance` MiB apart. Zen cores look up a line in L1 by a hash of its address; if two lines
have the same hash, an access to one makes the next access to the other a miss (Lipp et al., Take A Way, ASIA CCS
2020). 256 MiB is the worst distance. Arrays of 64 MiB that NumPy allocates one after the other, 64.004 MiB apart, lose
less. At the default distance, lines of an array and its result that are used together have different hashes. Arrays
begin at cache lines, as large results of operators do; those of NumPy begin 16 bytes behind one (`--offset 16`).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import pegbox as pb
from pegbox import te

Call = Callable[[], Any]
Array = np.ndarray[Any, Any]
ONNX = {"softmax": "Softmax", "log_softmax": "LogSoftmax", "layer_norm": "LayerNormalization", "exp": "Exp"}
NO_CACHE = 32 << 20
"""The bytes of results from which functions, like rows, use nontemporal stores."""

BY_ROWS = ("softmax", "log_softmax", "layer_norm", "rms_norm")
ELEMENTS: dict[str, Callable[[te.Expr], te.Expr]] = {
    "exp": te.exp,
    "tanh": te.tanh,
    "sigmoid": te.sigmoid,
    "erf": te.erf,
    "gelu": lambda x: 0.5 * x * (1 + te.erf(x * 0.5**0.5)),
    "gelu_tanh": lambda x: 0.5 * x * (1 + te.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x * x * x))),
    "silu": lambda x: x * te.sigmoid(x),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mbytes", type=float, nargs="+", default=[64, 0.2], help="of the input")
    parser.add_argument("--columns", type=int, nargs="+", default=[1024, 197])
    parser.add_argument("--names", nargs="+", default=[*BY_ROWS, *ELEMENTS], choices=[*BY_ROWS, *ELEMENTS])
    parser.add_argument("--seconds", type=float, default=2, help="seconds per row of the table")
    parser.add_argument("--distance", type=float, default=256.5, help="MiB between an array and its result")
    parser.add_argument("--offset", type=int, default=0, help="bytes between a cache line and an array; NumPy's: 16")
    parser.add_argument("--target", default="llvm -mcpu=native")
    options = parser.parse_args()
    print("| ns an element | size | pegbox | copy | around | copyto | torch | ONNX Runtime | of copy | of fastest |")
    print("| --- | --- |" + " ---: |" * 8)
    for mbytes in options.mbytes:
        for columns in options.columns:
            rows = max(1, round(mbytes * 2**20 / 4 / columns))
            for name in options.names if columns == options.columns[0] else filter(BY_ROWS.__contains__, options.names):
                print(measured(name, rows, columns, options), flush=True)
    return 0


def measured(name: str, rows: int, columns: int, options: argparse.Namespace) -> str:
    """Write a row of the table."""
    rng = np.random.default_rng(0)
    x, found, copied, onnx = spaced_arrays(4, (rows, columns), options)
    rng.standard_normal(out=x, dtype="float32")
    weights = [
        rng.standard_normal(columns).astype("float32") for _ in range({"layer_norm": 2, "rms_norm": 1}.get(name, 0))
    ]
    kernel, copy, around = (ours(each, rows, columns, options.target) for each in (name, "copy", "around"))
    calls: dict[str, Call] = {
        "pegbox": lambda: kernel(x, *weights, found),
        "copy": lambda: copy(x, copied),
        "around": lambda: around(x, copied),
        "copyto": lambda: np.copyto(copied, x),
    }
    calls |= {rival: call for rival, call in rivals(name, x, weights, onnx).items() if call is not None}
    kernel(x, *weights, found)
    for rival in calls.keys() - {"pegbox", "copy", "around", "copyto"}:
        np.testing.assert_allclose(found[:64], np.asarray(calls[rival]())[:64], rtol=1e-4, atol=1e-5)
    best = fastest(calls, options.seconds)
    cells = [
        f"{best[key] / x.size:.3f}" if key in best else ""
        for key in ("pegbox", "copy", "around", "copyto", "torch", "ONNX Runtime")
    ]
    copies = best["copy"], min(best[key] for key in ("copy", "around", "copyto"))
    cells += [f"{seconds / best['pegbox']:.2f}" for seconds in copies]
    return f"| {name} | {rows}×{columns} | {' | '.join(cells)} |"


def ours(name: str, rows: int, columns: int, target: str) -> pb.Kernel:
    """Build a kernel that was not tuned."""
    target = f"{target} -num-cores 1"
    if name in BY_ROWS:
        return pb.build(pb.create_task(name, args=(rows, columns), target=target))
    x = te.placeholder((rows * columns,), name="x")
    y = te.compute(x.shape, lambda i: ELEMENTS.get(name, lambda e: e)(x[i]), name="y")
    s = te.create_schedule(y.op)
    blocks, inside = s[y].split(y.op.axis[0], factor=32)
    s[y].vectorize(inside)
    if name != "copy" and x.buffer.nbytes > NO_CACHE:
        s[y].pragma(blocks, "nontemporal")
    kernel: pb.Kernel = pb.build(s, [x, y], target=target)
    return lambda *arrays: kernel(*(array.reshape(-1) for array in arrays))  # type: ignore[return-value]


def rivals(name: str, x: Array, weights: list[Array], made: Array) -> dict[str, Call | None]:
    """Make the calls of rivals that are installed; ONNX Runtime's result goes to `made`."""
    return {"torch": torch_call(name, x, weights), "ONNX Runtime": onnx_call(name, x, weights, made)}


def torch_call(name: str, x: Array, weights: list[Array]) -> Call | None:
    try:
        import torch
        from torch.nn import functional
    except ImportError:
        return None
    torch.set_num_threads(1)
    given, more, shape = torch.from_numpy(x), [torch.from_numpy(each) for each in weights], x.shape[1:]
    calls: dict[str, Call] = {
        "softmax": lambda: torch.softmax(given, -1),
        "log_softmax": lambda: torch.log_softmax(given, -1),
        "layer_norm": lambda: functional.layer_norm(given, shape, *more),
        "rms_norm": lambda: functional.rms_norm(given, shape, *more, eps=1e-5),
        "gelu": lambda: functional.gelu(given),
        "gelu_tanh": lambda: functional.gelu(given, approximate="tanh"),
        "silu": lambda: functional.silu(given),
    }
    return calls.get(name) or (lambda: getattr(torch, name)(given))


def onnx_call(name: str, x: Array, weights: list[Array], made: Array) -> Call | None:
    """Make a call of one operator whose arrays stay bound."""
    try:
        import onnxruntime  # noqa: F401 - for `bound_call`
        from onnx import helper, numpy_helper
    except ImportError:
        return None
    if name not in ONNX:
        return None
    kind = helper.np_dtype_to_tensor_dtype(x.dtype)
    constants = [numpy_helper.from_array(each, f"w{number}") for number, each in enumerate(weights)]
    node = helper.make_node(ONNX[name], ["x", *(each.name for each in constants)], ["y"])
    x_info, y_info = (helper.make_tensor_value_info(each, kind, x.shape) for each in "xy")
    return bound_call(helper.make_graph([node], name, [x_info], [y_info], constants), x, made)


def bound_call(graph: Any, x: Array, made: Array) -> Call:
    """Make a call of ONNX Runtime on one core for a graph from x to y, whose arrays stay bound."""
    import onnxruntime
    from onnx import helper

    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    binding.bind_input("x", "cpu", 0, x.dtype, x.shape, x.ctypes.data)
    binding.bind_output("y", "cpu", 0, made.dtype, made.shape, made.ctypes.data)

    def call() -> Array:
        session.run_with_iobinding(binding)
        return made

    return call


def spaced_arrays(number: int, shape: tuple[int, int], options: argparse.Namespace) -> list[Array]:
    """Make arrays that begin `distance` MiB apart; longer ones follow each other, each `offset` bytes behind a line."""
    size = shape[0] * shape[1]
    step = max(round(options.distance * 2**20 / 4), -(-size // 16) * 16)
    all_of_them = np.empty(step * number + 32, "float32")
    first = -all_of_them.ctypes.data // 4 % 16 + options.offset // 4
    return [all_of_them[first + step * n :][:size].reshape(shape) for n in range(number)]


def fastest(calls: dict[str, Call], seconds: float) -> dict[str, float]:
    """Return the nanoseconds of processor time of the fastest call of each, which take turns."""
    best = dict.fromkeys(calls, float("inf"))
    numbers = {name: max(1, int(1e5 // mean(call, 3))) for name, call in calls.items()}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for name, call in calls.items():
            best[name] = min(best[name], mean(call, numbers[name]))
    return best


def mean(call: Call, number: int) -> float:
    """Return the nanoseconds of a call, the mean of `number`; time spent waiting for the core does not count."""
    call()
    started = time.thread_time_ns()
    for _ in range(number):
        call()
    return (time.thread_time_ns() - started) / number


if __name__ == "__main__":
    raise SystemExit(main())
