"""The workloads of the library in small shapes, and the check of a kernel against NumPy."""

from __future__ import annotations

import numpy as np

import pegbox as pb
from pegbox.measure.trial.check import Tolerance, difference
from pegbox.space import Config
from pegbox.task.task import Task

CASES: dict[str, tuple[object, ...]] = {
    "matmul": (37, 29, 41), "matmul_bias_relu": (12, 18, 32), "matmul_bias_gelu": (8, 12, 16),
    "matmul_chain": (12, 8, 10, 14), "batch_matmul": (3, 6, 7, 8), "matmul_transposed": (9, 13, 11),
    "matmul_int8": (8, 12, 16), "attention": (2, 6, 4), "conv1d": (1, 5, 12, 7, 3, 1, 1),
    "conv2d": (1, 4, 8, 7, 6, 3, 2, 1), "conv2d_nhwc": (1, 7, 8, 4, 6, 3, 1, 1), "conv3d": (1, 3, 4, 5, 6, 4, 3, 1, 1),
    "depthwise_conv2d": (1, 8, 8, 8, 3, 1, 1), "conv2d_transposed": (1, 4, 4, 5, 3, 4, 2, 1),
    "conv2d_bn_relu": (1, 4, 6, 6, 4, 3, 1, 1), "conv2d_winograd": (1, 4, 6, 6, 5), "max_pool2d": (1, 4, 9, 9, 3, 2, 1),
    "avg_pool2d": (1, 4, 9, 9, 3, 2, 1), "row_sum": (7, 31, "float64"), "row_min": (12, 65), "row_argmax": (9, 33),
    "norm": (13, 31), "softmax": (17, 33), "layer_norm": (9, 40), "elementwise_chain": (33, 17),
    "sum_and_max": (14, 37),
}  # fmt: skip


def check_values(task: Task, config: Config) -> None:
    """The kernel of a configuration computes what NumPy computes from small integers."""
    rng = np.random.default_rng(0)
    given = [rng.integers(-4, 5, a.shape).astype(a.dtype) for a in task.arguments() if not a.is_output]
    wanted = task.reference(given)
    tolerance = Tolerance.of(wanted, flop=task.flop)
    made = [np.full(a.shape, 7, a.dtype) for a in task.arguments() if a.is_output]
    inputs, outputs = iter(given), iter(made)
    pb.build(task, config=config)(*(next(outputs if a.is_output else inputs) for a in task.arguments()))
    for spec, got, expected in zip((a for a in task.arguments() if a.is_output), made, wanted, strict=True):
        wrong = difference(spec.name, got, expected, tolerance)
        assert wrong is None, f"{config}: {wrong}"
