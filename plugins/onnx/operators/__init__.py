"""The meanings of ONNX operators, as computations."""

from pegbox.plugins.onnx.operators import (
    attention,
    blocks,
    casts,
    convolutions,
    einsum,
    elementwise,
    gathers,
    normalizations,
    pooling,
    products,
    quantization,
    recurrent,
    reductions,
    resampling,
    shapes,
    signals,
    slices,
    sorting,
)

__all__ = [
    "attention", "blocks", "casts", "convolutions", "einsum", "elementwise", "gathers", "normalizations", "pooling",
    "products", "quantization", "recurrent", "reductions", "resampling", "shapes", "signals", "slices", "sorting",
]  # fmt: skip
