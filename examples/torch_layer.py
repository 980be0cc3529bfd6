"""A torch program whose layer is an operator, with its weights packed once.

    python3 examples/torch_layer.py --rows 16 --size 512 --trials 32

Tensors go in without a copy, and a tensor comes out. Needs torch (pip install torch).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import torch

import pegbox as pb

layer = pb.operator("matmul_bias_relu")


class Layer:
    """relu(x · W + b) with weights that stay the same."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor) -> None:
        self.weight, self.bias = layer.pack(weight), bias

    def __call__(self, x: torch.Tensor) -> Any:
        return layer(x, self.weight, self.bias)


def milliseconds(run: Callable[[torch.Tensor], Any], x: torch.Tensor) -> float:
    """The least time of a call, of 30."""
    spent = []
    for _ in range(30):
        start = time.perf_counter()
        run(x)
        spent.append(time.perf_counter() - start)
    return 1e3 * min(spent)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=16)
    parser.add_argument("--size", type=int, default=512)
    parser.add_argument("--trials", type=int, default=32)
    options = parser.parse_args()

    torch.manual_seed(0)
    x, weight = torch.rand(options.rows, options.size), torch.rand(options.size, options.size) - 0.5
    bias = torch.rand(options.size)
    mine = Layer(weight, bias)
    if options.trials:
        layer.tune(x, mine.weight, bias, trials=options.trials)

    def torchs(x: torch.Tensor) -> torch.Tensor:
        return torch.relu(torch.addmm(bias, x, weight))

    torch.testing.assert_close(mine(x), torchs(x), rtol=1e-3, atol=1e-3)
    print("the same as torch")
    print(f"torch: {milliseconds(torchs, x):.3f} ms, operator: {milliseconds(mine, x):.3f} ms")


if __name__ == "__main__":
    main()
