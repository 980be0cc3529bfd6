"""A function body while its LLVM assembly text is written.

Text goes to `out` line by line. Instructions whose operands are known at an outer loop are written there instead:
each loop body starts with a list of hoisted lines that stays open until the end. An instruction written twice
with the same operands is written once (the text is the key), so the emitter may ask for what it needs without
remembering whether it has it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from pegbox.codegen.emitter.linear import Linear
from pegbox.codegen.emitter.value_cache import ValueCache
from pegbox.errors import CompileError
from pegbox.expr.nodes import Buffer, Expr, Var

if TYPE_CHECKING:
    from pegbox.codegen.emitter.lanes import Chunk
    from pegbox.codegen.emitter.module import ModuleText

Lines: TypeAlias = "list[str | Lines]"


class Value(NamedTuple):
    """A value in a register (or a literal); lanes = 0 is a scalar."""

    text: str
    dtype: str
    lanes: int


class Level:
    """A loop body (or the function's entry): where instructions that depend on nothing deeper are written."""

    __slots__ = ("depth", "hoisted")

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self.hoisted: Lines = []


class Frame:
    """State of one function body.

    env: what a loop variable stands for: a Python int (unrolled) or a register name.
    home: the level that defines a register; registers without one may be used only where they were made.
    ranges: smallest and largest value of an index register.
    available: per buffer, what is known to be at its addresses.
    """

    def __init__(
        self, module: ModuleText, evaluate: Callable[[Frame, Expr, Chunk], Value], *, in_parallel: bool
    ) -> None:
        self.module = module
        self.evaluate = evaluate  # index expressions may contain values; the room of values imports the indices
        self.in_parallel = in_parallel
        self.out: Lines = []
        self.allocas: list[str] = []
        self.entry = Level(0)
        self.level = self.entry
        self.block = "entry"
        self.env: dict[Var, int | str] = {}
        self.depths: dict[Var, int] = {}
        self.home: dict[str, Level] = {}
        self.ranges: dict[str, tuple[int, int]] = {}
        self.buffers: dict[Buffer, str] = {}
        self.private: set[Buffer] = set()
        self.values: dict[str, str] = {}
        self.hoisted: dict[str, str] = {}
        self.pointers: dict[Any, str] = {}
        self.available: dict[Buffer, ValueCache] = {}
        self.linears: dict[int, tuple[object, Linear]] = {}
        self.are_indices: dict[int, tuple[Expr, bool]] = {}
        self.divisions: dict[Any, tuple[Any, Any]] = {}
        self.unrolling: list[str] = []
        self._count = 0

    def fresh(self, hint: str = "t") -> str:
        self._count += 1
        return f"%{hint}.{self._count}"

    def label(self, hint: str) -> str:
        self._count += 1
        return f"{hint}.{self._count}"

    def op(self, text: str) -> str:
        """Write an instruction here unless the same one was written before; returns its register."""
        name = self.values.get(text)
        if name is None:
            self._count += 1
            name = f"%t.{self._count}"
            self.out.append(f"  {name} = {text}")
            self.values[text] = name
        return name

    def effect(self, text: str) -> None:
        self.out.append("  " + text)

    def at(self, level: Level | None, text: str) -> str:
        """Write a pure instruction at the start of a level; None means here."""
        if level is None:
            return self.op(text)
        name = self.hoisted.get(text)
        if name is None:
            name = self.fresh()
            level.hoisted.append(f"  {name} = {text}")
            self.hoisted[text] = name
            self.home[name] = level
        return name

    def deeper(self, a: str, b: str) -> Level | None:
        """The level where both registers are known; None when one of them is only known here."""
        first, second = self.home.get(a), self.home.get(b)
        if first is None or second is None:
            return None
        return first if first.depth > second.depth else second

    def depth_of(self, var: Var) -> int:
        return self.depths.get(var, 1 << 30)

    def start_block(self, label: str) -> None:
        self.out.append(f"{label}:")
        self.block = label

    def bind(self, var: Var, register: str, level: Level, extent: int) -> None:
        """`var` is a register with values in [0, extent), defined at the start of `level`."""
        self.env[var] = register
        self.depths[var] = level.depth
        self.home[register] = level
        self.ranges[register] = (0, extent - 1)

    def scope(self, action: Callable[[], None], *, keep_memory: bool = False) -> None:
        """Run `action`, whose instructions dominate nothing after it (a loop body, a branch).

        `keep_memory`: the action stores nothing, so what was known of memory stays known after it.
        """
        values, available = self.values, self.available
        self.values, self.available = {}, {}
        action()
        self.values = values
        self.available = available if keep_memory else {}

    def text(self, head: str) -> str:
        """The finished function; `head` is everything before the brace."""
        lines: Lines = [head + " {", "entry:"]
        lines += self.allocas
        lines.append(self.entry.hoisted)
        lines.append(self.out)
        lines += ["  ret void", "}"]
        return "\n".join(_flatten(lines))


def _flatten(lines: Lines) -> Iterator[str]:
    for line in lines:
        if isinstance(line, str):
            yield line
        else:
            yield from _flatten(line)


def identifier(name: str) -> str:
    """A name as LLVM and C take it."""
    plain = re.sub(r"[^A-Za-z0-9_]", "_", name) or "v"
    return f"v{plain}" if plain[0].isdigit() else plain


def unbound_error(var: Var) -> CompileError:
    return CompileError(
        f"loop variable {var.name} is used outside its loop: the program was not lowered, or a pass broke it"
    )
