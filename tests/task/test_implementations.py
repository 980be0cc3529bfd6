"""Implementations of an operator: the tasks that plugins give for a task, and the group of them."""

from __future__ import annotations

import pickle
from collections.abc import Iterator

import numpy as np
import pytest
from implementations import by_rows, registered, transposed

import pegbox as pb
from pegbox import te
from pegbox.errors import ArgumentError, PluginError, SpaceError, UnknownName
from pegbox.task import Task, TaskGroup, task_of, tasks_of

TARGET = "llvm -num-cores 1"


@pytest.fixture(autouse=True)
def _rows() -> Iterator[None]:
    with registered(by_rows=by_rows):
        yield


@pytest.fixture(scope="module")
def product() -> Task:
    return pb.create_task("matmul", (8, 4, 16), target=TARGET)


def test_all_implementations_that_fit_are_a_group_with_the_task_first(product: Task) -> None:
    group = product.with_implementations()
    assert next(iter(group.tasks)) == "matmul"
    assert {"by_rows", "sketch"} <= set(group.tasks)
    assert group.first is product
    assert (group.flop, group.target) == (product.flop, product.target)
    assert group.size == sum(task.space.size for task in group.tasks.values())


def test_every_implementation_computes_what_the_task_computes(product: Task) -> None:
    inputs = [np.ones((8, 4), np.float32), np.full((4, 16), 2, np.float32)]
    for task in product.with_implementations().tasks.values():
        np.testing.assert_array_equal(task.reference(inputs)[0], np.full((8, 16), 8))


def test_names_choose_implementations_and_their_order(product: Task) -> None:
    assert list(product.with_implementations(["sketch", "matmul"]).tasks) == ["sketch", "matmul"]
    assert list(product.with_implementations("by_rows").tasks) == ["by_rows"]


def test_an_unknown_name_is_refused_with_near_ones(product: Task) -> None:
    with pytest.raises(UnknownName, match="no implementation 'row' of matmul; did you mean 'rows'"):
        product.with_implementations(["matmul", "row"])


def test_one_that_does_not_fit_is_left_out_or_refused_with_its_reason() -> None:
    product = pb.create_task("matmul", (8, 4, 16), {"dtype": "float64"}, target=TARGET)
    assert "by_rows" not in product.with_implementations().tasks
    with pytest.raises(ArgumentError, match=r"'by_rows' does not fit Task\(matmul.*: rows of float32 alone"):
        product.with_implementations(["by_rows"])


def test_one_of_other_operators_is_left_out_or_refused() -> None:
    batch = pb.create_task("batch_matmul", (2, 8, 4, 16), target=TARGET)
    assert "by_rows" not in batch.with_implementations().tasks
    with pytest.raises(ArgumentError, match="'by_rows' does not implement Task"):
        batch.with_implementations(["by_rows"])


def test_one_that_takes_other_arguments_is_a_broken_plugin(product: Task) -> None:
    with registered(transposed=transposed):
        with pytest.raises(PluginError, match=r"'transposed' of .* takes other arguments: argument 0 is the input A"):
            product.with_implementations(["transposed"])
        with pytest.warns(RuntimeWarning, match="'transposed' .* it is left out"):
            assert "transposed" not in product.with_implementations().tasks


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda task: "matmul", "'broken' of .* returned 'matmul'; return a Task, or None"),
        (lambda task: 1 // 0, "'broken' of .* raised ZeroDivisionError"),
    ],
)
def test_one_that_fails_stays_alone(product: Task, function: object, message: str) -> None:
    with registered(broken=function):  # type: ignore[arg-type]
        with pytest.raises(PluginError, match=message):
            product.with_implementations(["broken"])
        with pytest.warns(RuntimeWarning, match=message):
            assert "by_rows" in product.with_implementations().tasks


def test_a_configuration_belongs_to_the_implementation_whose_space_holds_it(product: Task) -> None:
    group = product.with_implementations(["matmul", "by_rows"])
    for name, task in group.tasks.items():
        config = task.space.get(next(task.space.iterate()).index)
        assert group.implementation_of(config) == name
        assert group.task_of(config) is task_of(group, config) is task
        assert group.given_config(config) == config
        assert group.from_json(config.to_json()) == config
    assert tasks_of(group) == list(group.tasks.values())
    assert tasks_of(product) == [product]


