"""The meanings of ONNX operators, as computations."""

from pegbox.plugins.onnx.operators import convolutions, elementwise, pooling, products, reductions, shapes

__all__ = ["convolutions", "elementwise", "pooling", "products", "reductions", "shapes"]
