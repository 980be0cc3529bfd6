"""`NodeReader`: a reader of an ONNX model's nodes into a graph, one after the other."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx.reference import ReferenceEvaluator

from pegbox import te
from pegbox.compute import placeholders
from pegbox.errors import GraphError
from pegbox.graph import Node, Value
from pegbox.hooks import explained
from pegbox.plugins.onnx import operators as operators  # registers the operators
from pegbox.plugins.onnx.attention_parts import attention_parts
from pegbox.plugins.onnx.attributes import attributes_of, constant_array, input_names, since
from pegbox.plugins.onnx.fourier_parts import dft_parts, stft_parts
from pegbox.plugins.onnx.graph_builder import GraphBuilder
from pegbox.plugins.onnx.inference import Inferred
from pegbox.plugins.onnx.model_file import is_own
from pegbox.plugins.onnx.operator import OPERATORS, Meaning, Operator, OperatorNode, OperatorRefused
from pegbox.plugins.onnx.operators.casts import DTYPES
from pegbox.plugins.onnx.operators.recurrent import GATES
from pegbox.plugins.onnx.opsets import UNSUPPORTED
from pegbox.plugins.onnx.recurrent_parts import recurrent_parts
from pegbox.plugins.onnx.refusal import Refusal
from pegbox.plugins.onnx.structure import described
from pegbox.plugins.onnx.weights import Weights

Array = NDArray[Any]

_SHOWN = 64
OLDEST_OPSET = 7  # before it, attributes controlled the broadcasting of operators
_OLD = "convert the model: onnx.version_converter.convert_version(model, 17)"
_MISFIT = "its inputs or attributes do not fit the operator: correct the node, or export the model again"
_CONTROL_FLOW = {
    "If": ("its condition is computed when the model runs", "export the model with the branch that is taken"),
    "Loop": ("the number of its iterations is decided when the model runs", "export the model with the loop unrolled"),
    "Scan": ("loops over parts of a tensor are not supported", "export the model with the loop unrolled"),
}


_PARTS = {
    "Attention": attention_parts, "DFT": dft_parts, "STFT": stft_parts, **dict.fromkeys(GATES, recurrent_parts),
}  # fmt: skip
"""The functions that list the nodes of operators written as several."""


class _Unknown(Exception):
    """The values of a tensor decide shapes, and are not known."""


class _Lost(Exception):
    """A node reads a result of a refused one."""


@dataclass(frozen=True, eq=False)
class _Application:
    """An operator applied to tensors, shared by equal nodes.

    Attributes:
        made: its outputs; those whose values are known are arrays.
        compute: its meaning as a function of tensors.
        places: the inputs that the function takes.
        shown: the attributes of its nodes.
    """

    made: Sequence[te.Tensor | Array]
    compute: Callable[..., Sequence[te.Tensor]]
    places: tuple[int, ...]
    shown: Mapping[str, object]


class NodeReader:
    """A reader of nodes.

    Attributes:
        graph: the graph so far.
        refusals: the nodes that cannot be read.

    Args:
        opset: the version of the operators.
        inferred: the types of values inferred by the package onnx.
    """

    def __init__(self, graph: GraphBuilder, opset: int, inferred: Mapping[str, Inferred], weights: Weights) -> None:
        self.graph = graph
        self.refusals: list[Refusal] = []
        self._opset = opset
        self._inferred = inferred
        self._weights = weights
        self._applications: dict[Hashable, _Application] = {}

    def read(self, protos: Iterable[onnx.NodeProto]) -> None:
        """Read nodes."""
        pending = deque(protos)
        while pending:
            proto = pending.popleft()
            try:
                pending.extendleft(reversed(self._read(proto)))
                continue
            except _Lost:
                pass
            except _Unknown as error:
                self._refuse_unknown(proto, error.args[0])
            except OperatorRefused as error:
                self.refusals.append(Refusal(described(proto), error.reason, error.remedy))
            except Exception as error:  # a damaged file may apply an operator to unsuitable values
                self.refusals.append(Refusal(described(proto), explained(error), _MISFIT))
            self._skip(proto)

    def _refuse_unknown(self, proto: onnx.NodeProto, value: Value) -> None:
        if inputs := self.graph.inputs_of(value):  # otherwise a refused node would make it
            origin = f", which depends on the inputs {', '.join(inputs)}" if (value.name,) != inputs else ""
            reason = (
                f"the values of {value.name!r}{origin}, decide a shape"
                if origin
                else (f"the values of the input {value.name!r} decide a shape")
            )
            self.refusals.append(
                Refusal(described(proto), reason, "export the model with constants in their place", inputs)
            )

    def _skip(self, proto: onnx.NodeProto) -> None:
        """Add the outputs of a skipped node, if their types are known, so that others can be read."""
        for name in filter(None, proto.output):
            type_ = self._inferred.get(name)
            if type_ is not None and type_.shape is not None and type_.elements in DTYPES:
                self.graph.add_value(name, type_.shape, DTYPES[type_.elements])

    def _read(self, proto: onnx.NodeProto) -> Sequence[onnx.NodeProto]:
        """Read a node; return the nodes that replace it."""
        own = is_own(proto.domain)
        if own and proto.op_type in _CONTROL_FLOW:
            return self._branch(proto)
        if own and proto.op_type == "Constant":
            self.graph.add_constant(proto.output[0], constant_array(attributes_of(proto, self._weights)))
            return ()
        operator = OPERATORS.get(proto.op_type) if own else None
        if operator is None:
            name = proto.op_type if own else f"{proto.domain}.{proto.op_type}"
            raise OperatorRefused(described(proto), f"the operator {name} is not supported", UNSUPPORTED)
        if self._opset < OLDEST_OPSET and since(proto.op_type, self._opset) != since(proto.op_type, OLDEST_OPSET):
            reason = f"the operator of version {self._opset} is not supported, but those from version {OLDEST_OPSET} on"
            raise OperatorRefused(described(proto), reason, _OLD)
        given = {place: self._given(name) for place, name in enumerate(proto.input) if name}
        if self._is_empty(proto, operator, given):
            return ()
        attributes = attributes_of(proto, self._weights)
        divide = _PARTS.get(proto.op_type)
        parts = divide(proto, given, attributes, self.graph) if divide else ()
        if not parts:
            self._apply(proto, operator, given)
        return parts

    def _given(self, name: str) -> Value:
        if name not in self.graph.values:
            raise _Lost(name)
        return self.graph.values[name]

    def _branch(self, proto: onnx.NodeProto) -> Sequence[onnx.NodeProto]:
        """Return the nodes of the branch that an If takes. Raises OperatorRefused for other control flow."""
        condition = self.graph.array_of(self._given(proto.input[0])) if proto.op_type == "If" else None
        if condition is None:
            raise OperatorRefused(described(proto), *_CONTROL_FLOW[proto.op_type])
        taken = "then_branch" if condition.all() else "else_branch"
        (graph,) = [each.g for each in proto.attribute if each.name == taken]
        for tensor in graph.initializer:
            self.graph.add_constant(tensor.name, self._weights.array(tensor))
        names = zip(graph.output, proto.output, strict=True)
        return [*graph.node, *(onnx.helper.make_node("Identity", [a.name], [b]) for a, b in names if b)]

    def _is_empty(self, proto: onnx.NodeProto, operator: Operator, given: Mapping[int, Value]) -> bool:
        """Make the outputs of a node without work, because its outputs or its inputs have no elements."""
        names = [name for name in proto.output if name]
        types = [self._inferred.get(name, Inferred()) for name in names]
        if all(0 in (each.shape or ()) for each in types):
            for name, each in zip(names, types, strict=True):
                self.graph.add_value(name, each.shape or (), DTYPES[each.elements])
            return True
        if operator.empty or all(0 not in v.shape for p, v in given.items() if p not in operator.constants):
            return False
        arrays = {proto.input[place]: self._deciding(value) for place, value in given.items()}
        made = ReferenceEvaluator(proto, opsets={"": self._opset}).run(None, arrays)
        for name, array in zip(proto.output, made, strict=True):
            self.graph.add_constant(name, np.asarray(array))
        return True

    def _apply(self, proto: onnx.NodeProto, operator: Operator, given: Mapping[int, Value]) -> None:
        """Add a node with an operator."""
        constants = {p: self._deciding(v) for p, v in given.items() if p in operator.constants or 0 in v.shape}
        read = {place: value for place, value in given.items() if place not in constants}
        known = {place: self.graph.array_of(value) for place, value in read.items() if place in operator.known}
        constants |= {place: array for place, array in known.items() if array is not None}
        name = proto.name or next(filter(None, proto.output), "")
        key = _key(proto, given, constants)
        if key not in self._applications:
            count = max((k + 1 for k, each in enumerate(proto.output) if each), default=0)
            node = OperatorNode(name, proto.op_type, self._opset, attributes_of(proto, self._weights), constants, count)
            self._applications[key] = _applied(proto, operator, node, read, given)
        application = self._applications[key]
        outputs = []
        for output, each in zip(proto.output, application.made, strict=False):
            self._check(output, each.shape, str(each.dtype))
            if isinstance(each, te.Tensor):
                outputs.append(self.graph.add_value(output, each.shape, each.dtype))
            elif output:
                self.graph.add_constant(output, each)
        if outputs:
            inputs = tuple(read[place] for place in application.places)
            compute, shown = application.compute, application.shown
            self.graph.add_node(Node(name, proto.op_type, inputs, tuple(outputs), compute, shown))

    def _deciding(self, value: Value) -> Array:
        """Return the array of a value that decides shapes."""
        array = self.graph.array_of(value)
        if array is None:
            raise _Unknown(value)
        return array

    def _check(self, name: str, shape: Sequence[int], dtype: str) -> None:
        """Compare a type with the one inferred by the package onnx."""
        inferred = self._inferred.get(name, Inferred())
        wanted = DTYPES.get(inferred.elements, dtype), tuple(shape) if inferred.shape is None else inferred.shape
        if wanted != (dtype, tuple(shape)):
            raise GraphError(f"it would make {dtype}{list(shape)}, but ONNX says {wanted[0]}{list(wanted[1])}")


def _key(proto: onnx.NodeProto, given: Mapping[int, Value], constants: Mapping[int, Array]) -> Hashable:
    """Return a key shared by nodes that apply an operator to values of the same types, with the same constants."""
    attributes = tuple(each.SerializeToString(deterministic=True) for each in proto.attribute)
    types = tuple((place, value.shape, value.dtype) for place, value in given.items())
    values = tuple((place, _bits(array)) for place, array in constants.items())
    return proto.op_type, attributes, types, values, tuple(map(bool, proto.output))


def _applied(
    proto: onnx.NodeProto, operator: Operator, node: OperatorNode, read: Mapping[int, Value], given: Mapping[int, Value]
) -> _Application:
    """Apply an operator to the values that it reads.

    Raises:
        OperatorRefused: it cannot be computed.
    """
    tensors = {place: value.placeholder() for place, value in read.items()}
    made = _outputs(operator.meaning, node, tensors)
    if len(made) < node.outputs:
        raise node.refuse(f"its output {proto.output[len(made)]!r} is not computed", "export the model without it")
    needed = _places_read(made, tensors) if operator.known else set()
    places = tuple(place for place in read if place not in operator.known or place in needed)
    compute = partial(_tensors, operator.meaning, node, places)
    return _Application(made, compute, places, {**node.attributes, **_shown(node, given)})


def _outputs(meaning: Meaning, node: OperatorNode, tensors: Mapping[int, te.Tensor]) -> list[te.Tensor | Array]:
    """Apply an operator to the tensors in their places; outputs whose values are known are arrays."""
    made = meaning(node, *(tensors.get(place) for place in range(max(tensors, default=-1) + 1)))
    return [made] if isinstance(made, te.Tensor | np.ndarray) else list(made)[: node.outputs]


def _tensors(meaning: Meaning, node: OperatorNode, places: Sequence[int], *tensors: te.Tensor) -> list[te.Tensor]:
    """Compute the outputs of a node whose values are not known."""
    made = _outputs(meaning, node, dict(zip(places, tensors, strict=True)))
    return [each for each in made if isinstance(each, te.Tensor)]


def _places_read(made: Sequence[te.Tensor | Array], tensors: Mapping[int, te.Tensor]) -> set[int]:
    """Return the places of the tensors that the outputs depend on."""
    read = {each.op for each in placeholders([each for each in made if isinstance(each, te.Tensor)])}
    return {place for place, tensor in tensors.items() if tensor.op in read}


def _shown(node: OperatorNode, given: Mapping[int, Value]) -> dict[str, object]:
    """Return the constants that decide shapes, and None for each omitted input before others, by name."""
    names = input_names(node.kind, node.opset)
    shown: dict[str, object] = {}
    for place in range(max(given, default=-1) + 1):
        name = names[place] if place < len(names) else f"input_{place}"
        if place in node.constants:
            shown[name] = _text(node.constants[place])
        elif place not in given:
            shown[name] = None  # otherwise "Clip" with a lower bound would look like one with an upper bound
    return shown


def _text(array: Array) -> object:
    """Return a small array as numbers, and a large one as text that only equal arrays share."""
    return array.tolist() if array.size <= _SHOWN else f"{array.dtype}{list(array.shape)} {_bits(array)[:16]}"


def _bits(array: Array) -> str:
    """Return a digest that only equal arrays share, possibly of different types."""
    return hashlib.sha256(array.tobytes()).hexdigest()
