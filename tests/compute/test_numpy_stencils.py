"""Stencils as NumPy code: shifted, strided and flipped slices, of copies with borders where they reach beyond them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pegbox import te
from pegbox.compute import placeholders
from pegbox.compute.numpy_program import NumpyProgram, numpy_program
from pegbox.compute.numpy_statement import NoNumpyProgram
from pegbox.compute.reference import evaluate
from pegbox.compute.tensor import Tensor

N = 9
A = te.placeholder((N, N), name="A")
X = te.placeholder((24,), name="X")
H = te.placeholder((5,), name="H")
R, S = te.reduce_axis((0, 3), name="r"), te.reduce_axis((0, 3), name="s")
K = te.reduce_axis((0, 5), name="k")
ZERO = te.const(0, "float32")


def check(tensor: Tensor) -> NumpyProgram:
    """Compare the program with the reference on whole numbers, which are exact."""
    inputs = placeholders([tensor])
    program = numpy_program([*inputs, tensor])
    random = np.random.default_rng(0)
    arrays = [random.integers(-4, 5, each.shape).astype(each.dtype) for each in inputs]
    run, (out,) = program.prepare(arrays)
    out.fill(77)
    run()
    run()
    np.testing.assert_array_equal(out, evaluate([tensor], dict(zip(inputs, arrays, strict=True)))[0])
    return program


def within(i: Any, j: Any) -> Any:
    return te.all(i >= 0, i < N, j >= 0, j < N)


def zero(i: Any, j: Any) -> Any:
    return te.if_then_else(within(i, j), A[i, j], ZERO)


def clamped(i: Any) -> Any:
    return te.maximum(te.minimum(i, N - 1), 0)


def reflected(i: Any) -> Any:
    return te.if_then_else(i < 0, -i, te.if_then_else(i >= N, 2 * N - 2 - i, i))


def laplacian(read: Callable[[Any, Any], Any]) -> Tensor:
    around = lambda i, j: read(i - 1, j) + read(i + 1, j) + read(i, j - 1) + read(i, j + 1)  # noqa: E731
    return te.compute((N, N), lambda i, j: around(i, j) - 4 * read(i, j), name="L")


def box(read: Callable[[Any, Any], Any]) -> Tensor:
    return te.compute((N, N), lambda i, j: te.sum(read(i + R - 1, j + S - 1), axis=[R, S]), name="B")


BORDERS = {
    "zero": zero,
    "edge": lambda i, j: A[clamped(i), clamped(j)],
    "wrap": lambda i, j: A[(i + N) % N, (j + N) % N],
    "reflect": lambda i, j: A[reflected(i), reflected(j)],
    "edge and zero": lambda i, j: te.if_then_else(te.all(j >= 0, j < N), A[clamped(i), j], ZERO),
}


@pytest.mark.parametrize("border", BORDERS)
@pytest.mark.parametrize("stencil", [laplacian, box])
def test_a_stencil_with_borders_reads_slices_of_one_copy(border: str, stencil: Callable[[Any], Tensor]) -> None:
    text = check(stencil(BORDERS[border])).text
    assert text.count("np.empty") == 2  # the copy and the output
    assert "np.where" not in text


def test_the_inside_of_a_stencil_is_written_over_its_border() -> None:
    total = lambda i, j: A[i - 1, j] + A[i + 1, j] + A[i, j - 1] + A[i, j + 1]  # noqa: E731
    inner = lambda i, j: te.all(i > 0, i < N - 1, j > 0, j < N - 1)  # noqa: E731
    for border in (lambda i, j: A[i, j], lambda i, j: ZERO, lambda i, j: A[i, j] * 2):
        made = te.compute((N, N), lambda i, j, b=border: te.if_then_else(inner(i, j), total(i, j), b(i, j)), name="L")
        assert check(made).text.count("np.empty") == 1


def test_the_game_of_life_counts_in_its_own_type() -> None:
    grid = te.placeholder((N, N), "int8", name="G")
    cell = lambda i, j: te.if_then_else(within(i, j), grid[i, j], te.const(0, "int8"))  # noqa: E731
    around = [(a, b) for a in (-1, 0, 1) for b in (-1, 0, 1) if a or b]

    def next_cell(i: Any, j: Any) -> Any:
        count = sum((cell(i + a, j + b) for a, b in around[1:]), cell(i - 1, j - 1))
        lives = te.any(count == 3, te.all(count == 2, cell(i, j) == 1))
        return te.if_then_else(lives, te.const(1, "int8"), te.const(0, "int8"))

    text = check(te.compute((N, N), next_cell, name="next")).text
    assert text.count("np.where") == 1
    assert "float" not in text


def test_a_sum_over_a_small_window_is_a_sum_of_slices() -> None:
    text = check(te.compute((N - 2, N - 2), lambda i, j: te.sum(A[i + R, j + S], axis=[R, S]), name="B")).text
    assert "reduce" not in text
    weights = te.placeholder((3, 3, 3), name="W")
    images = te.placeholder((3, N, N), name="I")
    product = lambda c, i, j: images[c, i + R, j + S] * weights[c, R, S]  # noqa: E731
    text = check(te.compute((3, N - 2, N - 2), lambda c, i, j: te.sum(product(c, i, j), axis=[R, S]), name="D")).text
    assert "matmul" not in text
    largest = lambda i, j: te.max(A[2 * i + R, 2 * j + S], axis=[R, S])  # noqa: E731
    assert check(te.compute((4, 4), largest, name="P")).text.count("np.maximum(") == 8


FILTERS = {
    "valid": lambda i: X[i + K],
    "flipped": lambda i: X[i + 4 - K],
    "strided taps": lambda i: X[i + K * 2],
    "causal": lambda i: te.if_then_else(i - K >= 0, X[i - K], ZERO),
}


@pytest.mark.parametrize("name", FILTERS)
def test_a_filter_of_one_dimension_is_a_correlation(name: str) -> None:
    text = check(te.compute((16,), lambda i: te.sum(FILTERS[name](i) * H[K], axis=K), name="y")).text
    assert ("np.correlate" in text) == (name != "strided taps")


def test_terms_that_a_sum_leaves_out_are_zeros() -> None:
    made = te.compute((24,), lambda i: te.sum(X[i - K] * H[K], axis=K, where=i - K >= 0), name="y")
    assert "np.correlate" in check(made).text
    lower = te.compute((N, 3), lambda i, j: te.sum(A[i, Q] * W[Q, j], axis=Q, where=i >= Q), name="lower")
    assert "np.matmul" in check(lower).text
    check(te.compute((1,), lambda i: te.max(X[K], axis=K, where=K > 2), name="most"))


Q = te.reduce_axis((0, N), name="q")
W = te.placeholder((N, 3), name="W")


def test_values_of_indices_are_computed_ahead() -> None:
    ramp = te.compute((24,), lambda i: X[i] * te.cast("float32", i), name="ramp")
    triangle = te.compute((N, N), lambda i, j: te.if_then_else(i < j, A[i, j], 0.0), name="triangle")
    for made in (ramp, triangle):
        ahead, run = check(made).text.split("def run():")
        assert "np.arange" in ahead
        assert "arange" not in run


def test_pieces_of_an_array_are_copied_side_by_side() -> None:
    joined = te.compute((28,), lambda i: te.if_then_else(i < 24, X[i], H[i - 24]), name="joined")
    woven = te.compute((24,), lambda i: te.if_then_else(i % 2 == 0, X[i // 2], X[i // 2 + 12]), name="woven")
    nested = te.compute((26,), lambda i: 1 + te.if_then_else(i < 24, X[i], H[i - 24] * 2), name="nested")
    for made in (joined, woven, nested):
        check(made)


def test_several_outputs_are_written() -> None:
    first, second = te.compute((23,), lambda i: (X[i] + X[i + 1], X[i] - X[i + 1]), name="pair")
    run, outputs = numpy_program([X, first, second]).prepare([np.arange(24, dtype="float32")])
    run()
    assert [out[3] for out in outputs] == [7, -1]


@st.composite
def reads(draw: st.DrawFn, tensor: Tensor) -> Callable[..., Any]:
    """An element of a tensor of one or two dimensions: shifted, strided, flipped, with some border."""
    shifts = [draw(st.integers(-3, 3)) for _ in tensor.shape]
    factors = [draw(st.sampled_from([1, 1, -1, 2])) for _ in tensor.shape]
    border = draw(st.sampled_from(["zero", "one", "edge", "wrap"]))

    def read(*at: Any) -> Any:
        places = [
            factor * i + shift + (extent - 1 if factor < 0 else 0)
            for i, shift, factor, extent in zip(at, shifts, factors, tensor.shape, strict=True)
        ]
        if border == "edge":
            return tensor[tuple(te.maximum(te.minimum(p, n - 1), 0) for p, n in zip(places, tensor.shape, strict=True))]
        if border == "wrap":
            return tensor[tuple(p % n for p, n in zip(places, tensor.shape, strict=True))]
        inside = te.all(*(c for p, n in zip(places, tensor.shape, strict=True) for c in (p >= 0, p < n)))
        return te.if_then_else(inside, tensor[tuple(places)], te.const(border == "one", tensor.dtype))

    return read


@st.composite
def stencils(draw: st.DrawFn) -> Tensor:
    """A sum, difference, product or maximum of reads, over a window or not."""
    dtype = draw(st.sampled_from(["float32", "int8", "int32"]))
    shape = tuple(draw(st.lists(st.integers(2, 7), min_size=1, max_size=3)))
    tensor = te.placeholder(shape, dtype, name="T")
    terms = draw(st.lists(reads(tensor), min_size=1, max_size=3))
    joins = [draw(st.sampled_from([te.maximum, lambda a, b: a + b, lambda a, b: a * b - b])) for _ in terms[1:]]
    out = tuple(draw(st.integers(1, n + 2)) for n in shape)
    windows = [te.reduce_axis((0, draw(st.integers(1, 3))), name=f"w{n}") for n in range(len(shape))]
    reducer = draw(st.sampled_from([None, te.sum, te.max, te.min]))

    def body(*at: Any) -> Any:
        places = at if reducer is None else tuple(i + w for i, w in zip(at, windows, strict=True))
        value = terms[0](*places)
        for term, join in zip(terms[1:], joins, strict=True):
            value = join(value, term(*places))
        return value if reducer is None else reducer(value, axis=windows)

    return te.compute(out, body, name="out")


@given(stencils())
def test_random_stencils_are_those_of_the_reference(made: Tensor) -> None:
    try:
        check(made)
    except NoNumpyProgram as error:  # indices modulo an extent that go around many times
        assume("in the order in which it is read" not in str(error))
        raise


def test_a_constant_that_is_computed_is_a_value_of_indices_too() -> None:
    check(te.compute((24,), lambda i: X[i] + te.exp(te.const(0, "float32")) * te.cast("float32", i), name="Y"))
