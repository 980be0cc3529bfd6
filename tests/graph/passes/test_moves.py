"""Copies of elements that are copied again."""

from __future__ import annotations

from collections.abc import Callable

from pegbox import te
from pegbox.graph import Graph, Node, Value, make_node, reshape_node, transpose_node
from pegbox.graph.passes.dead_nodes import dead_nodes
from pegbox.graph.passes.moves import moves
from tests.helpers.optimized import check_pass, check_stays, check_values, exponential, graph_of

Golden = Callable[[object], None]
X = Value("x", (6, 48), "float32")


def _moves_alone(graph: Graph) -> Graph:
    return dead_nodes(moves(graph))


def row(name: str, x: Value, number: int) -> Node:
    return make_node(name, "Slice", [x], lambda t: [te.compute(t.shape[1:], lambda *at: t(number, *at), name="row")])


def test_parts_of_a_transposition_are_copied_from_its_input(golden: Golden) -> None:
    apart = reshape_node("apart", X, (6, 3, 16))
    turned = transpose_node("turned", *apart.outputs, (1, 0, 2))
    parts = [row(f"part{number}", *turned.outputs, number) for number in range(3)]
    views = [reshape_node(f"view{number}", *part.outputs, (6, 4, 4)) for number, part in enumerate(parts)]
    heads = [transpose_node(f"head{number}", *view.outputs, (1, 0, 2)) for number, view in enumerate(views)]
    graph = graph_of([apart, turned, *parts, *views, *heads], {}, *(head.outputs[0] for head in heads))
    check_pass(_moves_alone, graph, golden)


def test_a_shuffle_of_channels_keeps_the_shape_of_images(golden: Golden) -> None:
    x = Value("x", (1, 8, 3, 3), "float32")
    groups = reshape_node("groups", x, (1, 2, 4, 3, 3))
    turned = transpose_node("turned", *groups.outputs, (0, 2, 1, 3, 4))
    check_pass(moves, graph_of([groups, turned, reshape_node("y", *turned.outputs, x.shape)], {}), golden)


def test_what_is_a_transposition_after_all_is_one() -> None:
    apart = reshape_node("apart", X, (6, 48, 1))
    first = transpose_node("first", *apart.outputs, (1, 2, 0))
    second = transpose_node("second", *first.outputs, (1, 0, 2))
    graph = graph_of([apart, first, second], {})
    made = moves(graph)
    assert made.nodes[-1].kind in ("Reshape", "Transpose")
    check_values(graph, made)


def test_a_copy_in_another_shape_stays() -> None:
    apart = reshape_node("apart", X, (6, 3, 16))
    turned = transpose_node("turned", *apart.outputs, (1, 0, 2))
    check_stays(moves, graph_of([apart, turned, reshape_node("y", *turned.outputs, (3, 96))], {}))


def test_subscripts_do_not_become_divisions() -> None:
    x = Value("x", (5, 7), "float32")
    first = transpose_node("first", x, (1, 0))
    flat = reshape_node("flat", *first.outputs, (5, 7))
    check_stays(moves, graph_of([first, flat, transpose_node("second", *flat.outputs, (1, 0))], {}))


def test_what_computes_stays_between_moves() -> None:
    first = transpose_node("first", X, (1, 0))
    middle = exponential("middle", *first.outputs)
    check_stays(moves, graph_of([first, middle, transpose_node("second", *middle.outputs, (1, 0))], {}))


def test_indices_that_are_elements_stay() -> None:
    x = Value("x", (4,), "int64")
    first = make_node("r", "Reverse", [x], lambda t: [te.compute((4,), lambda i: 3 - t(3 - i), name="r")])
    turned = make_node("t", "Reverse", [*first.outputs], lambda t: [te.compute((4,), lambda i: t(3 - i), name="t")])
    chosen = make_node("y", "Gather", [*turned.outputs], lambda t: [te.compute((4,), lambda i: t(t(i)), name="y")])
    check_stays(moves, graph_of([first, turned, chosen], {}))


def test_what_reads_nothing_is_no_move() -> None:
    filled = make_node("f", "Fill", [], lambda: [te.compute((2, 3), lambda i, j: (i + j).astype("float32"), name="f")])
    check_stays(moves, graph_of([filled, transpose_node("t", *filled.outputs, (1, 0))], {}))
