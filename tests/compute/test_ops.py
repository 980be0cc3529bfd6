"""The compute language: what can be written, what it becomes, and what is refused with which words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pegbox import te, tir
from pegbox.compute.graph import placeholders, post_order
from pegbox.compute.reference import evaluate
from pegbox.compute.tensor import ComputeOp, PlaceholderOp, Tensor, owner
from pegbox.errors import ComputeError, ExprError
from pegbox.expr.nodes import Buffer


def refused(match: str) -> Any:
    return pytest.raises(ComputeError, match=match)


@pytest.fixture
def a() -> Tensor:
    return te.placeholder((4, 6), name="A")


# Placeholders and axes


def test_a_placeholder_has_its_shape_dtype_and_name() -> None:
    x = te.placeholder((3, 5), "int8", "X")
    assert (x.shape, x.ndim, x.dtype, x.name) == ((3, 5), 2, "int8", "X")
    assert isinstance(x.op, PlaceholderOp)
    assert x.op.inputs == x.op.axis == x.op.reduce_axis == ()
    assert repr(x) == "Tensor(X: int8[3, 5])"
    assert repr(x.op) == "PlaceholderOp(X)"


def test_extents_may_be_numpy_integers_or_constants_of_the_language() -> None:
    x = te.placeholder((np.int64(3), te.const(5)), name="X")
    assert x.shape == (3, 5)
    assert all(type(extent) is int for extent in x.shape)


def test_extents_may_be_quotients_that_are_whole() -> None:
    x = te.placeholder((64 / 16, 5), name="X")  # type: ignore[arg-type]
    assert x.shape == (4, 5)
    assert type(x.shape[0]) is int
    assert te.reduce_axis((0, 64 / 16)).dom.extent == 4  # type: ignore[arg-type]


def test_a_single_extent_needs_no_tuple() -> None:
    assert te.placeholder(7, name="X").shape == (7,)  # type: ignore[arg-type]


@pytest.mark.parametrize("shape", [(0,), (3, -1), (2.5,), ("n",), (3, None)])
def test_extents_that_are_no_positive_integers_are_refused(shape: Any) -> None:
    with refused(r"X: shape .* has the extent .*; extents are integers from 1 up"):
        te.placeholder(shape, name="X")


def test_an_unknown_dtype_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ExprError, match="unknown dtype 'float8'; use one of float64, float32"):
        te.placeholder((3,), "float8")


def test_a_reduce_axis_knows_its_domain() -> None:
    k = te.reduce_axis((2, 7), "k")
    assert (k.name, k.kind, k.extent, k.dom.min, k.dtype) == ("k", "reduce", 5, 2, "int64")
    assert k.var is k


@pytest.mark.parametrize("dom", [(3, 3), (5, 2), (1,), (0, 1, 2), (0, 1.5), ()])
def test_empty_and_malformed_domains_are_refused(dom: Any) -> None:
    with refused(r"reduce_axis 'k': domain .*; give \(first, one past the last\), not empty"):
        te.reduce_axis(dom, "k")


# Computations


def test_axes_are_called_as_the_function_calls_them(a: Tensor) -> None:
    b = te.compute((4, 6), lambda row, col: a[row, col], "B")
    assert [iv.name for iv in b.op.axis] == ["row", "col"]
    assert [(iv.extent, iv.kind) for iv in b.op.axis] == [(4, "spatial"), (6, "spatial")]
    assert te.compute((4, 6), lambda *at: a[at], "B").op.axis[1].name == "i1"
    mixed = te.compute((4, 6), lambda row, *rest: a[(row, *rest)], "B")
    assert [iv.name for iv in mixed.op.axis] == ["row", "i1"]


def test_parameters_with_defaults_are_no_axes(a: Tensor) -> None:
    b = te.compute((4,), lambda i, column=3: a[i, column], "B")
    assert b.shape == (4,)
    np.testing.assert_array_equal(evaluate([b], {a: numbers(a)})[0], numbers(a)[:, 3])


def numbers(t: Tensor, seed: int = 0) -> Any:
    return np.random.default_rng(seed).integers(-9, 10, t.shape).astype(t.dtype)


def test_any_rank_from_none_to_six() -> None:
    for rank in range(7):
        x = te.placeholder((2,) * rank, name="X")
        y = te.compute((2,) * rank, lambda *i, x=x: x[i] * 2, "Y")
        assert y.ndim == rank
        np.testing.assert_array_equal(evaluate([y], {x: numbers(x)})[0], numbers(x) * 2)


def test_several_outputs_share_one_operation(a: Tensor) -> None:
    low, high = te.compute((4, 6), lambda i, j: (a[i, j] - 1, te.cast("int32", a[i, j] + 1)), "both")
    assert (low.name, high.name) == ("both_0", "both_1")
    assert (low.dtype, high.dtype) == ("float32", "int32")
    assert low.op is high.op
    assert [low.value_index, high.value_index] == [0, 1]
    assert low.op.output(1) is high
    minus, plus = evaluate([low, high], {a: numbers(a)})
    np.testing.assert_array_equal(minus, numbers(a) - 1)
    np.testing.assert_array_equal(plus, (numbers(a) + 1).astype("int32"))


def test_a_tuple_of_one_is_still_a_tuple(a: Tensor) -> None:
    made = te.compute((4, 6), lambda i, j: (a[i, j],), "B")
    assert isinstance(made, tuple)
    assert made[0].name == "B"


def test_stages_form_a_graph(a: Tensor) -> None:
    b = te.compute((4, 6), lambda i, j: a[i, j] + 1, "B")
    c = te.compute((4, 6), lambda i, j: b[i, j] * a[i, 0], "C")
    d = te.compute((4,), lambda i: c[i, 0] + b[i, 1], "D")
    order = post_order([d.op])
    assert [op.name for op in order] == ["A", "B", "C", "D"]
    assert c.op.inputs == (b, a)
    assert placeholders([d]) == [a]


def test_a_diamond_is_visited_once(a: Tensor) -> None:
    b = te.compute((4, 6), lambda i, j: a[i, j] + a[i, 5 - j], "B")
    left, right = (te.compute((4, 6), lambda i, j, n=n: b[i, j] * n, f"side{n}") for n in (2, 3))
    both = te.compute((4, 6), lambda i, j: left[i, j] + right[i, j], "both")
    assert [op.name for op in post_order([both.op])] == ["A", "B", "side2", "side3", "both"]
    assert b.op.inputs == (a,)


def test_attributes_are_kept(a: Tensor) -> None:
    assert te.compute((4,), lambda i: a[i, 0], "B", attrs={"kind": "row"}).op.attrs == {"kind": "row"}


def test_rebuilt_operations_give_the_same_tensors(a: Tensor) -> None:
    b = te.compute((4, 6), lambda i, j: a[i, j] + 1, "B")
    again = b.op.rebuilt((a(*b.op.axis) * 2,))
    assert isinstance(again, ComputeOp)
    assert again.outputs == b.op.outputs
    assert again.axis == b.op.axis


def test_indexing_with_too_few_indices_is_refused(a: Tensor) -> None:
    with refused(r"A has 2 dimension\(s\) \[4, 6\], but was indexed with 1"):
        te.compute((4,), lambda i: a[i])


def test_indexing_with_a_float_is_refused(a: Tensor) -> None:
    with refused(r"A: index 1 is .* of dtype float32; indices are integers: use te.cast\('int64', ...\)"):
        te.compute((4,), lambda i: a[i, a[i, 0]])


def test_indices_of_any_integer_type_become_int64() -> None:
    table, where = te.placeholder((9,), name="table"), te.placeholder((4,), "int16", "where")
    picked = te.compute((4,), lambda i: table[where[i]], "picked")
    at = np.array([8, 0, 3, 3], "int16")
    np.testing.assert_array_equal(evaluate([picked], {table: numbers(table), where: at})[0], numbers(table)[at])


def test_a_function_of_the_wrong_number_of_indices_is_refused(a: Tensor) -> None:
    with refused(r"the shape has 2 dimension\(s\), but the function takes 1 index"):
        te.compute((4, 6), lambda i: a[i, 0])


def test_a_tensor_instead_of_an_element_is_refused(a: Tensor) -> None:
    with refused("B: the function gave the tensor A instead of an element; index it"):
        te.compute((4, 6), lambda i, j: a, "B")


def test_anything_else_than_an_element_is_refused() -> None:
    with pytest.raises(ExprError, match=r"cannot use None \(NoneType\) in an expression"):
        te.compute((4,), lambda i: None, "B")


def test_variables_of_another_compute_are_refused(a: Tensor) -> None:
    stolen: list[Any] = []
    te.compute((4,), lambda i: stolen.append(i) or a[i, 0])
    with refused(r"B: variable\(s\) i are bound by no axis of this compute"):
        te.compute((4,), lambda x: a[stolen[0], x], "B")


def test_a_reduce_axis_outside_of_a_reduction_is_refused(a: Tensor) -> None:
    k = te.reduce_axis((0, 6), "k")
    with refused(r"B: variable\(s\) k are bound by no axis"):
        te.compute((4,), lambda i: a[i, k], "B")


def test_a_tensor_is_not_iterated_over(a: Tensor) -> None:
    with refused("A is one tensor, not a list of them"):
        list(a)


def test_a_buffer_of_nobody_is_refused() -> None:
    with refused("belongs to no tensor; index tensors made by te.placeholder or te.compute"):
        owner(Buffer("loose", (3,)))


def test_python_conditions_on_elements_are_refused(a: Tensor) -> None:
    with pytest.raises(ExprError, match=r"known only when the program runs; use te.if_then_else"):
        te.compute((4, 6), lambda i, j: a[i, j] if a[i, j] > 0 else 0)


# Reductions


REDUCTIONS = {"sum": np.sum, "prod": np.prod, "max": np.max, "min": np.min}


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("dtype", ["float64", "float16", "int32", "int8", "uint8"])
def test_reductions_over_one_axis(name: str, dtype: str) -> None:
    x = te.placeholder((3, 4), dtype, "X")
    k = te.reduce_axis((0, 4), "k")
    y = te.compute((3,), lambda i: getattr(te, name)(x[i, k], axis=k), "Y")
    assert y.dtype == dtype
    assert y.op.reduce_axis == (k,)
    values = np.random.default_rng(0).integers(0, 4, (3, 4)).astype(dtype)
    np.testing.assert_array_equal(evaluate([y], {x: values})[0], REDUCTIONS[name](values, axis=1, dtype=dtype)
                                  if name in ("sum", "prod") else REDUCTIONS[name](values, axis=1))  # fmt: skip


def test_reductions_over_several_axes_and_none_left_of_the_input(a: Tensor) -> None:
    k, m = te.reduce_axis((0, 4), "k"), te.reduce_axis((0, 6), "m")
    total = te.compute((1,), lambda _: te.sum(a[k, m], axis=[k, m]), "total")
    assert total.op.reduce_axis == (k, m)
    assert evaluate([total], {a: numbers(a)})[0] == [numbers(a).sum()]


def test_a_domain_may_start_anywhere_and_be_filtered(a: Tensor) -> None:
    k = te.reduce_axis((1, 5), "k")
    odd = te.compute((4,), lambda i: te.sum(a[i, k], axis=k, where=k % 2 == 1), "odd")
    np.testing.assert_array_equal(evaluate([odd], {a: numbers(a)})[0], numbers(a)[:, [1, 3]].sum(1))


@pytest.mark.parametrize(("name", "value"), [("max", -np.inf), ("min", np.inf), ("sum", 0), ("prod", 1)])
def test_a_reduction_of_nothing_is_its_identity(name: str, value: float, a: Tensor) -> None:
    k = te.reduce_axis((0, 6), "k")
    y = te.compute((4,), lambda i: getattr(te, name)(a[i, k], axis=k, where=k > 9), "Y")
    np.testing.assert_array_equal(evaluate([y], {a: numbers(a)})[0], np.full(4, value))


def test_a_user_made_reducer(a: Tensor) -> None:
    length = te.comm_reducer(lambda p, q: p + q * q, lambda t: te.const(0, t), name="squares")
    assert length.__name__ == "squares"
    gcd = te.comm_reducer(lambda p, q: te.maximum(p, q) % 7 + p * 0, lambda t: te.const(0, t))
    k = te.reduce_axis((0, 6), "k")
    y = te.compute((4,), lambda i: length(a[i, k], axis=k), "Y")
    assert y.op.reduce.reducer.name == "squares"
    assert "squares(A[i, k], axis=[k])" in repr(y.op.body[0])
    with pytest.raises(ExprError, match="needs integers"):
        te.compute((4,), lambda i: gcd(a[i, k], axis=k))


def argmax() -> Any:
    return te.comm_reducer(
        lambda p, q: (te.select(q[1] > p[1], q[0], p[0]), te.maximum(p[1], q[1])),
        lambda i, v: (te.const(-1, i), te.min_value(v)),
        name="argmax",
    )


def test_a_reducer_of_pairs(a: Tensor) -> None:
    k = te.reduce_axis((0, 6), "k")
    where, value = te.compute((4,), lambda i: argmax()((te.cast("int32", k), a[i, k]), axis=k), "best")
    assert (where.dtype, value.dtype) == ("int32", "float32")
    got, top = evaluate([where, value], {a: numbers(a)})
    np.testing.assert_array_equal(top, numbers(a).max(1))
    np.testing.assert_array_equal(np.take_along_axis(numbers(a), got[:, None].astype(int), 1)[:, 0], top)


def test_the_outputs_of_a_reduction_must_be_whole_and_in_order(a: Tensor) -> None:
    k = te.reduce_axis((0, 6), "k")

    def pair(i: Any) -> Any:
        return argmax()((te.cast("int32", k), a[i, k]), axis=k)

    with refused("B: the reduction gives 2 values, of which 1 are used"):
        te.compute((4,), lambda i: pair(i)[0], "B")
    with refused("B: all outputs of one compute must come from one reduction, in its order"):
        te.compute((4,), lambda i: pair(i)[::-1], "B")
    with refused("B: all outputs of one compute must come from one reduction, in its order"):
        te.compute((4,), lambda i: (te.sum(a[i, k], axis=k), a[i, 0]), "B")
    with refused("B: all outputs of one compute must come from one reduction, in its order"):
        te.compute((4,), lambda i: (a[i, 0], te.sum(a[i, k], axis=k)), "B")


def test_a_reduction_inside_an_expression_is_refused(a: Tensor) -> None:
    k = te.reduce_axis((0, 6), "k")
    with refused("B: a reduction must be the whole expression; compute it first, then use it in a second te.compute"):
        te.compute((4,), lambda i: te.sum(a[i, k], axis=k) * 2, "B")


def test_nested_reductions_are_refused(a: Tensor) -> None:
    k, m = te.reduce_axis((0, 6), "k"), te.reduce_axis((0, 4), "m")
    with refused("sum: reductions do not nest; reduce over several axes at once, or in two stages"):
        te.sum(te.sum(a[m, k], axis=k), axis=m)


def test_axes_of_reductions_must_be_reduce_axes(a: Tensor) -> None:
    with refused(r"sum: no axis given; make one with te.reduce_axis\(\(0, n\)\)"):
        te.sum(a[0, 0], axis=[])
    with refused("max: axis .* is not a reduce axis"):
        te.compute((4, 6), lambda i, j: te.max(a[i, j], axis=j))
    with refused("sum: axis 5 is not a reduce axis"):
        te.sum(a[0, 0], axis=[5])  # type: ignore[list-item]


def test_bools_are_not_summed(a: Tensor) -> None:
    k = te.reduce_axis((0, 6), "k")
    with refused("sum: cannot reduce bool values; te.cast them to an integer type first"):
        te.sum(a[0, k] > 0, axis=k)


def test_reducers_of_the_wrong_arity_are_refused(a: Tensor) -> None:
    k = te.reduce_axis((0, 6), "k")
    with refused(r"sum: takes 2 value\(s\), but combine gives 1"):
        te.sum((a[0, k], a[1, k]), axis=k)
    with refused(r"argmax: does not take 1 value\(s\) of float32"):
        argmax()(a[0, k], axis=k)


def test_reducers_that_change_the_type_are_refused(a: Tensor) -> None:
    k = te.reduce_axis((0, 6), "k")
    wide = te.comm_reducer(lambda p, q: te.cast("float64", p) + q, lambda t: te.const(0, t), name="wide")
    with refused("wide: combine gives float64 where float32 is reduced; use te.const"):
        wide(a[0, k], axis=k)
    plain = te.comm_reducer(lambda p, q: p + q, lambda t: 0, name="plain")
    with refused("plain: identity gives int64 where float32 is reduced; use te.const"):
        plain(a[0, k], axis=k)


def test_an_axis_given_twice_is_refused(a: Tensor) -> None:
    k = te.reduce_axis((0, 6), "k")
    with refused(r"sum: an axis is given twice in \['k', 'k'\]"):
        te.sum(a[0, k], axis=[k, k])


def test_a_condition_of_a_reduction_is_a_comparison(a: Tensor) -> None:
    k = te.reduce_axis((0, 6), "k")
    with refused("sum: where=k is of dtype int64; give a comparison"):
        te.sum(a[0, k], axis=k, where=k)


# Elements


def test_every_intrinsic_of_the_language_means_what_numpy_means() -> None:
    x = te.placeholder((5,), "float64", "X")
    values = np.array([0.5, 1.0, 1.5, 2.5, 7.25])
    cases = {
        "exp": np.exp, "log": np.log, "sqrt": np.sqrt, "rsqrt": lambda v: 1 / np.sqrt(v), "tanh": np.tanh,
        "sigmoid": lambda v: 1 / (1 + np.exp(-v)), "abs": np.abs, "floor": np.floor, "ceil": np.ceil,
        "round": np.rint, "relu": lambda v: np.maximum(v, 0),
    }  # fmt: skip
    for name, function in cases.items():
        intrinsic = getattr(te, name)
        y = te.compute((5,), lambda i, f=intrinsic: f(x[i]), name)
        np.testing.assert_allclose(evaluate([y], {x: values})[0], function(values), rtol=1e-14, err_msg=name)
    y = te.compute((5,), lambda i: te.pow(x[i], 3.0) + te.power(x[i], 2.0), "pow")
    np.testing.assert_allclose(evaluate([y], {x: values})[0], values**3 + values**2, rtol=1e-14)
    y = te.compute((5,), lambda i: te.erf(x[i] * 0), "erf")
    np.testing.assert_array_equal(evaluate([y], {x: values})[0], np.zeros(5))


def test_logic_and_selection(a: Tensor) -> None:
    b = te.compute(
        (4, 6),
        lambda i, j: te.if_then_else(
            te.all(a[i, j] > -5, te.any(a[i, j] < 0, i == j, te.logical_not(j < 5))), a[i, j], 100
        ),
        "B",
    )
    x = numbers(a)
    i, j = np.indices(x.shape)
    expected = np.where((x > -5) & ((x < 0) | (i == j) | (j >= 5)), x, 100)
    np.testing.assert_array_equal(evaluate([b], {a: x})[0], expected)


def test_all_and_any_of_nothing() -> None:
    assert repr(te.all()) == "True"
    assert repr(te.any()) == "False"


def test_the_unchosen_side_of_a_selection_may_read_outside(a: Tensor) -> None:
    shifted = te.compute((4, 6), lambda i, j: te.select(j > 0, a[i, j - 1], 0), "shifted")
    np.testing.assert_array_equal(evaluate([shifted], {a: numbers(a)})[0][:, 1:], numbers(a)[:, :-1])


def test_an_element_outside_of_a_tensor_is_an_error_in_the_reference(a: Tensor) -> None:
    wrong = te.compute((4, 6), lambda i, j: a[i, j + 1], "wrong")
    with pytest.raises(ComputeError, match="A"):
        evaluate([wrong], {a: numbers(a)})


def test_limits_of_types() -> None:
    assert repr(te.min_value("int8")) == "int8(-128)"
    assert repr(te.max_value("uint8")) == "uint8(255)"
    assert repr(te.min_value("float32")) == "-inf"
    with pytest.raises(ExprError, match="unknown dtype"):
        te.max_value("int7")


def test_types_meet_as_documented() -> None:
    kinds = {n: te.placeholder((2,), n, n) for n in ("float64", "float32", "float16", "int64", "int8", "uint8", "bool")}

    def meet(x: str, y: str) -> str:
        return str(te.compute((2,), lambda i: te.maximum(kinds[x][i], kinds[y][i])).dtype)

    assert meet("float32", "float64") == "float64"
    assert meet("float16", "int64") == "float16"
    assert meet("int8", "uint8") == "int16"
    assert meet("int8", "int64") == "int64"
    assert meet("bool", "uint8") == "uint8"
    half = te.compute((2,), lambda i: kinds["float16"][i] * 2.5, "half")
    assert half.dtype == "float16"


def test_extents_that_are_known_only_when_a_kernel_runs_are_refused() -> None:
    S = te.placeholder((4,), "int64", name="S")
    with pytest.raises(ComputeError, match=r"A: shape .* has the extent S\[0\], which is known only when a .* te.var"):
        te.placeholder((S[0], 4), name="A")
    with pytest.raises(ComputeError, match=r"B: shape .* extent S\[0\] \+ 1, which"):
        te.compute((S[0] + 1,), lambda i: i, name="B")
    with pytest.raises(ComputeError, match=r"reduce_axis 'k': the bound S\[0\] is known only when"):
        te.reduce_axis((0, S[0]), name="k")
    with pytest.raises(ComputeError, match=r"reduce_axis 'k': the bound n is known only when .*the last one may be"):
        te.reduce_axis((te.var("n"), 5), name="k")


def test_variables_are_sizes_of_integer_types() -> None:
    assert te.var("n", "int32").name == te.size_var("n").name == "n"
    with pytest.raises(ComputeError, match=r"var\('x', 'float32'\): variables are sizes"):
        te.var("x", dtype="float32")


def test_operations_keep_their_tag_and_attributes() -> None:
    a = te.placeholder((4,), name="A")
    b = te.compute((4,), lambda i: te.indexdiv(i, 2) + te.indexmod(i, 2) + a[i], "B", "injective", {"layout": "N"})
    assert (b.op.tag, b.op.attrs) == ("injective", {"layout": "N"})


def test_max_and_min_of_two_numbers_are_elementwise_as_in_tvm() -> None:
    a = te.placeholder((4,), name="A")
    k = te.reduce_axis((0, 4), name="k")
    assert str(te.max(a[0], 0.0)) == "max(A[0], 0.0)"
    assert str(te.min(1, a[2])) == "min(1.0, A[2])"
    assert te.max(a[k], axis=k).axes == (k,)
    with pytest.raises(ComputeError, match="not a reduce axis"):
        te.max(a[0], [te.compute((4,), lambda i: a[i]).op.axis[0]])


def test_tir_has_the_functions_of_expressions_too() -> None:
    n = te.placeholder((3,), "int64", name="n")[0]
    assert str(tir.indexmod(n, 4)) == "n[0] % 4"
    assert tir.if_then_else is te.if_then_else


def test_a_tag_scope_tags_what_is_computed_in_it() -> None:
    a = te.placeholder((4,), name="A")
    with te.tag_scope(tag="relu"):
        inside = te.compute((4,), lambda i: te.max(a[i], 0.0), "B")

    @te.tag_scope("copy")
    def copied() -> Tensor:
        return te.compute((4,), lambda i: a[i], "C")

    outside = te.compute((4,), lambda i: a[i], "D", tag="own")
    assert [t.op.tag for t in (inside, copied(), outside, a)] == ["relu", "copy", "own", ""]
    with te.tag_scope("x"), pytest.raises(ComputeError, match="tags are not nested"):
        te.compute((4,), lambda i: a[i], "E", tag="y")
    with te.tag_scope("x"), pytest.raises(ComputeError, match="tags are not nested"), te.tag_scope("y"):
        pass
    with pytest.raises(ComputeError, match="is not text"):
        te.tag_scope(3)


def test_names_of_axes_that_a_function_takes_together() -> None:
    a = te.placeholder((4, 5, 6), name="A")
    b = te.compute((4, 5, 6), lambda i, *rest: a(i, *rest), "B", varargs_names=["y", "x"])
    assert [axis.name for axis in b.op.axis] == ["i", "y", "x"]
    with pytest.raises(ComputeError, match=r"3 dimension\(s\), but the function takes 2"):
        te.compute((4, 5, 6), lambda i, *rest: a(i, *rest), "B", varargs_names=["y"])


def test_indices_may_stand_in_brackets_of_their_own() -> None:
    a = te.placeholder((4, 5, 6), name="A")
    assert str(a[1][2][3]) == str(a[1, 2][3]) == str(a[1, 2, 3])
    for use in (lambda: a[1] + 1, lambda: -a[1], lambda: te.exp(a[1]), lambda: te.compute((4,), lambda i: a[i]), list):
        with pytest.raises((ComputeError, ExprError), match=r"3 dimension\(s\) \[4, 5, 6\], but was indexed with 1"):
            use(a[1]) if use is list else use()


def test_operators_on_whole_tensors_broadcast() -> None:
    x, y = np.arange(12, dtype="float32").reshape(3, 4), np.arange(1, 4, dtype="float32").reshape(3, 1)
    a, b = te.placeholder((3, 4), name="A"), te.placeholder((3, 1), name="B")
    pairs = [
        (a + b, x + y), (a - b, x - y), (b * a, y * x), (a / b, x / y), (2 - a, 2 - x), (a * 3, x * 3), (-a, -x),
        (1 + b, 1 + y), (6 / b, 6 / y), (a.astype("int32"), x.astype("int32")),
    ]  # fmt: skip
    for tensor, wanted in pairs:
        assert tensor.dtype == str(wanted.dtype)
        np.testing.assert_array_equal(evaluate([tensor], {a: x, b: y})[0], wanted)
    with pytest.raises(ComputeError, match=r"\(3, 4\) and \(3, 5\) do not broadcast"):
        a + te.placeholder((3, 5))


def test_operations_say_what_they_are_by_tvms_names() -> None:
    a = te.placeholder((4,), name="A")
    b = te.compute((4,), lambda i: a[i] + 1, "B")
    assert b.op.input_tensors == (a,)
    assert (b.op.num_outputs, b.op.output(0)) == (1, b)
    assert b.same_as(b)
    assert b.op.same_as(b.op)
    assert not b.same_as(a)
    s = te.create_schedule(b.op)
    assert s.stage_map == {b.op: s[b]}
    assert s.outputs == [b.op]


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (lambda i: te.if_then_else(i < 2, 1, 0), "int32"),
        (lambda i: te.select(i < 2, 1, te.if_then_else(i < 1, 2, 3)), "int32"),
        (lambda i: te.if_then_else(i < 2, 1, 2**40), "int64"),
        (lambda i: te.if_then_else(i < 2, i, 0), "int64"),
        (lambda i: te.if_then_else(i < 2, 1, 0.5), "float32"),
        (lambda i: te.if_then_else(i < 2, True, False), "bool"),
        (lambda i: 7, "int32"),
        (lambda i: -(2**31) - 1, "int64"),
    ],
)
def test_whole_numbers_of_python_are_int32_where_they_fit(value: Any, dtype: str) -> None:
    assert te.compute((4,), value, "Y").dtype == dtype


def test_the_sum_of_a_whole_number_is_an_int32() -> None:
    k = te.reduce_axis((0, 4), "k")
    assert te.compute((4,), lambda i: te.sum(1, axis=k), "Y").dtype == "int32"
