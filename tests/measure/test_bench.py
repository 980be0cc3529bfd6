from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pegbox as pb
from pegbox.codegen import ArgSpec
from pegbox.errors import ArgumentError, MeasureError
from pegbox.measure import Bench, LocalMeasurer, Runner, Tolerance
from pegbox.measure.trial.bench import Values, check_inputs, check_reference, inputs_of, make_inputs
from pegbox.templates import pack_weights


def specs(dtype: str) -> tuple[ArgSpec, ...]:
    return (ArgSpec("A", (40, 50), dtype, is_output=False), ArgSpec("C", (40,), dtype, is_output=True))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "bool"])
def test_inputs_have_the_type_of_their_argument_and_small_values(dtype: str) -> None:
    (array,) = make_inputs(specs(dtype), seed=1)
    assert array.dtype == dtype
    assert array.shape == (40, 50)
    assert len(np.unique(array)) > 1
    assert np.abs(array.astype(float)).max() <= 8
    if array.dtype.kind in "iu":
        assert (array != 0).all()


def test_inputs_follow_the_seed() -> None:
    (first,), (again,), (other,) = (make_inputs(specs("float32"), seed=seed) for seed in (1, 1, 2))
    assert (first == again).all()
    assert (first != other).any()


@pytest.mark.parametrize(
    ("name", "args", "options", "shape"),
    [("matmul", (3, 5, 12), {}, (5, 12)), ("conv2d_winograd", (1, 2, 6, 6, 9, 3, 3), {"m": 4}, (9, 2, 3, 3))],
)
def test_an_input_that_kernels_take_packed_is_packed_from_random_elements(
    name: str, args: tuple[int, ...], options: dict[str, Any], shape: tuple[int, ...]
) -> None:
    task = pb.create_task(name, args, {**options, "weights": "packed"}, target="llvm -mcpu=x86-64-v3 -num-cores 1")
    original = make_inputs([ArgSpec("weight", shape, "float32", is_output=False)], seed=3)[0]
    first, weights = inputs_of(task, seed=3)
    assert np.array_equal(weights, pack_weights(task, original))
    assert first.shape == task.arguments()[0].shape
    given = np.ones_like(weights)
    assert inputs_of(task, seed=3, given={task.arguments()[1].name: given})[1] is given


def test_a_reference_of_another_shape_type_or_number_is_refused() -> None:
    args = specs("float32")
    assert check_reference(args, [np.zeros(40, np.float32)])[0].shape == (40,)
    for outputs in ([np.zeros(41, np.float32)], [np.zeros(40)], []):
        with pytest.raises(MeasureError, match="reference"):
            check_reference(args, outputs)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "bool"])
@pytest.mark.parametrize("has_fresh", [True, False])
def test_a_bench_reads_back_equal(tmp_path: Path, dtype: str, has_fresh: bool) -> None:
    args = (*specs(dtype), ArgSpec("s", (), "int32", is_output=False))
    known, fresh = (Values(tuple(make_inputs(args, seed=seed)), (np.ones(40).astype(dtype),)) for seed in (0, 1))
    bench = Bench(args, *known, Tolerance(1e-3, 1e-4), 123.0, fresh if has_fresh else None, has_fresh)
    bench.save(tmp_path)
    back = Bench.load(tmp_path)
    assert (back.args, back.tolerance, back.flop) == (args, bench.tolerance, 123.0)
    assert (back.fresh is not None, back.aligned) == (has_fresh, has_fresh)
    for given, got in ((bench.values, back.values), (fresh, back.fresh or fresh)):
        for array, again in zip((*given.inputs, *given.expected), (*got.inputs, *got.expected), strict=True):
            assert (array.dtype, array.shape) == (again.dtype, again.shape)
            assert (array == again).all()


def test_the_fresh_values_of_a_bench_are_of_the_same_computation_on_other_inputs() -> None:
    task = pb.create_task("matmul", (4, 4, 16), target="llvm -num-cores 1")
    given = np.ones((4, 4), "float32")
    bench = Bench.of(task, seed=3, given={"A": given})
    assert bench.fresh is not None
    a, b = bench.fresh.inputs
    assert (a == given).all()
    assert (b != bench.inputs[1]).any()
    np.testing.assert_allclose(bench.fresh.expected[0], given @ b, rtol=1e-5)
    assert Bench.of(task, seed=3, given={"A": given, "B": b}).fresh is None


def test_given_inputs_stand_for_random_ones_and_change_no_other() -> None:
    args = (ArgSpec("I", (2,), "int32", is_output=False), *specs("float32"))
    index = np.array([7, 1], "int32")
    given = make_inputs(args, seed=1, given=check_inputs(args, {"I": index}))
    assert (given[0] == index).all()
    assert (given[1] == make_inputs(args, seed=1)[1]).all()


def test_a_measurer_takes_inputs_of_the_caller_and_the_alignment_of_arrays() -> None:
    task = pb.create_task("matmul", (4, 4, 16), target="llvm -num-cores 1")
    given = np.ones((4, 4), "float32")
    benches: list[Bench] = []

    class Silent(Runner):
        def __init__(self, bench: Bench, **options: Any) -> None:
            benches.append(bench)

        def run(self, *_: object, **__: object) -> Any: ...

        rerun = run

    with LocalMeasurer(task, runner=Silent, inputs={"A": given}, aligned=True) as measurer:
        measurer._open()
    a, b = benches[0].inputs
    assert (a == given).all()
    assert benches[0].aligned
    np.testing.assert_allclose(benches[0].expected[0], given @ b, rtol=1e-6)
    with pytest.raises(ArgumentError, match="'D' is not an input"):
        LocalMeasurer(task, inputs={"D": given})
    with pytest.raises(ArgumentError, match=r"fresh_inputs: 'C' is not an input.*A"):
        LocalMeasurer(task, fresh_inputs=("A", "C"))
    with pytest.raises(ArgumentError, match="is neither true nor false"):
        LocalMeasurer(task, aligned=given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"C": np.zeros(40, "float32")}, "'C' is not an input.*A"),
        ({"A": np.zeros((50, 40), "float32")}, r"A is float32 of shape \(40, 50\), got float32 of shape \(50, 40\)"),
        ({"A": np.zeros((40, 50))}, "got float64"),
        ([1], "dict"),
    ],
)
def test_given_inputs_that_do_not_fit_are_refused(inputs: object, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        check_inputs(specs("float32"), inputs)
