"""Notes of blocks speak of their own buffers, whatever other buffers are called."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pegbox.loops.nodes import Function, Region
from pegbox.loops.passes import lower_function
from pegbox.loops.passes.roll import Roll, roll_of
from pegbox.loops.passes.rolling_buffer import rolling
from pegbox.loops.visit import map_blocks
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


ROLLED = """
@T.prim_func
def main(A: T.Buffer((10,), "float32"), C: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((10,), "float32")
    for i in range(8):
        for j in range(3):
            with T.block("B"):
                vi = T.axis.spatial(10, i + j)
                T.block_attr({"rolling_buffer": 0})
                B[vi] = A[vi]
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[vi] + B[vi + 1] + B[vi + 2]
"""


@pytest.mark.parametrize("width", [1, 2])
def test_a_rolling_block_may_read_its_element_and_no_other(width: int) -> None:
    func = script.from_source(ROLLED)
    assert isinstance(func, Function)
    [(realize, buffer)] = rolling(func)
    [written] = realize.block.writes
    read = Region(buffer, tuple((at, width) for at, _ in written.box))
    block = replace(realize.block, reads=(*realize.block.reads, read))
    changed = replace(func, body=map_blocks(func.body, lambda x: replace(x, block=block) if x is realize else x))
    found = roll_of(changed, buffer)
    assert isinstance(found, Roll) == (width == 1), found
