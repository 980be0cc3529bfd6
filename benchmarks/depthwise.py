"""Depthwise convolutions, alone and with pointwise ones, and others in groups: kernels, rivals and limits in turns.

    python3 benchmarks/depthwise.py                              # layers of MobileNetV2 and EfficientNet-B0
    python3 benchmarks/depthwise.py --in-groups                  # of ResNeXt, RegNet and ShuffleNet, only NHWC
    python3 benchmarks/depthwise.py --separable                  # with the pointwise convolution that follows
    python3 benchmarks/depthwise.py 144x56x56-3-s1-p1            # CxHxW-K, -s stride, -p padding, -g groups,
    python3 benchmarks/depthwise.py 96x28x28-5-p4-d2-n4-o24      # -d dilation, -n images, -o pointwise outputs
    python3 benchmarks/depthwise.py --layout NHWC --trials 0     # untuned: the configurations that are predicted

The rivals are torch, in the same layout, and ONNX Runtime, which takes only NCHW and is shown for both. ONNX Runtime
writes into an existing array, as pegbox does; torch allocates its result. Filters in groups and pointwise ones are
packed ahead, as ONNX Runtime has constants. A rival that is not installed is left out. A bias and ReLU6 are between
a depthwise and a pointwise convolution; "two kernels" are ours for one convolution each, with as many trials.
The roofline is that of one core, the longer of two times: that of the multiply-adds at the peak, which is measured in
turns with the kernels, and that of reading the inputs and writing the output, measured with as many bytes. All take
turns, pinned to one core, each after a call that brings its arrays back into the caches; the output shows the least
time of each, because disturbances only add to it. With `--aligned`, arrays begin at a cache line, as those of a model
do, also those of the searches. NumPy's large arrays begin 16 bytes after the start of one, so that each vector of 64
bytes spans two lines. ONNX Runtime's always begin at one.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

# As in matmul.py: use one thread.
if os.environ.get("OMP_NUM_THREADS") != "1":
    os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | {"OMP_NUM_THREADS": "1"})

import numpy as np
from peak import peak_kernel

import pegbox as pb
from pegbox import te
from pegbox.codegen import aligned_copy
from pegbox.codegen.runtime.roof_kernels import LEAST_BYTES
from pegbox.measure.baselines.roofline import measure_roofline
from pegbox.templates import pack_weights

SHAPES = (
    "32x112x112-3-s1-p1", "96x112x112-3-s2-p1", "144x56x56-3-s1-p1", "192x28x28-3-s1-p1", "384x14x14-3-s1-p1",
    "960x7x7-3-s1-p1", "144x56x56-5-s2-p2", "240x28x28-5-s1-p2", "672x14x14-5-s1-p2", "60x33x37-3-s1-p1",
)  # fmt: skip
IN_GROUPS = (
    "128x56x56-3-s1-p1-g32", "512x28x28-3-s2-p1-g32", "512x14x14-3-s1-p1-g32", "1024x7x7-3-s1-p1-g32",
    "104x28x28-3-s1-p1-g13", "440x7x7-3-s1-p1-g55", "192x28x28-3-s2-p1-g4", "240x28x28-1-s1-p0-g3",
    "60x20x20-5-s1-p2-g5",
)  # fmt: skip
SEPARABLE = (
    "32x112x112-3-s1-p1-o16", "96x112x112-3-s2-p1-o24", "144x56x56-3-s1-p1-o24", "144x56x56-5-s2-p2-o40",
    "192x28x28-3-s1-p1-o32", "384x14x14-3-s1-p1-o64", "576x14x14-3-s2-p1-o160", "960x7x7-3-s1-p1-o160",
    "64x112x112-3-s2-p1-o128", "128x56x56-3-s1-p1-o128", "256x28x28-3-s1-p1-o256", "512x14x14-3-s1-p1-o512",
)  # fmt: skip
_LETTERS = {"s": 1, "p": 0, "g": 0, "d": 1, "n": 1, "o": 0}
_SHAPE = re.compile(r"(\d+)x(\d+)x(\d+)-(\d+)" + "".join(rf"(?:-{letter}(\d+))?" for letter in _LETTERS))
Call = Callable[[], np.ndarray]
Kernels = list[tuple[Any, list[np.ndarray]]]
"""Kernels and their arrays."""


class Sizes(NamedTuple):
    """The sizes of a convolution. 0 groups: each channel has its own filter. 0 outputs: no pointwise one follows."""

    c: int
    h: int
    w: int
    k: int
    stride: int
    padding: int
    groups: int
    dilation: int
    n: int
    outputs: int


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shapes", nargs="*")
    parser.add_argument("--in-groups", action="store_true")
    parser.add_argument("--separable", action="store_true")
    parser.add_argument("--layout", nargs="+", default=("NHWC", "NCHW"), choices=("NHWC", "NCHW"))
    parser.add_argument("--target", default="llvm -num-cores 1", help="a target of one core; default: this machine")
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=31)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--aligned", action="store_true", help="arrays begin at cache lines")
    options = parser.parse_args()
    for text in options.shapes or (IN_GROUPS if options.in_groups else SEPARABLE if options.separable else SHAPES):
        found = _SHAPE.fullmatch(text)
        if found is None:
            raise SystemExit(f"{text!r} is not a convolution in groups: write CxHxW-K, as 144x56x56-3-s1-p1")
        usual = (0, 0, 0, 0, *_LETTERS.values())
        sizes = Sizes(*(int(number or other) for number, other in zip(found.groups(), usual, strict=True)))
        for layout in ("NHWC",) if sizes.groups else options.layout:
            one_case(text, sizes, layout, options)
    return 0


def one_case(text: str, sizes: Sizes, layout: str, options: argparse.Namespace) -> None:
    task = task_of(sizes, layout, options.target)
    kernel, config = built(task, options)
    given = Operands.random(task, sizes)
    arrays = [*given.inputs, given.out]
    if options.aligned:
        arrays = [aligned_copy(array) for array in arrays]
        given = given._replace(inputs=arrays[:-1], out=arrays[-1])
    kernel(*arrays)
    calls = dict([*_torch(given, layout, sizes), *_onnxruntime(given, layout, sizes)])
    for name, call in calls.items():
        np.testing.assert_allclose(given.out, call(), rtol=1e-3, atol=1e-3, err_msg=name)
    if task.target.vector_bits < pb.Target.host().vector_bits:
        calls.pop("ORT", None)
    kernels = [(kernel, arrays)]
    if sizes.outputs:
        kernels += two_kernels(given, sizes, layout, options)
    ns, peak = timed(kernels, calls, options.rounds, task.target)
    read, written = sum(array.nbytes for array in given.inputs), given.out.nbytes
    core = min(os.sched_getaffinity(0))
    size = max((read + written) // LEAST_BYTES, 1) * LEAST_BYTES
    roof = measure_roofline("float32", size, task.target, [core])
    limits = {"arithmetic": task.flop / peak, "memory": 1e9 * roof.seconds(read=read, written=written)}
    bound = max(limits, key=lambda name: limits[name])
    rivals = ", ".join(
        f"{name} {value / 1e3:.1f} ({value / ns['ours']:.2f})" for name, value in ns.items() if name != "ours"
    )
    print(
        f"{text} {layout}: ours {ns['ours'] / 1e3:.1f} µs, {task.flop / ns['ours']:.1f} GFLOP/s, "
        f"{limits[bound] / ns['ours']:.0%} of the roofline ({bound}: {limits[bound] / 1e3:.1f} µs, peak {peak:.1f} "
        f"GFLOP/s, copy {roof.copy:.1f} GB/s); rivals µs (ratio): {rivals}; {config or 'predicted'}",
        flush=True,
    )


def task_of(sizes: Sizes, layout: str, target: str) -> pb.Task:
    c, h, w, k, stride, padding, groups, dilation, n, outputs = sizes
    kwargs = {"stride": stride, "padding": padding, "dilation": dilation, "layout": layout}
    if groups:
        args, kwargs["weights"] = (n, c, h, w, c, k, k, groups), "packed"
        return pb.create_task("group_conv2d", args, kwargs, target=target)
    if outputs:
        kwargs |= {"weights": "packed", "activation": "relu6", "bias": True}
        return pb.create_task("separable_conv2d", (n, c, h, w, outputs, k, k), kwargs, target=target)
    return pb.create_task("depthwise_conv2d", (n, c, h, w, k, k), kwargs, target=target)


def built(task: pb.Task, options: argparse.Namespace) -> tuple[Any, pb.Config | None]:
    """Build a task's kernel, and return it with the tuned configuration; without trials it is predicted (None)."""
    if not options.trials:
        return pb.build(task), None
    measured = {"aligned": options.aligned}
    result = pb.tune(
        task, trials=options.trials, seed=options.seed, progress=False, store=None, measure_options=measured
    )
    if result.best is None:
        raise SystemExit(f"no valid kernel for {task}: {result.failures}")
    return pb.build(task, config=result.best.config), result.best.config


