"""te.scan, te.cumsum and te.cumprod: what they compute, and what is refused."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes  # noqa: F401  (gives NumPy the name bfloat16)
import numpy as np
import pytest

import pegbox as pb
from pegbox import te
from pegbox.compute.graph import post_order
from pegbox.compute.numpy_program import numpy_program
from pegbox.compute.numpy_statement import NoNumpyProgram
from pegbox.compute.printer import te_lines, tensor_names
from pegbox.compute.reference import evaluate
from pegbox.compute.scan_op import ScanOp
from pegbox.compute.tensor import Tensor
from pegbox.errors import ComputeError, LoweringError
from pegbox.loops.from_compute import function_from_tensors

T, N = 6, 5
X = te.placeholder((T, N), name="X")
W = te.placeholder((N, N), name="W")


def _state(name: str = "state", shape: Sequence[int] = (T, N)) -> Tensor:
    return te.placeholder(shape, name=name)


def _first(rows: int = 1) -> Any:
    return te.compute((rows, N), lambda t, i: X[t, i], name="first")


def _step(body: Callable[..., Any], name: str = "update") -> Any:
    return te.compute((T, N), body, name=name)


def cell() -> list[Tensor]:
    """A recurrent cell: a product with the row before, then an activation."""
    h, k = _state("h"), te.reduce_axis((0, N), "k")
    product = te.compute((T, N), lambda t, i: te.sum(W[i, k] * h[t - 1, k], axis=k), name="product")
    update = _step(lambda t, i: te.maximum(product[t, i] - X[t, i], 0.5))
    return [X, W, te.scan(_first(), update, h, name="H")]


def powers() -> list[Tensor]:
    """An update that is a sum itself."""
    h, k = _state("h"), te.reduce_axis((0, N), "k")
    return [W, X, te.scan(_first(), _step(lambda t, i: te.sum(W[i, k] * h[t - 1, k], axis=k)), h, name="P")]


def pairs() -> list[Tensor]:
    """Two states, of which one update reads the other."""
    high, total = _state("high"), _state("total")
    new = _step(lambda t, i: te.max(high[t - 1, i], X[t, i]), "new")
    step = _step(lambda t, i: total[t - 1, i] * 0.5 + new[t, i], "step")
    one = te.compute((1, N), lambda t, i: 1.0, name="one")
    return [X, *te.scan([_first(), one], [new, step], [high, total], name="both")]


def two_rows() -> list[Tensor]:
    s = _state()
    return [X, te.scan(_first(2), _step(lambda t, i: s[t - 2, i] + s[t - 1, N - 1 - i] + X[t, i]), s, name="F")]


def gated() -> list[Tensor]:
    """A product of what is made of the row before, which reads no row itself."""
    h, k = _state("h"), te.reduce_axis((0, N), "k")
    gate = te.compute((T, N), lambda t, i: te.maximum(h[t - 1, i], X[t, i]), name="gate")
    product = te.compute((T, N), lambda t, i: te.sum(W[i, k] * gate[t, k], axis=k), name="product")
    return [X, W, te.scan(_first(), _step(lambda t, i: product[t, i] - h[t - 1, i]), h, name="G")]


def _numpy(name: str, x: np.ndarray, w: np.ndarray) -> list[np.ndarray]:
    rows = [r.copy() for r in x[: 2 if name == "two_rows" else 1]]
    totals = [np.ones(N)]
    for t in range(len(rows), T):
        before = rows[-1]
        match name:
            case "cell":
                rows.append(np.maximum(w @ before - x[t], 0.5))
            case "powers":
                rows.append(w @ before)
            case "pairs":
                rows.append(np.maximum(before, x[t]))
                totals.append(totals[-1] * 0.5 + rows[-1])
            case "gated":
                rows.append(w @ np.maximum(before, x[t]) - before)
            case "two_rows":
                rows.append(rows[t - 2] + before[::-1] + x[t])
    return [np.stack(rows), np.stack(totals)] if name == "pairs" else [np.stack(rows)]


GRAPHS: list[Callable[[], list[Tensor]]] = [cell, powers, pairs, two_rows, gated]


def _values(args: Sequence[Tensor]) -> tuple[dict[Tensor, np.ndarray], list[Tensor]]:
    rng = np.random.default_rng(1)
    given = {t: rng.integers(-2, 3, t.shape).astype(t.dtype) for t in args if t in (X, W)}
    return given, [t for t in args if t not in given]


@pytest.mark.parametrize("graph", GRAPHS)
def test_the_reference_and_both_languages_compute_row_after_row(graph: Callable[[], list[Tensor]]) -> None:
    args = graph()
    given, outputs = _values(args)
    wanted = _numpy(graph.__name__, given[X], given.get(W, np.zeros(0)))
    for got, want in zip(evaluate(outputs, given), wanted, strict=True):
        np.testing.assert_array_equal(got, want.astype("float32"))
    for program in (te.create_schedule([t.op for t in outputs]), pb.tir.Schedule(args)):
        arrays = [given[t] if t in given else np.full(t.shape, np.nan, t.dtype) for t in args]
        pb.build(program, args)(*arrays)
        for array, want in zip(arrays[len(given) :], wanted, strict=True):
            np.testing.assert_array_equal(array, want.astype("float32"))


@pytest.mark.parametrize("graph", GRAPHS)
def test_the_te_code_of_a_scan_makes_the_same_program(graph: Callable[[], list[Tensor]]) -> None:
    args = graph()
    ops = post_order([t.op for t in args])
    names = tensor_names(ops)
    made: dict[str, Any] = {"te": te}
    exec("\n".join(te_lines(ops, names)), made)
    again = [made[names[t.buffer]] for t in args]
    assert function_from_tensors(again) == function_from_tensors(args)


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "float16", "bfloat16"])
def test_running_sums_and_products_along_any_axis_are_numpys(axis: int, dtype: str) -> None:
    a = te.placeholder((3, 4, 2), dtype, "A")
    sums, products = te.cumsum(a, axis), te.cumprod(a, axis)
    wide = np.random.default_rng(2).integers(1, 4, a.shape)
    x = wide.astype(dtype)
    got = evaluate([sums, products], {a: x})
    np.testing.assert_array_equal(got[0].astype("int64"), np.cumsum(wide, axis))
    np.testing.assert_array_equal(got[1].astype("int64"), np.cumprod(wide, axis))
    arrays = [x, *(np.empty_like(x) for _ in got)]
    pb.build(te.create_schedule([sums.op, products.op]), [a, sums, products])(*arrays)
    for mine, want in zip(arrays[1:], got, strict=True):
        np.testing.assert_array_equal(mine, want)


def test_running_sums_round_after_each_step_as_numpys_do() -> None:
    a = te.placeholder((4, 300), name="A")
    x = np.random.default_rng(3).standard_normal(a.shape).astype("float32")
    np.testing.assert_array_equal(evaluate([te.cumsum(a)], {a: x})[0], np.add.accumulate(x, 1))


def test_one_element_is_its_own_running_sum() -> None:
    a = te.placeholder((3, 1), name="A")
    assert not isinstance(te.cumsum(a, 1).op, ScanOp)
    x = np.arange(3, dtype="float32").reshape(3, 1)
    np.testing.assert_array_equal(evaluate([te.cumprod(a, 1)], {a: x})[0], x)


def test_sizes_may_be_variables() -> None:
    m, n = te.var("m"), te.var("n")
    x = te.placeholder((m, n), name="X")
    state = te.placeholder((m, n), name="state")
    half = te.compute((m, n), lambda t, i: state[t - 1, i] * 0.5, name="half")
    update = te.compute((m, n), lambda t, i: half[t, i] + x[t, i], name="update")
    sums = te.scan(te.compute((1, n), lambda _, i: x[0, i]), update, state, inputs=[x])
    s = te.create_schedule(sums.op)
    outer, inner = s[update].split(update.op.axis[1], factor=4)
    s[update].vectorize(inner)
    s[half].compute_at(s[update], outer)
    kernel = pb.build(s, [x, sums])
    for shape in ((5, 7), (1, 3), (2, 4)):
        given = np.random.default_rng(4).integers(-8, 9, shape).astype("float32")
        out, want = np.empty_like(given), given.copy()
        for t in range(1, shape[0]):
            want[t] += want[t - 1] * np.float32(0.5)
        kernel(given, out)
        np.testing.assert_array_equal(out, want)


def test_an_operation_of_a_scan_has_tvms_fields() -> None:
    *_, rows = cell()
    assert isinstance(rows.op, ScanOp)
    assert rows.op.scan_axis is rows.op.axis[0]
    assert rows.op.spatial_axis_ == rows.op.axis[1:]
    assert [t.name for t in rows.op.input_tensors] == ["first", "product", "X"]
    assert rows.op.num_outputs == 1


def test_attributes_and_tags_are_kept() -> None:
    s = _state()
    made = te.scan(_first(), _step(lambda t, i: s[t - 1, i]), s, tag="rows", attrs={"FLOP": 3})
    assert (made.op.tag, made.op.attrs) == ("rows", {"FLOP": 3})


def test_numpy_has_no_plain_words_for_recurrences() -> None:
    with pytest.raises(NoNumpyProgram, match="is a scan, whose rows depend on earlier ones"):
        numpy_program(cell())


def _of(body: Callable[..., Any], **changed: Any) -> Callable[[], Any]:
    """A scan of one state by an update that reads it; other arguments may be exchanged."""

    def made() -> Any:
        s = _state()
        given = {"init": _first(), "update": _step(lambda t, i: body(s, t, i)), "state_placeholder": s}
        return te.scan(
            **{**given, **{key: value(s) if inspect.isfunction(value) else value for key, value in changed.items()}}
        )

    return made


def _sum(s: Any, t: Any, i: Any) -> Any:
    return s[t - 1, i] + X[t, i]


REFUSED: list[tuple[Callable[[], Any], str]] = [
    (_of(lambda s, t, i: s[t, i] + 1), r"reads state\[t, i\], a row that is not there yet; read rows before its own"),
    (_of(lambda s, t, i: s[t + 1, i]), "a row that is not there yet"),
    (_of(lambda s, t, i: s[t - 2, i]), r"2 row\(s\) before its own; init gives 1"),
    (_of(lambda s, t, i: s[T - 1 - t, i]), "index 0 selects the row, so give an axis of update minus a number"),
    (_of(lambda s, t, i: s[2, i]), "index 0 selects the row"),
    (_of(lambda s, t, i: s[i - 1, t]), "update update counts the rows along i; they are counted along dimension 0"),
    (_of(lambda s, t, i: s[t - 1, i] + s[i - 1, t]), "counts the rows along several axes, t, i"),
    (_of(_sum, init=te.placeholder((1, N + 1), name="A")), r"init A has the shape \[1, 6\].*first rows have \[1, 5\]"),
    (_of(_sum, init=te.placeholder((N,), name="A")), r"init A has the shape \[5\]"),
    (_of(_sum, init=te.placeholder((T, N), name="A")), r"init A gives 6 row\(s\) of 6, which leaves none to update"),
    (_of(_sum, init=te.placeholder((1, N), "int32", "A")), "init A is int32, its state state is float32"),
    (_of(_sum, update=te.placeholder((T, N + 1), name="U")), "update U has the shape"),
    (_of(_sum, update=te.placeholder((T, N), "float64", "U")), "update U is float64"),
    (_of(_sum, init=lambda s: te.compute((1, N), lambda t, i: s[t, i], name="A")), "init A reads a state"),
    (_of(_sum, state_placeholder=_first()), "state_placeholder first is computed; give te.placeholder"),
    (_of(_sum, state_placeholder=[]), "1 init, 1 update and 0 state_placeholder"),
    (_of(_sum, init=3), "init.*give a tensor, or a list"),
    (_of(_sum, axis=2), "axis=2 is not a dimension"),
    (_of(_sum, axis="t"), "axis='t' is not a dimension"),
    (_of(_sum, inputs=[1]), "inputs: 1 is at place 0"),
    (_of(_sum, name=3), "name"),
    (lambda: te.cumsum(3), "cumsum: 3 is not a tensor"),
    (lambda: te.cumprod(X, 2), "axis=2 is not a dimension of X"),
]


@pytest.mark.parametrize(("make", "why"), REFUSED)
def test_bad_scans_are_refused(make: Callable[[], Any], why: str) -> None:
    with pytest.raises(ComputeError, match=why):
        make()


def test_states_of_several_shapes_or_one_given_twice_are_refused() -> None:
    a, b = _state("a"), _state("b", (T, N + 1))
    with pytest.raises(ComputeError, match="have different shapes; give states of one shape, or a scan for each"):
        te.scan([_first(), _first()], [a, a], [a, b])
    with pytest.raises(ComputeError, match="given twice"):
        te.scan([_first(), _first()], [_step(lambda t, i: a[t - 1, i])] * 2, [a, a])


def test_a_state_read_by_a_statement_is_refused() -> None:
    s = _state()
    copied = te.extern((T, N), [s], lambda ins, outs: te.call_extern("int32", "f", ins[0].data, outs[0].data), "copied")
    with pytest.raises(ComputeError, match=r"copied reads a state, which only te\.compute may"):
        te.scan(_first(), _step(lambda t, i: copied[t - 1, i]), s)


def test_reading_an_update_from_outside_is_refused() -> None:
    s = _state()
    update = _step(lambda t, i: s[t - 1, i] + X[t, i])
    sums = te.scan(_first(), update, s, name="sums")
    wrong = te.compute((T, N), lambda t, i: sums[t, i] + update[t, i], name="wrong")
    with pytest.raises(LoweringError, match="needs the input state"):
        function_from_tensors([X, wrong])
