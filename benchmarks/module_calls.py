"""The cost of a module beside that of its kernels: of the function that calls them, and of a call from Python.

    python3 benchmarks/module_calls.py                # chains of 10 and 100 sums of 64 numbers
    python3 benchmarks/module_calls.py 1000 --size 16

Prints the nanoseconds of a kernel that is called again and again, those of a kernel in the module, and those of calls
from Python, beside a function of NumPy's. All take turns; medians count. A kernel of the module reads what the kernel
before it has written, which one kernel alone does not.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from pegbox import te
from pegbox.codegen import Target, load
from pegbox.graph import Graph, Node, Value
from pegbox.model.module import Module
from pegbox.model.selection import select

ROUNDS = 31
TARGET = Target("llvm -num-cores 1")


def chain(length: int, size: int) -> Graph:
    """x + 1 + 1 + ..."""
    values = [Value(f"v{number}", (size,), "float32") for number in range(length + 1)]

    def compute(a: Any) -> list[Any]:
        return [te.compute(a.shape, lambda i: a[i] + 1.0, name="sum")]

    nodes = [Node(f"n{n}", "Add", (values[n],), (values[n + 1],), compute) for n in range(length)]
    return Graph("chain", (values[0],), (values[-1],), tuple(nodes), {})


def seconds(call: Callable[[], object], number: int) -> float:
    start = time.perf_counter()
    for _ in range(number):
        call()
    return (time.perf_counter() - start) / number


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lengths", nargs="*", type=int, default=[10, 100])
    parser.add_argument("--size", type=int, default=64)
    options = parser.parse_args()
    x, y = np.zeros(options.size, np.float32), np.zeros(options.size, np.float32)
    for length in options.lengths:
        graph = chain(length, options.size)
        selections = select(graph, TARGET)
        module, kernel = Module(graph, selections), load(selections[0].program)
        ways: dict[str, Callable[[], float]] = {
            "a kernel alone": lambda: kernel.time_ns([x, y], 10_000) / 1e4,  # noqa: B023  (called in this round)
            "a kernel of the module": lambda: module.time_ns([x], 1000) / 1e3 / length,  # noqa: B023
            "Python: module(x)": lambda: 1e9 * seconds(lambda: module(x), 1000),  # noqa: B023
            "Python: module(x, out=y)": lambda: 1e9 * seconds(lambda: module(x, out=y), 1000),  # noqa: B023
            "Python: np.add(x, 1)": lambda: 1e9 * seconds(lambda: np.add(x, 1.0), 1000),
            "the module's machine code": lambda: module.time_ns([x], 1000) / 1e3,  # noqa: B023
        }
        found: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(ROUNDS):
            for name, way in ways.items():
                found[name].append(way())
        print(f"{length} kernels of {options.size} numbers")
        middle = {name: statistics.median(times) for name, times in found.items()}
        for name, value in middle.items():
            print(f"  {name:28}{value:10.1f} ns")
        print(
            f"  beyond the kernel itself: {middle['a kernel of the module'] - middle['a kernel alone']:.1f} ns a call"
        )
        call = middle["Python: module(x)"] - middle["the module's machine code"]
        print(
            f"  beyond machine code, from Python: {call:.0f} ns ({call / middle['Python: np.add(x, 1)']:.2f} x np.add)"
        )


if __name__ == "__main__":
    main()