def two_kernels(given: Operands, sizes: Sizes, layout: str, options: argparse.Namespace) -> Kernels:
    """Return a depthwise kernel and a pointwise one, with their arrays, that compute the same as the fused one."""

    def relu6(c: Any) -> Any:
        bias = te.placeholder((sizes.c,), name="bias")
        return te.compute(
            c.shape, lambda *i: te.min(te.max(c(*i) + bias[i[layout.index("C")]], 0), 6), name="relu6"
        )  # fmt: skip

    first = task_of(sizes._replace(outputs=0), layout, options.target).with_epilogue(relu6)
    x, filters, bias, point = given.inputs
    middle = np.empty(first.arguments()[-1].shape, x.dtype)
    _, _, rows, columns = middle.shape if layout == "NCHW" else (0, 0, *middle.shape[1:3])
    kwargs = {"layout": layout, "weights": "packed"}
    args = (sizes.n, sizes.c, rows, columns, sizes.outputs, 1, 1)
    second = pb.create_task("conv2d", args, kwargs, target=options.target)
    out = np.empty_like(given.out)
    kernels = [
        (built(first, options)[0], [x, filters, bias, middle]),
        (built(second, options)[0], [middle, point, out]),
    ]
    for kernel, arrays in kernels:
        kernel(*arrays)
    np.testing.assert_allclose(given.out, out, rtol=1e-3, atol=1e-3, err_msg="two kernels")
    return kernels


