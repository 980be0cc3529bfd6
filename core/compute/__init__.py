"""The compute graph: tensors, operations, reductions, and the NumPy reference."""
