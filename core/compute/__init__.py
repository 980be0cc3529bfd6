"""The graph of a computation: tensors, operations, reductions, their order, work and text as te code."""

from typing import TYPE_CHECKING

from pegbox.compute.axis import IterVar
from pegbox.compute.convolution import convolve, convolve_nhwc, padded
from pegbox.compute.elementwise import elementwise
from pegbox.compute.flop import count_flop, elements, operations
from pegbox.compute.graph import placeholders, post_order
from pegbox.compute.head_layout import AttentionSizes, HeadLayout
from pegbox.compute.movement import flat_index, reshaped, unflat_indices
from pegbox.compute.phases import without_zeros
from pegbox.compute.plain_attention import HIGHEST_SCORE, attention, biased, origin
from pegbox.compute.printer import RESERVED, identifier, te_lines, tensor_names
from pegbox.compute.product import matmul
from pegbox.compute.reducer import map_body
from pegbox.compute.scan_op import ScanOp
from pegbox.compute.sizes import check_static
from pegbox.compute.tensor import (
    AHEAD,
    ComputeOp,
    ExternOp,
    Operation,
    PlaceholderOp,
    Tensor,
    body_loads,
    body_parts,
    parts_of,
    read_buffers,
)
from pegbox.exports import on_demand

if TYPE_CHECKING:
    from pegbox.compute.numpy_program import NumpyProgram  # slow to load, and rarely needed

__all__ = [
    "AHEAD", "HIGHEST_SCORE", "RESERVED", "AttentionSizes", "ComputeOp", "ExternOp", "HeadLayout", "IterVar",
    "NumpyProgram", "Operation", "PlaceholderOp", "ScanOp", "Tensor", "attention", "biased", "body_loads",
    "body_parts", "check_static", "convolve", "convolve_nhwc", "count_flop", "elements", "elementwise",
    "flat_index", "identifier", "map_body", "matmul", "operations", "origin", "padded", "parts_of", "placeholders",
    "post_order", "read_buffers", "reshaped", "te_lines", "tensor_names", "unflat_indices", "without_zeros",
]  # fmt: skip

__getattr__ = on_demand(__name__)
