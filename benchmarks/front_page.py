"""The table of the README: operators of pegbox beside those of libraries and of TVM's MetaSchedule, as Markdown.

    taskset -c 1 python3 benchmarks/front_page.py                  # all rows
    taskset -c 1 python3 benchmarks/front_page.py softmax --trials 32
    taskset -c 1 python3 benchmarks/front_page.py --kept searches    # run again, it times the kernels without a search

Every column is a call from Python on the same arrays, on one core with one thread. Each call allocates its result, and
all operands are arguments: no library has packed weights beforehand. In the column "sketch" pegbox tunes the
computation alone (`space="sketch"`, the default tuner), in "all" the operator's implementations together, if it has
several (`Task.with_implementations`). MetaSchedule tunes the same program. All searches have the same number of trials;
NumPy is what one writes by hand. torch, ONNX Runtime (`pip install torch onnxruntime onnx`) and MetaSchedule (see
metaschedule.py) are left out if they are not installed. Results are compared before anything is timed; then all take
turns, and the table shows medians. The clock counts the processor time of this process, so that other programs on the
core do not count.
"""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
import re
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from matmul import settle_environment
from metaschedule import tuned_kernel
from numpy.lib.stride_tricks import sliding_window_view
from sketch import arrays_of, chosen_rows, parser_of_rows, template_task, tuned
from sketch import rivals as sketch_rivals

import pegbox as pb
from pegbox.task import TaskGroup

ROWS = {
    "matmul 512 512 512": "matrix product 512×512×512",
    "matmul_bias_gelu 256 1024 1024": "product, bias and GELU 256×1024×1024",
    "conv2d 1 64 56 56 64 3 1 1": "convolution 64→64, 56×56, 3×3",
    "depthwise_conv2d 1 144 56 56 3 1 1": "depthwise convolution 144, 56×56, 3×3",
    "softmax 1024 1024": "softmax 1024×1024",
    "layer_norm 1024 1024": "layer norm 1024×1024",
    "row_sum 4096 4096": "row sums 4096×4096",
    "attention 1 512 64": "attention 512×64",
}
# The packages of the rivals.
PACKAGES = {"NumPy": "numpy", "torch": "torch", "ONNX Runtime": "onnxruntime", "MetaSchedule": "apache-tvm"}
Call = Callable[[], Any]


def main() -> int:
    parser = parser_of_rows(__doc__, "softmax 512 2048", trials=200)
    parser.add_argument(
        "--kept", type=Path, help="a folder of searches: those in it are not repeated, new ones go there"
    )
    parser.add_argument("--rivals", nargs="+", default=[name for name in PACKAGES if version(name)], choices=PACKAGES)
    options = parser.parse_args()
    settle_environment(options)
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    columns = ["sketch", "all", *options.rivals]
    print("| µs a call | " + " | ".join(columns) + " |", "| --- |" + " ---: |" * len(columns), sep="\n", flush=True)
    for name, args in chosen_rows(options, list(ROWS)):
        words = " ".join([name, *map(str, args)])
        us = timed_row(name, args, options)
        best = min(us.values())
        cells = (f"{us[column]:,.0f}" if column in us else "" for column in columns)
        bold = (f"**{cell}**" if us.get(column) == best else cell for column, cell in zip(columns, cells, strict=True))
        print(f"| {ROWS.get(words, words)} | " + " | ".join(bold) + " |", flush=True)
    versions = ", ".join(f"{name} {version(name)}" for name in options.rivals)
    today = datetime.date.today()
    print(f"\nOne core of {processor()}, {today:%B} {today:%Y}, float32; {options.trials} trials; {versions}.")
    return 0


def timed_row(name: str, args: tuple[int, ...], options: Any) -> dict[str, float]:
    """Microseconds of a call for each column: medians of rounds in which all take turns."""
    task = pb.create_task(name, args=args, space="sketch", target=options.target)
    arrays = arrays_of(task)
    kept = options.kept and options.kept / "-".join([name, *map(str, args)])
    if kept:
        kept.mkdir(parents=True, exist_ok=True)
    calls = {"sketch": tuned_call(task, arrays, options, records=kept and kept / "pegbox.jsonl")}
    result = calls["sketch"]()
    group = (template_task(name, args, "plain", options) or task).with_implementations()
    if len(group.tasks) > 1:
        # The template of attention has a dimension for the batch.
        given = [array.reshape(spec.shape) for array, spec in zip(arrays, group.arguments(), strict=True)]
        calls["all"] = tuned_call(group, given, options, records=kept and kept / "implementations.jsonl")
        np.testing.assert_allclose(result, calls["all"]().reshape(result.shape), rtol=2e-3, atol=2e-3)
    for rival in options.rivals:
        if rival == "MetaSchedule":
            calls[rival] = tuned_kernel(name, args, arrays, options, kept=kept)
            got = calls[rival]().numpy()
        else:
            calls[rival] = MADE[rival](name, args, arrays)
            got = np.asarray(calls[rival]())
        np.testing.assert_allclose(result, got, rtol=2e-3, atol=2e-3, err_msg=rival)
    return in_turns(calls, options.rounds)


def tuned_call(task: pb.Task | TaskGroup, arrays: list[np.ndarray], options: Any, *, records: Path | None) -> Call:
    """Tune, and return a call of the fastest kernel that the search finds."""
    *inputs, output = arrays
    found = tuned(task, options, records=records)
    kernel = pb.build(found.task, config=found.best)
    return lambda: kernel(*inputs, out=np.empty_like(output))


