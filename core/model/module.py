"""`Module`: a compiled model, a function of arrays."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pegbox.checks import check_list, check_path
from pegbox.codegen.call_sequence import CallSequence
from pegbox.codegen.compiled import ArgSpec, CompiledProgram
from pegbox.codegen.emitter.call_text import emit_sequence
from pegbox.codegen.emitter.calls import LIBRARY_SYMBOLS
from pegbox.codegen.emitter.function_text import identifier
from pegbox.codegen.runtime.checked_call import array_maker
from pegbox.codegen.runtime.export import RESERVED
from pegbox.codegen.runtime.kernel import Kernel
from pegbox.codegen.runtime.linked_kernels import LinkedKernels
from pegbox.codegen.runtime.python_call import with_python_call
from pegbox.codegen.targets.features import check_processor
from pegbox.codegen.targets.host import cpu_flags
from pegbox.codegen.targets.target import target_of
from pegbox.errors import ArgumentError, UnknownArgument
from pegbox.expr import dtypes
from pegbox.graph.graph import Array, Graph
from pegbox.graph.kind import computed_nodes
from pegbox.model.memory import Arena
from pegbox.model.node_work import NodeWork, works_of
from pegbox.model.selection import Selection
from pegbox.model.sequence import sequence_of
from pegbox.own_call import OwnCall

if TYPE_CHECKING:
    from pegbox.model.profile import Profile


class CompiledModule(NamedTuple):
    """A module as plain values, for pickling.

    Attributes:
        sequence: the kernels, their order, and the constants.
        main: the machine code that calls them.
        works: the work of each kernel call, in order.
        arena: the plan of the memory between kernels.
    """

    sequence: CallSequence
    main: CompiledProgram
    works: tuple[NodeWork, ...]
    arena: Arena


class Module(OwnCall):
    """A compiled model: `y, = module(x)`. The call is machine code, with the GIL released.

    Several threads may call it at once: each call has its own arena, which later calls reuse.

    Attributes:
        compiled: its parts as plain values.
        make_outputs: a function that makes arrays for the outputs of a call.
    """

    if TYPE_CHECKING:

        def __call__(self, /, *arrays: Array, out: Any = None, **named: Array) -> Any:
            """Compute the outputs from the inputs.

            Args:
                arrays: the inputs in the order of the graph; or by their names.
                out: the arrays to write to: a tuple, or an array if the model has one output.

            Returns:
                A tuple of the outputs, even of a single one; `out` if it is given.

            Raises:
                ArgumentError: the arrays are not the model's inputs and outputs.
            """

    def __init__(self, graph: Graph, selections: Sequence[Selection]) -> None:
        """Link the kernels of all nodes except views."""
        target = selections[0].program.target if selections else target_of(None)
        sequence, arena = sequence_of(graph, selections, target, _function_name(graph.name))
        main = _compiled(sequence)
        chosen = {selection.node_task.node: selection for selection in selections}
        works = works_of([chosen[node] for node in computed_nodes(graph)])
        self._load(CompiledModule(sequence, main, works, arena))

    def _load(self, compiled: CompiledModule) -> None:
        self._linked = LinkedKernels(compiled.sequence)
        self.compiled = compiled._replace(sequence=self._linked.sequence)
        self._kernel = self._linked.kernel(compiled.main)
        makers = [array_maker(spec.shape, dtypes.numpy_dtype(spec.dtype)) for spec in self.outputs]

        def make_outputs() -> tuple[Array, ...]:
            return tuple([make() for make in makers])

        self.make_outputs = make_outputs
        otherwise = _NamedCall(self._kernel, self.make_outputs)
        self.call_by(self._kernel.function(otherwise, make_outputs=self.make_outputs))

    @property
    def name(self) -> str:
        """The model's name, as an identifier."""
        return self.compiled.sequence.name

    @property
    def inputs(self) -> tuple[ArgSpec, ...]:
        """The arrays that a call takes."""
        return tuple(spec for spec in self.compiled.sequence.args if not spec.is_output)

    @property
    def outputs(self) -> tuple[ArgSpec, ...]:
        """The arrays that a call returns."""
        return tuple(spec for spec in self.compiled.sequence.args if spec.is_output)

    def time_ns(self, arrays: Sequence[Array], number: int = 1) -> int:
        """Return the total nanoseconds of `number` calls on these inputs; machine code reads the clock.

        Raises:
            ArgumentError: the arrays are wrong, or number < 1.
        """
        given = check_list("arrays", arrays, "the inputs of the model")
        return self._kernel.time_ns([*given, *self.make_outputs()], number)

    def profile(self, /, *arrays: Array, calls: int = 20, **named: Array) -> Profile:
        """Time the kernels of several calls, and calls of the whole; print the profile, or read its `rows`.

        Args:
            arrays: the inputs, as for a call.
            calls: the number of calls; a kernel's time is the median.

        Raises:
            ArgumentError: the arrays are wrong, or calls < 1.
        """
        from pegbox.model.profile import profile  # slow to import, as it measures the machine

        given = inputs_of(self.name, self.inputs, arrays, named)
        return profile(self, given, calls=calls)

    def kernel_times(self, arrays: Sequence[Array]) -> NDArray[np.int64]:
        """Return the nanoseconds of each kernel in a call on these inputs, followed by those of copies of outputs.

        Raises:
            ArgumentError: the arrays are wrong.
        """
        times = np.empty(self._clocked.args[-1].shape, np.int64)
        self._clocked(*arrays, *self.make_outputs(), times)
        stamps: NDArray[np.int64] = times @ np.array([1_000_000_000, 1])
        return np.diff(stamps)

    @cached_property
    def _clocked(self) -> Kernel:
        from pegbox.codegen.runtime.machine import compile_program

        return self._linked.kernel(compile_program(emit_sequence(self.compiled.sequence, clocked=True)))

    def export(self, path: str | os.PathLike[str], *, header: bool = True) -> None:
        """Write a shared library with the function, its kernels and its constants, and a C header next to it.

        `pegbox.codegen.load_library` loads the library, and C programs call it as declared in the header.

        Raises:
            ArgumentError: the suffix is not .so, a file cannot be written, or would replace one of another kind.
            CompileError: there is no linker, or it failed; a kernel calls a Python function.
        """
        from pegbox.codegen.runtime.export import c_header, check_export, write_sequence_library
        from pegbox.output import write_file

        sequence = self.compiled.sequence
        out = check_path("path", path)
        if out.suffix != ".so":
            raise ArgumentError(f"export to {str(out)!r}: the name must end in .so (shared library)")
        beside = check_export(out, header=header)
        write_sequence_library(sequence, out)
        if beside is not None:
            write_file(beside, c_header(emit_sequence(sequence)))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the machine code and the constants.

        Raises:
            ArgumentError: a kernel calls functions of this process.
        """
        if self._kernel.calls_python:
            raise ArgumentError(
                f"the module {self.name} cannot be pickled: its kernels call Python functions, which are in this "
                "process alone"
            )
        return _unpickled, (self.compiled, cpu_flags())

    def __repr__(self) -> str:
        inputs, outputs = (", ".join(map(str, specs)) for specs in (self.inputs, self.outputs))
        return f"Module({self.name}({inputs}) -> {outputs} for {self.compiled.sequence.target})"

    def __str__(self) -> str:
        sequence = self.compiled.sequence
        return (
            f"{self!r}\n{len(self.compiled.works)} calls of {len(sequence.kernels)} kernels, "
            f"{sequence.constants.nbytes:,} bytes of constants, {self.compiled.arena}"
        )


class _NamedCall:
    """The calls that machine code passes to Python: with names, arrays in a list, or arrays that it refuses."""

    def __init__(self, kernel: Kernel, make_outputs: Callable[[], tuple[Array, ...]]) -> None:
        self._kernel, self._make_outputs = kernel, make_outputs
        self._inputs = tuple(spec for spec in kernel.args if not spec.is_output)

    def __call__(self, /, *arrays: Any, out: Any = None, **named: Any) -> Any:
        given = inputs_of(self._kernel.name, self._inputs, arrays, named)
        outputs = self._make_outputs() if out is None else out
        self._kernel(*given, *(outputs if isinstance(outputs, tuple | list) else [outputs]))
        return outputs


def inputs_of(name: str, specs: Sequence[ArgSpec], arrays: Sequence[Any], named: Mapping[str, Any]) -> list[Any]:
    """List the inputs of a call: the first ones by position, the others by name.

    Raises:
        ArgumentError: there are too many, a name is unknown, or an input is missing.
    """
    takes = f"{name}() takes {', '.join(map(str, specs)) or 'no inputs'}"
    if len(arrays) > len(specs):
        raise ArgumentError(f"{takes}; got {len(arrays)} arrays; outputs are given by the name out=")
    rest = {spec.name: None for spec in specs[len(arrays) :]}
    if unknown := [key for key in named if key not in rest]:
        again = any(spec.name == unknown[0] for spec in specs)
        raise UnknownArgument(f"{takes}; {unknown[0]!r} is {'given twice' if again else 'none of them'}")
    if missing := [key for key in rest if key not in named]:
        raise ArgumentError(f"{takes}; {', '.join(missing)} is missing")
    return [*arrays, *(named[key] for key in rest)]


_OF_C = {"main", "clock_gettime", "memcpy", "memmove", "memset", *LIBRARY_SYMBOLS}
"""Names of C functions that are taken, or that machine code calls."""


def _function_name(model: str) -> str:
    """Make a C name for a model's function."""
    name = identifier(model)
    return f"{name}_model" if name in _OF_C or name in RESERVED.split() else name


def _compiled(sequence: CallSequence) -> CompiledProgram:
    from pegbox.codegen.runtime.machine import compile_program  # an unpickled module does not need LLVM

    return compile_program(with_python_call(emit_sequence(sequence)))


def _unpickled(compiled: CompiledModule, flags: tuple[str, ...]) -> Module:
    """Load a module that another process pickled.

    Raises:
        TargetError: the processor lacks instructions of its target.
    """
    check_processor(compiled.main.target, f"the pickled module {compiled.main.name}", built_on=flags)
    module = Module.__new__(Module)
    module._load(compiled)
    return module