class Operands(NamedTuple):
    """The arrays of a task, and its filters as rivals take them, in the layout OIHW (C, 1, K, K; O, C, 1, 1)."""

    inputs: list[np.ndarray]
    out: np.ndarray
    filters: np.ndarray
    point: np.ndarray | None

    @classmethod
    def random(cls, task: pb.Task, sizes: Sizes) -> Operands:
        rng = np.random.default_rng(0)
        *inputs, out = (rng.uniform(-1, 1, s.shape).astype(s.dtype) for s in task.arguments())
        filters, point = inputs[1], None
        if sizes.groups:
            filters = rng.uniform(-1, 1, (sizes.k, sizes.k, sizes.c // sizes.groups, sizes.c)).astype(out.dtype)
            inputs[1] = pack_weights(task, filters)
        if sizes.outputs:
            point = rng.uniform(-1, 1, (sizes.outputs, sizes.c, 1, 1)).astype(out.dtype)
            inputs[3] = pack_weights(task, point, "OIHW")
        is_last = task.workload[1]["layout"] == "NHWC"
        return cls(inputs, out, filters.transpose(3, 2, 0, 1) if is_last else filters, point)


def timed(kernels: Kernels, calls: dict[str, Call], rounds: int, target: pb.Target) -> tuple[dict[str, float], float]:
    """Return the least nanoseconds per call of all, which take turns, and a target's multiply-add peak in GFLOP/s.

    The first kernel is "ours"; others are called one after another, as "two kernels".
    """
    meter, flop = peak_kernel(target=target)
    vector = np.zeros(meter.args[0].shape, np.float32)
    affinity = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(affinity)})
    number = max(1, round(1e6 / max(one_after_another(kernels[:1], 2), 1)))
    samples: dict[str, list[float]] = {}
    peaks = []
    for _ in range(rounds):
        for name, group in (("ours", kernels[:1]), ("two kernels", kernels[1:])):
            if group:
                one_after_another(group, 1)
                samples.setdefault(name, []).append(one_after_another(group, number))
        for name, call in calls.items():
            call()
            start = time.perf_counter_ns()
            for _ in range(number):
                call()
            samples.setdefault(name, []).append((time.perf_counter_ns() - start) / number)
        peaks.append(flop / meter.time_ns([vector], 1))
    os.sched_setaffinity(0, affinity)
    return {name: min(values) for name, values in samples.items()}, max(peaks)