def in_turns(calls: dict[str, Call], rounds: int) -> dict[str, float]:
    """Microseconds of each call; a sample takes about 4 ms, or one call."""
    numbers = {name: max(1, round(4e-3 / once(call, 2))) for name, call in calls.items()}
    samples: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            samples[name].append(once(call, numbers[name]))
    return {name: 1e6 * statistics.median(values) for name, values in samples.items()}


def once(call: Call, number: int) -> float:
    """Seconds of one call, the mean of `number`."""
    start = time.process_time()
    for _ in range(number):
        call()
    return (time.process_time() - start) / number


def numpy_call(name: str, args: tuple[int, ...], arrays: list[np.ndarray]) -> Call:
    """The computation as one writes it with NumPy."""
    x, *others, _ = arrays
    w = others[0] if others else None
    if name == "matmul":
        return lambda: x @ w
    if name == "matmul_bias_gelu":
        return lambda: gelu(x @ w + others[1])
    if name == "softmax":
        return lambda: softmax(x)
    if name == "layer_norm":
        return lambda: (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5) * w + others[1]
    if name == "row_sum":
        return lambda: x.sum(axis=1)
    if name == "attention":
        return lambda: softmax(x @ w.transpose(0, 2, 1) * np.float32(args[2] ** -0.5)) @ others[1]
    side = ((0, 0), (0, 0), (1, 1), (1, 1))
    if name == "conv2d":
        return lambda: np.tensordot(w, windows(np.pad(x, side)), axes=((1, 2, 3), (1, 4, 5))).transpose(1, 0, 2, 3)
    if name == "depthwise_conv2d":
        return lambda: np.einsum("ncyxij,cij->ncyx", windows(np.pad(x, side)), w)
    raise SystemExit(f"{name} has no row here; give one of {', '.join(row.split()[0] for row in ROWS)}")


def windows(padded: np.ndarray) -> np.ndarray:
    return sliding_window_view(padded, (3, 3), axis=(2, 3))


def softmax(x: np.ndarray) -> np.ndarray:
    power = np.exp(x - x.max(-1, keepdims=True))
    return power / power.sum(-1, keepdims=True)


def gelu(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1 + np.tanh(np.float32(np.sqrt(2 / np.pi)) * (x + 0.044715 * x**3)))


def torch_call(name: str, args: tuple[int, ...], arrays: list[np.ndarray]) -> Call:
    import torch

    known = sketch_rivals(name, args, arrays).get("torch")
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    t = [torch.from_numpy(array) for array in arrays[:-1]]
    more: dict[str, Call] = {
        "matmul": lambda: torch.matmul(*t),
        "row_sum": lambda: torch.sum(t[0], 1),
        "attention": lambda: torch.nn.functional.scaled_dot_product_attention(*t),
    }
    return known or more[name]


def onnx_call(name: str, args: tuple[int, ...], arrays: list[np.ndarray]) -> Call:
    """A session of ONNX Runtime whose inputs are all operands; the model has opset 20."""
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper

    names = [f"in{place}" for place in range(len(arrays) - 1)]
    convolution = {"pads": [1, 1, 1, 1]}
    constants = {}
    given = dict(zip(names, arrays, strict=False))
    if name == "depthwise_conv2d":
        convolution["group"] = args[1]
        given["in1"] = given["in1"][:, None]
    if name == "attention":
        constants = {"scale": np.float32(args[2] ** -0.5)}
    if name == "row_sum":
        constants = {"axes": np.array([1])}
    nodes: dict[str, list[tuple[str, list[str], dict[str, Any]]]] = {
        "matmul": [("MatMul", names, {})],
        "matmul_bias_gelu": [
            ("MatMul", names[:2], {}),
            ("Add", ["0", "in2"], {}),
            ("Gelu", ["1"], {"approximate": "tanh"}),
        ],
        "conv2d": [("Conv", names, convolution)],
        "depthwise_conv2d": [("Conv", names, convolution)],
        "softmax": [("Softmax", names, {"axis": 1})],
        "layer_norm": [("LayerNormalization", names, {"axis": 1, "epsilon": 1e-5})],
        "row_sum": [("ReduceSum", ["in0", "axes"], {"keepdims": 0})],
        "attention": [
            ("Transpose", ["in1"], {"perm": [0, 2, 1]}),
            ("MatMul", ["in0", "0"], {}),
            ("Mul", ["1", "scale"], {}),
            ("Softmax", ["2"], {"axis": 2}),
            ("MatMul", ["3", "in2"], {}),
        ],
    }
    steps = nodes[name]
    outputs = [*map(str, range(len(steps) - 1)), "out"]
    graph = helper.make_graph(
        [helper.make_node(op, taken, [to], **more) for (op, taken, more), to in zip(steps, outputs, strict=True)],
        name,
        [helper.make_tensor_value_info(key, TensorProto.FLOAT, array.shape) for key, array in given.items()],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(value), key) for key, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = settings.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), settings, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, given)[0]


MADE = {"NumPy": numpy_call, "torch": torch_call, "ONNX Runtime": onnx_call}


def version(rival: str) -> str:
    """The installed version of a rival without what follows "+"; "" if it is not installed."""
    try:
        return importlib.metadata.version(PACKAGES[rival]).partition("+")[0]
    except importlib.metadata.PackageNotFoundError:
        return ""


def processor() -> str:
    """The processor's name and the instruction set that kernels are compiled for."""
    found = re.search(r"^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text(), flags=re.M)
    return f"{found[1] if found else platform.machine()} ({pb.Target.host().cpu})"


if __name__ == "__main__":
    sys.exit(main())
