"""Primitives that meet: mixtures that random schedules once got wrong."""

from __future__ import annotations

from typing import Any

import pytest

from pegbox.compute.ops import compute, placeholder, reduce_axis
from pegbox.compute.ops import sum as sum_over
from pegbox.errors import ScheduleError
from pegbox.loops.verify import verify
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


def test_a_start_says_nothing_of_copies_inside_of_the_block(programs: Any, check_values: Any) -> None:
    args, reference = programs.matmul()
    sch = Schedule(args)
    i, j, k = sch.get_loops("C")
    k_0, k_1 = sch.split(k, factor=3)
    sch.reorder(i, j, k_0, k_1)
    sch.blockize(k_1)
    sch.cache_read("C", 0, "local")
    start = sch.decompose_reduction("C_o", k_0)
    assert [w.buffer.name for w in sch.tree.blocks[start.name].block.writes] == ["C"]
    verify(sch.func)
    check_values(sch, reference)
