"""Kernels without a template against those of other compilers that search: TVM's MetaSchedule and PyTorch's Inductor.

    python3 benchmarks/sketch_rivals.py                      # both, where they are installed
    python3 benchmarks/sketch_rivals.py tvm --trials 200
    python3 benchmarks/sketch_rivals.py inductor

"tvm" tunes the convolution 64→128, 56×56, 3×3 with MetaSchedule (`pip install apache-tvm xgboost psutil cloudpickle
tornado`). "inductor" compiles matmul + bias + gelu 256×1024×1024 with `torch.compile(mode="max-autotune")`
(`pip install torch`, and a C++ compiler). Our sketches have the default tuner and as many trials as MetaSchedule. Then
both kernels run in turns, pinned to one core with one thread each; the output shows medians.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np
from matmul import settle_environment
from sketch import add_options, arrays_of, timed, tuned

import pegbox as pb

RIVALS = ("tvm", "inductor")
CONV = (1, 64, 56, 56, 128, 3, 1, 1)
GELU = (256, 1024, 1024)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rivals", nargs="*", help=f"some of {', '.join(RIVALS)}")
    add_options(parser, trials=200)
    options = parser.parse_args()
    if unknown := set(options.rivals) - set(RIVALS):
        raise SystemExit(f"unknown rivals {', '.join(sorted(unknown))}; give some of {', '.join(RIVALS)}")
    settle_environment(options)
    for rival in options.rivals or RIVALS:
        if rival == "tvm":
            compare("conv2d", CONV, "MetaSchedule", metaschedule, options)
        else:
            compare("matmul_bias_gelu", GELU, "Inductor", inductor, options)
    return 0


def compare(
    name: str, args: tuple[int, ...], rival: str, made: Callable[..., Any], options: argparse.Namespace
) -> None:
    """Tune the sketches of a workload and the rival, check both, and time them in turns."""
    task = pb.create_task(name, args=args, space="sketch", target=options.target)
    arrays = arrays_of(task)
    call, read = made(args, arrays, options)
    if call is None:
        print(f"{name}: {read}", flush=True)
        return
    result = tuned(task, options)
    kernel = pb.build(task, config=result.best.config)
    kernel(*arrays)
    call()
    np.testing.assert_allclose(arrays[-1], read(), rtol=2e-3, atol=2e-3, err_msg=rival)
    ns = timed({"ours": (kernel, arrays)}, {rival: call}, options.rounds)
    print(
        f"{name} {'x'.join(map(str, args))}: ours {ns['ours'] / 1e3:.1f} µs, {rival} {ns[rival] / 1e3:.1f}; ratio "
        f"{ns[rival] / ns['ours']:.2f}; {len(result.trials)} trials in {result.elapsed:.0f} s; {result.best.config}",
        flush=True,
    )


def metaschedule(args: tuple[int, ...], arrays: list[np.ndarray], options: argparse.Namespace) -> tuple[Any, Any]:
    """The call of TVM's tuned kernel and what reads its result; or None and why there is none."""
    try:
        import tvm
        from tvm import te
        from tvm.s_tir import meta_schedule
    except ImportError as error:
        return None, f"TVM's MetaSchedule is not installed ({error}): pip install apache-tvm xgboost psutil"
    function = te.create_prim_func(convolution(te, *args))
    cpu = pb.Target(options.target).cpu
    target = tvm.target.Target({"kind": "llvm", "mcpu": cpu, "num-cores": 1})
    with tempfile.TemporaryDirectory() as folder:
        found = meta_schedule.tir_integration.tune_tir(
            function, target, folder, options.trials, num_trials_per_iter=32, seed=options.seed + 1
        )
        schedule = meta_schedule.tir_integration.compile_tir(found, function, target)
    library = tvm.compile(schedule.mod, target=target)
    given = [tvm.runtime.tensor(array) for array in arrays]
    kernel = library["main"]
    return lambda: kernel(*given), lambda: given[-1].numpy()


def convolution(te: Any, n: int, c: int, y: int, x: int, o: int, k: int, stride: int, padding: int) -> list[Any]:
    """The convolution in TVM's language."""
    data = te.placeholder((n, c, y, x), name="data")
    weight = te.placeholder((o, c, k, k), name="weight")
    rows, columns = ((size + 2 * padding - k) // stride + 1 for size in (y, x))
    import tvm

    def inside(b: Any, ch: Any, i: Any, j: Any) -> Any:
        there = tvm.tirx.all(i >= padding, i < y + padding, j >= padding, j < x + padding)
        return tvm.tirx.if_then_else(there, data[b, ch, i - padding, j - padding], tvm.tirx.const(0, "float32"))

    padded = te.compute((n, c, y + 2 * padding, x + 2 * padding), inside, name="padded")
    rc, ry, rx = (te.reduce_axis((0, extent), name=name) for extent, name in ((c, "rc"), (k, "ry"), (k, "rx")))
    conv = te.compute(
        (n, o, rows, columns),
        lambda b, f, i, j: te.sum(
            padded[b, rc, i * stride + ry, j * stride + rx] * weight[f, rc, ry, rx], axis=[rc, ry, rx]
        ),
        name="conv",
    )
    return [data, weight, conv]


def inductor(args: tuple[int, ...], arrays: list[np.ndarray], options: argparse.Namespace) -> tuple[Any, Any]:
    """The call of Inductor's kernel and what reads its result; or None and why there is none."""
    try:
        import torch
        import torch.nn.functional as f
    except ImportError:
        return None, "torch is not installed: pip install torch"
    if shutil.which("g++") is None and shutil.which("clang++") is None:
        return None, "there is no C++ compiler (g++ or clang++), which torch.compile needs"
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    a, b, bias = (torch.from_numpy(array) for array in arrays[:-1])

    @torch.compile(mode="max-autotune")
    def gelu(a: Any, b: Any, bias: Any) -> Any:
        return f.gelu(torch.addmm(bias, a, b), approximate="tanh")

    return lambda: gelu(a, b, bias), lambda: gelu(a, b, bias).numpy()


if __name__ == "__main__":
    sys.exit(main())
