"""Built-in templates and workloads keep the contract of operators; tests/operators finds the sizes of all of them."""

from __future__ import annotations

from typing import ClassVar

from pegbox.hooks import registry
from pegbox.testing import OperatorContract


class TestMatmul(OperatorContract):
    function = "matmul"
    sizes: ClassVar = {"M": 5, "K": 7, "N": 37}
    packs = (1,)


class TestBatchMatmul(OperatorContract):
    function = "batch_matmul"
    sizes: ClassVar = {"batch": 2, "M": 5, "K": 7, "N": 37}
    packs = (1,)


class TestConv2d(OperatorContract):
    function = "conv2d"
    sizes: ClassVar = {"N": 2, "C": 3, "H": 6, "W": 7, "O": 9, "KH": 1, "KW": 2}
    given: ClassVar = {"padding": (0, 1), "weights": "HWIO"}
    packs = (1,)


class TestMatmulBiasRelu(OperatorContract):
    function = "matmul_bias_relu"
    sizes: ClassVar = {"n": 5, "k": 7, "m": 11}
    space = "sketch"
    packs = (1,)


class TestMatmulInt8(OperatorContract):
    """Inputs of a type that is no argument, and outputs of another."""

    function = "matmul_int8"
    sizes: ClassVar = {"n": 5, "k": 7, "m": 11}
    space = "sketch"


class TestProductOfSketches(OperatorContract):
    """A workload whose name is a template's, too."""

    function = registry.get("workload", "matmul")
    sizes: ClassVar = {"n": 5, "k": 7, "m": 11}
    given: ClassVar = {"dtype": "float64"}
    space = "sketch"
    packs = (0, 1)


class TestRowArgmax(OperatorContract):
    """Two outputs of different types."""

    function = "row_argmax"
    sizes: ClassVar = {"n": 5, "m": 7}
    space = "sketch"


class TestNorm(OperatorContract):
    """An output without axes."""

    function = "norm"
    sizes: ClassVar = {"n": 5, "m": 7}
    space = "sketch"


class TestMaxPool(OperatorContract):
    """A size that is in no shape."""

    function = "max_pool2d"
    sizes: ClassVar = {"n": 2, "c": 3, "y": 7, "x": 6}
    given: ClassVar = {"k": 3}
    space = "sketch"
