"""The time of a call from Python: small products by pegbox's kernels and by np.matmul, from one thread and from four.

    python3 benchmarks/calls.py                   # 8x8x8 and 64x64x64, from 1 and 4 threads
    python3 benchmarks/calls.py 16 32 --threads 1 2
    python3 benchmarks/calls.py 8 16 32 64 --lock # kernels that keep Python's lock (GIL) against kernels that let it go

Each product has the fastest of 32 random configurations of the template, for one core. All ways to call take turns in
each round, so that they meet the same noise; a way's time is that of all its threads divided by their calls. Prints
medians in nanoseconds and the ratio of np.matmul's time to each; above 1 the call takes less time than np.matmul.
The operator is also called with arrays that are not NumPy's: with DLPack, with NumPy's array interface alone, and
torch's where torch is installed.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

_TRAPS = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")
if any(name in os.environ for name in _TRAPS) or os.environ.get("OPENBLAS_NUM_THREADS") != "1":
    env = {k: v for k, v in os.environ.items() if k not in _TRAPS} | {"OPENBLAS_NUM_THREADS": "1"}
    os.execve(sys.executable, [sys.executable, *sys.argv], env)

import numpy as np  # noqa: E402

import pegbox as pb  # noqa: E402
from pegbox.codegen import Program, build  # noqa: E402

CONFIGS = 32
ROUND_SECONDS = 0.05

Call = Callable[[Any, Any, Any], Any]


class Way(NamedTuple):
    """A way to compute a product: a function of three arrays, and one that makes them of NumPy's."""

    call: Call
    array: Callable[[Any], Any] = lambda array: array


class WithDlpack:
    """An array of a library with DLPack."""

    def __init__(self, array: Any) -> None:
        self.__dlpack_device__, self._array = array.__dlpack_device__, array

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)


class WithInterface:
    """An array of a library with NumPy's array interface."""

    def __init__(self, array: Any) -> None:
        self.__array_interface__, self._array = array.__array_interface__, array


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sizes", nargs="*", type=int, default=[8, 64])
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 4])
    parser.add_argument("--rounds", type=int, default=31)
    parser.add_argument("--lock", action="store_true")
    options = parser.parse_args()
    for size in options.sizes:
        ways = lock_ways(size) if options.lock else call_ways(size)
        for threads in options.threads:
            show(f"{size}x{size}x{size} from {threads} thread(s)", timed(ways, size, threads, options.rounds))


def call_ways(size: int) -> dict[str, Way]:
    """The ways to compute a product."""
    kernel = build(fastest(size))
    matmul = pb.operator("matmul", target=pb.Target.host(num_cores=1), store=None)

    def called(a: Any, b: Any, c: Any) -> Any:
        return matmul(a, b, out=c)

    ways = {
        "np.matmul(a, b, out=c)": Way(lambda a, b, c: np.matmul(a, b, out=c)),
        "kernel(a, b, c)": Way(lambda a, b, c: kernel(a, b, c)),
        "kernel(a, b, out=c)": Way(lambda a, b, c: kernel(a, b, out=c)),
        "operator(a, b, out=c)": Way(called),
        "  of arrays with DLPack": Way(called, WithDlpack),
        "  with the interface": Way(called, WithInterface),
    }
    with contextlib.suppress(ImportError):
        import torch

        ways["  of torch's tensors"] = Way(called, torch.from_numpy)
    return ways


def lock_ways(size: int) -> dict[str, Way]:
    """One kernel with Python's lock kept in every call, and let go in every call."""
    program = fastest(size)
    kept, let_go = (build(replace(program, stores=stores)) for stores in (1, 0))  # 0: not known, so let go
    return {
        "np.matmul(a, b, out=c)": Way(lambda a, b, c: np.matmul(a, b, out=c)),
        f"kept ({program.stores} stores)": Way(lambda a, b, c: kept(a, b, c)),
        "let go": Way(lambda a, b, c: let_go(a, b, c)),
    }


def fastest(size: int) -> Program:
    """The fastest of some random configurations of a product."""
    task = pb.create_task("matmul", args=(size, size, size), target=pb.Target.host(num_cores=1))
    rng = np.random.default_rng(0)
    programs = [task.lower(task.space.get(int(rng.integers(task.space.size)))) for _ in range(CONFIGS)]
    inputs = arrays(size)
    return min(programs, key=lambda program: min(build(program).time_ns(inputs, 200) for _ in range(3)))


def arrays(size: int) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal((size, size), np.float32) for _ in range(2))
    return a, b, np.empty((size, size), np.float32)


def timed(ways: Mapping[str, Way], size: int, threads: int, rounds: int) -> dict[str, list[float]]:
    """Nanoseconds of a call, for each way and round."""
    own = [arrays(size) for _ in range(threads)]
    given = {name: [tuple(map(way.array, each)) for each in own] for name, way in ways.items()}
    a, b, c = own[0]
    for name, way in ways.items():
        c.fill(np.nan)
        way.call(*given[name][0])
        if not np.allclose(c, a @ b, rtol=1e-3, atol=1e-3):
            raise SystemExit(f"{name} is wrong")
    number = {name: calls_in(ROUND_SECONDS, way.call, given[name][0]) for name, way in ways.items()}
    found: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            seconds = from_threads(way.call, given[name], max(1, number[name] // threads))
            found[name].append(seconds * 1e9 / (max(1, number[name] // threads) * threads))
    return found


def calls_in(seconds: float, call: Call, inputs: tuple[Any, ...]) -> int:
    number = 1
    while (taken := repeated(call, inputs, number)) < seconds / 4:
        number *= 4
    return max(1, int(number * seconds / taken))


def repeated(call: Call, inputs: tuple[Any, ...], number: int) -> float:
    a, b, c = inputs
    started = time.perf_counter()
    for _ in range(number):
        call(a, b, c)
    return time.perf_counter() - started


def from_threads(call: Call, own: list[tuple[Any, ...]], number: int) -> float:
    """Seconds until every thread has made its calls, after all of them have started."""
    if len(own) == 1:
        return repeated(call, own[0], number)
    together = threading.Barrier(len(own) + 1)

    def body(inputs: tuple[Any, ...]) -> None:
        together.wait()
        repeated(call, inputs, number)

    running = [threading.Thread(target=body, args=(inputs,)) for inputs in own]
    for thread in running:
        thread.start()
    together.wait()
    started = time.perf_counter()
    for thread in running:
        thread.join()
    return time.perf_counter() - started


def show(title: str, found: Mapping[str, list[float]]) -> None:
    print(f"{title}:")
    numpys = found["np.matmul(a, b, out=c)"]
    for name, times in found.items():
        ratio = statistics.median(one / other for one, other in zip(numpys, times, strict=True))
        print(f"  {name:<24} {statistics.median(times):>10.0f} ns   {ratio:5.2f}", flush=True)


if __name__ == "__main__":
    main()