def one_after_another(kernels: Kernels, number: int) -> float:
    """Return the nanoseconds of one call of every kernel, the average of `number` rounds."""
    if len(kernels) == 1:
        kernel, arrays = kernels[0]
        return float(kernel.time_ns(arrays, number) / number)
    return sum(kernel.time_ns(arrays, 1) for _ in range(number) for kernel, arrays in kernels) / number


def _torch(given: Operands, layout: str, sizes: Sizes) -> Iterator[tuple[str, Call]]:
    try:
        import torch
    except ImportError:
        return
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    form = torch.contiguous_format if layout == "NCHW" else torch.channels_last  # logically NCHW
    data = torch.from_numpy(given.inputs[0])
    data = data if layout == "NCHW" else data.permute(0, 3, 1, 2)
    bias = torch.from_numpy(given.inputs[2]) if sizes.outputs else None
    weight, point = (
        None if array is None else torch.from_numpy(np.ascontiguousarray(array)).contiguous(memory_format=form)
        for array in (given.filters, given.point)
    )

    def call() -> np.ndarray:
        y = torch.nn.functional.conv2d(
            data, weight, bias, sizes.stride, sizes.padding, sizes.dilation, sizes.groups or sizes.c
        )
        if point is not None:
            y = torch.nn.functional.conv2d(torch.nn.functional.relu6(y, inplace=True), point)
        return np.asarray((y if layout == "NCHW" else y.permute(0, 2, 3, 1)).contiguous().numpy())

    yield "torch", call


def _onnxruntime(given: Operands, layout: str, sizes: Sizes) -> Iterator[tuple[str, Call]]:
    try:
        import onnxruntime
        from onnx import TensorProto, helper, numpy_helper
    except ImportError:
        return
    x = given.inputs[0]
    images = aligned_copy(x if layout == "NCHW" else x.transpose(0, 3, 1, 2))  # as its own allocator would
    constants = {"w": given.filters}
    attributes = {
        "strides": [sizes.stride] * 2, "pads": [sizes.padding] * 4, "dilations": [sizes.dilation] * 2,
        "group": sizes.groups or sizes.c,
    }  # fmt: skip
    nodes = [helper.make_node("Conv", ["x", "w"], ["y"], **attributes)]
    if given.point is not None:
        constants |= {"b": given.inputs[2], "p": given.point, "low": np.float32(0), "high": np.float32(6)}
        nodes = [
            helper.make_node("Conv", ["x", "w", "b"], ["sums"], **attributes),
            helper.make_node("Clip", ["sums", "low", "high"], ["middle"]),
            helper.make_node("Conv", ["middle", "p"], ["y"]),
        ]
    graph = helper.make_graph(
        nodes,
        "depthwise",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, images.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.ascontiguousarray(array), name) for name, array in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = settings.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), settings, providers=["CPUExecutionProvider"])

    result = aligned_copy(session.run(None, {"x": images})[0])
    bound = session.io_binding()  # the values share the memory of the arrays
    bound.bind_ortvalue_input("x", onnxruntime.OrtValue.ortvalue_from_numpy(images))
    bound.bind_ortvalue_output("y", onnxruntime.OrtValue.ortvalue_from_numpy(result))

    def call() -> np.ndarray:
        session.run_with_iobinding(bound)
        return result if layout == "NCHW" else result.transpose(0, 2, 3, 1)

    yield "ORT", call


if __name__ == "__main__":
    raise SystemExit(main())
