"""The whole-array reference against plain loops over elements, each evaluated one by one."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from pegbox import te
from pegbox.compute import reference_reduce
from pegbox.compute.axis import IterVar
from pegbox.compute.graph import post_order
from pegbox.compute.ops import compute, placeholder, reduce_axis
from pegbox.compute.ops import max as te_max
from pegbox.compute.ops import min as te_min
from pegbox.compute.ops import prod as te_prod
from pegbox.compute.ops import sum as te_sum
from pegbox.compute.reducer import Reduce, comm_reducer
from pegbox.compute.reference import evaluate
from pegbox.compute.reference_grid import Grid
from pegbox.compute.tensor import ComputeOp, Tensor
from pegbox.errors import ArgumentError, ComputeError
from pegbox.expr.affine import linear
from pegbox.expr.build import as_expr, cast, const, logical_and, maximum, minimum, select
from pegbox.expr.evaluate import Number
from pegbox.expr.evaluate import evaluate as scalar
from pegbox.expr.intrinsics import call
from pegbox.expr.nodes import Binary, Buffer, Expr, Var

Array = NDArray[Any]


def naive(outputs: list[Tensor], inputs: Mapping[Tensor, Array]) -> list[Array]:
    arrays: dict[Buffer, Array] = {t.buffer: a for t, a in inputs.items()}
    for op in post_order([t.op for t in outputs]):
        if isinstance(op, ComputeOp):
            results = [np.empty(t.shape, t.dtype) for t in op.outputs]
            for point in itertools.product(*(range(iv.extent) for iv in op.axis)):
                values = dict(zip(op.axis, point, strict=True))
                elements = (
                    [scalar(e, values, arrays) for e in op.body]
                    if op.reduce is None
                    else naive_reduce(op.reduce, values, arrays)
                )
                for array, element in zip(results, elements, strict=True):
                    array[point] = element
            arrays.update(zip((t.buffer for t in op.outputs), results, strict=True))
    return [arrays[t.buffer] for t in outputs]


def naive_reduce(reduce: Reduce, outer: Mapping[IterVar, int], arrays: Mapping[Buffer, Array]) -> list[Number]:
    types = tuple(s.dtype for s in reduce.sources)
    a = tuple(Var("a", t) for t in types)
    b = tuple(Var("b", t) for t in types)
    parts = reduce.reducer.combine(a, b)
    result = [scalar(e, {}) for e in reduce.reducer.identity(types)]
    for point in itertools.product(*(range(iv.dom.min, iv.dom.min + iv.extent) for iv in reduce.axes)):
        values = {**outer, **dict(zip(reduce.axes, point, strict=True))}
        if scalar(reduce.condition, values, arrays):
            new = [scalar(s, values, arrays) for s in reduce.sources]
            bound = dict(zip((*a, *b), (*result, *new), strict=True))
            result = [scalar(p, bound) for p in parts]
    return result


def random_array(tensor: Tensor, seed: int = 0) -> Array:
    rng = np.random.default_rng(seed + sum(tensor.shape))
    if tensor.dtype == "bool":
        return rng.integers(0, 2, tensor.shape).astype(bool)
    if tensor.dtype.startswith("float"):
        return rng.uniform(-2, 2, tensor.shape).astype(tensor.dtype)
    info = np.iinfo(tensor.dtype)
    return rng.integers(info.min, info.max, tensor.shape, dtype=tensor.dtype, endpoint=True)


def check(outputs: Tensor | list[Tensor] | tuple[Tensor, ...], *inputs: Tensor, rtol: float = 0) -> list[Array]:
    """Whole arrays and plain loops agree: exactly, or relative to the largest value."""
    wanted = [outputs] if isinstance(outputs, Tensor) else list(outputs)
    arrays = {t: random_array(t, i) for i, t in enumerate(inputs)}
    got, expected = evaluate(wanted, arrays), naive(wanted, arrays)
    for g, e in zip(got, expected, strict=True):
        assert g.dtype == e.dtype
        assert g.shape == e.shape
        scale = float(np.abs(e.astype(np.float64)).max()) if e.dtype != bool else 0
        np.testing.assert_allclose(g, e, rtol=0, atol=rtol * scale)
    return got


@pytest.fixture(params=[None, 7])
def small_blocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run with the usual limits, and with ones so small that everything is cut into blocks."""
    if request.param is not None:
        monkeypatch.setattr(reference_reduce, "CHUNK", request.param)
        monkeypatch.setattr("pegbox.compute.reference.CHUNK", request.param)
        monkeypatch.setattr(reference_reduce, "LIMIT", 40)


