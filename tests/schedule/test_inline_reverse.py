"""reverse_compute_inline, and compute_inline where blocks store at other places than their plain variables."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from interpreter import interpret

from pegbox import te
from pegbox.errors import ScheduleError
from pegbox.loops.passes import lower_function
from pegbox.schedule import Schedule
from pegbox.tir import script


def refused(sch: Schedule, block: str, match: str, primitive: str = "reverse_compute_inline") -> str:
    """The message of a refusal that changes nothing."""
    before, known = sch.func, sch.trace
    with pytest.raises(ScheduleError, match=match) as caught:
        getattr(sch, primitive)(block)
    assert sch.func is before
    assert sch.trace == known
    return str(caught.value)


def two(shape: tuple[int, ...], consumer: Callable[..., Any], out: tuple[int, ...]) -> list[Any]:
    """B = A + 1 in the given shape, and a consumer of it."""
    a = te.placeholder(shape, name="A")
    b = te.compute(shape, lambda *i: a(*i) + 1, "B")
    return [a, te.compute(out, lambda *i: consumer(b, *i), "C")]


def test_an_epilogue_moves_into_its_producer(golden: Any, check_values: Any) -> None:
    args = two((6, 5), lambda b, i, j: te.relu(b[i, j] * 2), (6, 5))
    sch = Schedule(args)
    i_0, _ = sch.split(sch.get_loop("B", 0), factor=4)
    sch.parallel(i_0)
    sch.reverse_compute_inline("C")
    assert [b.name for b in sch.get_blocks()] == ["B"]
    assert sch.func.allocs == ()
    golden(sch)
    check_values(sch, lambda a: [np.maximum((a + 1) * 2, 0)])


MAPS: dict[str, tuple[tuple[int, ...], Callable[..., Any], tuple[int, ...], Callable[..., Any]]] = {
    "transposed": ((6, 5), lambda b, i, j: b[j, i], (5, 6), lambda a: a.T),
    "flattened": ((6, 5), lambda b, i: b[i // 5, i % 5], (30,), lambda a: a.reshape(30)),
    "reshaped": ((30,), lambda b, i, j: b[i * 5 + j], (6, 5), lambda a: a.reshape(6, 5)),
    "tiles": ((6, 4), lambda b, i, j, k: b[i * 2 + j, k], (3, 2, 4), lambda a: a.reshape(3, 2, 4)),
    "regrouped": ((6, 4), lambda b, i, j, k: b[i * 2 + j // 2, j % 2 * 2 + k], (3, 4, 2),
                  lambda a: a.reshape(3, 4, 2)),
    "reversed": ((6,), lambda b, i: b[5 - i], (6,), lambda a: a[::-1]),
    "one longer": ((6,), lambda b, i, j: b[i], (6, 1), lambda a: a[:, None]),
}  # fmt: skip


@pytest.mark.parametrize("name", MAPS)
def test_a_consumer_may_read_in_any_order(name: str, check_values: Any) -> None:
    shape, consumer, out, reference = MAPS[name]
    sch = Schedule(two(shape, consumer, out))
    sch.split(sch.get_loop("B", 0), factor=4)
    sch.reverse_compute_inline("C")
    check_values(sch, lambda a: [reference(a + 1)])


@pytest.mark.parametrize("name", MAPS)
def test_a_block_that_stores_anywhere_goes_into_its_consumers(name: str, check_values: Any) -> None:
    """The producer, into which an epilogue moved before, stores at other places than its plain variables."""
    shape, consumer, out, reference = MAPS[name]
    a, c = two(shape, consumer, out)
    k = te.reduce_axis((0, out[-1]), "k")
    d = te.compute(out[:-1], lambda *i: te.sum(c(*i, k), axis=k), "D")
    sch = Schedule([a, d])
    sch.reverse_compute_inline("C")
    sch.compute_inline("B")
    assert [b.name for b in sch.get_blocks()] == ["D"]
    check_values(sch, lambda x: [reference(x + 1).sum(-1)])


def test_a_chain_goes_into_its_first_block(check_values: Any) -> None:
    a, c = two((6, 5), lambda b, i, j: b[j, i], (5, 6))
    d = te.compute((5, 6), lambda i, j: c[i, j] * a[j, i], "D")
    sch = Schedule([a, d])
    sch.reverse_compute_inline("C")
    sch.reverse_compute_inline("D")
    assert [b.name for b in sch.get_blocks()] == ["B"]
    check_values(sch, lambda x: [((x + 1) * x).T])


def test_notes_on_a_buffer_go_with_the_buffer(check_values: Any) -> None:
    """A buffer that is gone leaves no alignment behind, least of all on an output."""
    a, c = two((6, 5), lambda b, i, j: b[i, j] * 2, (6, 5))
    d = te.compute((6, 5), lambda i, j: c[i, j] + 1, "D")
    for block, kept in (("B", False), ("C", True)):
        sch = Schedule([a, d])
        sch.storage_align(block, 0, 0, 8, 0)
        sch.annotate(sch.get_block("B"), "note", 1)
        sch.reverse_compute_inline("C")
        notes = dict(sch.tree.blocks["B"].block.annotations)
        assert ("buffer_dim_align" in notes) is kept
        assert notes["note"] == 1
        lower_function(sch.func)
        check_values(sch, lambda x: [(x + 1) * 2 + 1])


def test_refuses_a_producer_that_reduces_with_the_remedy(programs: Any) -> None:
    args, _ = programs.matmul_relu()
    sch = Schedule(args)
    text = refused(sch, "D", r"reverse_compute_inline\(D\): its producer C is a reduction, whose values are final only")
    assert "  >         block D: " in text
    assert "remedy: reverse_compute_at a loop of it that is outside the reduce loops" in text
    sch.decompose_reduction("C", sch.get_loops("C")[-1])
    refused(sch, "D", "it reads what several blocks make: C_init, C")


def test_refuses_reductions_tuples_and_blocks_without_a_producer(programs: Any) -> None:
    sch = Schedule(programs.rows()[0])
    refused(sch, "out", r"reverse_compute_inline\(out\): it is a reduction")
    refused(sch, "centred", "its producer total is a reduction")
    a, b, c = _outputs()
    sch = Schedule([a, b, c])
    refused(sch, "B", "it has several outputs or conditional ones")
    sch = Schedule(two((4,), lambda b, i: b[i], (4,)))
    refused(sch, "B", "it reads what no block makes")


def _outputs() -> list[Any]:
    a = te.placeholder((4,), name="A")
    return [a, *te.compute((4,), lambda i: (a[i], a[i] + 1), "B")]


def test_refuses_several_producers_and_several_consumers(programs: Any) -> None:
    sch = Schedule(programs.chain()[0])
    text = refused(sch, "D", "it reads what several blocks make: C, A")
    assert "give a block with one producer" in text
    refused(sch, "B", "A is also read by D")


def test_refuses_a_producer_whose_values_are_an_output() -> None:
    a = te.placeholder((4,), name="A")
    b = te.compute((4,), lambda i: a[i] + 1, "B")
    c = te.compute((4,), lambda i: b[i] * 2, "C")
    refused(Schedule([a, b, c]), "C", "its producer B writes the parameter B, which is needed")


@pytest.mark.parametrize(
    ("consumer", "out", "why"),
    [
        (lambda b, i: b[i] + b[7 - i], (8,), "it reads several elements of B at once"),
        (lambda b, i: b[i + 1], (7,), "it reads only a part of B"),
        (lambda b, i: b[i * 2], (4,), "it reads only a part of B"),
        (lambda b, i, j: b[i], (8, 2), "the iteration that reads an element of B cannot be determined"),
        (
            lambda b, i: te.if_then_else(i < 8, b[te.minimum(i, 7)], te.const(0, "float32")),
            (9,),
            "cannot be determined",
        ),
    ],
)
def test_refuses_to_read_anything_else_than_each_element_once(consumer: Any, out: Any, why: str) -> None:
    refused(Schedule(two((8,), consumer, out)), "C", why)


def test_refuses_to_read_a_scalar_many_times() -> None:
    sch = Schedule(two((), lambda b, i: b() + 1, (7,)))
    assert "compute_inline(B) instead" in refused(sch, "C", "all of its iterations read the one element of B")


def test_a_scalar_moves_into_its_producer(check_values: Any) -> None:
    for out in ((), (1, 1)):
        sch = Schedule(two((), lambda b, *i: b() * 3, out))
        sch.reverse_compute_inline("C")
        assert [b.name for b in sch.get_blocks()] == ["B"]
        check_values(sch, lambda a, out=out: [((a + 1) * 3).reshape(out)])


def test_compute_inline_refuses_consumers_that_hold_blocks() -> None:
    sch = Schedule(two((6, 4), lambda b, i, j: b[i, j] * 2, (6, 4)))
    sch.blockize(sch.get_loop("C", 1))
    refused(sch, "B", r"its consumer C_o cannot contain the value, because it holds loops", "compute_inline")
    refused(sch, "C_o", "it holds loops or blocks of its own")


def test_a_consumer_whose_value_came_to_depend_on_nothing_is_refused() -> None:
    """x // (0 // (y * i)) is 0 where i is: a simplification that knows this leaves no load of what the block reads."""
    args = two((1, 4), lambda b, i, j: j.astype("int32") // (b[i, j].astype("int32") * i.astype("int32")), (1, 4))
    sch = Schedule(args)
    sch.transform_block_layout("C", lambda i, j: (i, j))
    refused(sch, "C", "its value does not depend on B, which it says it reads")


def every(step: int, first: int, count: int, size: int) -> Any:
    """B has values at some places, and C the others itself."""
    return script.from_source(f"""
@T.prim_func
def main(A: T.Buffer(({count},), "int32"), C: T.Buffer(({size},), "int32")) -> None:
    B = T.alloc_buffer(({size},), "int32")
    for i in range({count}):
        with T.block("B"):
            vi = T.axis.spatial({count}, i)
            B[vi * {step} + {first}] = A[vi] * 2
    for j in range({size}):
        with T.block("C"):
            v = T.axis.spatial({size}, j)
            here = v >= {first} and v < {first + count * step} and (v - {first}) % {step} == 0
            C[v] = T.if_then_else(here, B[v], 7)
""")


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 3), st.integers(0, 2), st.integers(1, 6), st.integers(0, 3))
def test_iterations_that_read_what_the_producer_never_makes_are_not_lost(
    step: int, first: int, count: int, more: int
) -> None:
    func = every(step, first, count, first + count * step + more)
    sch = Schedule(func)
    with suppress(ScheduleError):
        sch.reverse_compute_inline("C")
    assert len(sch.get_blocks()) == (1 if step == 1 and first == more == 0 else 2)
    array = np.arange(1, count + 1, dtype="int32")
    np.testing.assert_array_equal(interpret(sch.func, [array])[0], interpret(func, [array])[0])


def test_refuses_a_producer_that_makes_a_part_of_what_is_read() -> None:
    refused(Schedule(every(2, 0, 4, 8)), "C", "may read elements of B that its producer never makes")
