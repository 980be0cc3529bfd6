"""Call sequences in this process: kernels and constants in memory, and the code that calls them."""

from __future__ import annotations

from dataclasses import replace

from pegbox.codegen.call_sequence import CallSequence
from pegbox.codegen.compiled import ALIGNMENT, CompiledProgram
from pegbox.codegen.program import Program
from pegbox.codegen.runtime.checked_call import address_of_data, aligned_copy
from pegbox.codegen.runtime.kernel import Kernel
from pegbox.codegen.runtime.loader import LoadedCode


class LinkedKernels:
    """The kernels and constants of a sequence at addresses of this process.

    Attributes:
        sequence: the sequence, with its constants at a multiple of `ALIGNMENT`.

    Raises:
        TargetError, CompileError: see `load`.
    """

    def __init__(self, sequence: CallSequence) -> None:
        if address_of_data(sequence.constants) % ALIGNMENT:
            sequence = replace(sequence, constants=aligned_copy(sequence.constants))
        self.sequence = sequence
        self._codes = [LoadedCode(kernel) for kernel in sequence.kernels]
        self._addresses = {sequence.symbol(number): code.entry for number, code in enumerate(self._codes)}
        self._addresses[sequence.constants_symbol] = address_of_data(sequence.constants)

    def kernel(self, compiled: CompiledProgram, *, program: Program | None = None) -> Kernel:
        """Link a program of the sequence with the kernels and constants."""
        return Kernel(compiled, program, LoadedCode(compiled, imports=self._addresses, owner=self))
