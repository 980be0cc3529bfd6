"""Sizes are found from shapes, for every template and workload, and misfits are shown with both sides."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import pegbox as pb
from pegbox.codegen import Target
from pegbox.errors import ArgumentError
from pegbox.hooks import registry
from pegbox.operators.function import OperatorFunction, function_of
from pegbox.operators.sizes import Input, SizeSolver, open_sizes
from pegbox.templates import plugin

TARGET = Target("llvm -num-cores 1")
PLANE = {"n": 2, "c": 3, "y": 8, "x": 6}
SIZES: dict[str, Mapping[str, int]] = {
    "template matmul": {"M": 5, "K": 7, "N": 37},
    "template matmul_strassen": {"M": 5, "K": 7, "N": 37},
    "template batch_matmul": {"batch": 2, "M": 5, "K": 7, "N": 37},
    "template conv2d": {"N": 2, "C": 3, "H": 6, "W": 7, "O": 9, "KH": 1, "KW": 2},
    "template conv2d_im2col": {"N": 2, "C": 3, "H": 6, "W": 7, "O": 9, "KH": 1, "KW": 2},
    "template conv2d_winograd": {"N": 2, "C": 3, "H": 6, "W": 7, "O": 9},
    "template depthwise_conv2d": {"N": 2, "C": 3, "H": 6, "W": 7, "KH": 1, "KW": 2},
    "template separable_conv2d": {"N": 2, "C": 3, "H": 6, "W": 7, "O": 9, "KH": 1, "KW": 2},
    "template group_conv2d": {"N": 2, "C": 4, "H": 6, "W": 7, "O": 10},
    "template attention": {"batch": 2, "heads": 3, "n_q": 5, "n_k": 7, "d": 4},
    **{f"template {name}": {"n": 5, "m": 7} for name in ("softmax", "log_softmax", "layer_norm", "rms_norm")},
    "matmul": {"n": 5, "k": 7, "m": 11},
    "matmul_bias_relu": {"n": 5, "k": 7, "m": 11},
    "matmul_bias_gelu": {"n": 5, "k": 7, "m": 11},
    "matmul_chain": {"n": 5, "k": 7, "m": 11, "p": 3},
    "batch_matmul": {"batch": 2, "n": 5, "k": 7, "m": 11},
    "matmul_transposed": {"n": 5, "k": 7, "m": 11},
    "matmul_int8": {"n": 5, "k": 7, "m": 11},
    "attention": {"batch": 2, "n": 5, "d": 7},
    "conv1d": {"n": 2, "c": 3, "x": 9, "o": 5, "k": 4},
    "conv2d": {**PLANE, "o": 5, "k": 4},
    "conv2d_nhwc": {**PLANE, "o": 5, "k": 4},
    "conv3d": {**PLANE, "z": 5, "o": 7, "k": 1},
    "depthwise_conv2d": {**PLANE, "k": 4},
    "conv2d_transposed": {**PLANE, "o": 5, "k": 4},
    "conv2d_bn_relu": {**PLANE, "o": 5, "k": 4},
    "conv2d_winograd": {**PLANE, "o": 5},
    "max_pool2d": PLANE,
    "avg_pool2d": PLANE,
    "row_sum": {"n": 5, "m": 7},
    "row_min": {"n": 5, "m": 7},
    "row_argmax": {"n": 5, "m": 7},
    "norm": {"n": 5, "m": 7},
    "softmax": {"n": 5, "m": 7},
    "layer_norm": {"n": 5, "m": 7},
    "elementwise_chain": {"n": 5, "m": 7},
    "sum_and_max": {"n": 5, "m": 7},
}
GIVEN: dict[str, dict[str, Any]] = {
    "template conv2d_winograd": {"KH": 3, "KW": 3},  # it takes few filters, so that shapes do not show their sizes
    "template group_conv2d": {"groups": 1, "KH": 3, "KW": 3},  # most numbers are no multiples of other groups
    "max_pool2d": {"k": 3},
    "avg_pool2d": {"k": 3},
}
MOST_RUNS = 8


def function(name: str, **given: Any) -> OperatorFunction:
    kind, _, of_kind = name.rpartition(" ")
    return function_of(registry.get(kind or "workload", of_kind), "sketch", given, TARGET)


def solver(name: str, unknown: Sequence[str], shapes: Any, counted: list[int] | None = None) -> SizeSolver:
    """A solver for `shapes`, a function of the sizes that gives shapes by name."""

    def inputs(sizes: Mapping[str, int]) -> list[Input]:
        if counted is not None:
            counted.append(1)
        return [Input(label, tuple(shape)) for label, shape in shapes(**sizes).items()]

    return SizeSolver(name, unknown, inputs)


def test_every_template_and_workload_is_here() -> None:
    templates = {f"template {name}" for name in plugin.pegbox_register_templates()}
    assert set(SIZES) == templates | set(plugin.pegbox_register_workloads())


@pytest.mark.parametrize("name", SIZES)
def test_the_sizes_of_every_template_and_workload_are_found(name: str) -> None:
    found = function(name, **GIVEN.get(name, {}))
    dtype = "int8" if name == "matmul_int8" else "float32"
    task = found.task(tuple((each.shape, dtype) for each in found._inputs("float32", SIZES[name])))
    assert {size: task.workload[1][size] for size in SIZES[name]} == SIZES[name]


@pytest.mark.parametrize("name", SIZES)
def test_few_runs_of_the_function_are_enough(name: str) -> None:
    found = function(name, **GIVEN.get(name, {}))
    runs: list[int] = []

    def inputs(sizes: Mapping[str, int]) -> list[Input]:
        runs.append(1)
        return found._inputs("float32", sizes)

    names = open_sizes(name, found.template.signature, found._fixed("float32"))
    assert SizeSolver(name, names, inputs).expected
    assert len(runs) <= MOST_RUNS


@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 40), st.permutations(["M", "K", "N"]))
def test_arguments_that_are_extents_are_found_in_any_order(m: int, k: int, n: int, order: list[str]) -> None:
    runs: list[int] = []
    sizes = {"M": m, "K": k, "N": n}
    found = solver("f", order, lambda M, K, N: {"A": (M, K), "B": (K, N)}, runs)
    assert found.solve([(m, k), (k, n)]) == sizes
    assert len(runs) == 2


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 5)), min_size=2, max_size=4),
    st.integers(1, 30),
    st.integers(1, 30),
)
def test_linear_extents_are_solved(rows: list[tuple[int, int, int]], a: int, b: int) -> None:
    def shapes(a: int, b: int) -> dict[str, tuple[int, ...]]:
        return {"X": tuple(max(1, p * a + q * b + c) for p, q, c in rows)}

    found = solver("f", ["a", "b"], shapes)
    alone = {"a" if p else "b" for p, q, _ in rows if bool(p) != bool(q)}
    both = any(p and q for p, q, _ in rows)
    assume(alone == {"a", "b"} or (len(alone) == 1 and both))
    assert found.solve([shapes(a, b)["X"]]) == {"a": a, "b": b}


@given(st.sampled_from([2, 3, 4, 8, 16]), st.integers(1, 20), st.integers(1, 20))
def test_a_function_that_accepts_multiples_alone_is_solved(step: int, a: int, b: int) -> None:
    def shapes(n: int, m: int) -> dict[str, tuple[int, ...]]:
        if n % step:
            raise ArgumentError("n must be a multiple")
        return {"X": (n // step, m, step)}

    assert solver("f", ["n", "m"], shapes).solve([(a, b, step)]) == {"n": a * step, "m": b}


@given(st.integers(1, 9), st.integers(0, 20), st.integers(1, 9))
def test_windows_within_an_image_are_solved(k: int, beyond: int, c: int) -> None:
    def shapes(y: int, c: int, k: int) -> dict[str, tuple[int, ...]]:
        if k > y:
            raise ArgumentError("the window is larger than the image")
        return {"X": (y, c), "W": (k, c)}

    assert solver("f", ["y", "c", "k"], shapes).solve([(k + beyond, c), (k, c)]) == {"y": k + beyond, "c": c, "k": k}


def test_a_shape_that_contradicts_another_shows_both() -> None:
    found = solver("f", ["M", "K", "N"], lambda M, K, N: {"A": (M, K), "B": (K, N)})
    message = r"f gets K = 4 from A, but B has 5 there; given A\[3, 4\], B\[5, 6\], expected A\[M, K\], B\[K, N\]"
    with pytest.raises(ArgumentError, match=message):
        found.solve([(3, 4), (5, 6)])


def test_expressions_are_shown() -> None:
    found = solver("f", ["n", "m"], lambda n, m: {"X": (n + m, 2 * n - 1, 3), "Y": (n * m, m)})
    assert found.expected == "X[n + m, 2*n - 1, 3], Y[?, m]"
    assert found.solve([(9, 7, 3), (20, 5)]) == {"n": 4, "m": 5}
    with pytest.raises(ArgumentError, match=r"finds no n for 2\*n - 1 = 8"):
        found.solve([(9, 8, 3), (20, 5)])


def test_an_argument_that_no_shape_shows_is_a_keyword() -> None:
    with pytest.raises(ArgumentError, match=r"finds k nowhere in the shapes; give operator\(..., k=...\)"):
        pb.operator("max_pool2d")(np.ones((1, 2, 8, 8), np.float32))


def test_a_function_that_accepts_nothing_says_why() -> None:
    def shapes(n: int) -> dict[str, tuple[int, ...]]:
        raise ArgumentError("no n is good")

    with pytest.raises(ArgumentError, match=r"no sizes n were found at which it accepts arrays .*no n is good"):
        solver("f", ["n"], shapes).solve([(3,)])


def test_an_argument_that_is_no_size_has_to_be_given() -> None:
    def scaled(n: int, factors: list[float]) -> None: ...

    with pytest.raises(ArgumentError, match=r"no shape gives factors, .* give operator\(..., factors=...\)"):
        open_sizes("scaled", inspect.signature(scaled, eval_str=True), {})


def test_extents_of_zero_are_refused() -> None:
    found = solver("f", ["n"], lambda n: {"X": (n,)})
    with pytest.raises(ArgumentError, match="X has an extent of 0"):
        found.solve([(0,)])


def test_extents_beyond_32_bits_are_sizes() -> None:
    found = function("row_sum")
    assert found.task((((2**31 + 1, 3), "float32"),)).workload[1]["n"] == 2**31 + 1
