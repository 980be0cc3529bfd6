"""Fusion: the groups that nodes are joined into, those that stay apart, and what fused nodes compute."""

from __future__ import annotations

from graphs import added, check_same_values, convolution, graph_of, graphs, reduced, relu
from hypothesis import given

from pegbox import te
from pegbox.codegen import target_of
from pegbox.graph import Graph, Node, Value, matmul_node, pointwise_node, reshape_node, transpose_node
from pegbox.graph.passes.fusion import fusion
from pegbox.model.node_task import generated_task


def image(name: str = "x", *shape: int) -> Value:
    return Value(name, shape or (1, 4, 6, 6), "float32")


W = Value("w", (4, 4, 3, 3), "float32")


def kinds(graph: Graph) -> list[str]:
    return [node.kind for node in graph.nodes]


def test_a_convolution_takes_in_the_pointwise_nodes_behind_it() -> None:
    x, r = image(), image("r")
    conv = convolution("c", x, W)
    add = added("a", *conv.outputs, r)
    act = relu("z", *add.outputs)
    graph = graph_of([conv, add, act], [x, r], act.outputs, [W])
    made = fusion(graph)
    assert (
        str(graph)
        == """\
graph g(x: float32[1, 4, 6, 6], r: float32[1, 4, 6, 6]):
    c: float32[1, 4, 6, 6] = Conv(x, w, strides=(1, 1), pads=(1, 1, 1, 1), dilations=(1, 1), group=1, layout=NCHW)
    a: float32[1, 4, 6, 6] = Add(c, r)
    z: float32[1, 4, 6, 6] = Relu(a)
    return z"""
    )
    attributes = "strides=(1, 1), pads=(1, 1, 1, 1), dilations=(1, 1), group=1, layout=NCHW"
    assert str(made).splitlines()[1:] == [
        f"    z: float32[1, 4, 6, 6] = Conv+Add+Relu(x, w, r, {attributes})",
        "    return z",
    ]
    assert made.nodes[0].parts == (conv, add, act)
    check_same_values(graph, made)


def test_a_residual_that_is_made_behind_the_convolution_is_an_input_of_the_group() -> None:
    x = image()
    conv = convolution("c", x, W)
    other = convolution("o", x, W)
    add = added("a", *conv.outputs, *other.outputs)
    made = fusion(graph_of([conv, other, add], [x], add.outputs, [W]))
    assert kinds(made) == ["Conv", "Conv+Add"]
    assert made.nodes[1].parts == (conv, add)


def test_a_group_with_a_node_between_that_stays_apart_is_none() -> None:
    """The sum needs the convolution and, through the transposes' product, itself: a cycle through the group."""
    x = image()
    conv = convolution("c", x, W)
    product = matmul_node("p", *conv.outputs, *conv.outputs)
    add = added("a", *conv.outputs, *product.outputs)
    graph = graph_of([conv, product, add], [x], add.outputs, [W])
    made = fusion(graph)
    assert kinds(made) == ["Conv", "MatMul+Add"]
    check_same_values(graph, made)


def test_an_intermediate_that_is_read_elsewhere_or_returned_is_stored() -> None:
    x = image()
    conv = convolution("c", x, W)
    act, other = relu("z", *conv.outputs), convolution("o", *conv.outputs, W)
    assert kinds(fusion(graph_of([conv, act, other], [x], [*act.outputs, *other.outputs], [W]))) == [
        "Conv", "Relu", "Conv",
    ]  # fmt: skip
    assert kinds(fusion(graph_of([conv, act], [x], [*conv.outputs, *act.outputs], [W]))) == ["Conv", "Relu"]


def test_branches_that_meet_again_are_joined() -> None:
    x = image()
    conv = convolution("c", x, W)
    gate = pointwise_node("g", "Sigmoid", te.sigmoid, conv.outputs)
    product = pointwise_node("y", "Mul", lambda a, b: a * b, [*conv.outputs, *gate.outputs])
    graph = graph_of([conv, gate, product], [x], product.outputs, [W])
    made = fusion(graph)
    assert kinds(made) == ["Conv+Sigmoid+Mul"]
    check_same_values(graph, made)


