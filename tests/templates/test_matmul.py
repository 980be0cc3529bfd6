"""The matmul template, at every kind of shape."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pegbox as pb
from pegbox.errors import PegboxError
from pegbox.testing import TemplateContract


class TestMatmulWithANarrowResult(TemplateContract):
    template = "matmul"
    cases = ((13, 70, 1), (1, 65, 3), (7, 129, 8), (5, 67, 7, "float64"))
    configs = 4


class TestMatmulWithPackedWeights(TemplateContract):
    template = "matmul"
    cases = (
        (7, 13, 37, "float32", "packed"),
        (1, 17, 33, "float32", "packed"),
        (19, 1, 5, "float32", "packed"),
        (33, 34, 35, "float64", "packed"),
        (13, 70, 3, "float32", "packed"),
    )
    configs = 4


class TestMatmulForNarrowVectors(TemplateContract):
    template = "matmul"
    cases = ((7, 13, 37), (1, 17, 33), (33, 34, 35, "float64"), (64, 64, 64, "float32", "packed"))
    configs = 4
    target = "llvm -mcpu=x86-64 -num-cores 2"


class TestMatmulOfOtherTypes(TemplateContract):
    template = "matmul"
    cases = ((9, 10, 11, "int32"), (5, 6, 7, "float16"))
    configs = 3


def test_its_arguments_are_those_of_a_product() -> None:
    task = pb.create_task("matmul", args=(3, 4, 5))
    assert [(a.name, a.shape, a.is_output) for a in task.arguments()] == [
        ("A", (3, 4), False), ("B", (4, 5), False), ("C", (3, 5), True),
    ]  # fmt: skip
    assert task.flop == 2 * 3 * 4 * 5


SHAPES = [
    (1, 64, 100), (1, 4096, 4096), (64, 1024, 1024), (1000, 999, 1001), (2, 2, 2), (128, 128, 128),
    (4096, 1, 4096), (1, 1, 4096), (4096, 4096, 1), (1, 4096, 1),
]  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_there_is_a_valid_configuration_at_every_shape(shape: Any, dtype: str) -> None:
    task = pb.create_task("matmul", args=(*shape, dtype))
    configs = [task.space.config([int(d) for d in row]) for row in task.space.sample(5, np.random.default_rng(0))]
    assert configs
    for config in configs:
        assert str(task.lowered(config)).startswith("def matmul(")


@pytest.mark.parametrize("args", [(0, 4, 5), (3, -1, 5), (3, 4.5, 5), (3, 4, 5, "bool"), (3, 4, 5, "complex64")])
def test_arguments_that_mean_nothing_are_refused(args: Any) -> None:
    with pytest.raises(PegboxError):
        pb.create_task("matmul", args=args)
