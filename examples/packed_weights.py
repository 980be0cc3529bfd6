"""Pack the weights of a layer once, then call the kernel with the packed weights many times.

    python3 examples/packed_weights.py --rows 64 --trials 64

By default a matmul kernel copies B into panels at each call. With weights="packed" it takes the panels as its argument.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

import pegbox as pb
from pegbox.templates import pack_weights


def tuned(shape: tuple[int, ...], weights: str, trials: int) -> tuple[pb.Task, Any]:
    """Tune and build: the task and its best kernel."""
    task = pb.create_task("matmul", args=shape, kwargs={"weights": weights}, target="llvm -num-cores 1")
    result = pb.tune(task, trials=trials, progress=False)
    assert result.best is not None, "nothing ran"
    return task, pb.build(task, config=result.best.config)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=64)
    parser.add_argument("--size", type=int, default=1024, help="the weights have size x size elements")
    parser.add_argument("--trials", type=int, default=64)
    options = parser.parse_args()

    shape = (options.rows, options.size, options.size)
    rng = np.random.default_rng(0)
    x = rng.standard_normal((options.rows, options.size), dtype=np.float32)
    weights = rng.standard_normal((options.size, options.size), dtype=np.float32)
    y = np.empty((options.rows, options.size), np.float32)

    _, plain = tuned(shape, "plain", options.trials)
    task, kernel = tuned(shape, "packed", options.trials)
    panels = pack_weights(task, weights)  # once; the layout is the same for every configuration of the task
    print(f"weights {weights.shape} packed into panels {panels.shape}")

    kernel(x, panels, y)
    np.testing.assert_allclose(y, x @ weights, rtol=1e-3, atol=1e-3)
    print("the same as NumPy")
    for name, run, given in (("packed at each call", plain, weights), ("packed ahead", kernel, panels)):
        print(f"{name}: {run.time_ns([x, given, y], 20) / 20e3:.1f} µs")


if __name__ == "__main__":
    main()
