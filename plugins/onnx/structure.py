"""The order of a model's nodes, and the names that connect them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from graphlib import CycleError, TopologicalSorter

import onnx

from pegbox.plugins.onnx.refusal import Refusal

_DAMAGED = "the file is damaged, or a part of a larger model; export it again"


def described(node: onnx.NodeProto) -> str:
    """Return the operator and the name of a node, for messages; its first output replaces a missing name."""
    name = node.name or next(filter(None, node.output), "")
    return f"{node.op_type} {name!r}"


def subgraphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """List the graphs that a node runs."""
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            yield attribute.g
        yield from attribute.graphs


def names_read(node: onnx.NodeProto) -> list[str]:
    """List the names that a node reads, including those read within its graphs."""
    names = [name for name in node.input if name]
    for graph in subgraphs(node):
        own = {each.name for each in (*graph.input, *graph.initializer)}
        own |= {name for inner in graph.node for name in inner.output}
        inside = [name for inner in graph.node for name in names_read(inner)]
        names += [name for name in (*inside, *(each.name for each in graph.output)) if name not in own]
    return names


def needed_nodes(
    nodes: Sequence[onnx.NodeProto], given: set[str], outputs: Sequence[str]
) -> tuple[list[onnx.NodeProto], list[Refusal]]:
    """Return the nodes that the outputs depend on, each after those whose values it reads.

    Args:
        given: the names of inputs and weights.

    Returns:
        The nodes, in the order of the file if they can run in it; and the faults of their order.
    """
    makers: dict[str, int] = {}
    faults = []
    for place, node in enumerate(nodes):
        for name in filter(None, node.output):
            if name in makers or name in given:
                first = described(nodes[makers[name]]) if name in makers else "an input or a weight"
                faults.append(Refusal(described(node), f"it makes {name!r}, as does {first}", _DAMAGED))
            makers.setdefault(name, place)
    sources: dict[int, list[int]] = {}
    wanted: list[tuple[str, str]] = [(name, "the model's outputs") for name in outputs]
    while wanted:
        name, reader = wanted.pop()
        if name in given:
            continue
        if name not in makers:
            faults.append(Refusal(reader, f"nothing makes {name!r}, which is read there", _DAMAGED))
        elif (place := makers[name]) not in sources:
            names = names_read(nodes[place])
            sources[place] = [makers[each] for each in names if each in makers]
            wanted += [(each, described(nodes[place])) for each in names]
    order = sorted(sources)
    if any(source >= place for place in order for source in sources[place]):
        try:
            order = list(TopologicalSorter(sources).static_order())
        except CycleError as error:
            places = list(dict.fromkeys(error.args[1]))
            ring = ", ".join(described(nodes[place]) for place in places[:5]) + (", ..." if len(places) > 5 else "")
            faults.append(Refusal(ring, "each reads what another one makes, in a cycle", _DAMAGED))
    return [nodes[place] for place in order], faults
