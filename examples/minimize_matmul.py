"""Tune a function of your own with any tuner: the blocks of a matrix product in NumPy, checked and timed.

    python3 examples/minimize_matmul.py --size 512 --trials 40

Blocks that fit into a cache are fast, and few large ones are called for less often; their order is a choice, too.
"""

import argparse
import itertools
import time

import numpy as np

import pegbox as pb

ORDERS = ["ijk", "ikj", "kij"]


def blocked(a: np.ndarray, b: np.ndarray, blocks: dict[str, int], order: str) -> np.ndarray:
    """A · B: i are rows, j columns, and k is what is summed over, each in blocks; `order` names the outermost first."""
    extents = {"i": a.shape[0], "j": b.shape[1], "k": a.shape[1]}
    result = np.zeros((extents["i"], extents["j"]), a.dtype)
    for begins in itertools.product(*(range(0, extents[axis], blocks[axis]) for axis in order)):
        i, j, k = (slice(begin, begin + blocks[axis]) for axis, begin in sorted(zip(order, begins, strict=True)))
        result[i, j] += a[i, k] @ b[k, j]
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tuner", default="bayes", help="any tuner that `pegbox plugins` lists, with options")
    parser.add_argument("--trials", type=int, default=40)
    parser.add_argument("--size", type=int, default=512)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, options.size, options.size), dtype=np.float32)
    expected = a @ b

    space = pb.ConfigSpace()
    for axis in "ijk":
        space.define_knob(axis, [16, 32, 64, 128, 256, 512])
    space.define_knob("order", ORDERS)

    def seconds(config: pb.Config) -> float:
        """Return the time of one product. An exception makes a failed trial."""
        blocks = {axis: config[axis].val for axis in "ijk"}
        began = time.perf_counter()
        result = blocked(a, b, blocks, config["order"].val)
        spent = time.perf_counter() - began
        np.testing.assert_allclose(result, expected, rtol=1e-3, atol=1e-2)
        return spent

    result = pb.minimize(seconds, space, tuner=options.tuner, trials=options.trials, repeat=3, unit="s", seed=0)
    print(result)


if __name__ == "__main__":
    main()