DTYPES = ["float32", "float64", "float16", "int8", "int16", "int32", "int64", "uint8"]


def tolerance(dtype: str) -> float:
    return {"float16": 4e-3, "float32": 1e-6, "float64": 1e-14}.get(dtype, 0)


@pytest.mark.usefixtures("small_blocks")
class TestContractions:
    @pytest.mark.parametrize("dtype", DTYPES)
    def test_matmul_of_every_type(self, dtype: str) -> None:
        a, b = placeholder((4, 6), dtype), placeholder((6, 5), dtype)
        k = reduce_axis((0, 6))
        c = compute((4, 5), lambda i, j: te_sum(a[i, k] * b[k, j], axis=k))
        check(c, a, b, rtol=tolerance(dtype))

    @pytest.mark.parametrize("transposed", [(False, True), (True, False), (True, True)])
    def test_transposed_operands(self, transposed: tuple[bool, bool]) -> None:
        a = placeholder((6, 4) if transposed[0] else (4, 6))
        b = placeholder((5, 6) if transposed[1] else (6, 5))
        k = reduce_axis((0, 6))
        c = compute(
            (4, 5),
            lambda i, j: te_sum(
                (a[k, i] if transposed[0] else a[i, k]) * (b[j, k] if transposed[1] else b[k, j]), axis=k
            ),
        )
        check(c, a, b, rtol=1e-6)

    def test_narrow_operands_in_a_wide_sum(self) -> None:
        a, b = placeholder((4, 6), "int8"), placeholder((6, 5), "uint8")
        k = reduce_axis((0, 6))
        c = compute((4, 5), lambda i, j: te_sum(cast("int32", a[i, k]) * cast("int32", b[k, j]), axis=k))
        check(c, a, b)

    def test_batches_scales_and_output_order(self) -> None:
        a, b, s = placeholder((3, 4, 6)), placeholder((3, 6, 5)), placeholder((3, 6))
        k = reduce_axis((0, 6))
        c = compute((5, 3, 4), lambda j, n, i: te_sum(a[n, i, k] * 0.5 * b[n, k, j] * s[n, k], axis=k))
        check(c, a, b, s, rtol=1e-6)

    def test_three_factors_that_do_not_merge(self) -> None:
        a, b, c = placeholder((3, 4)), placeholder((4, 5)), placeholder((5, 3))
        k, r = reduce_axis((0, 4)), reduce_axis((0, 5))
        d = compute((3, 3), lambda i, j: te_sum(a[i, k] * b[k, r] * c[r, j], axis=[k, r]))
        check(d, a, b, c, rtol=1e-6)

    def test_vectors_dots_and_outer_products(self) -> None:
        a, x, y = placeholder((4, 6)), placeholder((6,)), placeholder((4,))
        k, r = reduce_axis((0, 6)), reduce_axis((0, 4))
        check(compute((4,), lambda i: te_sum(a[i, k] * x[k], axis=k)), a, x, rtol=1e-6)
        check(compute((1,), lambda i: te_sum(x[k] * x[k], axis=k)), x, rtol=1e-6)
        check(compute((4, 6), lambda i, j: te_sum(a[i, j] * y[r], axis=r)), a, y, rtol=1e-6)
        check(compute((1,), lambda i: te_sum(x[k] * y[r], axis=[k, r])), x, y, rtol=1e-6)

    def test_an_axis_that_no_factor_reads_repeats_the_sum(self) -> None:
        a, b = placeholder((4, 6)), placeholder((6,))
        k, r = reduce_axis((0, 6)), reduce_axis((0, 3))
        check(compute((4, 2), lambda i, j: te_sum(a[i, k] * b[k], axis=[k, r])), a, b, rtol=1e-6)

    @pytest.mark.parametrize(("stride", "dilation"), [(1, 1), (2, 1), (1, 2), (3, 2)])
    def test_convolution(self, stride: int, dilation: int) -> None:
        x, w = placeholder((2, 3, 9, 8)), placeholder((4, 3, 3, 2))
        height, width = (9 - 2 * dilation - 1) // stride + 1, (8 - dilation - 1) // stride + 1
        c, r, q = reduce_axis((0, 3)), reduce_axis((0, 3)), reduce_axis((0, 2))
        y = compute(
            (2, 4, height, width),
            lambda n, o, i, j: te_sum(
                x[n, c, i * stride + r * dilation, j * stride + q * dilation] * w[o, c, r, q], axis=[c, r, q]
            ),
        )
        check(y, x, w, rtol=1e-6)

    def test_depthwise_convolution_with_its_padding_inside(self) -> None:
        x, w = placeholder((3, 5, 5)), placeholder((3, 3, 3))
        r, q = reduce_axis((0, 3)), reduce_axis((0, 3))

        def element(c: IterVar, i: IterVar, j: IterVar) -> object:
            inside = logical_and(logical_and(i + r >= 1, i + r < 6), logical_and(j + q >= 1, j + q < 6))
            return te_sum(select(inside, x[c, i + r - 1, j + q - 1], 0.0) * w[c, r, q], axis=[r, q])

        check(compute((3, 5, 5), element), x, w, rtol=1e-6)

    def test_reversed_and_shifted_reduce_axes(self) -> None:
        x, w = placeholder((9,)), placeholder((3,))
        k = reduce_axis((2, 5))
        check(compute((5,), lambda i: te_sum(x[i + 6 - k] * w[k - 2], axis=k)), x, w, rtol=1e-6)


