"""Operators as canonical nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pegbox import te
from pegbox.compute import convolve, elementwise, padded
from pegbox.graph import Node, Value, conv_node, make_node, pointwise_node
from pegbox.graph.passes.canonical_form import canonical_form
from tests.helpers.optimized import (
    Constants,
    batch_normalization,
    check_pass,
    check_stays,
    check_values,
    conv_transpose,
    graph_of,
)

Golden = Callable[[object], None]


def convolution(name: str, *values: Value, pads: tuple[int, ...], auto_pad: str = "", **numbers: Sequence[int]) -> Node:
    """Make a convolution as readers do: with a bias, and with attributes left out."""

    def compute(x: te.Tensor, w: te.Tensor, *bias: te.Tensor) -> list[te.Tensor]:
        rank = x.ndim - 2
        strides, dilations = (numbers.get(each, [1] * rank) for each in ("strides", "dilations"))
        sums = convolve(padded(x, (0, 0, *pads[:rank]), (0, 0, *pads[rank:])), w, strides, dilations)
        return [te.compute(sums.shape, lambda n, o, *at: sums(n, o, *at) + bias[0](o)) if bias else sums]

    attributes = {"auto_pad": auto_pad} if auto_pad else {"pads": list(pads)}
    return make_node(name, "Conv", values, compute, {**attributes, **numbers})


def test_a_convolution_is_split_from_its_bias(golden: Golden) -> None:
    constants = Constants()
    x = Value("x", (1, 3, 5, 4), "float32")
    w, b = constants.random("w", 2, 3, 3, 3), constants.random("b", 2)
    check_pass(canonical_form, graph_of([convolution("c", x, w, b, pads=(1, 0, 1, 0))], constants), golden)


@pytest.mark.parametrize(
    ("rule", "pads"), [("SAME_UPPER", (0, 1)), ("SAME_LOWER", (1, 0)), ("VALID", (0, 0)), ("NOTSET", (0, 0))]
)
def test_the_borders_of_a_convolution_may_be_a_rule(rule: str, pads: tuple[int, int]) -> None:
    constants = Constants()
    x = Value("x", (1, 2, 6), "float32")
    graph = graph_of([convolution("c", x, constants.random("w", 2, 2, 2), pads=pads, auto_pad=rule)], constants)
    made = canonical_form(graph)
    assert made.nodes[0].attributes["pads"] == pads
    check_values(graph, made)


def test_few_outputs_of_a_convolution_are_a_whole_vector(golden: Golden) -> None:
    constants = Constants()
    x, w, b = Value("x", (1, 2, 5, 4), "float32"), constants.random("w", 3, 2, 3, 3), constants.random("b", 3)
    check_pass(canonical_form, graph_of([convolution("c", x, w, b, pads=(1, 1, 1, 1))], constants), golden)


@pytest.mark.parametrize("shape", [(4, 2, 3, 3), (17, 2, 3, 3), (3, 2, 1, 1), (3, 2, 3)])
def test_other_convolutions_have_the_outputs_that_they_had(shape: tuple[int, ...]) -> None:
    constants = Constants()
    x, w = Value("x", (1, 2, *(9 for _ in shape[2:])), "float32"), constants.random("w", *shape)
    graph = graph_of([convolution("c", x, w, pads=(0,) * 2 * (len(shape) - 2))], constants)
    (made,) = canonical_form(graph).nodes
    assert made.inputs[1].shape == shape


def test_taps_that_read_the_border_alone_are_left_out(golden: Golden) -> None:
    constants = Constants()
    x, w = Value("x", (1, 3, 5, 9), "float32"), constants.random("w", 2, 3, 3, 3)
    node = convolution("c", x, w, pads=(6, 6, 6, 6), dilations=[6, 6])
    check_pass(canonical_form, graph_of([node], constants), golden)


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_convolutions_with_wide_borders_keep_their_values(data: st.DataObject) -> None:
    extent, taps, apart, step = (data.draw(st.integers(1, most)) for most in (5, 4, 5, 3))
    wide = data.draw(st.tuples(st.integers(0, 12), st.integers(0, 12)))
    assume(extent + sum(wide) >= (taps - 1) * apart + 1)
    constants = Constants()
    x, w = Value("x", (1, 2, extent), "float32"), constants.random("w", 2, 2, taps)
    graph = graph_of([convolution("c", x, w, pads=wide, strides=[step], dilations=[apart])], constants)
    check_values(graph, canonical_form(graph))


def test_a_canonical_convolution_stays() -> None:
    constants = Constants()
    x, w = Value("x", (1, 5, 4, 3), "float32"), constants.random("w", 2, 3, 3, 3)
    node = conv_node("c", x, w, strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1), layout="NHWC")
    check_stays(canonical_form, graph_of([node], constants))


def test_a_bias_that_is_computed_gets_the_shape_of_channels() -> None:
    constants = Constants()
    x, b = Value("x", (1, 3, 4, 4), "float32"), Value("b", (2,), "float32")
    graph = graph_of([convolution("c", x, constants.random("w", 2, 3, 1, 1), b, pads=(0, 0, 0, 0))], constants)
    made = canonical_form(graph)
    assert [node.kind for node in made.nodes] == ["Conv", "Reshape", "Add"]
    check_values(graph, made)


def test_windows_side_by_side_are_convolutions_of_single_pixels(golden: Golden) -> None:
    constants = Constants()
    x, w = Value("x", (1, 3, 5, 4), "float32"), constants.random("w", 3, 2, 2, 3)
    node = conv_transpose("c", x, w, constants.random("b", 2), strides=(2, 3))
    check_pass(canonical_form, graph_of([node], constants), golden)


def test_windows_that_overlap_are_convolutions_of_which_borders_are_left_out(golden: Golden) -> None:
    constants = Constants()
    x, w = Value("x", (1, 3, 5, 4), "float32"), constants.random("w", 3, 8, 4, 3)
    node = conv_transpose("c", x, w, strides=(2, 2), pads=[1, 0, 1, 1], output_padding=[0, 1])
    check_pass(canonical_form, graph_of([node], constants), golden)


def test_a_single_pixel_makes_one_window() -> None:
    constants = Constants()
    x, w = Value("x", (2, 3, 1, 1), "float32"), constants.random("w", 3, 2, 4, 4)
    graph = graph_of([conv_transpose("c", x, w, strides=(1, 1), pads=[0, 1, 1, 0])], constants)
    made = canonical_form(graph)
    assert made.nodes[0].inputs[1].shape == (32, 3, 1, 1)
    check_values(graph, made)


@given(data=st.data(), rank=st.integers(1, 3))
@settings(max_examples=60, deadline=None)
def test_transposed_convolutions_keep_their_values(data: st.DataObject, rank: int) -> None:
    def each(least: int, most: int) -> list[int]:
        return data.draw(st.lists(st.integers(least, most), min_size=rank, max_size=rank))

    kernel, strides, extents = each(1, 4), each(1, 3), each(1, 4)
    more = [data.draw(st.integers(0, s - 1)) for s in strides]
    full = [(e - 1) * s + k + m for e, s, k, m in zip(extents, strides, kernel, more, strict=True)]
    before = [data.draw(st.integers(0, f - 1)) for f in full]
    after = [data.draw(st.integers(0, f - 1 - b)) for f, b in zip(full, before, strict=True)]
    constants = Constants()
    values = Value("x", (1, 2, *extents), "float32"), constants.random("w", 2, 17, *kernel)
    node = conv_transpose("c", *values, strides=(*strides,), pads=[*before, *after], output_padding=more)
    graph = graph_of([node], constants)
    check_values(graph, canonical_form(graph))


@pytest.mark.parametrize("attributes", [{"group": 3}, {"dilations": [2, 2]}, {"auto_pad": "SAME_UPPER"}])
def test_other_transposed_convolutions_stay(attributes: dict[str, object]) -> None:
    constants = Constants()
    x, w = Value("x", (1, 3, 5, 4), "float32"), constants.random("w", 3, 2, 2, 2)
    node = conv_transpose("c", x, w, strides=(2, 2), **attributes)
    check_stays(canonical_form, graph_of([node], constants))


@pytest.mark.parametrize(
    ("extent", "kernel", "outputs", "stays"),
    [(8, 4, 16, False), (20, 4, 16, True), (20, 5, 16, False), (12, 3, 16, True), (8, 4, 3, True)],
    ids=["short rows", "long rows", "for Winograd", "mostly zeros", "few channels"],
)
def test_the_form_of_a_transposed_convolution_depends_on_its_sizes(
    extent: int, kernel: int, outputs: int, stays: bool
) -> None:
    constants = Constants()
    x, w = Value("x", (1, 3, extent, extent), "float32"), constants.random("w", 3, outputs, kernel, kernel)
    pads, more = ([2] * 4, [1, 1]) if kernel == 5 else ([1] * 4, [kernel % 2] * 2)
    node = conv_transpose("c", x, w, strides=(2, 2), pads=pads, output_padding=more)
    kinds = [each.kind for each in canonical_form(graph_of([node], constants)).nodes]
    assert ("ConvTranspose" in kinds) == stays
    assert ("Conv" in kinds) != stays


def gemm(name: str, *values: Value, **attributes: float) -> Node:
    """Make `alpha * A @ B + beta * C`, where A and B may be transposed."""
    across, down = attributes.get("transA", 0), attributes.get("transB", 0)
    alpha, beta = attributes.get("alpha", 1.0), attributes.get("beta", 1.0)

    def compute(a: te.Tensor, b: te.Tensor, *c: te.Tensor) -> list[te.Tensor]:
        rows, depth = a.shape[::-1] if across else a.shape
        k = te.reduce_axis((0, depth), name="k")

        def element(i: te.Expr, j: te.Expr) -> te.Expr:
            return te.sum((a[k, i] if across else a[i, k]) * (b[j, k] if down else b[k, j]), axis=k)

        sums = te.compute((rows, b.shape[0] if down else b.shape[1]), element)
        return [elementwise(lambda e, *d: e * alpha + (d[0] * beta if d else 0.0), sums, *c, name="gemm")]

    return make_node(name, "Gemm", values, compute, attributes)


def test_a_product_with_a_bias_is_split(golden: Golden) -> None:
    constants = Constants()
    x = Value("x", (3, 4), "float32")
    node = gemm("y", x, constants.random("w", 5, 4), constants.random("b", 5), transB=1, alpha=0.5, beta=2.0)
    check_pass(canonical_form, graph_of([node], constants), golden)


def test_a_product_whose_left_side_is_transposed_stays() -> None:
    constants = Constants()
    x = Value("x", (4, 3), "float32")
    check_stays(canonical_form, graph_of([gemm("y", x, constants.random("w", 4, 5), transA=1)], constants))


def test_a_batch_normalization_is_a_scale_and_a_shift(golden: Golden) -> None:
    constants = Constants()
    x = Value("x", (2, 3, 2, 2), "float32")
    numbers = [constants.random(name, 3) for name in ("scale", "offset", "mean", "variance")]
    check_pass(canonical_form, graph_of([batch_normalization("n", x, *numbers)], constants), golden)


def test_a_batch_normalization_without_a_finite_scale_stays() -> None:
    constants = Constants()
    x = Value("x", (2, 3, 2, 2), "float32")
    numbers = [constants.random(name, 3) for name in ("scale", "offset", "mean")]
    variance = constants.add("variance", [1.0, 0.0, 1.0])
    check_stays(canonical_form, graph_of([batch_normalization("n", x, *numbers, variance, epsilon=0)], constants))


def copied(name: str, kind: str, x: Value, shape: tuple[int, ...], index: Callable[..., tuple[object, ...]]) -> Node:
    return make_node(name, kind, [x], lambda t: [te.compute(shape, lambda *at: t(*index(*at)), name=kind)])


def test_what_only_moves_elements_is_a_reshape_or_a_transposition(golden: Golden) -> None:
    x = Value("x", (2, 1, 6), "float32")
    nodes = [
        copied("flat", "Flatten", x, (2, 6), lambda i, j: (i, 0, j)),
        copied("same", "Identity", x, (2, 1, 6), lambda i, j, k: (i, j, k)),
        copied("narrow", "Transpose", x, (1, 2, 6), lambda j, i, k: (i, j, k)),
        copied("turned", "Turn", x, (6, 1, 2), lambda k, j, i: (i, j, k)),
        copied("split", "Unflatten", x, (4, 3), lambda i, j: (i // 2, 0, i % 2 * 3 + j)),
    ]
    check_pass(canonical_form, graph_of(nodes, {}, *(node.outputs[0] for node in nodes)), golden)


def test_what_leaves_out_or_repeats_elements_is_neither() -> None:
    x = Value("x", (4, 4), "float32")
    nodes = [
        copied("rows", "Slice", x, (2, 4), lambda i, j: (i, j)),
        copied("diagonal", "Diagonal", x, (4, 4), lambda i, j: (i, i)),
        copied("reversed", "Reverse", x, (4, 4), lambda i, j: (3 - i, j)),
    ]
    check_stays(canonical_form, graph_of(nodes, {}, *(node.outputs[0] for node in nodes)))


def test_a_value_is_read_once() -> None:
    x = Value("x", (3,), "float32")
    graph = graph_of([pointwise_node("y", "Mul", lambda a, b: a * b, [x, x])], {})
    made = canonical_form(graph)
    assert str(made.nodes[0]) == "y: float32[3] = Mul(x)"
    check_values(graph, made)


def test_bounds_are_written_into_the_computation(golden: Golden) -> None:
    constants = Constants()
    x, low, high = Value("x", (5,), "float32"), constants.add("low", 0.0), constants.add("high", 0.75)
    node = pointwise_node("y", "Clip", lambda e, a, b: te.min(te.max(e, a), b), [x, low, high])
    check_pass(canonical_form, graph_of([node], constants), golden)


def test_bounds_that_are_computed_stay_inputs() -> None:
    x, low = Value("x", (5,), "float32"), Value("low", (), "float32")
    node = pointwise_node("y", "Clip", te.max, [x, low])
    check_stays(canonical_form, graph_of([node], {}))


@pytest.mark.parametrize(("exponent", "text"), [
    (-1.0, "1.0 / x[i0]"), (0.5, "te.sqrt(x[i0])"), (2.0, "x[i0] * x[i0]"), (1.0, None), (2.5, None), (0.0, None),
])  # fmt: skip
def test_usual_powers_are_products_and_roots(exponent: float, text: str | None) -> None:
    constants = Constants()
    x = Value("x", (3,), "float32")
    node = pointwise_node("y", "Pow", te.pow, [x, constants.add("e", exponent)])
    (made,) = canonical_form(graph_of([node], constants)).nodes
    if text is not None:
        assert str(made.computation.outputs[0].op.body[0]) == text.replace("te.", "")  # type: ignore[attr-defined]
    assert made.kind == ("Reshape" if exponent == 1.0 else "Pow")
    assert (len(made.inputs) == 1) == (exponent not in (2.5, 0.0))


@pytest.mark.parametrize(("divisor", "kind"), [(3.0, "Mul"), (1e-40, "Div"), (3e38, "Div"), (0.0, "Div")])
def test_a_division_is_a_product_where_both_round_alike(divisor: float, kind: str) -> None:
    constants = Constants()
    x = Value("x", (3,), "float32")
    node = pointwise_node("y", "Div", lambda a, b: a / b, [x, constants.add("d", divisor)])
    graph = graph_of([node], constants)
    made = canonical_form(graph)
    assert [each.kind for each in made.nodes] == [kind]
    check_values(graph, made)


def test_a_division_of_integers_stays() -> None:
    constants = Constants()
    x = Value("x", (3,), "int32")
    node = pointwise_node("y", "Div", te.truncdiv, [x, constants.add("d", 3, "int32")])
    check_stays(canonical_form, graph_of([node], constants))


def test_parts_of_an_array_are_copied_one_by_one(golden: Golden) -> None:
    x = Value("x", (4, 6), "float32")

    def compute(t: te.Tensor) -> list[te.Tensor]:
        return [te.compute((4 - n, 6), lambda i, j, n=n: t[i + n, j], name="part") for n in (3, 1)]

    node = make_node("s", "Split", [x], compute, outputs=["head", "rest"])
    check_pass(canonical_form, graph_of([node], {}), golden)


def test_outputs_that_are_computed_stay_together() -> None:
    x = Value("x", (4,), "float32")
    node = make_node("s", "Both", [x], lambda t: [elementwise(f, t, name="part") for f in (te.exp, te.sqrt)])
    check_stays(canonical_form, graph_of([node], {}))


def gathered(x: Value, indices: Value, axis: int) -> Node:
    def compute(t: te.Tensor, at: te.Tensor) -> list[te.Tensor]:
        shape = (*t.shape[:axis], *at.shape, *t.shape[axis + 1 :])

        def element(*place: te.Expr) -> te.Expr:
            chosen = at(*place[axis : axis + at.ndim])
            chosen = te.if_then_else(chosen < 0, chosen + t.shape[axis], chosen)
            return t(*place[:axis], chosen, *place[axis + at.ndim :])

        return [te.compute(shape, element, name="gathered")]

    return make_node("g", "Gather", [x, indices], compute, {"axis": axis})


@pytest.mark.parametrize(("number", "axis"), [(1, 0), (-1, 1), ([2], 1)])
def test_a_known_row_is_read_where_it_is(number: object, axis: int) -> None:
    constants = Constants()
    graph = graph_of([gathered(Value("x", (3, 4), "float32"), constants.add("at", number, "int64"), axis)], constants)
    made = canonical_form(graph)
    assert made.nodes[0].inputs == graph.inputs
    check_values(graph, made)


def test_several_rows_are_gathered() -> None:
    constants = Constants()
    node = gathered(Value("x", (3, 4), "float32"), constants.add("at", [0, 2], "int64"), 0)
    check_stays(canonical_form, graph_of([node], constants))
