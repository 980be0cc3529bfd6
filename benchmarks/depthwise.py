"""Depthwise convolutions and others in groups: tune, then time our kernels, rivals and the machine's limits in turns.

    python3 benchmarks/depthwise.py                              # layers of MobileNetV2 and EfficientNet-B0
    python3 benchmarks/depthwise.py --in-groups                  # of ResNeXt, RegNet and ShuffleNet, only NHWC
    python3 benchmarks/depthwise.py 144x56x56-3-s1-p1            # CxHxW-K, -s stride, -p padding, -g groups,
    python3 benchmarks/depthwise.py 96x28x28-5-p4-d2-n4          # -d dilation, -n images
    python3 benchmarks/depthwise.py --layout NHWC --trials 0     # untuned: the configurations that are predicted

The rivals are torch, in the same layout, and ONNX Runtime, which takes only NCHW and is shown for both. ONNX Runtime
writes into an existing array, as pegbox does; torch allocates its result. Filters of convolutions in groups are packed
ahead, as ONNX Runtime has constants. A rival that is not installed is left out.
The roofline is that of one core, the longer of two times: that of the multiply-adds at the peak, which is measured in
turns with the kernels, and that of copying the input to the output in the caches that hold both. All take turns, pinned
to one core, each after a call that brings its arrays back into the caches; the output shows the least time of each,
because disturbances only add to it. With `--aligned`, arrays begin at a cache line, as those of a model do. NumPy's
large arrays begin 16 bytes after the start of one, so that each vector of 64 bytes spans two lines.
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
from pegbox.codegen.runtime.checked_call import aligned_bytes
from pegbox.measure.baselines.roofline import measure_roofline, size_class
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
_LETTERS = {"s": 1, "p": 0, "g": 0, "d": 1, "n": 1}
_SHAPE = re.compile(r"(\d+)x(\d+)x(\d+)-(\d+)" + "".join(rf"(?:-{letter}(\d+))?" for letter in _LETTERS))
Call = Callable[[], np.ndarray]


class Sizes(NamedTuple):
    """The sizes of a convolution; 0 groups: each channel has a filter of its own."""

    c: int
    h: int
    w: int
    k: int
    stride: int
    padding: int
    groups: int
    dilation: int
    n: int


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shapes", nargs="*")
    parser.add_argument("--in-groups", action="store_true")
    parser.add_argument("--layout", nargs="+", default=("NHWC", "NCHW"), choices=("NHWC", "NCHW"))
    parser.add_argument("--target", default="llvm -num-cores 1", help="a target of one core; default: this machine")
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=31)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--aligned", action="store_true", help="arrays begin at cache lines")
    options = parser.parse_args()
    for text in options.shapes or (IN_GROUPS if options.in_groups else SHAPES):
        found = _SHAPE.fullmatch(text)
        if found is None:
            raise SystemExit(f"{text!r} is not a convolution in groups: write CxHxW-K, as 144x56x56-3-s1-p1")
        usual = (0, 0, 0, 0, *_LETTERS.values())
        sizes = Sizes(*(int(number or other) for number, other in zip(found.groups(), usual, strict=True)))
        for layout in ("NHWC",) if sizes.groups else options.layout:
            one_case(text, sizes, layout, options)
    return 0


def one_case(text: str, sizes: Sizes, layout: str, options: argparse.Namespace) -> None:
    c, h, w, k, stride, padding, groups, dilation, n = sizes
    kwargs = {
        "stride": stride, "padding": padding, "dilation": dilation, "layout": layout,
        "weights": "packed" if groups else "",
    }  # fmt: skip
    name, args = ("group_conv2d", (n, c, h, w, c, k, k, groups)) if groups else ("depthwise_conv2d", (n, c, h, w, k, k))
    task = pb.create_task(name, args, kwargs, target=options.target)
    config = None
    if options.trials:
        result = pb.tune(task, trials=options.trials, seed=options.seed, progress=False, store=None)
        if result.best is None:
            raise SystemExit(f"no valid kernel for {text}: {result.failures}")
        config = result.best.config
    kernel = pb.build(task, config=config)
    rng = np.random.default_rng(0)
    x, filters, out = arrays = [rng.uniform(-1, 1, s.shape).astype(s.dtype) for s in task.arguments()]
    if groups:
        filters = rng.uniform(-1, 1, (k, k, c // groups, c)).astype(x.dtype)
        arrays[1] = pack_weights(task, filters)
    if options.aligned:
        arrays = [aligned(array) for array in arrays]
        x, out = arrays[0], arrays[-1]
    kernel(*arrays)
    given = x, filters, layout, sizes
    calls = dict([*_torch(*given), *_onnxruntime(*given)])
    for name, call in calls.items():
        np.testing.assert_allclose(out, call(), rtol=1e-3, atol=1e-3, err_msg=name)
    if task.target.vector_bits < pb.Target.host().vector_bits:
        calls.pop("ORT", None)
    ns, peak = timed(kernel, arrays, calls, options.rounds)
    core = min(os.sched_getaffinity(0))
    roof = measure_roofline("float32", size_class(x.nbytes + out.nbytes, 1), task.target, [core])
    limits = {"arithmetic": task.flop / peak, "memory": 1e9 * roof.seconds(read=x.nbytes, written=out.nbytes)}
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


def aligned(array: np.ndarray) -> np.ndarray:
    """Copy an array to memory that begins at a cache line."""
    copy = aligned_bytes(array.nbytes).view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def timed(kernel: Any, arrays: list[np.ndarray], calls: dict[str, Call], rounds: int) -> tuple[dict[str, float], float]:
    """Return the least nanoseconds per call of all, which take turns, and the multiply-add peak in GFLOP/s."""
    meter, flop = peak_kernel()
    vector = np.zeros(meter.args[0].shape, np.float32)
    affinity = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(affinity)})
    number = max(1, round(1e6 / max(kernel.time_ns(arrays, 2) / 2, 1)))
    samples: dict[str, list[float]] = {}
    peaks = []
    for _ in range(rounds):
        kernel.time_ns(arrays, 1)
        samples.setdefault("ours", []).append(kernel.time_ns(arrays, number) / number)
        for name, call in calls.items():
            call()
            start = time.perf_counter_ns()
            for _ in range(number):
                call()
            samples.setdefault(name, []).append((time.perf_counter_ns() - start) / number)
        peaks.append(flop / meter.time_ns([vector], 1))
    os.sched_setaffinity(0, affinity)
    return {name: min(values) for name, values in samples.items()}, max(peaks)


def _torch(x: Any, filters: Any, layout: str, sizes: Sizes) -> Iterator[tuple[str, Call]]:
    try:
        import torch
    except ImportError:
        return
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    data, weight = torch.from_numpy(x), torch.from_numpy(filters)
    if layout == "NHWC":  # `channels_last` tensors are logically NCHW
        data = data.permute(0, 3, 1, 2)
        weight = weight.permute(3, 2, 0, 1).contiguous(memory_format=torch.channels_last)

    def call() -> np.ndarray:
        y = torch.nn.functional.conv2d(
            data, weight, None, sizes.stride, sizes.padding, sizes.dilation, sizes.groups or sizes.c
        )
        return np.asarray((y if layout == "NCHW" else y.permute(0, 2, 3, 1)).contiguous().numpy())

    yield "torch", call


def _onnxruntime(x: Any, filters: Any, layout: str, sizes: Sizes) -> Iterator[tuple[str, Call]]:
    try:
        import onnxruntime
        from onnx import TensorProto, helper, numpy_helper
    except ImportError:
        return
    images, weight = (x, filters) if layout == "NCHW" else (x.transpose(0, 3, 1, 2), filters.transpose(3, 2, 0, 1))
    images, weight = np.ascontiguousarray(images), np.ascontiguousarray(weight)
    attributes = {
        "strides": [sizes.stride] * 2, "pads": [sizes.padding] * 4, "dilations": [sizes.dilation] * 2,
        "group": sizes.groups or sizes.c,
    }  # fmt: skip
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["y"], **attributes)],
        "depthwise",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, images.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(weight, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = settings.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), settings, providers=["CPUExecutionProvider"])

    result = np.empty_like(session.run(None, {"x": images})[0])
    bound = session.io_binding()  # the values share the memory of the arrays
    bound.bind_ortvalue_input("x", onnxruntime.OrtValue.ortvalue_from_numpy(images))
    bound.bind_ortvalue_output("y", onnxruntime.OrtValue.ortvalue_from_numpy(result))

    def call() -> np.ndarray:
        session.run_with_iobinding(bound)
        return result if layout == "NCHW" else result.transpose(0, 2, 3, 1)

    yield "ORT", call


if __name__ == "__main__":
    raise SystemExit(main())
