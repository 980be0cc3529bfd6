"""Primitives that meet: mixtures that random schedules once got wrong."""

from __future__ import annotations

import pytest

from pegbox.compute.ops import compute, placeholder, reduce_axis
from pegbox.compute.ops import sum as sum_over
from pegbox.errors import ScheduleError
from pegbox.schedule import Schedule


def test_a_variable_that_no_index_names_cannot_be_padded() -> None:
    """A layout puts 0 for a variable of one value; four values of it would add up in the same element."""
    x, y = placeholder((7, 3), name="X"), placeholder((3, 1), name="Y")
    k = reduce_axis((0, 3), name="k")
    c = compute((7, 1), lambda i, j: sum_over(x[i, k] * y[k, j], axis=k), name="C")
    d = compute((7, 1), lambda i, j: c[i, j] + c[i, j], name="D")
    sch = Schedule([x, y, d])
    sch.transform_layout("C", "C", lambda i, j: (j, i, 0))
    with pytest.raises(ScheduleError, match="C does not depend on vj, so that this cannot be padded"):
        sch.pad_einsum("C", [1, 4, 1])
    sch.pad_einsum("C", [4, 1, 4])


def test_a_buffer_with_notes_does_not_give_way_to_a_parameter() -> None:
    x = placeholder((4, 6), name="X")
    a = compute((4, 6), lambda i, j: x[i, j] + x[i, j], name="A")
    b = compute((4, 6), lambda i, j: a[i, j] + a[i, j], name="B")
    sch = Schedule([x, b])
    sch.storage_align("A", 0, 0, 8, 1)
    with pytest.raises(ScheduleError, match="buffer_dim_align of A speaks of the buffer that A writes now"):
        sch.reverse_compute_inline("B")
    sch.unannotate(sch.get_block("A"), "buffer_dim_align")
    sch.reverse_compute_inline("B")