def test_a_configuration_of_no_implementation_is_refused(product: Task) -> None:
    group = product.with_implementations(["matmul", "by_rows"])
    other = pb.create_task("conv2d", (1, 4, 4, 4, 4, 1, 1), target=TARGET).space.get(0)
    with pytest.raises(ArgumentError, match="of no implementation of TaskGroup"):
        group.task_of(other)
    with pytest.raises(SpaceError, match="of no implementation"):
        group.from_json(other.to_json())
    with pytest.raises(ArgumentError, match="config=3 does not say of which implementation it is"):
        group.given_config(3)


def test_tasks_that_configurations_cannot_tell_apart_are_refused(product: Task) -> None:
    with pytest.raises(ArgumentError, match="'one' and 'other' have the same knobs"):
        TaskGroup({"one": product, "other": product})
    with pytest.raises(ArgumentError, match="give tasks by the names"):
        TaskGroup({})


def test_a_group_is_pickled(product: Task) -> None:
    group: TaskGroup = pickle.loads(pickle.dumps(product.with_implementations(["matmul", "by_rows"])))
    assert list(group.tasks) == ["matmul", "by_rows"]


def test_a_task_of_packed_weights_has_implementations_that_pack_them_in_their_own_layout() -> None:
    def other_layout(task: Task) -> Task | None:
        if task.name != "matmul" or task.workload[1]["weights"] != "packed":
            return None
        return pb.create_task("matmul", kwargs={**task.kwargs, "weights": "plain"}, target=task.target)

    task = pb.create_task("matmul", kwargs={"M": 8, "K": 4, "N": 16, "weights": "packed"}, target=TARGET)
    with registered(plain_weights=other_layout):
        assert task.with_implementations(["plain_weights"]).first.workload[1]["weights"] == "plain"


def test_plain_tensors_are_those_of_the_computation_without_a_layout() -> None:
    task = pb.create_task("conv2d", (1, 4, 6, 6, 8, 3, 3), {"padding": 1}, target=TARGET)
    assert [each.name for each in task.plain_tensors[:2]] == [each.name for each in task.tensors[:2]]
    assert task.plain_tensors[2].shape == task.tensors[2].shape
    assert len(task.with_implementations(["sketch"]).first.tensors) == 3


def test_the_wide_reference_is_that_of_the_plain_computation() -> None:
    @pb.template("plain_test_wrong")
    def wrong(cfg: pb.TemplateConfig, n: int) -> tuple[te.TESchedule, list[te.Tensor]]:
        A = te.placeholder((n,), name="A")
        cfg.define_plain(lambda: [te.compute((n,), lambda i: A[i] * 3, name="P")])
        B = te.compute((n,), lambda i: A[i] * 2, name="B")
        return te.create_schedule(B.op), [A, B]

    task = pb.create_task(wrong, (4,), target=TARGET)
    inputs = [np.ones(4, np.float32)]
    assert (task.reference(inputs)[0][0], task.reference(inputs, wide=True)[0][0]) == (2.0, 3.0)


def test_a_computation_has_every_space_that_fits_it() -> None:
    rows = pb.create_task("softmax", (16, 32), space="sketch", target=TARGET).with_implementations()
    assert list(rows.tasks) == ["softmax@sketch", "rows"]
    x = np.random.default_rng(0).normal(size=(16, 32)).astype("float32")
    for task in rows.tasks.values():
        kernel = pb.build(task, config=0)
        expected = np.exp(x) / np.exp(x).sum(1, keepdims=True)
        np.testing.assert_allclose(kernel(x, out=np.empty_like(x)), expected, rtol=1e-5)
    windows = pb.create_task("max_pool2d", (1, 4, 8, 8, 3, 2, 1), space="sketch", target=TARGET).with_implementations()
    assert list(windows.tasks) == ["max_pool2d@sketch", "windows"]
    with pytest.raises(ArgumentError, match=r"'transposition' does not fit .*: transposition: pool is not a function"):
        windows.first.with_implementations("transposition")


def test_a_space_that_a_template_has_is_listed_once() -> None:
    softmax = pb.create_task("softmax", (16, 32), target=TARGET)
    assert list(softmax.with_implementations().tasks) == ["softmax", "sketch"]