def test_what_a_convolution_reads_many_times_is_computed_ahead() -> None:
    x = image()
    act = pointwise_node("e", "Exp", te.exp, [x])
    conv = convolution("c", *act.outputs, W)
    assert kinds(fusion(graph_of([act, conv], [x], conv.outputs, [W]))) == ["Exp", "Conv"]


def test_what_a_broadcast_would_compute_many_times_is_computed_ahead() -> None:
    x, b = image(), image("b", 4, 1, 1)
    power = pointwise_node("e", "Exp", te.exp, [b])
    add = added("a", x, *power.outputs)
    assert kinds(fusion(graph_of([power, add], [x, b], add.outputs))) == ["Exp", "Add"]


def test_a_normalization_of_rows_becomes_one_node() -> None:
    x = image("x", 8, 16)
    mean = reduced("m", x, [1])
    apart = pointwise_node("d", "Sub", lambda a, b: a - b, [x, *mean.outputs])
    square = pointwise_node("q", "Mul", lambda a: a * a, apart.outputs)
    spread = reduced("s", *square.outputs, [1])
    scaled = pointwise_node("y", "Mul", lambda a, b: a * b, [*apart.outputs, *spread.outputs])
    graph = graph_of([mean, apart, square, spread, scaled], [x], scaled.outputs)
    made = fusion(graph)
    assert kinds(made) == ["ReduceSum+Sub+Mul+ReduceSum+Mul"]
    check_same_values(graph, made)


def test_rows_that_no_cache_holds_stay_apart() -> None:
    x = image("x", 2, 1 << 16)
    total = reduced("m", x, [1])
    apart = pointwise_node("d", "Sub", lambda a, b: a - b, [x, *total.outputs])
    square = reduced("s", *apart.outputs, [1])
    last = pointwise_node("y", "Mul", lambda a, b: a * b, [*apart.outputs, *square.outputs])
    assert kinds(fusion(graph_of([total, apart, square, last], [x], last.outputs))) == [
        "ReduceSum",
        "Sub",
        "ReduceSum",
        "Mul",
    ]


def test_sums_over_columns_and_rows_stay_apart() -> None:
    x = image("x", 8, 16)
    total = reduced("m", x, [0])
    apart = pointwise_node("d", "Sub", lambda a, b: a - b, [x, *total.outputs])
    assert kinds(fusion(graph_of([total, apart], [x], apart.outputs))) == ["ReduceSum", "Sub"]


def test_views_stay_nodes() -> None:
    x = image()
    act, view = relu("r", x), None
    view = reshape_node("v", *act.outputs, (4, 36))
    last = relu("z", *view.outputs)
    assert kinds(fusion(graph_of([act, view, last], [x], last.outputs))) == ["Relu", "Reshape", "Relu"]


def test_a_transpose_joins_pointwise_nodes() -> None:
    x = image()
    act = relu("r", x)
    turned = transpose_node("t", *act.outputs, (0, 2, 3, 1))
    last = relu("z", *turned.outputs)
    graph = graph_of([act, turned, last], [x], last.outputs)
    made = fusion(graph)
    assert kinds(made) == ["Relu+Transpose+Relu"]
    check_same_values(graph, made)


def test_equal_groups_have_equal_tasks_whatever_their_values_are_called() -> None:
    def group(*names: str) -> Node:
        x, r = image(names[0]), image(names[1])
        conv = convolution(names[2], x, W)
        add = added(names[3], *conv.outputs, r)
        act = relu(names[4], *add.outputs)
        return fusion(graph_of([conv, add, act], [x, r], act.outputs, [W])).nodes[0]

    first, second = (generated_task(node, target_of(None)) for node in (group(*"abcde"), group(*"vxyzu")))
    assert str(first.task.workload) == str(second.task.workload)


def test_a_chain_of_many_nodes_becomes_several_groups() -> None:
    x = image()
    nodes = [relu("r0", x)]
    for number in range(1, 100):
        nodes.append(relu(f"r{number}", *nodes[-1].outputs))
    graph = graph_of(nodes, [x], nodes[-1].outputs)
    assert [len(node.parts) for node in fusion(graph).nodes] == [40, 40, 20]


@given(graphs())
def test_random_graphs_compute_the_same(graph: Graph) -> None:
    check_same_values(graph, fusion(graph))
