from __future__ import annotations

import re

import pytest
from te_programs import check_values

from pegbox import te


def _sums(dtype: str, scope: str) -> list[str]:
    """Lower C[y, x] = B[y, x] + B[y, x + 2] with B = A + 1; return the lines that store zeros."""
    a = te.placeholder((3, 9), dtype, "A")
    b = te.compute((3, 9), lambda y, x: a[y, x] + 1, "B")
    sums = te.compute((3, 7), lambda y, x: b[y, x] + b[y, x + 2], "T")
    c = te.compute((3, 7), lambda y, x: sums[y, x], "C")
    s = te.create_schedule(c.op)
    s[sums].set_scope("local")
    s[sums].vectorize(s[sums].split(s[sums].op.axis[1], factor=8)[1])
    s[b].set_scope(scope)
    func = check_values(s, [a, c])
    return [line.strip() for line in str(func).splitlines() if re.search(r"\] = 0(\.0)?$", line)]


def test_rows_end_with_zeros_where_vectors_read_on() -> None:
    """The last vector of a row of sums reads B up to column 9, and A has columns 0 to 8."""
    assert _sums("float32", "global") == ["B[ax0, ax1 + 9] = 0.0"]


@pytest.mark.parametrize(("dtype", "scope"), [("int32", "global"), ("float32", "local")])
def test_only_floats_in_memory_need_zeros(dtype: str, scope: str) -> None:
    assert _sums(dtype, scope) == []


def test_rows_that_are_read_as_far_as_written_get_none() -> None:
    a = te.placeholder((3, 8), "float32", "A")
    b = te.compute((3, 8), lambda y, x: a[y, x] + 1, "B")
    c = te.compute((3, 8), lambda y, x: b[y, x] * 2, "C")
    s = te.create_schedule(c.op)
    assert "= 0.0" not in str(check_values(s, [a, c]))
