"""Computations that read elements in another order than they write them: the space generator `transposition`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pegbox as pb
from pegbox import te
from pegbox.codegen.targets.target import target_of
from pegbox.errors import TemplateError
from pegbox.graph import Value, make_node
from pegbox.model.node_task import implementations_of
from pegbox.task import Task
from pegbox.templates.transposition import TranspositionGenerator, crossing_of

AVX2 = "llvm -mcpu=x86-64-v3 -num-cores 1"
AVX512 = "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=x86-64-v4 -num-cores 1"


def transposed(shape: Sequence[int], order: Sequence[int], dtype: str = "float32") -> list[te.Tensor]:
    """An array whose axes are given in another order."""
    x = te.placeholder(tuple(shape), name="X", dtype=dtype)
    places = np.argsort(order)
    return [x, te.compute(tuple(shape[n] for n in order), lambda *at: x(*(at[n] for n in places)), name="Y")]


def concatenated(parts: int, channels: int, side: int) -> list[te.Tensor]:
    """Images with their channels first, one behind the other, as one with its channels last."""
    images = [te.placeholder((1, channels, side, side), name=f"X{n}") for n in range(parts)]

    def element(i: te.Expr, y: te.Expr, x: te.Expr, c: te.Expr) -> Any:
        value = images[-1](i, c - (parts - 1) * channels, y, x)
        for n in reversed(range(parts - 1)):
            value = te.if_then_else(c < (n + 1) * channels, images[n](i, c - n * channels, y, x), value)
        return value

    return [*images, te.compute((1, side, side, parts * channels), element, name="Y")]


def task_of(tensors: Sequence[te.Tensor], target: str = AVX2) -> Task:
    return pb.create_task(list(tensors), space="transposition", target=target)


def check(task: Task, expected: Callable[..., Any]) -> None:
    """Compare the values of all configurations."""
    rng = np.random.default_rng(0)
    *inputs, out = ((5 * rng.standard_normal(spec.shape)).astype(spec.dtype) for spec in task.arguments())
    for config in task.space.iterate():
        out[:] = 0
        pb.build(task, config=config)(*inputs, out)
        np.testing.assert_array_equal(out, expected(*inputs))


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int8", "int64", "bool"])
@pytest.mark.parametrize(
    ("shape", "order"),
    [((1, 6, 5, 7), (0, 2, 3, 1)), ((2, 9, 3, 16), (0, 2, 3, 1)), ((33, 70), (1, 0)), ((4, 1, 8, 9), (3, 2, 1, 0))],
)
def test_values_are_numpys(shape: tuple[int, ...], order: tuple[int, ...], dtype: str) -> None:
    check(task_of(transposed(shape, order, dtype)), lambda x: x.transpose(order))


@settings(max_examples=25)
@given(st.data())
def test_values_of_any_order(data: st.DataObject) -> None:
    rank = data.draw(st.integers(2, 4))
    shape = data.draw(st.lists(st.integers(1, 20), min_size=rank, max_size=rank))
    order = data.draw(st.permutations(range(rank)))
    tensors = transposed(shape, order)
    try:
        task = task_of(tensors, data.draw(st.sampled_from([AVX2, "llvm -num-cores 2"])))
    except TemplateError:
        return
    config = task.space.get(data.draw(st.integers(0, task.space.size - 1)))
    x = np.arange(np.prod(shape), dtype="float32").reshape(shape)
    out = np.empty(tensors[-1].shape, "float32")
    pb.build(task, config=config)(x, out)
    np.testing.assert_array_equal(out, x.transpose(order))


@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.parametrize(("parts", "channels", "side"), [(2, 8, 6), (4, 16, 10), (3, 5, 9)])
def test_concatenations(parts: int, channels: int, side: int, cores: int) -> None:
    task = task_of(concatenated(parts, channels, side), f"llvm -mcpu=x86-64-v3 -num-cores {cores}")
    check(task, lambda *images: np.concatenate(images, 1).transpose(0, 2, 3, 1))


@pytest.mark.parametrize("target", [AVX2, AVX512])
@pytest.mark.parametrize(
    "tensors",
    [
        transposed((1, 64, 56, 56), (0, 2, 3, 1)),
        transposed((1, 14, 14, 96), (0, 3, 1, 2)),
        transposed((1, 197, 6, 64), (0, 2, 3, 1)),
        concatenated(4, 64, 20),
    ],
)
def test_no_element_is_gathered_from_whole_tiles(tensors: list[te.Tensor], target: str) -> None:
    for cores in 1, 2:
        task = task_of(tensors, target.replace("-num-cores 1", f"-num-cores {cores}"))
        text = task.lower(task.space.get(0)).ll
        assert "shufflevector" in text
        assert "gather" not in text


def test_the_program_of_a_transposition(golden: Callable[[object], None]) -> None:
    task = task_of(transposed((2, 6, 5, 7), (0, 2, 3, 1)))
    golden(task.show_ir(task.space.get(0)))


def test_neighbouring_axes_are_one_run() -> None:
    found = crossing_of(transposed((2, 64, 14, 15), (0, 2, 3, 1)))
    assert [(run.extent, run.steps) for run in found.runs] == [(2, (64 * 210,)), (210, (1,)), (64, (210,))]
    assert found.down == 1


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        (transposed((4, 5, 6), (1, 0, 2)), "inputs of Y have its order of elements; use space='sketch'"),
        (transposed((1, 5), (1, 0)), "inputs of Y have its order of elements"),
    ],
)
def test_the_same_order_is_refused(tensors: list[te.Tensor], message: str) -> None:
    with pytest.raises(TemplateError, match=message):
        task_of(tensors)


def test_reductions_and_several_stages_are_refused() -> None:
    x, k = te.placeholder((6, 8), name="X"), te.reduce_axis((0, 6), name="k")
    total = te.compute((8,), lambda i: te.sum(x[k, i], axis=k), name="total")
    twice = te.compute((8,), lambda i: total[i] * 2.0, name="twice")
    with pytest.raises(TemplateError, match="total is not a function of the inputs' elements"):
        TranspositionGenerator()([x, total], target_of(AVX2))
    with pytest.raises(TemplateError, match="twice is not a function of the inputs' elements"):
        task_of([x, twice])
    first = te.compute((), lambda: x[0, 0], name="first")
    with pytest.raises(TemplateError, match="first has no axes"):
        task_of([x, first])
    with pytest.raises(TemplateError, match="give one output"):
        task_of([*transposed((4, 5), (1, 0)), te.compute((3,), lambda i: te.const(1.0, "float32"), name="Z")])


def test_nodes_that_change_the_order_have_it_first() -> None:
    def compute(x: te.Tensor) -> list[te.Tensor]:
        moved = te.compute((9, 8), lambda i, j: x[j, i], name="moved")
        return [te.compute((9, 8), lambda i, j: te.max(moved[i, j], 0.0), name="positive")]

    node = make_node("node", "Transpose", [Value("x", (8, 9), "float32")], compute)
    names = [made.task.name for made in implementations_of(node, {}, target_of(AVX2))]
    assert [name.rsplit("@")[-1] for name in names] == ["transposition", "sketch"]


@pytest.mark.parametrize("shape", [(64, 128), (3, 5000), (64, 32768 * 2), (5, 7)])
def test_several_threads_have_a_tile_each(shape: tuple[int, int]) -> None:
    task = task_of(transposed(shape, (1, 0)), AVX2.replace("-num-cores 1", "-num-cores 2"))
    for config in map(task.space.config, task.space.sample(8, np.random.default_rng(0))):
        alone = "threads" in config and config["threads"].val == 1
        assert alone or "in parallel" in task.show_ir(config), str(config)


@pytest.mark.parametrize(
    ("shape", "order", "dtype"), [((63, 256, 264), (0, 2, 1), "float32"), ((1000, 5000), (1, 0), "int8")]
)
def test_there_are_configurations_for_more_cores_than_tiles(
    shape: tuple[int, ...], order: tuple[int, ...], dtype: str
) -> None:
    task = task_of(transposed(shape, order, dtype), AVX512.replace("-num-cores 1", "-num-cores 200"))
    (index,) = task.space.sample(1, np.random.default_rng(0))
    assert "in parallel" in task.show_ir(task.space.config(index))
