"""Random programs get all numbers of a type, and their results are compared bit by bit where that is exact."""

from __future__ import annotations

import numpy as np
import pytest
from fuzz import dtypes, values

from pegbox import te
from pegbox.compute.reference import evaluate
from pegbox.expr.dtypes import EXPONENTS, numpy_dtype, value_range


def several(numbers: list[float], dtype: str) -> values.Array:
    with np.errstate(over="ignore"):
        return np.array(numbers).astype(numpy_dtype(dtype))


@pytest.mark.parametrize("dtype", dtypes.FLOATS)
def test_inputs_hold_every_kind_of_number(dtype: str) -> None:
    found = values.contents(np.random.default_rng(0), dtype, (4096,), values.ANY)
    with np.errstate(invalid="ignore"):  # of NaNs that signal
        wide = found.astype("float64")
    assert np.isnan(wide).any()
    assert (wide == np.inf).any()
    assert (wide == -np.inf).any()
    assert ((wide == 0) & np.signbit(wide)).any()
    assert ((wide != 0) & (np.abs(wide) < 2.0 ** EXPONENTS[dtype][0])).any(), "subnormal"
    small = values.contents(np.random.default_rng(0), dtype, (99,), values.SMALL).astype("float64")
    assert (small == np.round(small)).all()
    assert np.abs(small).max() == 4


@pytest.mark.parametrize("dtype", dtypes.INTEGERS)
def test_inputs_hold_the_limits_of_integers(dtype: str) -> None:
    found = values.contents(np.random.default_rng(0), dtype, (4096,), values.ANY)
    assert (int(found.min()), int(found.max())) == value_range(dtype)


@pytest.mark.parametrize("dtype", dtypes.FLOATS)
def test_floats_are_compared_bit_by_bit_where_they_are_exact(dtype: str) -> None:
    want = several([0.0, np.nan, np.inf, 1.0], dtype)

    def differs(first: float, last: float, **how: bool) -> bool:
        got = several([first, np.nan, np.inf, last], dtype)
        return values.difference(got, want, **how) is not None

    assert not differs(0.0, 1.0, exact=True, signed_zeros=True)
    assert differs(-0.0, 1.0, exact=True, signed_zeros=True)
    assert not differs(-0.0, 1.0, exact=True, signed_zeros=False)
    near = float(np.nextafter(want[3], want[0]))
    assert differs(0.0, near, exact=True, signed_zeros=False)
    assert not differs(0.0, near, exact=False, signed_zeros=False)
    assert differs(np.nan, 1.0, exact=False, signed_zeros=False)
    assert differs(0.0, np.inf, exact=False, signed_zeros=False)


@pytest.mark.parametrize("target", dtypes.INTEGERS)
@pytest.mark.parametrize("source", dtypes.FLOATS)
def test_conversions_are_defined_for_every_number(source: str, target: str) -> None:
    a = te.placeholder((7,), source, "A")
    b = te.compute((7,), lambda i: dtypes.converted(a[i], target), "B")
    numbers = several([np.nan, np.inf, -np.inf, -0.0, 2.5, 1e300, -1e300], source)
    (got,) = evaluate([b], {a: numbers})
    low, high = (int(n) for n in value_range(target))
    assert [int(n) for n in got[[0, 3, 4]]] == [0, 0, 2]
    assert low <= int(got[2]) <= 0
    assert 0 < int(got[1]) <= high
