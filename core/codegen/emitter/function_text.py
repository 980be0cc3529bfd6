"""The text of one LLVM function while it is being written: lines, fresh names, the current basic block.

Each loop body starts with a list of hoisted lines that stays open until the end: instructions that depend on nothing
deeper are added there later.
"""

from __future__ import annotations

import re
from typing import TypeAlias

Lines: TypeAlias = "list[str | Lines]"

_DIVISION = re.compile(r"[su](?:div|rem) <(\d+) x i(\d+)> .*, (?:%|splat \(i\d+ (-?\d+)\))")
_DIVIDES = ("div", "rem")
_PER_LANE = 12
_PER_NARROW_LANE = 4
"""The instructions for each lane of a vector division: no processor divides vectors of integers, so LLVM extracts the
lanes, and multiplies 64-bit numbers by the inverse of a constant divisor."""


class Level:
    """A loop body (or the function's entry): where instructions that depend on nothing deeper are written."""

    __slots__ = ("depth", "hoisted")

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self.hoisted: Lines = []


class FunctionText:
    """The text of a function that is being written.

    `level` is the current loop body, `block` the label of the current basic block, `inlined` the number of instructions
    that calls expand to, `divided` the number that vector divisions expand to, `loops` the number of loops so far.
    """

    __slots__ = ("_before", "_count", "allocas", "block", "divided", "entry", "inlined", "level", "lines", "loops")

    def __init__(self) -> None:
        self.lines: Lines = []
        self.allocas: list[str] = []
        self.entry = self.level = Level(0)
        self.block = "entry"
        self.inlined = self.divided = self.loops = 0
        self._count = self._before = 0

    @property
    def instructions(self) -> int:
        """The number of instructions with results so far, including those of inlined functions."""
        return self._count + self.inlined

    @property
    def in_a_row(self) -> int:
        """The number of instructions in the current basic block, including those for the lanes of divisions."""
        return self.instructions + self.divided - self._before

    def fresh(self, hint: str = "t") -> str:
        self._count += 1
        return f"%{hint}.{self._count}"

    def define(self, instruction: str) -> str:
        """Write an instruction; return its register."""
        return self.define_in(self.lines, instruction)

    def define_in(self, lines: Lines, instruction: str) -> str:
        """Write an instruction at the end of some lines; return its register."""
        self._count += 1
        if instruction[1:4] in _DIVIDES:  # most instructions do not divide, and matching is the slowest step here
            self.divided += _of_lanes(instruction)
        name = f"%t.{self._count}"
        lines.append(f"  {name} = {instruction}")
        return name

    def label(self, hint: str) -> str:
        self._count += 1
        return f"{hint}.{self._count}"

    def effect(self, text: str) -> None:
        self.lines.append("  " + text)

    def start_block(self, label: str) -> None:
        self.lines.append(f"{label}:")
        self.block = label
        self._before = self.instructions + self.divided

    def function(self, head: str) -> str:
        """Finish the function; `head` is everything before the brace."""
        lines = [head + " {", "entry:", *self.allocas]
        _flatten(self.entry.hoisted, lines)
        _flatten(self.lines, lines)
        return "\n".join([*lines, "  ret void", "}"])


def _of_lanes(instruction: str) -> int:
    """Count the instructions that LLVM needs for the lanes of a division."""
    match = _DIVISION.match(instruction)
    if match is None:
        return 0
    lanes, bits, literal = int(match[1]), int(match[2]), match[3]
    if literal is None:
        return lanes * (_PER_LANE if bits == 64 else _PER_NARROW_LANE)
    is_shift = int(literal) & (int(literal) - 1) == 0
    return 0 if is_shift or bits < 64 else lanes * _PER_LANE


def _flatten(lines: Lines, into: list[str]) -> None:
    for line in lines:
        if isinstance(line, str):
            into.append(line)
        else:
            _flatten(line, into)


def identifier(name: str) -> str:
    """Make a name that is valid in LLVM and C."""
    plain = re.sub(r"[^A-Za-z0-9_]", "_", name) or "v"
    return f"v{plain}" if plain[0].isdigit() else plain
