"""pegbox as a backend for the ONNX project's own tests: `prepare`, `run_model`, `run_node`, `supports_device`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx.backend.base import Backend, BackendRep

from pegbox.checks import check_list
from pegbox.errors import ArgumentError, GraphError
from pegbox.graph import Graph
from pegbox.model import Model, compile_model
from pegbox.plugins.onnx.input_shapes import OpenShapes
from pegbox.plugins.onnx.reader import read_model
from pegbox.plugins.onnx.refusal import DataDependent

Array = NDArray[Any]
Program = Callable[..., Sequence[Array]]


def compiled(graph: Graph) -> Program:
    """Compile a graph with predicted configurations."""
    return compile_model(Model(graph), store=None)


class PreparedModel(BackendRep):
    """A prepared model; it is compiled once for each set of shapes, and of values that decide shapes.

    Args:
        build: a function that turns a graph into a function of arrays.
    """

    def __init__(self, model: onnx.ModelProto, build: Callable[[Graph], Program] = compiled) -> None:
        self._model = model
        self._build = build
        given = {tensor.name for tensor in model.graph.initializer}
        self._inputs = [each.name for each in model.graph.input if each.name not in given]
        self._deciding: set[str] = set()
        self._programs: dict[object, tuple[Graph, Program]] = {}
        with contextlib.suppress(DataDependent, OpenShapes):  # a call's arrays may decide shapes
            self._keep((), read_model(model))

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Compute the outputs from the inputs: arrays in order, or by name.

        Raises:
            GraphError: the model cannot be read with these inputs; nothing was compiled.
            ArgumentError: an input is missing, or is not an array.
        """
        arrays = self._arrays(inputs)
        graph, program = self._program(arrays)
        known = [arrays[value.name] for value in graph.inputs]
        return tuple(program(*known))

    def _arrays(self, inputs: Any) -> dict[str, Array]:
        if not isinstance(inputs, Mapping):
            given = check_list("inputs", inputs, "arrays in the order of the model's inputs")
            if len(given) != len(self._inputs):
                raise ArgumentError(
                    f"the model has {len(self._inputs)} inputs, {', '.join(self._inputs)}; got {len(given)}"
                )
            inputs = dict(zip(self._inputs, given, strict=True))
        if missing := [name for name in self._inputs if name not in inputs]:
            raise ArgumentError(f"no array for the inputs {', '.join(missing)} of the model; give one for each")
        return {name: np.ascontiguousarray(inputs[name]).reshape(np.shape(inputs[name])) for name in self._inputs}

    def _program(self, arrays: Mapping[str, Array]) -> tuple[Graph, Program]:
        if () in self._programs:
            return self._programs[()]
        shapes = {name: array.shape for name, array in arrays.items()}
        while True:
            values = {name: arrays[name] for name in sorted(self._deciding)}
            key = (*sorted(shapes.items()), *((name, array.tobytes()) for name, array in values.items()))
            if key in self._programs:
                return self._programs[key]
            try:
                return self._keep(key, read_model(self._model, shapes=shapes, values=values))
            except DataDependent as error:
                if self._deciding.issuperset(error.inputs):
                    raise
                self._deciding.update(error.inputs)

    def _keep(self, key: object, graph: Graph) -> tuple[Graph, Program]:
        self._programs[key] = graph, self._build(graph)
        return self._programs[key]


class PegboxBackend(Backend):
    """The backend for `onnx.backend.test.BackendTest`."""

    build = staticmethod(compiled)

    @classmethod
    def is_compatible(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> bool:
        """Decide if a model can be read."""
        try:
            read_model(model)
        except (DataDependent, OpenShapes):
            return True
        except GraphError:
            return False
        return True

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> PreparedModel:
        """Read a model, and compile it unless the arrays of a call decide shapes.

        Raises:
            GraphError: the model cannot be read; nothing was compiled.
        """
        cls._check_device(device)
        return PreparedModel(model, cls.build)

    @classmethod
    def run_node(
        cls, node: onnx.NodeProto, inputs: Any, device: str = "CPU", outputs_info: Any = None, **kwargs: Any
    ) -> tuple[Any, ...]:
        """Run a node. `opset_version=` is the version of its operator, by default the latest."""
        names = [name for name in node.input if name]
        arrays = dict(inputs) if isinstance(inputs, Mapping) else dict(zip(names, map(np.asarray, inputs), strict=True))
        given = [
            onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
            for name, array in arrays.items()
        ]
        made = [onnx.ValueInfoProto(name=name) for name in node.output if name]
        graph = onnx.helper.make_graph([node], "node", given, made)
        opset = onnx.helper.make_opsetid("", int(kwargs.get("opset_version", onnx.defs.onnx_opset_version())))
        typed = onnx.shape_inference.infer_shapes(onnx.helper.make_model(graph, opset_imports=[opset]))
        return cls.prepare(typed, device).run(arrays)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Decide if models run on a device."""
        return device.partition(":")[0] == "CPU"

    @classmethod
    def _check_device(cls, device: str) -> None:
        if not cls.supports_device(device):
            raise GraphError(f"device={device!r}: models run on 'CPU' alone")


is_compatible = PegboxBackend.is_compatible
prepare = PegboxBackend.prepare
run_model = PegboxBackend.run_model
run_node = PegboxBackend.run_node
supports_device = PegboxBackend.supports_device
