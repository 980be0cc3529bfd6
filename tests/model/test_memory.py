"""Plans of memory."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pegbox.codegen.compiled import ALIGNMENT
from pegbox.graph import Graph, Value, pointwise_node
from pegbox.model.memory import Arena, Block, bytes_between_calls, plan_memory


@st.composite
def blocks(draw: st.DrawFn) -> Block:
    first = draw(st.integers(0, 12))
    return Block(draw(st.integers(0, 1000)), first, draw(st.integers(first, 14)))


@given(st.lists(blocks(), max_size=12))
def test_blocks_that_live_together_lie_apart(given: list[Block]) -> None:
    arena = plan_memory(given)
    assert all(offset % ALIGNMENT == 0 for offset in arena.offsets)
    places = [range(at, at + block.nbytes) for at, block in zip(arena.offsets, given, strict=True)]
    for number, (block, place) in enumerate(zip(given, places, strict=True)):
        assert place.stop <= arena.nbytes
        for other, beside in zip(given[:number], places, strict=False):
            together = block.first <= other.last and other.first <= block.last
            assert not together or place.stop <= beside.start or beside.stop <= place.start or not (place and beside)


@given(st.lists(blocks(), max_size=12))
def test_the_peak_is_between_the_bound_and_the_sum(given: list[Block]) -> None:
    arena = plan_memory(given)
    assert arena.bound == max((sum(b.size for b in given if b.first <= t <= b.last) for t in range(15)), default=0)
    assert arena.bound <= arena.nbytes <= sum(block.size for block in given)


def test_a_chain_takes_turns_between_two_places() -> None:
    chain = [Block(640, step, step + 1) for step in range(6)]
    assert plan_memory(chain) == Arena((0, 640, 0, 640, 0, 640), 1280, 1280)


def test_a_block_takes_the_smallest_gap_that_holds_it() -> None:
    # When step 5 comes, the gaps behind the first and the third block are free.
    given = [Block(64 * 9, 0, 9), Block(64 * 8, 0, 1), Block(64 * 7, 0, 9), Block(64 * 3, 0, 1), Block(64 * 2, 0, 9),
             Block(64, 5, 5)]  # fmt: skip
    assert plan_memory(given).offsets == (0, 576, 1088, 1536, 1728, 1536)


def test_another_order_than_the_largest_first_may_be_better() -> None:
    given = [Block(192, 5, 6), Block(128, 1, 4), Block(192, 0, 3), Block(64, 4, 6)]
    assert plan_memory(given).nbytes == 320  # 384 with the largest first


def test_a_plan_says_its_peak_beside_the_bound() -> None:
    assert str(plan_memory([Block(100, 0, 1)])) == "arena of 128 bytes; lower bound 128"
    assert str(Arena((), 1280, 1024)) == "arena of 1,280 bytes; lower bound 1,024, 25.0% more than the lower bound"


def test_weights_and_the_largest_node_pass_between_two_calls() -> None:
    x, weights = Value("x", (4, 8), "float32"), Value("w", (8,), "float32")
    scaled = pointwise_node("scaled", "Mul", lambda a, b: a * b, [x, weights])
    last = pointwise_node("last", "Relu", lambda a: a, scaled.outputs)
    graph = Graph("g", (x,), last.outputs, (scaled, last), {weights: np.ones(8, "float32")})
    assert bytes_between_calls(graph) == 8 * 4 + 2 * 4 * 8 * 4
    assert bytes_between_calls(Graph("view", (x,), (x,), (), {})) == 0