@pytest.mark.usefixtures("small_blocks")
class TestReductions:
    @pytest.mark.parametrize("dtype", DTYPES)
    @pytest.mark.parametrize("reduction", [te_sum, te_prod, te_max, te_min])
    def test_every_reduction_of_every_type(self, reduction: Callable[..., Any], dtype: str) -> None:
        a = placeholder((4, 5, 3), dtype)
        k, r = reduce_axis((0, 5)), reduce_axis((0, 3))
        check(compute((4,), lambda i: reduction(a[i, k, r], axis=[k, r])), a, rtol=4 * tolerance(dtype))

    def test_where_leaves_elements_out_and_guards_their_loads(self) -> None:
        a = placeholder((6,), "int32")
        k = reduce_axis((0, 5))
        windows = compute((6,), lambda i: te_sum(a[i + k - 2], axis=k, where=te.all(i + k >= 2, i + k < 8)))
        check(windows, a)
        check(compute((2,), lambda i: te_max(a[k], axis=k, where=i < 1)), a)

    def test_argmax_takes_the_first_of_equals(self) -> None:
        def pick(a: tuple[Expr, ...], b: tuple[Expr, ...]) -> tuple[Expr, Expr]:
            keep = a[1] >= b[1]
            return select(keep, a[0], b[0]), select(keep, a[1], b[1])

        argmax = comm_reducer(pick, lambda i, v: (const(-1, i), const(-128, v)), name="argmax")
        a = placeholder((5, 11), "int8")
        k = reduce_axis((0, 11))
        outputs = compute((5,), lambda i: argmax((cast("int32", k.var), a[i, k]), axis=k))
        values = np.random.default_rng(0).integers(-2, 2, (5, 11)).astype(np.int8)
        index, value = evaluate(outputs, {a: values})
        np.testing.assert_array_equal(index, values.argmax(1))
        np.testing.assert_array_equal(value, values.max(1))
        assert index.dtype == np.int32
        check(outputs, a)

    def test_a_users_sum_is_a_sum_and_its_identity_counts(self) -> None:
        a, b = placeholder((3, 7), "int32"), placeholder((7,), "int32")
        k = reduce_axis((0, 7))
        shifted = comm_reducer(lambda x, y: y + x, lambda t: const(5, t))
        check(compute((3,), lambda i: shifted(a[i, k] * b[k], axis=k)), a, b)

    def test_a_users_reducer_that_numpy_lacks(self) -> None:
        a = placeholder((3, 8), "int32")
        k = reduce_axis((0, 8))
        farthest = comm_reducer(
            lambda x, y: select(call("abs", x) >= call("abs", y), x, y), lambda t: const(0, t), name="farthest"
        )
        check(compute((3,), lambda i: farthest(a[i, k], axis=k)), a)

    def test_several_stages(self) -> None:
        a = placeholder((4, 6))
        k, r = reduce_axis((0, 6)), reduce_axis((0, 6))
        top = compute((4,), lambda i: te_max(a[i, k], axis=k))
        e = compute((4, 6), lambda i, j: call("exp", a[i, j] - top[i]))
        total = compute((4,), lambda i: te_sum(e[i, r], axis=r))
        softmax = compute((4, 6), lambda i, j: e[i, j] / total[i])
        (result,) = check(softmax, a, rtol=1e-6)
        np.testing.assert_allclose(result.sum(1), 1, rtol=1e-6)


