"""store_in: a stage's values are kept at the elements of an output that are computed from them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from te_values import check_values

import pegbox as pb
from pegbox import te
from pegbox.errors import LoweringError, ScheduleError


def rows(n: int = 6, m: int = 40, *, read: Callable[[Any, Any, Any], Any] | None = None) -> list[Any]:
    """A -> B = A * 2; S sums rows of B; C = B + S, with `read` for what C reads of B."""
    a, k = te.placeholder((n, m), name="A"), te.reduce_axis((0, m), name="k")
    b = te.compute((n, m), lambda i, j: a[i, j] * 2, name="B")
    s = te.compute((n,), lambda i: te.sum(b[i, k], axis=k), name="S")
    return [a, b, s, te.compute((n, m), lambda i, j: (read(b, i, j) if read else b[i, j]) + s[i], name="C")]


def stored(tensors: list[Any], *, count: int = 1, merged: bool = False) -> te.TESchedule:
    """B and S are computed for `count` rows of C, in vectors, and B is stored in C."""
    _, b, total, c = tensors
    s = te.create_schedule(c.op)
    place, _ = s[c].split(c.op.axis[0], factor=count)
    blocks = []
    for tensor, axis in ((b, b.op.axis[1]), (total, total.op.reduce_axis[0]), (c, c.op.axis[1])):
        outer, inner = s[tensor].split(axis, factor=16)
        s[tensor].vectorize(inner)
        blocks.append(outer)
        if tensor is not c:
            s[tensor].compute_at(s[c], place)
    if merged:
        s[total].merge(blocks[1], s[b], blocks[0])
    s[b].store_in(s[c])
    return s


def test_the_program_of_rows_that_are_kept_in_the_output(golden: Callable[[object], None]) -> None:
    tensors = rows(6, 40)
    golden(pb.lower(stored(tensors, merged=True), [tensors[0], tensors[3]], simple_mode=True))


@pytest.mark.parametrize("merged", [False, True])
@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("columns", [5, 37, 64])
def test_values_stay(columns: int, count: int, merged: bool) -> None:
    tensors = rows(6, columns)
    s = stored(tensors, count=count, merged=merged and count == 1)
    check_values(s, [tensors[0], tensors[3]])
    assert "B" not in pb.lower(s, [tensors[0], tensors[3]]).allocations


def test_a_whole_stage_may_be_stored_in_the_output() -> None:
    a, b, _, c = tensors = rows()
    s = te.create_schedule(c.op)
    s[b].store_in(s[c])
    check_values(s, [a, c])
    assert "B" not in pb.lower(s, [a, tensors[3]]).allocations


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (lambda b, i, j: b[i, 39 - j], "an element of C needs another one"),
        (lambda b, i, j: b[i, j] + b[i, te.min(j + 1, 39)], "an element of C needs another one"),
        (lambda b, i, j: b[i, j] + b[te.max(i - 1, 0), j], "an element of C needs another one"),
    ],
    ids=["mirrored", "with its neighbour", "with the row before"],
)
def test_outputs_that_need_other_elements_are_refused(read: Callable[[Any, Any, Any], Any], message: str) -> None:
    tensors = rows(read=read)
    with pytest.raises(LoweringError, match=f"B is stored in C, but {message}; give B a buffer of its own"):
        pb.lower(stored(tensors), [tensors[0], tensors[3]])


def test_elements_of_other_iterations_are_refused() -> None:
    """The sums of an iteration need rows before, which the iteration before has overwritten by its results."""
    a, k = te.placeholder((8, 4), name="A"), te.reduce_axis((0, 4), name="k")
    b = te.compute((8, 4), lambda i, j: a[i, j] * 2, name="B")
    total = te.compute((8,), lambda i: te.sum(b[te.max(i - 1, 0), k], axis=k), name="S")
    c = te.compute((8, 4), lambda i, j: b[i, j] + total[i], name="C")
    s = te.create_schedule(c.op)
    for tensor in (b, total):
        s[tensor].compute_at(s[c], c.op.axis[0])
    check_values(s, [a, c])
    s[b].store_in(s[c])
    with pytest.raises(LoweringError, match="it has other elements than those of C that an iteration computes"):
        pb.lower(s, [a, c])


def test_stages_between_elements_of_the_output_are_refused() -> None:
    """The sum of all elements of a row runs in the loop over the elements of the output."""
    a, b, total, c = rows()
    s = te.create_schedule(c.op)
    s[b].compute_at(s[c], c.op.axis[0])
    s[total].compute_at(s[c], c.op.axis[1])
    s[b].store_in(s[c])
    with pytest.raises(LoweringError, match="elements of C are computed in between"):
        pb.lower(s, [a, c])


def test_columns_far_apart_in_an_iteration_are_refused() -> None:
    """Elements between those that an iteration writes belong to other iterations."""
    a = te.placeholder((40,), name="A")
    b = te.compute((40,), lambda j: a[j] * 2, name="B")
    c = te.compute((40,), lambda j: b[j] + 1, name="C")
    s = te.create_schedule(c.op)
    outer, inner = s[c].split(c.op.axis[0], factor=8)
    s[c].reorder(inner, outer)
    s[b].compute_at(s[c], inner)
    s[b].store_in(s[c])
    with pytest.raises(LoweringError, match="it has other elements than those of C"):
        pb.lower(s, [a, c])


@pytest.mark.parametrize("note", ["storage_align", "double_buffer"])
def test_other_notes_about_the_storage_are_refused(note: str) -> None:
    tensors = rows()
    s, b = stored(tensors), tensors[1]
    if note == "storage_align":
        s[b].storage_align(b.op.axis[0], 8, 4)
    else:
        s[b].double_buffer()
    with pytest.raises(LoweringError, match="of B: it is stored in C; take one of the notes off"):
        pb.lower(s, [tensors[0], tensors[3]])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda s, b, total, c: s[c].store_in(s[b]), "C is an output"),
        (lambda s, b, total, c: s[b].store_in(s[total]), "is not an output's stage; give one"),
        (lambda s, b, total, c: s[b].store_in(c), "is not an output's stage; give one"),
        (lambda s, b, total, c: s[total].store_in(s[c]), "C is not computed from S element by element"),
    ],
)
def test_other_stages_are_refused(call: Callable[..., None], message: str) -> None:
    _, b, total, c = rows()
    s = te.create_schedule(c.op)
    with pytest.raises(ScheduleError, match=message):
        call(s, b, total, c)
