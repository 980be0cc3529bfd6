"""k-means of one's own: in NumPy, then with the step that takes the time as an operator.

    python3 examples/kmeans.py --points 20000 --trials 32

Each round assigns every point to the nearest center. NumPy computes all distances by a matrix product, writes them to
memory, and reads them again for the smallest. The operator is the same computation, written down; its kernel keeps what
it can in registers. With --trials 0 nothing is tuned, and the kernel is the one that experience predicts.
"""

from __future__ import annotations

import argparse
import inspect
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import pegbox as pb
from pegbox import te

Array = np.ndarray[Any, np.dtype[Any]]


def nearest_in_numpy(points: Array, centers: Array) -> Array:
    distances = (centers * centers).sum(1) - 2 * points @ centers.T
    return np.asarray(distances.argmin(1))


def nearest(n: int, k: int, d: int) -> list[te.Tensor]:
    points, centers = te.placeholder((n, d), name="points"), te.placeholder((k, d), name="centers")
    r, j = te.reduce_axis((0, d), name="r"), te.reduce_axis((0, k), name="j")

    def squared(i: te.Expr, j: te.Expr) -> Any:
        return (points[i, r] - centers[j, r]) * (points[i, r] - centers[j, r])

    def nearer(a: Any, b: Any) -> tuple[te.Expr, te.Expr]:
        return te.if_then_else(a[1] <= b[1], a[0], b[0]), te.minimum(a[1], b[1])

    distance = te.compute((n, k), lambda i, j: te.sum(squared(i, j), axis=r), name="distance")
    least = te.comm_reducer(nearer, lambda place, value: (te.max_value(place), te.max_value(value)), name="least")

    def of_point(i: te.Expr) -> Any:
        return least((te.cast("int32", j), distance[i, j]), axis=j)

    return [points, centers, *te.compute((n,), of_point, name="nearest")]


def kmeans(points: Array, centers: Array, assign: Callable[[Array, Array], Array], rounds: int) -> tuple[Array, float]:
    """The centers after some rounds, and the milliseconds that a round's assignment takes."""
    spent = []
    for _ in range(rounds):
        start = time.perf_counter()
        label = assign(points, centers)
        spent.append(time.perf_counter() - start)
        groups = [points[label == place] for place in range(len(centers))]
        centers = np.stack([g.mean(0) if len(g) else c for g, c in zip(groups, centers, strict=True)])
    return centers, 1e3 * float(np.median(spent))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=20000)
    parser.add_argument("--centers", type=int, default=64)
    parser.add_argument("--dimensions", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--trials", type=int, default=32)
    options = parser.parse_args()

    points = np.random.default_rng(0).random((options.points, options.dimensions), dtype=np.float32)
    start = points[: options.centers].copy()
    operator = pb.operator(nearest)

    def assign(points: Array, centers: Array) -> Array:
        place, _ = operator(points, centers)
        return np.asarray(place)

    if options.trials:
        operator.tune(points, start, trials=options.trials)
    assign(points, start)  # compiled, where nothing was tuned
    before, numpy_ms = kmeans(points, start, nearest_in_numpy, options.rounds)
    after, operator_ms = kmeans(points, start, assign, options.rounds)
    np.testing.assert_allclose(after.mean(0), before.mean(0), atol=1e-2)
    print("the centers agree with NumPy's")
    for name, function, spent in (("NumPy", nearest_in_numpy, numpy_ms), ("operator", nearest, operator_ms)):
        print(f"{name}: {len(inspect.getsource(function).splitlines())} lines, {spent:.2f} ms for each assignment")


if __name__ == "__main__":
    main()
