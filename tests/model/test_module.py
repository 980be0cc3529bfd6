"""Modules of small graphs: values, places of arrays, errors, pickles, threads."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from processors import on_this_machine
from small_models import ONE_CORE, Array, added, arrays_for, graph_of, module_of, scaled, selected, value

from pegbox import te
from pegbox.codegen import Target
from pegbox.codegen.call_sequence import Copy
from pegbox.codegen.compiled import ALIGNMENT
from pegbox.codegen.runtime.checked_call import address_of_data
from pegbox.errors import ArgumentError, GraphError, UnknownArgument
from pegbox.graph import Graph, Node, Value, evaluate
from pegbox.graph.operations import reshape_node
from pegbox.model.module import Module
from pegbox.model.node_task import Argument, NodeTask
from pegbox.model.selection import Selection
from pegbox.task import Task

pytestmark = on_this_machine


def halves(name: str, x: Value) -> Node:
    """Two outputs: the upper and the lower half of X along the first axis, which are views."""
    rows = x.shape[0] // 2

    def compute(a: Any) -> list[Any]:
        def part(start: int) -> Any:
            return te.compute((rows, *a.shape[1:]), lambda i, *rest: a[(i + start, *rest)], name=f"h{start}")

        return [part(0), part(rows)]

    outputs = tuple(Value(f"{name}{number}", (rows, *x.shape[1:]), x.dtype) for number in range(2))
    return Node(name, "Split", (x,), outputs, compute)


def chain() -> Graph:
    """(2x + w) in another shape, and half of it."""
    x, w = value("x", 4, 6), value("w", 4, 6)
    double = scaled("double", x, 2.0)
    total = added("total", double.outputs[0], w)
    flat = reshape_node("flat", total.outputs[0], (24,))
    half = scaled("half", flat.outputs[0], 0.5)
    constants = {w: np.arange(24, dtype=np.float32).reshape(4, 6)}
    return graph_of([x], [double, total, flat, half], [flat.outputs[0], half.outputs[0]], constants)


@pytest.fixture(scope="module")
def module() -> Module:
    return module_of(chain())


def check(graph: Graph, module: Module | None = None) -> Module:
    """Compare a module with the reference, called in machine code and in Python, where arrays have guard bands."""
    module, inputs = module or module_of(graph), arrays_for(graph)
    wanted = evaluate(graph, dict(zip(graph.inputs, inputs, strict=True)))
    named = module(**{each.name: array for each, array in zip(graph.inputs, inputs, strict=True)})
    for found in (module(*inputs), named):
        assert isinstance(found, tuple)
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(one, other)
    return module


def test_a_module_computes_what_its_graph_says(module: Module) -> None:
    check(chain(), module)


def test_an_output_is_written_directly_through_a_view(module: Module) -> None:
    steps = module.compiled.sequence.steps
    assert len(steps) == 3
    assert not any(isinstance(step, Copy) for step in steps)
    assert module.compiled.sequence.workspace_bytes == 128  # only the doubled input


def test_large_results_begin_at_a_cache_line() -> None:
    x = value("x", 300, 300)
    double = scaled("double", x, 2.0)
    module = module_of(graph_of([x], [double], double.outputs))
    for _ in range(2):
        (made,) = module(np.ones((300, 300), np.float32))
        assert address_of_data(made) % ALIGNMENT == 0


def test_a_view_of_an_intermediate_value_keeps_it_alive() -> None:
    x = value("x", 8, 3)
    double = scaled("double", x, 2.0)
    parts = halves("part", double.outputs[0])
    other = scaled("other", x, 3.0)
    low = scaled("low", parts.outputs[1], -1.0)
    total = added("sum", low.outputs[0], parts.outputs[0])
    last = added("last", other.outputs[0], other.outputs[0])
    graph = graph_of([x], [double, parts, other, low, total, last], [total.outputs[0], last.outputs[0]])
    check(graph)
    assert len(module_of(graph).compiled.sequence.steps) == 5


def test_outputs_that_no_kernel_writes_are_copied() -> None:
    x, w = value("x", 4, 2), value("w", 3, dtype="int64")
    flat, parts, double = reshape_node("flat", x, (8,)), halves("part", x), scaled("double", x, 2.0)
    low = halves("low", double.outputs[0])
    outputs = [x, x, flat.outputs[0], w, parts.outputs[1], double.outputs[0], double.outputs[0], low.outputs[1]]
    graph = graph_of([x], [flat, parts, double, low], outputs, {w: np.array([1, 2, 3])})
    module = check(graph)
    assert "1 calls of 1 kernels" in str(module)
    assert sum(isinstance(step, Copy) for step in module.compiled.sequence.steps) == len(outputs) - 1


def test_a_slice_of_a_value_is_an_output() -> None:
    x = value("x", 4, 2)
    double = scaled("double", x, 2.0)
    low = halves("low", double.outputs[0])
    check(graph_of([x], [double, low], [low.outputs[1]]))


def test_a_graph_without_kernels_is_a_module() -> None:
    x = value("x", 5)
    module = check(graph_of([x], [], [x]))
    assert module.compiled.works == ()
    assert not module.profile(np.zeros(5, np.float32), calls=1).rows


def test_a_graph_without_outputs_is_a_module() -> None:
    x = value("x", 5)
    assert module_of(graph_of([x], [], []))(np.zeros(5, np.float32)) == ()


def test_inputs_may_have_any_names() -> None:
    names = ["self", "arrays", "x.1", "x_1", "x_1_2", ""]
    inputs = [value(name, 3) for name in names]
    sums, last = [], inputs[0]
    for number, each in enumerate(inputs[1:]):
        sums.append(added(f"sum{number}", last, each))
        last = sums[-1].outputs[0]
    check(graph_of(inputs, sums, [last]))


def test_views_of_constants_are_constants() -> None:
    x, w = value("x", 2, 3), value("w", 12)
    flat = reshape_node("flat", w, (4, 3))
    parts = halves("part", flat.outputs[0])
    total = added("sum", x, parts.outputs[1])
    check(graph_of([x], [flat, parts, total], [total.outputs[0]], {w: np.arange(12, dtype=np.float32)}))


def test_equal_constants_are_kept_once_and_packed_ones_beside_them() -> None:
    x, names = value("x", 64), ("a", "b", "c")
    constants = {value(name, 64): np.full(64, number // 2, np.float32) for number, name in enumerate(names)}
    sums, last = [], x
    for name, constant in zip(names, constants, strict=True):
        sums.append(added(f"sum_{name}", last, constant))
        last = sums[-1].outputs[0]
    graph = graph_of([x], sums, [last], constants)
    chosen = selected(graph)
    assert check(graph, Module(graph, chosen)).compiled.sequence.constants.nbytes == 2 * 256
    chosen[0] = with_packing(chosen[0], 1, lambda _, array: array + 1)
    module = Module(graph, chosen)
    assert module.compiled.sequence.constants.nbytes == 2 * 256  # the packed one equals the last
    np.testing.assert_array_equal(module(np.zeros(64, np.float32))[0], np.full(64, 2))


def with_packing(selection: Selection, place: int, pack: Callable[[Task, Array], Array]) -> Selection:
    task = selection.node_task
    arguments = list(task.arguments)
    arguments[place] = Argument(arguments[place].value, pack)
    packed = NodeTask(task.node, task.task, tuple(arguments))
    return Selection(packed, selection.config, selection.origin, selection.program)


def test_kernels_that_do_not_fit_the_graph_are_refused() -> None:
    graph = chain()
    chosen = selected(graph)
    with pytest.raises(GraphError, match="total: no kernel was selected for Add"):
        Module(graph, [chosen[0], chosen[2]])
    with pytest.raises(
        GraphError, match=r"takes p0: float32\[4, 6\], which does not match the value x: float32\[4, 6\]"
    ):
        Module(graph, [with_packing(chosen[0], 0, lambda _, array: array), *chosen[1:]])
    with pytest.raises(GraphError, match=r"the constant w: float32\[4, 6\] has 48 bytes for a kernel that takes p1"):
        Module(graph, [chosen[0], with_packing(chosen[1], 1, lambda _, array: array[:2]), chosen[2]])
    short = NodeTask(graph.nodes[0], chosen[0].node_task.task, chosen[0].node_task.arguments[:1])
    with pytest.raises(GraphError, match="double: its kernel takes 2 arrays; its task gives 1"):
        Module(graph, [Selection(short, chosen[0].config, "", chosen[0].program), *chosen[1:]])


@pytest.mark.parametrize(
    ("positional", "named", "error"),
    [
        ([], {}, r"small\(\) takes x: float32\[4, 6\]; x is missing"),
        ([0, 0], {}, r"small\(\) takes x: float32\[4, 6\]; got 2 arrays; outputs are given by the name out="),
        ([0], {"y": 0}, "'y' is none of them"),
        ([0], {"x": 0}, "'x' is given twice"),
        ([np.zeros((4, 6))], {}, r"small\(\): argument 0 \(x\) has dtype float64, expected float32"),
        ([], {"x": np.zeros((6, 4), np.float32)}, r"argument 0 \(x\) has shape \(6, 4\), expected \(4, 6\)"),
        ([[1.0]], {}, r"argument 0 \(x\) is a list; expected a NumPy array float32\[4, 6\]"),
        ([np.zeros((4, 6), np.float32)], {"out": np.zeros(24, np.float32)}, "takes 3 arrays"),
    ],
)
def test_a_wrong_call_names_the_inputs(module: Module, positional: list[Any], named: Any, error: str) -> None:
    with pytest.raises(ArgumentError, match=error) as found:
        module(*positional, **named)
    assert isinstance(found.value, UnknownArgument) == ("y" in named or ("x" in named and len(positional) == 1))


def test_calls_are_timed_in_machine_code(module: Module) -> None:
    assert module.time_ns(arrays_for(chain()), 10) > 0
    with pytest.raises(ArgumentError, match="arrays=3 is not a list; give the inputs of the model"):
        module.time_ns(3)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="takes 3 arrays"):
        module.time_ns([])


def test_outputs_may_be_given(module: Module) -> None:
    (x,) = arrays_for(chain())
    flat, half = module(x)
    out = np.zeros_like(flat), np.zeros_like(half)
    assert module(x, out=out) is out
    np.testing.assert_array_equal(out[0], flat)
    listed = [np.zeros_like(flat), np.zeros_like(half)]
    assert module(x=x, out=listed) is listed
    np.testing.assert_array_equal(listed[1], half)


def test_a_single_output_comes_in_a_tuple_and_may_be_given_alone() -> None:
    x = value("x", 3, 3)
    node = scaled("double", x, 2.0)
    module = module_of(graph_of([x], [node], [node.outputs[0]]))
    given = np.ones((3, 3), np.float32)
    (y,) = module(given)
    assert (y == 2).all()
    out = np.zeros((3, 3), np.float32)
    assert module(given, out=out) is out
    assert (out == 2).all()
    out[:] = 0
    assert isinstance(module(given, out=(out,)), tuple)
    assert (out == 2).all()
    with pytest.raises(ArgumentError, match="takes 2 arrays"):
        module(given, out=(out, out.copy()))


def test_threads_call_one_module_at_once(module: Module) -> None:
    inputs = [np.full((4, 6), number, np.float32) for number in range(4)]
    wanted = [module(x) for x in inputs]

    def is_right(number: int) -> bool:
        pairs = (zip(module(inputs[number]), wanted[number], strict=True) for _ in range(300))
        return all((a == b).all() for pair in pairs for a, b in pair)

    with ThreadPoolExecutor(len(inputs)) as pool:
        assert all(pool.map(is_right, range(len(inputs))))


def test_parallel_kernels_run_on_teams() -> None:
    x = value("x", 64, 64)
    nodes = [scaled("double", x, 2.0)]
    nodes.append(scaled("half", nodes[0].outputs[0], 0.5))
    graph = graph_of([x], nodes, [nodes[1].outputs[0]])
    module = check(graph, Module(graph, selected(graph, Target("llvm -num-cores 2"), config=1)))
    assert module.compiled.main.num_threads == 2


def test_a_module_is_pickled_with_its_constants(module: Module) -> None:
    again = pickle.loads(pickle.dumps(module))
    check(chain(), again)
    assert address_of_data(again.compiled.sequence.constants) % ALIGNMENT == 0  # the only copy
    assert str(again) == str(module)
    assert repr(module) == f"Module(small(x: float32[4, 6]) -> flat: float32[24], half: float32[24] for {ONE_CORE})"
    assert str(module).splitlines()[1:] == [
        "3 calls of 3 kernels, 128 bytes of constants, arena of 128 bytes; lower bound 128"
    ]


def test_a_profile_has_a_row_for_each_kernel(module: Module) -> None:
    (x,) = arrays_for(chain())
    profile = module.profile(x, calls=3)
    assert [row.work.names for row in profile.rows] == [("double",), ("total",), ("half",)]
    assert sum(row.share for row in profile.rows) == pytest.approx(1.0)
    assert profile.kernel_seconds == pytest.approx(sum(row.seconds for row in profile.rows))
    head, *rows, last = str(profile).splitlines()
    assert head.split() == ["nodes", "operators", "kernel", "us", "speed", "of", "peak", "of", "total"]
    assert [row.split()[:2] for row in rows] == [["double", "Mul"], ["total", "Add"], ["half", "Mul"]]
    assert last.startswith("3 kernels ")
    with pytest.raises(ArgumentError, match="profile: calls=0"):
        module.profile(x=x, calls=0)


def drawn_node(draw: st.DrawFn, name: str, known: list[Value]) -> Node:
    source = draw(st.sampled_from(known))
    same = [each for each in known if each.shape == source.shape]
    makers: list[Callable[[], Node]] = [
        lambda: scaled(name, source, 2.0),
        lambda: added(name, source, draw(st.sampled_from(same))),
        lambda: reshape_node(name, source, (prod(source.shape),)),
    ]
    if source.shape[0] % 2 == 0:
        makers.append(lambda: halves(name, source))
    return draw(st.sampled_from(makers))()


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Sums, multiples, views and halves of earlier values, some of which are outputs."""
    x, w = value("x", 4, 4), value("w", 4, 4)
    known: list[Value] = [x, w]
    nodes: list[Node] = []
    for number in range(draw(st.integers(1, 8))):
        nodes.append(drawn_node(draw, f"n{number}", known))
        known += nodes[-1].outputs
    outputs = draw(st.lists(st.sampled_from(known), min_size=1, max_size=4))
    return graph_of([x], nodes, outputs, {w: np.arange(16, dtype=np.float32).reshape(4, 4)})


@settings(max_examples=12)
@given(graphs())
def test_random_graphs_are_computed(graph: Graph) -> None:
    check(graph)
