"""The LLVM text of a function that calls kernels one after the other."""

from __future__ import annotations

from collections.abc import Iterator

from pegbox.codegen.call_sequence import CONSTANTS, WORKSPACE, AreaOffset, Call, CallSequence, Copy, Step
from pegbox.codegen.compiled import ALIGNMENT, ArgSpec
from pegbox.codegen.emitter.module import ModuleText
from pegbox.codegen.emitter.timing_loop import CLOCK, MONOTONIC, timing_loop
from pegbox.codegen.program import Program

CLOCK_BYTES = 16
"""The bytes of a time read from the clock: seconds and nanoseconds of 64 bits each."""


def emit_sequence(sequence: CallSequence, *, clocked: bool = False) -> Program:
    """Emit the program of a sequence, whose kernels and constants are external symbols.

    Args:
        clocked: add an output for the time before each step and after the last one, int64[steps + 1, 2].
    """
    module = ModuleText(sequence.name, sequence.target)
    args = sequence.args
    if clocked:
        args = (*args, ArgSpec("clock", (len(sequence.steps) + 1, 2), "int64", is_output=True))
        module.declare(CLOCK)
    params = ", ".join([*(f"ptr %a{number}" for number in range(len(args))), f"ptr %{WORKSPACE}"])
    text = _Text(sequence, module)
    for number, step in enumerate(sequence.steps):
        if clocked:
            text.read_clock(number)
        text.write(step)
    if clocked:
        text.read_clock(len(sequence.steps))
    module.functions += [
        *text.globals(),
        "\n".join([f"define void @{module.name}({params}) noinline #0 {{", *text.lines, "  ret void", "}"]),
    ]
    module.functions.append(timing_loop(module, params))
    return Program(
        sequence.name,
        args,
        module.text(),
        sequence.workspace_bytes,
        sequence.num_threads,
        sequence.target,
        sequence.externs,
        sequence.foreign,
        scalar_loops=False,
    )


class _Text:
    """The lines of the function."""

    def __init__(self, sequence: CallSequence, module: ModuleText) -> None:
        self.lines: list[str] = []
        self._sequence, self._module = sequence, module
        self._constants = False

    def write(self, step: Step) -> None:
        match step:
            case Call(kernel, arguments, workspace):
                places = [*map(self._pointer, arguments), "null" if workspace is None else self._pointer(workspace)]
                symbol = self._sequence.symbol(kernel)
                self._add(self._module.call(f"@{symbol}", "void", *(("ptr", each) for each in places)))
            case Copy(target, source, nbytes):
                places = [self._pointer(target), self._pointer(source)]
                size = ("i64", str(nbytes)), ("i1", "false")
                self._add(
                    self._module.call("@llvm.memcpy.p0.p0.i64", "void", *(("ptr", each) for each in places), *size)
                )

    def read_clock(self, number: int) -> None:
        place = self._pointer(AreaOffset(f"a{len(self._sequence.args)}", number * CLOCK_BYTES))
        self._add(f"call i32 @clock_gettime(i32 {MONOTONIC}, ptr {place})")

    def globals(self) -> Iterator[str]:
        """Yield the declaration of the constants, if there are any."""
        if self._constants:
            size = self._sequence.constants.nbytes
            yield f"@{self._sequence.constants_symbol} = external constant [{size} x i8], align {ALIGNMENT}"

    def _pointer(self, place: AreaOffset) -> str:
        base = f"%{place.area}"
        if place.area == CONSTANTS:
            self._constants, base = True, f"@{self._sequence.constants_symbol}"
        if not place.offset:
            return base
        name = f"%p{len(self.lines)}"
        self._add(f"{name} = getelementptr inbounds i8, ptr {base}, i64 {place.offset}")
        return name

    def _add(self, line: str) -> None:
        self.lines.append(f"  {line}")
