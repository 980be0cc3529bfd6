"""Tune your own code with any tuner and your own measurements: the block size of a softmax in NumPy.

python examples/ask_tell.py --tuner ga --trials 30
"""

import argparse
import time

import numpy as np

import pegbox as pb


def softmax(x: np.ndarray, rows: int, in_place: bool) -> np.ndarray:
    """Softmax of each row, some rows at a time. With few rows calls dominate; many rows do not fit the cache."""
    result = np.empty_like(x)
    for start in range(0, len(x), rows):
        block, out = x[start : start + rows], result[start : start + rows]
        if in_place:
            np.subtract(block, block.max(axis=1, keepdims=True), out=out)
            np.exp(out, out=out)
            out /= out.sum(axis=1, keepdims=True)
        else:
            powers = np.exp(block - block.max(axis=1, keepdims=True))
            out[:] = powers / powers.sum(axis=1, keepdims=True)
    return result


def seconds(x: np.ndarray, rows: int, in_place: bool, repeats: int = 3) -> float:
    """The fastest of a few runs."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        softmax(x, rows, in_place)
        times.append(time.perf_counter() - start)
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tuner", default="ga", help="any tuner that `pegbox plugins` lists, with options")
    parser.add_argument("--trials", type=int, default=30)
    parser.add_argument("--rows", type=int, default=4096)
    options = parser.parse_args()
    x = np.random.default_rng(0).standard_normal((options.rows, 1000), dtype=np.float32)

    space = pb.ConfigSpace()
    space.define_knob("rows", [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096])
    space.define_knob("in_place", [False, True])
    tuner = pb.create_tuner(options.tuner, space, seed=0)
    while len(tuner.trials) < options.trials and (configs := tuner.ask(4)):
        for config in configs:
            tuner.tell(config, seconds(x, config["rows"].val, config["in_place"].val))
            print(f"{tuner.trials[-1].cost * 1e3:8.2f} ms  {config}")

    assert tuner.best is not None
    config, cost = tuner.best
    print(f"best: {cost * 1e3:.2f} ms with rows={config['rows']}, in_place={config['in_place']}")


if __name__ == "__main__":
    main()
