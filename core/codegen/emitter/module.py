"""The LLVM assembly text of a whole module: declarations, functions and metadata, each emitted once."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cached_property

from pegbox.codegen.emitter.function_text import FunctionText
from pegbox.codegen.targets import features
from pegbox.codegen.targets.target import Target
from pegbox.errors import CompileError
from pegbox.expr.nodes import Buffer

MOST_IN_A_ROW = 32768
"""The most instructions without a branch between them; LLVM needs up to eight seconds for that many."""
MOST_INSTRUCTIONS = 65536
"""The most instructions of a function; LLVM needs several seconds for that many."""
MOST_LOOPS = 512
"""The most loops of a function, including copies by unrolling; LLVM's time grows with the square of their number."""


class TooLong(CompileError):
    """The program is too long for LLVM.

    Attributes:
        loops: the unrolled and vectorized loops around the place where the program became too long.
    """

    loops: tuple[str, ...] = ()


class ModuleText:
    def __init__(self, name: str, target: Target, inputs: Collection[Buffer] = ()) -> None:
        self.name = name
        self.inputs = frozenset(inputs)
        self.target = target
        self.functions: list[str] = []
        self.externs: dict[str, str] = {}
        self._declarations: dict[str, None] = {}
        self._called: set[str] = set()
        self._metadata: list[str] = []
        self._definitions: dict[str, str] = {}
        self.written_out: dict[str, None] = {}

    @cached_property
    def computes_float16(self) -> bool:
        """True if the target computes in float16."""
        return features.computes_float16(self.target)

    def declare(self, text: str) -> None:
        """Add the `declare ...` of an intrinsic or an external function, once."""
        self._declarations[text] = None

    def call(self, name: str, result: str, *arguments: tuple[str, str], flags: str = "") -> str:
        """Write a call of `@function`, and declare it; each argument is a type and a value."""
        if name not in self._called:
            self._called.add(name)
            self.declare(f"declare {result} {name}({', '.join([ty for ty, _ in arguments])})")
        return f"call {flags}{result} {name}({', '.join([f'{ty} {text}' for ty, text in arguments])})"

    def extern(self, name: str, declaration: str) -> None:
        """Declare a C function; every call must use the same types."""
        known = self.externs.setdefault(name, declaration)
        if known != declaration or name in (self.name, f"{self.name}__timed"):
            other = f"also used as {known!r}" if known != declaration else "the name of the kernel itself"
            raise CompileError(f"{self.name}: the C function of {declaration!r} is {other}; rename one of them")
        self.declare(declaration)

    def define(self, name: str, text: str, declarations: frozenset[str]) -> None:
        """Add a helper function given as text, with the declarations that it needs."""
        self._definitions[name] = text
        for line in sorted(declarations):
            self.declare(line)

    def metadata(self, text: str) -> str:
        """Add a metadata node; return its number as `!7`."""
        self._metadata.append(text)
        return f"!{len(self._metadata) - 1}"

    def loop_metadata(self, *properties: str) -> str:
        """Add a distinct loop id with properties such as `!"llvm.loop.unroll.full"`; return `!7`."""
        parts = [self.metadata(f"!{{{text}}}") for text in properties]
        number = len(self._metadata)
        return self.metadata(f"distinct !{{{', '.join([f'!{number}', *parts])}}}")

    @cached_property
    def one(self) -> str:
        """The metadata node of the number one."""
        return self.metadata("!{i32 1}")

    @property
    def branches(self) -> int:
        """The number of branches in the function that has most."""
        return max(text.count("\n  br ") for text in self.functions)

    def check_length(self, text: FunctionText, loops: Sequence[str]) -> None:
        """Refuse a function that gets too long for LLVM; `loops` are the enclosing unrolled and vectorized ones.

        Raises:
            TooLong: the function is too long.
        """
        if text.in_a_row > MOST_IN_A_ROW:
            excess = f"{MOST_IN_A_ROW} instructions without a branch"
        elif text.instructions > MOST_INSTRUCTIONS:
            excess = f"{MOST_INSTRUCTIONS} instructions"
        elif text.loops > MOST_LOOPS:
            excess = f"{MOST_LOOPS} loops"
        else:
            return
        named = ", ".join(dict.fromkeys(loops)) or "none"
        error = TooLong(
            f"{self.name}: unrolling and vectorizing emits more than {excess} (inside the loops {named}), which "
            "would take LLVM too long; unroll fewer loops, or lower auto_unroll_max_step"
        )
        error.loops = tuple(loops)
        raise error

    def text(self) -> str:
        bits = self.target.vector_bits
        parts = [
            f"; pegbox kernel {self.name} for {self.target}",
            *self._definitions.values(),
            *self.functions,
            "\n".join(self._declarations),
            # Without these widths x86 back ends avoid 512-bit vectors on some processors.
            f'attributes #0 = {{ nounwind "prefer-vector-width"="{bits}" "min-legal-vector-width"="{bits}" }}',
            "\n".join(f"!{number} = {text}" for number, text in enumerate(self._metadata)),
            "",
        ]
        return "\n\n".join(part for part in parts if part) + "\n"
