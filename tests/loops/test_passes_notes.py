"""Notes of blocks speak of their own buffers, whatever other buffers are called."""

from __future__ import annotations

from pegbox.loops.nodes import Function
from pegbox.loops.passes import lower_function
from pegbox.tir import script

TEXT = """
@T.prim_func
def main(A: T.Buffer((8, 4), "float32"), B: T.Buffer((8, 4), "float32")):
    x = T.alloc_buffer((8, 4), "float32")
    for i, j in T.grid(8, 4):
        with T.block("x"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.block_attr({"buffer_dim_align": ((0, 0, 8, 3),)})
            x[vi, vj] = A[vi, vj]
    for i, j in T.grid(8, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            y = T.decl_buffer((2, 5), "float32", name="x")
            y[0, 0] = x[7 - vi, vj]
            B[vi, vj] = y[0, 0] + x[vi, vj]
"""


def test_an_alignment_is_of_the_buffer_that_the_block_writes_and_of_no_other_of_its_name() -> None:
    func = script.from_source(TEXT)
    assert isinstance(func, Function)
    shapes = sorted(shape for shape, _, _ in lower_function(func).allocations.values())
    assert shapes == [(2, 5), (8, 11)]
