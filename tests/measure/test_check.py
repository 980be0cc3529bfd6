from __future__ import annotations

import numpy as np
import pytest

from pegbox.measure.trial.check import Tolerance, difference, poison, same_bytes

EXACT = Tolerance(0.0, 0.0)
CLOSE = Tolerance(rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "int32", "int64", "uint8", "bool"])
def test_a_poisoned_output_is_wrong_and_the_right_one_is_right(dtype: str) -> None:
    expected = np.ones((3, 5), dtype)
    got = np.empty((3, 5), dtype)
    poison(got)
    found = difference("C", got, expected, CLOSE)
    assert found is not None
    assert "15 of 15 elements of output 'C'" in found
    assert difference("C", expected.copy(), expected, CLOSE) is None


def test_the_worst_element_is_named_with_its_place_and_the_allowance() -> None:
    expected = np.zeros((4, 4))
    got = expected.copy()
    got[1, 2], got[3, 0] = 0.5, 2.0
    found = difference("C", got, expected, CLOSE)
    assert found is not None
    assert "2 of 16" in found
    assert "[3, 0]: 2 instead of 0, an error of 2 where 1e-05 is allowed" in found


def test_an_element_never_written_is_called_that() -> None:
    expected, got = np.zeros(4), np.array([0, 0, np.nan, 1.0])
    found = difference("C", got, expected, CLOSE)
    assert found is not None
    assert "[2]: nan instead of 0 (never written)" in found


def test_infinities_and_nans_are_right_where_they_are_expected_and_nowhere_else() -> None:
    expected = np.array([np.inf, -np.inf, np.nan, 1.0], np.float32)
    assert difference("C", expected.copy(), expected, CLOSE) is None
    for place, value in [(0, -np.inf), (0, 1.0), (1, np.inf), (2, 1.0), (3, np.inf), (3, np.nan)]:
        got = expected.copy()
        got[place] = value
        assert difference("C", got, expected, CLOSE) is not None, (place, value)


@pytest.mark.parametrize("place", [0, 16383, 16384, 49999])
def test_an_error_anywhere_in_a_large_array_is_found(place: int) -> None:
    expected = np.ones(50_000, np.float32)
    got = expected.copy()
    got[place] = 1.1
    found = difference("C", got, expected, CLOSE)
    assert found is not None
    assert f"[{place}]" in found
    assert not same_bytes(got, expected)


def test_integers_must_be_equal_unless_a_difference_is_allowed() -> None:
    expected, got = np.array([1, 2, 3], np.int32), np.array([1, 3, 3], np.int32)
    assert difference("C", got, expected, EXACT) is not None
    assert difference("C", got, expected, Tolerance(0.0, 1.0)) is None


def test_a_bool_must_be_zero_or_one() -> None:
    expected = np.array([True, False])
    got = np.array([255, 0], np.uint8).view(np.bool_)
    assert difference("C", got, expected, EXACT) is not None


def test_scalars_and_empty_outputs_are_compared_too() -> None:
    assert difference("C", np.array(1.0), np.array(2.0), CLOSE) is not None
    assert difference("C", np.array(2.0), np.array(2.0), CLOSE) is None
    assert difference("C", np.empty((0, 3)), np.empty((0, 3)), CLOSE) is None


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_tolerance_admits_another_order_of_summing_but_no_forgotten_term(dtype: str) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.uniform(-1, 1, (64, 512)).astype(dtype), rng.uniform(-1, 1, (512, 64)).astype(dtype)
    expected = a @ b
    tolerance = Tolerance.of([expected], flop=2 * 64 * 64 * 512)
    other_order = sum((np.outer(a[:, k], b[k]) for k in reversed(range(512))), np.zeros((64, 64), dtype))
    assert difference("C", other_order.astype(dtype), expected, tolerance) is None
    assert difference("C", a[:, 1:] @ b[1:], expected, tolerance) is not None


def test_a_given_tolerance_is_kept() -> None:
    expected = [np.ones(3, np.float32)]
    assert Tolerance.of(expected, flop=1, rtol=0.5, atol=0.25) == Tolerance(0.5, 0.25)
    assert Tolerance.of([np.ones(3, np.int8)], flop=1) == EXACT


def test_same_bytes_sees_a_change_in_any_byte() -> None:
    for size in (0, 3, 8, 17):
        array = np.arange(size, dtype=np.uint8)
        assert same_bytes(array, array.copy())
        for place in range(size):
            changed = array.copy()
            changed[place] ^= 1
            assert not same_bytes(changed, array)
