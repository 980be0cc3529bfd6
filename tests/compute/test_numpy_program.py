"""A computation as NumPy code: it computes the same as the reference, or there is none."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import pegbox as pb
from pegbox import te
from pegbox.compute.graph import post_order
from pegbox.compute.numpy_program import NumpyProgram, numpy_program
from pegbox.compute.numpy_statement import NoNumpyProgram
from pegbox.compute.tensor import PlaceholderOp, Tensor
from pegbox.errors import TemplateError
from pegbox.measure.trial.bench import make_inputs
from pegbox.measure.trial.check import Tolerance, difference

TEMPLATES: list[tuple[str, tuple[int, ...], dict[str, Any]]] = [
    ("matmul", (20, 9, 17), {}),
    ("matmul", (4, 200, 3), {}),
    ("matmul", (8, 9, 10), {"dtype": "float64"}),
    ("matmul", (4, 6, 37), {"weights": "packed"}),
    ("matmul", (4, 200, 3), {"weights": "packed"}),
    ("batch_matmul", (2, 5, 6, 7), {}),
    ("batch_matmul", (2, 5, 6, 7), {"weights": "packed"}),
    ("conv2d", (1, 3, 9, 8, 5, 3, 2), {"padding": 1}),
    ("conv2d", (2, 3, 9, 8, 17, 3, 3), {"padding": (1, 0), "stride": 2, "layout": "NHWC"}),
    ("conv2d", (1, 3, 9, 8, 21, 3, 3), {"padding": 1, "weights": "packed"}),
    ("conv2d", (1, 2, 9, 9, 4, 3, 3), {"dilation": (2, 1), "weights": "HWIO"}),
]
WORKLOADS: list[tuple[str, tuple[int, ...]]] = [
    ("softmax", (4, 6)),
    ("layer_norm", (4, 6)),
    ("attention", (2, 4, 6)),
    ("elementwise_chain", (4, 6)),
    ("matmul_bias_gelu", (4, 5, 6)),
    ("matmul_chain", (4, 5, 6, 7)),
    ("avg_pool2d", (1, 2, 6, 6, 2)),
    ("max_pool2d", (1, 2, 6, 6, 3)),
    ("depthwise_conv2d", (1, 3, 6, 6, 3)),
    ("conv2d_bn_relu", (1, 3, 6, 6, 4, 3, 1, 1)),
    ("conv3d", (1, 2, 4, 4, 4, 3, 2)),
]


def check(task: pb.Task) -> None:
    assert task.numpy is not None
    inputs = make_inputs(task.arguments(), seed=1)
    run, outputs = pickle.loads(pickle.dumps(task.numpy)).prepare(inputs)
    for array in outputs:
        array.fill(77)
    run()
    run()
    expected = task.reference(inputs)
    tolerance = Tolerance.of(expected, flop=task.flop)
    for got, wanted in zip(outputs, expected, strict=True):
        assert difference("out", got, wanted, tolerance) is None


@pytest.mark.parametrize(("name", "args", "kwargs"), TEMPLATES)
def test_templates_that_come_with_pegbox(name: str, args: tuple[int, ...], kwargs: dict[str, Any]) -> None:
    check(pb.create_task(name, args=args, kwargs=kwargs))


@pytest.mark.parametrize(("name", "args"), WORKLOADS)
def test_workloads_that_come_with_pegbox(name: str, args: tuple[int, ...]) -> None:
    check(pb.create_task(name, args=args, space="sketch"))


def program_of(*outputs: Tensor) -> NumpyProgram:
    ops = post_order([tensor.op for tensor in outputs])
    return numpy_program([*(op.outputs[0] for op in ops if isinstance(op, PlaceholderOp)), *outputs])


def reason(*outputs: Tensor) -> str:
    with pytest.raises(NoNumpyProgram) as raised:
        program_of(*outputs)
    return str(raised.value)


def computed(tensor: Tensor, *inputs: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    run, (out,) = program_of(tensor).prepare(inputs)
    with np.errstate(invalid="ignore"):  # of what `te.if_then_else` leaves aside
        run()
    return np.array(out)


def test_elementwise_code_is_numpys_own_with_the_types_of_the_computation() -> None:
    x = te.placeholder((3, 4), name="x y")  # names are free text
    values = np.arange(12, dtype="float32").reshape(3, 4) - 5
    made = te.compute((3, 4), lambda i, j: te.if_then_else(x[i, j] > 0, te.sqrt(x[i, j]), te.abs(x[i, j])), "s")
    np.testing.assert_allclose(computed(made, values), np.where(values > 0, np.sqrt(np.abs(values)), np.abs(values)))
    cast = te.compute((4, 3), lambda i, j: te.cast("int32", x[j, i]) // 2, "c")
    assert computed(cast, values).dtype == np.int32
    np.testing.assert_array_equal(computed(cast, values), values.T.astype("int32") // 2)


def test_two_digits_of_an_axis_are_a_reshape() -> None:
    x = te.placeholder((3, 4), name="x")
    values = np.random.rand(3, 4).astype("float32")
    flat = te.compute((12,), lambda i: x[i // 4, i % 4] * 2, "f")
    np.testing.assert_allclose(computed(flat, values), values.reshape(12) * 2)


def test_a_tensor_whose_elements_repeat_those_of_another_is_summed_as_often() -> None:
    x, w = te.placeholder((3,), name="x"), te.placeholder((4, 5), name="w")
    k = te.reduce_axis((0, 4), name="k")
    wide = te.compute((3, 4), lambda i, j: x[i], "wide")
    values, weights = np.arange(3, dtype="float32"), np.ones((4, 5), "float32")
    np.testing.assert_array_equal(computed(te.compute((3,), lambda i: te.sum(wide[i, k], k), "s"), values), values * 4)
    product = te.compute((3, 5), lambda i, j: te.sum(wide[i, k] * w[k, j], k), "p")
    np.testing.assert_array_equal(computed(product, values, weights), np.outer(values, np.full(5, 4)))


def test_values_chosen_between_constants_wrap_around_as_their_type_does() -> None:
    x = te.placeholder((2,), "int8", "x")
    high, low = te.const(100, "int8"), te.const(-100, "int8")
    made = te.compute((2,), lambda i: te.cast("int32", te.if_then_else(x[i] > 0, high, low) + x[i]), "wrapped")
    np.testing.assert_array_equal(computed(made, np.array([100, -100], "int8")), [-56, 56])


def test_a_computation_that_reads_nothing_is_written_with_the_types_of_its_constants() -> None:
    k = te.reduce_axis((0, 1), name="k")
    np.testing.assert_array_equal(computed(te.compute((1,), lambda i: te.sum(te.const(3, "int8"), k), "three")), [3])
    half = te.compute((2,), lambda i: te.cast("float16", te.cast("int8", te.const(2.5, "float32"))), "half")
    np.testing.assert_array_equal(computed(half), [2, 2])


def test_a_reduction_begins_with_what_its_reducer_says() -> None:
    x = te.placeholder((3,), name="x")
    k = te.reduce_axis((0, 3), name="k")
    largest = te.comm_reducer(te.maximum, lambda dtype: te.const(0, dtype))
    made = te.compute((1,), lambda i: largest(x[k], k), "relu_max")
    np.testing.assert_array_equal(computed(made, np.array([-3, -2, -1], "float32")), [0])


def test_what_numpy_has_no_plain_words_for_has_a_reason() -> None:
    x = te.placeholder((6,), name="x")
    index = te.placeholder((6,), name="index", dtype="int32")
    k = te.reduce_axis((0, 6), name="k")
    last = te.comm_reducer(lambda a, b: b, lambda dtype: te.const(0, dtype), name="last")
    gather = te.compute((6,), lambda i: x[index[i]], "gather")
    assert reason(gather) == "x[int64(index[i])] has an index that is read from memory"
    assert reason(te.compute((6,), lambda i: te.erf(x[i]), "e")) == "NumPy has no erf"
    assert reason(te.compute((1,), lambda i: last(x[k], k), "r")) == "NumPy has no reduction last"
    assert reason(te.compute((6,), lambda i: te.cast("bfloat16", x[i]), "b")) == "NumPy has no bfloat16"
    squares = te.compute((2, 2), lambda i, j: x[i * j], "squares")
    assert reason(squares) == "the elements x[i * j] are not a slice"


def test_what_is_needed_twice_is_computed_once() -> None:
    x, y = te.placeholder((3, 4), name="x"), te.placeholder((3, 4), name="y")
    total = lambda i, j: te.exp(x[i, j] + y[i, j])  # noqa: E731
    body = lambda i, j: te.if_then_else(total(i, j) > 2, total(i, j), 0.5 * total(i, j))  # noqa: E731
    made = te.compute((3, 4), body, name="leaky")
    program = program_of(made)
    assert program.text.count("np.add(") == program.text.count("np.exp(") == 1
    assert program.text.count("x0 = np.exp(np.add(") == 1
    a, b = np.random.default_rng(0).random((2, 3, 4), dtype="float32")
    sums = np.exp(a + b)
    np.testing.assert_allclose(computed(made, a, b), np.where(sums > 2, sums, 0.5 * sums), rtol=1e-6)


def test_what_is_made_ahead_of_time_is_not_timed() -> None:
    x = te.placeholder((3, 4), name="x")
    ahead = te.compute((3, 4), lambda i, j: x[i, j] * 2, name="ahead", attrs={"ahead_of_time": True})
    made = te.compute((3, 4), lambda i, j: ahead[i, j] + 1, name="made")
    late = te.compute((3, 4), lambda i, j: made[i, j] * 3, name="late", attrs={"ahead_of_time": True})
    end = te.compute((3, 4), lambda i, j: late[i, j] - 1, name="end")
    for tensor, timed in ((made, 1), (end, 3)):  # what needs something timed is timed
        program = numpy_program([x, tensor])
        assert program.text.split("def run():")[1].count("np.") == timed
        run, (out,) = program.prepare([np.ones((3, 4), "float32")])
        run()
        np.testing.assert_array_equal(out, np.full((3, 4), 3.0 if tensor is made else 8.0))


@pb.template
def gathered(cfg: pb.TemplateConfig, code: str) -> Any:
    table, rows = te.placeholder((6, 4), name="T"), te.placeholder((5,), "int32", name="rows")
    picked = te.compute((5, 4), lambda i, j: table[te.max(te.min(rows[i], 5), 0), j], name="picked")
    cfg.define_plain(code)
    return te.create_schedule(picked.op), [table, rows, picked]


def test_a_template_gives_numpy_code() -> None:
    task = pb.create_task(gathered, args=("np.take(T, np.clip(rows, 0, 5), axis=0)",))
    assert task.numpy_missing == ""
    check(task)
    check(pb.create_task(gathered, args=("np.stack([T[max(min(r, 5), 0)]\n for r in rows])",)))


def test_inputs_may_have_the_names_of_a_program() -> None:
    @pb.template
    def doubled(cfg: pb.TemplateConfig, name: str) -> Any:
        x = te.placeholder((4,), name=name)
        y = te.compute((4,), lambda i: x[i] * 2, name="y")
        cfg.define_plain(f"{name} * 2")
        return te.create_schedule(y.op), [x, y]

    for name in ("run", "made", "inputs", "prepare"):
        check(pb.create_task(doubled, args=(name,)))


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("np.take(", "is not an expression of Python"),
        ("np.take(table, rows)", "table is none of T, np, rows"),
        ("(yield)", "has no value"),
        (" ", "has no value"),
    ],
)
def test_numpy_code_is_checked_when_the_task_is_made(code: str, reason: str) -> None:
    with pytest.raises(TemplateError, match=reason) as raised:
        pb.create_task(gathered, args=(code,))
    assert "test_numpy_program.py" in str(raised.value)


def test_a_task_without_a_program_has_the_reason() -> None:
    x = te.placeholder((6,), name="x")
    task = pb.create_task(pb.workload(lambda: [x, te.compute((6,), lambda i: te.erf(x[i]), "e")]), space="sketch")
    assert task.numpy is None
    assert task.numpy_missing == "NumPy has no erf"


def test_the_choice_that_no_slice_holds_is_the_reason() -> None:
    task = pb.create_task("matmul_strassen", (40, 24, 100), {"weights": "packed"}, target="llvm -mcpu=x86-64-v3")
    assert task.numpy_missing == "a choice where x // 8 % 2 == 0, which is no slice of an array"
