"""The accuracy of candidates: errors against float64, what is allowed, and what is called wrong."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pegbox as pb
from pegbox import te
from pegbox.expr.dtypes import numpy_dtype
from pegbox.measure import Bench, FailureKind, LocalMeasurer, Ok, Tolerance
from pegbox.measure.trial.bench import exact_outputs, make_inputs
from pegbox.measure.trial.check import LEAST_MAGNITUDE, largest_error, magnitude_of
from pegbox.measure.trial.output_check import check_output
from pegbox.records import Journal
from pegbox.search import TuneResult
from pegbox.task import Task

TARGET = "llvm -num-cores 1"
QUICK = {"tuner": "random", "progress": False, "measure_options": {"repeats": 1, "min_repeat_ms": 0.1}}


def product(**options: Any) -> Task:
    return pb.create_task("matmul", (16, 64, 16), target=TARGET, **options)


@pytest.mark.parametrize(
    ("error", "kind"), [(1e-6, None), (1e-4, FailureKind.INACCURATE), (1e-2, FailureKind.WRONG_RESULT)]
)
def test_a_small_error_is_right_a_larger_one_inaccurate_a_great_one_wrong(error: float, kind: object) -> None:
    expected = np.array([[-8.0, 1.0, 4.0]], np.float32)
    got = expected.copy()
    got[0, 1] += np.float32(8 * error)
    found = check_output("C", got, expected, Tolerance(accuracy=1e-5), magnitude_of(expected))
    if kind is None:
        assert not found.fault
    else:
        assert (bool(found.fault), found.kind) == (True, kind)
    if kind is not FailureKind.WRONG_RESULT:
        assert found.error == pytest.approx(error, rel=0.1)


def test_the_message_names_both_accuracies_and_the_remedy() -> None:
    expected = np.ones(4, np.float32)
    got = expected + np.float32(3e-5)
    found = check_output("C", got, expected, Tolerance(accuracy=1e-5), 1.0)
    assert found.fault == "accuracy 3e-05 of output 'C', the task allows 1e-05; give accuracy=4e-05 to allow it"


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_wrong_rather_than_inaccurate(value: float) -> None:
    expected = np.ones(4, np.float32)
    got = expected.copy()
    got[2] = value
    found = check_output("C", got, expected, Tolerance(accuracy=1e-5), 1.0)
    assert found.kind is FailureKind.WRONG_RESULT
    assert found.fault


def test_infinities_where_they_are_expected_do_not_count_as_errors() -> None:
    expected = np.array([math.inf, 2.0, math.nan], np.float32)
    found = check_output("C", expected.copy(), expected, Tolerance(accuracy=1e-5), magnitude_of(expected))
    assert (found.fault, found.error) == ("", 0.0)


def test_integers_are_exact() -> None:
    expected = np.array([1, 2, 3], np.int32)
    assert check_output("C", expected.copy(), expected, Tolerance(accuracy=0.5), 1.0).error == 0.0
    assert check_output("C", expected + 1, expected, Tolerance(accuracy=0.5), 1.0).kind is FailureKind.WRONG_RESULT


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_the_magnitude_is_the_largest_finite_one_with_a_floor(dtype: str) -> None:
    values = np.array([-3.0, 2.0, math.inf, math.nan]).astype(numpy_dtype(dtype))
    assert magnitude_of(values) == 3.0
    assert magnitude_of(np.zeros(3, values.dtype)) == LEAST_MAGNITUDE
    assert largest_error(values[:2], values[:2] * 2) == 3.0


def test_the_default_grows_with_the_terms_of_a_sum_and_is_zero_for_integers() -> None:
    eps = 2.0**-23
    assert product().accuracy == pytest.approx(16 * eps * 8)
    assert pb.create_task("matmul", (8, 4, 8), target=TARGET).accuracy == pytest.approx(16 * eps * 4)
    half = pb.create_task("matmul", (16, 64, 16), {"dtype": "float16"}, target=TARGET)
    assert half.accuracy == pytest.approx(16 * 2.0**-10 * 8)
    assert pb.create_task("matmul_int8", (8, 8, 8), space="sketch", target=TARGET).accuracy == 0.0


@pytest.mark.parametrize("given", [0, -1e-5, 2.0, math.nan, "1e-5", None])
def test_an_accuracy_is_a_number_above_0_and_at_most_1(given: Any) -> None:
    if given is None:
        assert product(accuracy=None).given_accuracy is None
        return
    with pytest.raises(pb.errors.ArgumentError, match="accuracy="):
        product(accuracy=given)


def test_tasks_that_are_made_of_a_task_have_its_accuracy() -> None:
    task = product(accuracy=1e-6)
    followed = task.with_epilogue(lambda c: te.compute(c.shape, lambda *i: te.max(c(*i), 0.0), name="R"))
    assert followed.accuracy == followed.base.accuracy == 1e-6
    assert {each.accuracy for each in task.with_implementations().tasks.values()} == {1e-6}
    assert task.with_accuracy(None).accuracy == product().accuracy
    assert task.space.fingerprint == product().space.fingerprint


def test_a_template_knows_the_accuracy_that_was_asked_for() -> None:
    seen: list[object] = []

    @pb.template("accuracy_test_seen")
    def template(cfg: pb.TemplateConfig, n: int) -> tuple[te.TESchedule, list[te.Tensor]]:
        seen.append(cfg.accuracy)
        A = te.placeholder((n,), name="A")
        B = te.compute((n,), lambda i: A[i] + 1, name="B")
        return te.create_schedule(B.op), [A, B]

    task = pb.create_task(template, (4,), target=TARGET, accuracy=1e-5)
    task.lower(task.space.get(0))
    pb.create_task(template, (4,), target=TARGET)
    assert seen == [1e-5, 1e-5, None]


def test_the_reference_is_that_of_float64_rounded_once() -> None:
    task = product()
    a, b = make_inputs(task.arguments(), seed=0)
    (exact,) = exact_outputs(task, [a, b])
    np.testing.assert_array_equal(exact, (a.astype(np.float64) @ b.astype(np.float64)).astype(np.float32))


def test_behind_a_step_the_types_of_the_kernel_count() -> None:
    """The sum of 0.1 and 0.2 in float32 is 0.3, rounded; that of the same numbers in float64 is less."""

    @pb.workload("accuracy_test_step")
    def step() -> list[te.Tensor]:
        A, B, C = (te.placeholder((1,), name=name) for name in "ABC")
        sums = te.compute((1,), lambda i: A[i] + B[i], name="S")
        return [A, B, C, te.compute((1,), lambda i: te.if_then_else(sums[i] >= C[i], 1.0, 0.0), name="Y")]

    task = pb.create_task(step, space="sketch", target=TARGET)
    values = [np.array([value], np.float32) for value in (0.1, 0.2, 0.3)]
    assert not task.is_continuous
    assert product().is_continuous
    (plain,), (wide,) = task.reference(values), task.reference(values, wide=True)
    assert (plain[0], wide[0], exact_outputs(task, values)[0][0]) == (1.0, 0.0, 1.0)


def test_the_tolerances_of_the_caller_come_before_the_accuracy() -> None:
    bench = Bench.of(product(), seed=0, given={}, rtol=1e-3, atol=1e-4)
    assert bench.tolerance == Tolerance(1e-3, 1e-4, 0.0)
    strict = Bench.of(product(accuracy=1e-6), seed=0, given={})
    assert strict.tolerance == Tolerance(0.0, 0.0, 1e-6)


def test_the_error_of_each_candidate_is_in_results_and_records(tmp_path: Path) -> None:
    file = tmp_path / "trials.jsonl"
    result = pb.tune(product(), trials=3, records=file, store=None, **QUICK)
    errors = [trial.result.error for trial in result.trials if isinstance(trial.result, Ok)]
    assert errors
    assert all(error is not None and 0 <= error < product().accuracy for error in errors)
    assert f"error {result.best.result.error:.2g} of the largest magnitude; 1.5e-05 is allowed" in str(result)
    assert any(record.result.error == errors[0] for record in Journal(file).read())


def test_candidates_that_are_less_accurate_fail_with_the_reason() -> None:
    result: TuneResult = pb.tune(product(accuracy=1e-9), trials=3, store=None, **QUICK)
    assert result.best is None
    assert result.failures == {"inaccurate": 3}
    assert "the task allows 1e-09; give accuracy=" in result.first_failure()


def test_a_candidate_is_measured_with_its_error() -> None:
    task = product()
    with LocalMeasurer(task, repeats=1, min_repeat_ms=0.1) as measurer:
        ((_, first),) = measurer.measure([task.space.get(next(task.space.iterate()).index)])
        (again,) = measurer.remeasure([task.space.get(next(task.space.iterate()).index)])
    for each in (first, again):
        assert isinstance(each, Ok)
        assert each.error is not None
        assert each.error < 1e-5
