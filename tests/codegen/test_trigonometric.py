"""Sines and cosines of float32, which are computed in vectors: errors, special values, and calls of the C library."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import pegbox as pb
from pegbox import te

COUNT = 1 << 12
FUNCTIONS = {"sin": (te.sin, np.sin), "cos": (te.cos, np.cos)}


def computed(name: str, x: Any, lanes: int = 16) -> Any:
    """Compute a function in vectors of some lanes, or one number at a time."""
    given = te.placeholder(x.shape, str(x.dtype), "x")
    made = te.compute(x.shape, lambda i: FUNCTIONS[name][0](given[i]), name="y")
    schedule = te.create_schedule(made.op)
    if lanes > 1:
        _, inner = schedule[made].split(made.op.axis[0], factor=lanes)
        schedule[made].vectorize(inner)
    y = np.empty_like(x)
    pb.build(schedule, [given, made])(x, y)
    return y


def arguments() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    sizes = np.exp2(rng.uniform(-149, 128, COUNT))
    return {
        "a few turns": rng.uniform(-20, 20, COUNT),
        "many turns": rng.uniform(-1e6, 1e6, COUNT),
        "quarters": (np.arange(COUNT) - COUNT // 2) * np.pi / 2,
        "large quarters": (1.6e8 + np.arange(COUNT)) * np.pi / 2,
        "any": np.minimum(sizes, 3e38) * rng.choice([-1, 1], COUNT),
        "around the limit": np.float32(2.0**28) + 32.0 * (np.arange(COUNT) - COUNT // 2),
    }


@pytest.mark.parametrize("lanes", [1, 4, 16])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_errors_stay_below_two_units_of_the_last_place(name: str, lanes: int) -> None:
    for kind, values in arguments().items():
        x = values.astype("float32")
        expected = FUNCTIONS[name][1](x.astype("float64"))
        unit = np.spacing(np.abs(expected).astype("float32"))
        assert (np.abs(computed(name, x, lanes) - expected) <= 1.7 * unit).all(), kind


@pytest.mark.parametrize("name", FUNCTIONS)
def test_zeros_keep_their_sign_and_infinities_give_nan(name: str) -> None:
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 1.0] * 2, "float32")
    with np.errstate(invalid="ignore"):
        expected = FUNCTIONS[name][1](x)
    y = computed(name, x)
    np.testing.assert_allclose(y, expected, rtol=2e-7, atol=0)
    np.testing.assert_array_equal(np.signbit(y[:2]), np.signbit(expected[:2]))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_float64_is_computed_by_the_c_library(name: str) -> None:
    x = np.random.default_rng(1).uniform(-1e6, 1e6, 64)
    np.testing.assert_allclose(computed(name, x), FUNCTIONS[name][1](x), rtol=0, atol=3e-16)


def test_the_kernel_calls_the_library_only_for_large_numbers() -> None:
    x = te.placeholder((64,), name="x")
    y = te.compute((64,), lambda i: te.sin(x[i]) + te.cos(x[i]) * te.sin(x[i]), name="y")
    schedule = te.create_schedule(y.op)
    schedule[y].vectorize(y.op.axis[0])
    text = pb.build(schedule, [x, y]).source()
    assert "@sinf" not in text
    assert sorted(re.findall(r"define internal .* @pegbox\.far\.(\w+)", text)) == ["cos", "sin"]