@pytest.mark.usefixtures("small_blocks")
class TestElementwise:
    def test_several_outputs(self) -> None:
        a = placeholder((4, 5), "int32")
        check(compute((5, 4), lambda i, j: (a[j, i] + 1, a[j, i] > 0, cast("float64", i * 2))), a)

    @pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "int64"])
    def test_integer_arithmetic(self, dtype: str) -> None:
        a, b = placeholder((64,), dtype), placeholder((64,), dtype)
        divisor = compute((64,), lambda i: select(te.any(b[i] > 0, b[i] < -1), b[i], const(3, dtype)))
        outputs = [
            compute((64,), lambda i: a[i] + b[i] * a[i] - 3),
            compute((64,), lambda i: a[i] // divisor[i]),
            compute((64,), lambda i: a[i] % divisor[i]),
            compute((64,), lambda i: minimum(a[i], b[i]) + maximum(a[i], 3)),
            compute((64,), lambda i: call("abs", a[i])),
        ]
        check(outputs, a, b)

    @pytest.mark.parametrize("source", [*DTYPES, "bool"])
    @pytest.mark.parametrize("target", [*DTYPES, "bool"])
    def test_casts(self, source: str, target: str) -> None:
        a = placeholder((50,), source)
        # Negative floats have no value in uint8.
        positive = source.startswith("float") and target == "uint8"
        check(compute((50,), lambda i: cast(target, call("abs", a[i]) if positive else a[i])), a)

    def test_logic_and_bool_outputs(self) -> None:
        a, b = placeholder((30,), "bool"), placeholder((30,), "int8")
        check(compute((30,), lambda i: (a[i] & (b[i] > 3)) | ~(b[i] != 5)), a, b)

    def test_the_second_operand_of_logic_is_guarded_by_the_first(self) -> None:
        a = placeholder((4,), "int32")
        check(compute((6,), lambda i: (i < 4) & (a[i] > 0)), a)
        check(compute((6,), lambda i: (i >= 4) | (a[i] > 0)), a)

    def test_padding_and_nested_selects(self) -> None:
        a = placeholder((4, 5))
        check(
            compute((6, 9), lambda i, j: select(te.all(i >= 1, i < 5, j >= 2, j < 7), a[i - 1, j - 2], 0.0)),
            a,
        )
        check(compute((8,), lambda i: select(i < 4, a[i, 0], select(i < 6, a[i - 4, 1], a[0, i - 6]))), a)

    def test_reshape_gather_and_broadcast(self) -> None:
        a, rows = placeholder((4, 6)), placeholder((5,), "uint8")
        check(compute((3, 8), lambda i, j: a[(i * 8 + j) // 6, (i * 8 + j) % 6]), a)
        check(compute((5, 6), lambda i, j: a[cast("int64", rows[i]) % 4, 5 - j]), a, rows)
        check(compute((4, 3, 6), lambda i, _, j: a[i, j] * a[0, 0]), a)
        check(compute((4,), lambda i: a[i, i]), a)
        check(compute((2, 3), lambda i, j: as_expr(i * 10 + j)))

    def test_round_is_half_to_even(self) -> None:
        a = placeholder((6,))
        out = compute((6,), lambda i: call("round", a[i]))
        x = np.array([0.5, 1.5, 2.5, -0.5, -1.5, 0.4999], np.float32)
        np.testing.assert_array_equal(evaluate([out], {a: x})[0], [0, 2, 2, -0.0, -2, 0])

    @pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
    @pytest.mark.parametrize(
        "name", ["exp", "log", "sqrt", "rsqrt", "tanh", "sigmoid", "erf", "abs", "floor", "ceil", "round"]
    )
    def test_intrinsics(self, name: str, dtype: str) -> None:
        a = placeholder((40,), dtype)
        # The last bit of float64 is the library's own affair.
        rtol = 4e-16 if dtype == "float64" else 0
        check(
            compute((40,), lambda i: call(name, call("abs", a[i]) if name in ("log", "rsqrt", "sqrt") else a[i])),
            a,
            rtol=rtol,
        )

    def test_no_axes_at_all(self) -> None:
        a = placeholder((3,), "int32")
        k = reduce_axis((0, 3))
        check(compute((), lambda: te_sum(a[k], axis=k)), a)


class TestInputs:
    def test_any_memory_layout_is_read(self) -> None:
        a, b = placeholder((4, 6)), placeholder((6, 4))
        k = reduce_axis((0, 6))
        c = compute((4, 4), lambda i, j: te_sum(a[i, k] * b[k, j], axis=k))
        x = np.random.default_rng(0).random((6, 8), dtype=np.float32)[::-1, ::2]
        np.testing.assert_allclose(evaluate([c], {a: x.T, b: x})[0], x.T @ x, rtol=1e-6)

    def test_a_tensor_on_the_way_may_be_given(self) -> None:
        a = placeholder((4,))
        b = compute((4,), lambda i: a[i] + 1)
        c = compute((4,), lambda i: b[i] * 2)
        (result,) = evaluate([c], {b: np.arange(4, dtype=np.float32)})
        np.testing.assert_array_equal(result, [0, 2, 4, 6])

    def test_a_missing_input_is_named(self) -> None:
        a, b = placeholder((4,), name="A"), placeholder((4,), name="B")
        c = compute((4,), lambda i: a[i] + b[i])
        with pytest.raises(ArgumentError, match=r"no array for input .*B.*\['A'\]"):
            evaluate([c], {a: np.zeros(4, np.float32)})

    @pytest.mark.parametrize("array", [np.zeros(5, np.float32), np.zeros(4), [0.0] * 4])
    def test_a_wrong_input_is_refused(self, array: Any) -> None:
        a = placeholder((4,), name="A")
        with pytest.raises(ArgumentError, match=r"input A is .*expected an array float32\[4\]"):
            evaluate([compute((4,), lambda i: a[i])], {a: array})

    @pytest.mark.parametrize(
        ("element", "index"),
        [
            (lambda a, i: a[i + 1], 4),
            (lambda a, i: a[i - 2], -2),
            (lambda a, i: a[i * i], 4),
            (lambda a, i: select(i < 2, a[i + 3], 0.0), 4),
        ],
    )
    def test_reading_outside_a_tensor_is_an_error(self, element: Callable[..., Expr], index: int) -> None:
        a = placeholder((4,), name="A")
        b = compute((4,), lambda i: element(a, i))
        with pytest.raises(ComputeError, match=rf"index {index} in dimension 0 of A.*\[4\]"):
            evaluate([b], {a: np.zeros(4, np.float32)})


class TestMemory:
    def test_big_contractions_go_to_blas_whole(self, monkeypatch: pytest.MonkeyPatch) -> None:
        a, b = placeholder((96, 128)), placeholder((128, 112))
        k = reduce_axis((0, 128))
        c = compute((96, 112), lambda i, j: te_sum(a[i, k] * b[k, j], axis=k))
        shapes = []
        real = reference_reduce._product
        monkeypatch.setattr(
            reference_reduce, "_product", lambda x, y, t: (shapes.append((x.shape, y.shape)), real(x, y, t))[1]
        )
        check_numpy = random_array(a), random_array(b)
        (got,) = evaluate([c], dict(zip((a, b), check_numpy, strict=True)))
        np.testing.assert_allclose(got, check_numpy[0] @ check_numpy[1], rtol=1e-5)
        assert shapes == [((96, 128), (128, 112))]

    @pytest.mark.parametrize("limit", [1, 2, 5, 12, 24, 1000])
    def test_blocks_cover_the_grid_once_in_order(self, limit: int) -> None:
        grid = Grid((Var("i"), Var("j"), Var("k")), ((0, 2), (3, 6), (0, 4)))
        points: list[tuple[int, ...]] = []
        for block in grid.blocks(limit):
            assert block.size <= limit
            points += itertools.product(*(range(*r) for r in block.ranges))
        assert sorted(points) == list(itertools.product(range(2), range(3, 6), range(4)))
        assert points[0] == (0, 3, 0)


INDEX = st.deferred(lambda: LEAF | st.tuples(st.sampled_from(["add", "sub", "mul"]), INDEX, INDEX))
LEAF = st.sampled_from(["i", "j"]) | st.integers(-3, 3)


@settings(deadline=None, max_examples=100)
@given(INDEX, st.integers(-5, 5), st.integers(-5, 5))
def test_affine_forms_equal_what_they_stand_for(tree: Any, x: int, y: int) -> None:
    variables = {"i": Var("i"), "j": Var("j")}

    def build(node: Any) -> Expr:
        if isinstance(node, tuple):
            return Binary(node[0], build(node[1]), build(node[2]))
        return variables[node] if isinstance(node, str) else const(node)

    expr = build(tree)
    form = linear(expr)
    values: dict[Var, Number] = {variables["i"]: x, variables["j"]: y}
    assert form.const + sum(c * scalar(t, values) for t, c in form.terms.items()) == scalar(expr, values)


@st.composite
def programs(draw: st.DrawFn) -> tuple[Tensor, Tensor, Tensor]:
    """Elementwise programs of one integer type that mix wrapping arithmetic, conditions and guarded loads."""
    dtype = draw(st.sampled_from(["int8", "uint8", "int16", "int32", "int64"]))
    a, b = placeholder((3, 4), dtype), placeholder((4,), dtype)

    def value(i: IterVar, j: IterVar, depth: int) -> Expr:
        kind = draw(st.integers(0, 7 if depth else 2))
        if kind == 0:
            return const(draw(st.integers(0, 100)), dtype)
        if kind == 1:
            return a[draw(st.sampled_from([i, 2 - i, (i + j) % 3])), draw(st.sampled_from([j, 3 - j]))]
        if kind == 2:
            k = draw(st.integers(-2, 2))
            return select(logical_and(j + k >= 0, j + k < 4), b[j + k], const(k, dtype))
        x, y = value(i, j, depth - 1), value(i, j, depth - 1)
        if kind == 3:
            return x // const(draw(st.integers(1, 9)), dtype) + y % const(draw(st.integers(1, 9)), dtype)
        if kind == 4:
            return select(x < y, x, y - x)
        return [x + y, x * y, maximum(x, y)][kind - 5]

    return compute((3, 4), lambda i, j: value(i, j, 3)), a, b


@settings(deadline=None, max_examples=60)
@given(programs())
def test_random_integer_programs_agree_with_plain_loops(program: tuple[Tensor, Tensor, Tensor]) -> None:
    out, a, b = program
    check(out, a, b)
