"""Kernels without a template against those of other compilers that search: TVM's MetaSchedule and PyTorch's Inductor.

    python3 benchmarks/sketch_rivals.py                      # both, where they are installed
    python3 benchmarks/sketch_rivals.py tvm --trials 200
    python3 benchmarks/sketch_rivals.py inductor

"tvm" tunes the convolution 64→128, 56×56, 3×3 with MetaSchedule (see metaschedule.py). "inductor" compiles matmul +
bias + gelu 256×1024×1024 with `torch.compile(mode="max-autotune")` (`pip install torch`, and a C++ compiler). Our
sketches have the default tuner and as many trials as MetaSchedule. Then both kernels run in turns, pinned to one core
with one thread each; the output shows medians.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from matmul import settle_environment
from metaschedule import tuned_kernel
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
        call = tuned_kernel("conv2d", args, arrays, options)
    except ImportError as error:
        return None, f"TVM's MetaSchedule is not installed ({error}): see metaschedule.py"
    return call, lambda: call().numpy()


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
