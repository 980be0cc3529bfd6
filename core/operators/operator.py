"""`Operator`: a template or a workload as a function of arrays."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pegbox.checks import check_flag
from pegbox.codegen.program import ArgSpec
from pegbox.codegen.runtime.kernel import Kernel, build
from pegbox.codegen.targets.target import Target, target_of
from pegbox.compute.tensor import PlaceholderOp, Tensor
from pegbox.errors import ArgumentError, CompileError, PegboxError
from pegbox.hooks import registry
from pegbox.operators.choice import Choice, choices
from pegbox.operators.sizes import Shapes, SizeSolver, open_sizes
from pegbox.records.history import current_history
from pegbox.shown import value_text
from pegbox.task.config_view import TemplateConfig
from pegbox.task.function import NamedFunction
from pegbox.task.task import Task, create_task
from pegbox.task.template import Template, takes_config
from pegbox.task.workload import Workload, generated_template, template_of

_DTYPE = "dtype"
"""The argument of templates and workloads that is the type of their inputs."""

_Key = tuple[tuple[tuple[int, ...], str], ...]


@dataclass(frozen=True)
class Implementation:
    """A kernel for arrays of some shapes, with the task and the configuration that it was made of."""

    task: Task
    choice: Choice
    kernel: Kernel

    @property
    def outputs(self) -> tuple[ArgSpec, ...]:
        return tuple(spec for spec in self.kernel.args if spec.is_output)


class Operator:
    """`op(a, b)` computes with the best kernel that is known for arrays of these shapes, or the best predicted one.

    Attributes:
        function: the template or the workload.
        given: its arguments that do not come from arrays.
        target: the processor that kernels are compiled for.
    """

    def __init__(self, function: NamedFunction, given: Mapping[str, Any], target: Target, *, strict: bool) -> None:
        self.function, self.given, self.target, self._strict = function, dict(given), target, strict
        unknown = [name for name in given if name not in function.signature.parameters]
        if unknown:
            raise ArgumentError(
                f"operator({function.name!r}): it has no argument {unknown[0]!r}; it has "
                f"{', '.join(function.signature.parameters)}"
            )
        self._solver = SizeSolver(function.name, open_sizes(function.signature, self._fixed("float32")), self._shapes)
        self._known: dict[_Key, Implementation] = {}

    def __call__(self, *arrays: Any, out: Any = None) -> Any:
        """Compute from the inputs, in the order of the template's placeholders.

        Args:
            out: an array for the result, or a tuple of them where there are several; without it they are allocated.

        Raises:
            ArgumentError: the arrays fit no sizes, or are not arrays; see `Kernel.__call__` for `out`.
        """
        if out is None:
            return self._allocated(arrays)
        inputs = [self._array(number, each) for number, each in enumerate(arrays)]
        self.implementation(*inputs).kernel(*inputs, *(out if isinstance(out, tuple) else (out,)))
        return out

    def __repr__(self) -> str:
        given = "".join(f", {name}={value!r}" for name, value in self.given.items())
        return f"operator({self.function.name!r}{given})"

    def implementation(self, *arrays: Any) -> Implementation:
        """The kernel for arrays like these, compiled where it is new.

        Raises:
            ArgumentError: the arrays fit no sizes.
            CompileError: no configuration can be compiled.
        """
        key = _key_of(arrays)
        if (found := self._known.get(key)) is None:
            found = self._known[key] = self._implemented(key)
        return found

    def _allocated(self, arrays: Sequence[Any]) -> Any:
        inputs = [self._array(number, each) for number, each in enumerate(arrays)]
        found = self.implementation(*inputs)
        outputs = [np.empty(spec.shape, spec.dtype) for spec in found.outputs]
        found.kernel(*inputs, *outputs)
        results = tuple(_like(arrays[0], output) for output in outputs)
        return results[0] if len(results) == 1 else results

    def _array(self, number: int, value: Any) -> np.ndarray[Any, Any]:
        """The argument as a C-contiguous NumPy array, without a copy where that is possible."""
        if not isinstance(value, np.ndarray):
            value = _from_other(self.function.name, number, value)
        if isinstance(value, np.ma.MaskedArray):
            raise ArgumentError(
                f"{self.function.name}: argument {number} is a masked array; fill it first: a.filled(0)"
            )
        if value.flags.c_contiguous and value.flags.aligned:
            return value
        if self._strict:
            raise ArgumentError(
                f"{self.function.name}: argument {number} is not C-contiguous (strides {value.strides}) and would be "
                "copied at each call; pass np.ascontiguousarray(...), or make the operator without strict=True"
            )
        return np.ascontiguousarray(value)

    def _fixed(self, dtype: str) -> dict[str, Any]:
        """The arguments that shapes do not give."""
        takes = _DTYPE in self.function.signature.parameters
        return {**({_DTYPE: dtype} if takes else {}), **self.given}

    def _tensors(self, arguments: Mapping[str, Any]) -> Sequence[Tensor]:
        workload = getattr(self.function.function, "workload", self.function)
        if isinstance(workload, Template):
            return workload(TemplateConfig(self.target), **arguments)[1]  # type: ignore[no-any-return]
        return workload.tensors(**arguments)

    def _shapes(self, sizes: Mapping[str, int]) -> Shapes:
        tensors = self._tensors({**self._fixed("float32"), **sizes})
        return tuple(t.shape for t in tensors if isinstance(t.op, PlaceholderOp))

    def _implemented(self, key: _Key) -> Implementation:
        shapes = tuple(shape for shape, _ in key)
        if not key:
            raise ArgumentError(f"{self.function.name}(): give its input arrays")
        sizes = self._solver.solve(shapes)
        task = create_task(self.function, kwargs={**self._fixed(key[0][1]), **sizes}, target=self.target)
        inputs = [spec for spec in task.arguments() if not spec.is_output]
        if [(spec.shape, spec.dtype) for spec in inputs] != list(key):
            wanted, got = (
                ", ".join(f"{dtype}{list(shape)}" for shape, dtype in pairs)
                for pairs in ([(spec.shape, spec.dtype) for spec in inputs], key)
            )
            raise ArgumentError(f"{self.function.name}: arrays {got}; for {sizes} it takes {wanted}")
        refusal: PegboxError | None = None
        for choice in choices(task, current_history()):
            try:
                return Implementation(task, choice, build(choice.program))
            except CompileError as error:
                refusal = error
        raise CompileError(f"{self!r}: no configuration of {task!r} can be compiled") from refusal


def operator(
    name: object, *, target: str | Target | None = None, space: object = "sketch", strict: bool = False, **given: Any
) -> Operator:
    """Make a function of arrays from a template or a workload.

    Args:
        name: the name of a template or workload, "file.py:name", or the function itself. A name that both have is the
            template's.
        target: where kernels run; by default that of the `with pegbox.Target(...):` block around, or this machine.
        space: the space generator for a workload.
        strict: refuse arrays that would have to be copied at each call.
        given: the arguments that the shapes of arrays do not determine.

    Raises:
        UnknownName, PluginError, TemplateError: there is no such template or workload.
        ArgumentError: it has no argument of a given name.
    """
    return Operator(_function(name, space), given, target_of(target), strict=check_flag("strict", strict))


def _function(name: object, space: object) -> Template:
    if isinstance(name, str) and "@" not in name:
        found = registry.resolve("template" if name in registry.names("template") else "workload", name)
    else:
        found = name
    function = getattr(found, "function", found)
    is_workload = isinstance(found, Workload) or (callable(function) and not takes_config(function))
    if isinstance(found, str | Template) or not is_workload:
        return template_of(found)
    return generated_template(found, space)


def _key_of(arrays: Sequence[Any]) -> _Key:
    return tuple((array.shape, array.dtype.name) for array in arrays)


def _from_other(name: str, number: int, value: Any) -> np.ndarray[Any, Any]:
    """An array of another library, in the memory that it has."""
    if hasattr(value, "__dlpack__"):
        try:
            return np.from_dlpack(value)
        except (BufferError, RuntimeError, TypeError) as error:
            raise ArgumentError(f"{name}: argument {number}, a {type(value).__name__}: {error}") from error
    if hasattr(value, "__array_interface__"):
        return np.asarray(value)
    raise ArgumentError(f"{name}: argument {number} is {value_text(value)}; give an array of NumPy, or one with DLPack")


def _like(first: Any, output: np.ndarray[Any, Any]) -> Any:
    """The output as an array of the first input's library."""
    if isinstance(first, np.ndarray):
        return output
    library = sys.modules.get(type(first).__module__.partition(".")[0])
    convert = getattr(library, "from_dlpack", None) or getattr(getattr(library, "numpy", None), "from_dlpack", None)
    return output if convert is None else convert(output)
