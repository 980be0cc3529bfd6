"""Tasks whose template is followed by a pointwise computation in the same kernel."""

from __future__ import annotations

import pickle
import random
from itertools import islice
from typing import Any

import numpy as np
import pytest
from epilogues import ACTIVATIONS, bias_residual, chain, stage
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pegbox as pb
from pegbox import te
from pegbox.errors import ArgumentError, TemplateError
from pegbox.features import program_features
from pegbox.measure.trial.check import Tolerance, difference
from pegbox.search.models.prediction import predicted_configs
from pegbox.task.task import Task
from pegbox.templates import pack_weights
from pegbox.testing import TemplateContract

TARGET = "llvm -num-cores 1"
SHAPES: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("conv2d", (1, 5, 9, 7, 20, 3, 3, 1, 1), {}),
    ("conv2d", (1, 8, 8, 8, 33, 1, 1), {"weights": "packed"}),
    ("conv2d", (2, 4, 9, 9, 17, 3, 3, 2, 1), {"layout": "NHWC"}),
    ("conv2d", (1, 6, 7, 7, 24, 1, 1, 2), {"layout": "NHWC", "weights": "packed"}),
    ("matmul", (17, 24, 40), {}),
    ("matmul", (1, 70, 50), {}),
    ("matmul", (33, 128, 48), {"weights": "packed"}),
    ("matmul", (20, 200, 3), {}),
    ("batch_matmul", (3, 9, 16, 20), {}),
]


def followed(place: int, epilogue: Any) -> Task:
    name, args, kwargs = SHAPES[place]
    return pb.create_task(name, args, kwargs, target=TARGET, epilogue=epilogue)


def check(task: Task, configs: int, seed: int = 0) -> None:
    """Sampled configurations compute what NumPy computes."""
    rng = np.random.default_rng(seed)
    arrays = [rng.uniform(-1, 1, spec.shape).astype(spec.dtype) for spec in task.arguments()]
    (expected,) = task.reference(arrays[:-1])
    tolerance = Tolerance.of([expected], flop=task.flop)
    for row in task.space.sample(configs, rng):
        arrays[-1][...] = np.nan
        pb.build(task, config=task.space.config(row))(*arrays)
        wrong = difference("output", arrays[-1], expected, tolerance)
        assert wrong is None, f"{task!r} with {task.space.config(row)}: {wrong}"


class TestConv2dWithEpilogue(TemplateContract):
    template = followed(2, bias_residual("relu", 3)).template
    cases = ((2, 4, 9, 9, 17, 3, 3, 2, 1, 1, "NHWC"),)
    configs = 3


class TestMatmulWithEpilogue(TemplateContract):
    template = pb.create_task("matmul", (24, 40, 64), epilogue=bias_residual("gelu", 1)).template
    cases = ((24, 40, 64),)
    configs = 3


@pytest.mark.parametrize("place", range(len(SHAPES)))
def test_values_of_a_bias_a_residual_and_an_activation(place: int) -> None:
    activation = sorted(ACTIVATIONS)[place % len(ACTIVATIONS)]
    axis = 1 if SHAPES[place][0] == "conv2d" and "layout" not in SHAPES[place][2] else -1
    ndim = {"conv2d": 4, "matmul": 2, "batch_matmul": 3}[SHAPES[place][0]]
    check(followed(place, bias_residual(activation, axis % ndim)), 4)


@given(st.integers(0, len(SHAPES) - 1), st.integers(0, 2**32))
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
def test_values_of_random_chains(place: int, seed: int) -> None:
    check(followed(place, chain(random.Random(seed))), 1, seed % 1000)


