"""The meanings of ONNX operators, as computations."""

from pegbox.plugins.onnx.operators import (
    blocks,
    casts,
    convolutions,
    elementwise,
    gathers,
    pooling,
    products,
    reductions,
    resampling,
    shapes,
    slices,
)

__all__ = [
    "blocks", "casts", "convolutions", "elementwise", "gathers", "pooling", "products", "reductions", "resampling",
    "shapes", "slices",
]  # fmt: skip