def test_the_task_is_the_template_s_but_for_its_name_and_further_inputs() -> None:
    plain = pb.create_task("conv2d", *SHAPES[0][1:], target=TARGET)
    task = followed(0, bias_residual("relu", 1))
    assert task.fingerprint == plain.fingerprint
    assert task.code == plain.code
    assert task.workload[1] == plain.workload[1]
    assert task.name.startswith("conv2d+relu-")
    names = [(spec.name, spec.is_output) for spec in task.arguments()]
    assert names == [("data", False), ("weight", False), ("bias", False), ("residual", False), ("relu", True)]
    assert task.flop == plain.flop + 3 * np.prod(task.outputs[0].shape)


def test_equal_epilogues_have_one_name_and_others_another() -> None:
    one, same = (followed(0, bias_residual("relu", 1)) for _ in range(2))
    assert one.workload == same.workload
    assert pickle.loads(pickle.dumps(one)).workload == one.workload
    assert followed(0, bias_residual("relu", 2)).name != one.name


def test_weights_are_packed_as_for_the_template() -> None:
    name, args, kwargs = SHAPES[6]
    plain = pb.create_task(name, args, kwargs, target=TARGET)
    array = np.random.default_rng(0).uniform(-1, 1, (128, 48)).astype("float32")
    task = followed(6, bias_residual("relu", 1))
    np.testing.assert_array_equal(pack_weights(task, array), pack_weights(plain, array))
    form = pb.create_task(name, args, target=TARGET, epilogue=bias_residual("relu", 1)).template.packed_form("B")
    assert form is not None
    assert Task(form.template, args, form.given, plain.target).workload == task.workload


def test_the_predicted_configurations_are_those_of_the_template() -> None:
    plain = pb.create_task(*SHAPES[0], target=TARGET)
    task = followed(0, bias_residual("silu", 1))
    (config,) = islice(predicted_configs(task, candidates=16), 1)
    assert config.space is task.space
    assert config.digits == next(predicted_configs(plain, candidates=16)).digits
    np.testing.assert_array_equal(program_features(task).of([config]), program_features(plain).of([config]))


def summed(x: te.Tensor) -> te.Tensor:
    k = te.reduce_axis((0, x.shape[1]), name="k")
    return te.compute(x.shape, lambda i, j: te.sum(x[i, k], axis=k), name="summed")


def of_nothing(x: te.Tensor) -> te.Tensor:
    return te.compute(x.shape, lambda i, j: te.const(1.0, "float32"), name="ones")


@pytest.mark.parametrize(
    ("epilogue", "message"),
    [
        (lambda x: te.compute(x.shape, lambda i, j: x[i, 39 - j], name="turned"), r"turned reads C\[i, .*pointwise"),
        (lambda x: te.compute((x.shape[0],), lambda i: x[i, 0], name="first"), r"shape \[17\].*pointwise"),
        (summed, "summed reduces: an epilogue is pointwise"),
        (of_nothing, "ones does not read C"),
        (lambda x: x, "give its output"),
        (lambda x: 3, "returned 3"),
        (lambda x: [stage(x, lambda v, at: v, "a"), stage(x, lambda v, at: v, "b")], "with one output"),
        (lambda x: 1 / 0, "raised ZeroDivisionError"),
    ],
)
def test_what_is_not_pointwise_is_refused(epilogue: Any, message: str) -> None:
    with pytest.raises(TemplateError, match=message):
        followed(4, epilogue)


def test_an_epilogue_that_is_not_a_function_is_refused() -> None:
    with pytest.raises(ArgumentError, match="epilogue"):
        followed(4, "relu")


def test_a_chain_that_grows_too_long_is_refused() -> None:
    def doubled(x: te.Tensor) -> te.Tensor:
        for place in range(12):
            x = stage(x, lambda v, at: v * te.sigmoid(v), f"silu{place}")
        return x

    with pytest.raises(TemplateError, match="end it earlier"):
        followed(4, doubled)


def test_a_template_with_other_arguments_is_refused() -> None:
    template = followed(4, bias_residual("relu", 1)).template
    with pytest.raises(TemplateError, match="its epilogue follows"):
        pb.create_task(template, (18, 24, 40), target=TARGET)
