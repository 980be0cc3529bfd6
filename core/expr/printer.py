"""Printer of expressions, with as few parentheses as possible; a style decides the spelling of the rest."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, TypeAlias

from pegbox.expr.intrinsics import ARITY
from pegbox.expr.low_level import EXTERN, Address, Broadcast, Reinterpret, Stride, VectorLoad
from pegbox.expr.nodes import Binary, Buffer, Call, Cast, Compare, Const, Expr, Load, Logic, Not, Select, Var

# The sign, its binding strength, and the binding strengths that its left and right operands need.
_INFIX: dict[str, tuple[str, int, int, int]] = {
    "or": ("or", 1, 1, 2), "and": ("and", 2, 2, 3),
    "lt": ("<", 4, 5, 5), "le": ("<=", 4, 5, 5), "gt": (">", 4, 5, 5), "ge": (">=", 4, 5, 5), "eq": ("==", 4, 5, 5),
    "ne": ("!=", 4, 5, 5), "add": ("+", 5, 5, 6), "sub": ("-", 5, 5, 6),
    "mul": ("*", 6, 6, 7), "div": ("/", 6, 6, 7), "floordiv": ("//", 6, 6, 7), "floormod": ("%", 6, 6, 7),
}  # fmt: skip
_NOT = 3


def unused_name(name: str, taken: Container[str]) -> str:
    """Return the name, with a number if it is taken: `k`, `k_1`, `k_2`."""
    unused, count = name, 0
    while unused in taken:
        count += 1
        unused = f"{name}_{count}"
    return unused


def quoted(text: str) -> str:
    """Write a string as Python code, in double quotes if that needs no escapes."""
    plain = text.isprintable() and '"' not in text and "\\" not in text
    return f'"{text}"' if plain else repr(text)


def _literal(expr: Const) -> str:
    return repr(expr.value) if expr.dtype in ("int64", "float32", "bool") else f"{expr.dtype}({expr.value!r})"


@dataclass(frozen=True)
class Style:
    """The spelling of everything but operators; by default plain text for people.

    Attributes:
        end: a function of the lowest index and the number of elements for the upper end of a slice.
        prefix: the prefix of every function's name.
        words: the functions whose names differ from the operations'.
        cast: the function of a dtype and a value; without one, the dtype is the function.
        call: the function that calls functions other than arithmetic and machine code by name; else their names are
            used.
        stride: the function of a buffer and a dimension.
        no_index: the text between the brackets of a buffer without dimensions.
    """

    literal: Callable[[Const], str] = _literal
    quote: Callable[[str], str] = repr
    end: Callable[[Expr, int], Expr] = lambda lowest, count: lowest + count
    prefix: str = ""
    words: Mapping[str, str] = field(default_factory=dict)
    select: str = "select"
    broadcast: str = "broadcast"
    cast: str = ""
    call: str = ""
    call_llvm: str = "call_llvm"
    stride: str = "stride({}, {})"
    no_index: str = ""


PLAIN = Style()

Pair: TypeAlias = Binary | Compare | Logic | Select
"""An expression of two values of one type."""


class Printer:
    """A printer of expressions in a style, with names from `name`."""

    __slots__ = ("name", "style")

    def __init__(self, style: Style, name: Callable[[Var | Buffer], str]) -> None:
        self.style = style
        self.name = name

    def expr(self, expr: Expr, outer: int = 0) -> str:
        """Print an expression; `outer` is the binding strength of the operator around it."""
        match expr:
            case Const():
                return self.style.literal(expr)
            case Var():
                return self.name(expr)
            case Binary(op, a, b) | Compare(op, a, b) | Logic(op, a, b) if op in _INFIX:
                sign, level, left, right = _INFIX[op]
                text = f"{self.operand(expr, a, left)} {sign} {self.operand(expr, b, right)}"
                return f"({text})" if level < outer else text
            case Load(buffer, indices) if not isinstance(expr, Address):
                return self.box(buffer, indices, expr.box if isinstance(expr, VectorLoad) else (1,) * len(indices))
            case Not(a):
                text = f"not {self.expr(a, _NOT)}"
                return f"({text})" if outer > _NOT else text
            case Stride(buffer, dim):
                return self.style.stride.format(self.name(buffer), dim)
            case _:
                return self._call(expr)

    def operand(self, _of: Pair, part: Expr, outer: int = 0) -> str:
        """Print a part of an expression."""
        return self.expr(part, outer)

    def index(self, expr: Expr) -> str:
        """Print an index of a buffer."""
        return self.expr(expr)

    def box(self, buffer: Buffer, indices: Iterable[Expr], extents: Iterable[int]) -> str:
        """Print `A[i, j:j + 16]`, with only the lowest index along a dimension of one element."""
        parts = [
            self.index(lo) if count == 1 else f"{self.index(lo)}:{self.index(self.style.end(lo, count))}"
            for lo, count in zip(indices, extents, strict=True)
        ]
        return f"{self.name(buffer)}[{', '.join(parts) or self.style.no_index}]"

    def _call(self, expr: Expr) -> str:
        """Print an expression as a call of a function."""
        style = self.style
        match expr:
            case Binary(op, a, b):
                return self._function(style.words.get(op, op), self.operand(expr, a), self.operand(expr, b))
            case Address(buffer, indices, extents, access):
                return self._function("address", self.box(buffer, indices, extents), style.quote(access))
            case Select(cond, a, b):
                return self._function(
                    style.select, self.operand(expr, cond), self.operand(expr, a), self.operand(expr, b)
                )
            case Cast(dtype, a):
                return self._function(*([style.cast, style.quote(dtype)] if style.cast else [dtype]), self.expr(a))
            case Broadcast(a, lanes):
                return self._function(style.broadcast, self.expr(a), str(lanes))
            case Reinterpret(dtype, a):
                return self._function("reinterpret", style.quote(dtype), self.expr(a))
            case Call(name, args):
                caller = self._caller(name)
                callee = [caller, *map(style.quote, (expr.dtype, name.removeprefix(EXTERN)))] if caller else [name]
                return self._function(*callee, *map(self.expr, args))
            case _:
                return object.__repr__(expr) if not hasattr(expr, "show") else str(expr.show())

    def _caller(self, name: str) -> str:
        """Return the function that takes the dtype and name of the called function, if there is one."""
        if name.startswith(EXTERN):
            return "call_extern"
        if name.startswith("llvm."):
            return self.style.call_llvm
        return "" if name in ARITY else self.style.call

    def _function(self, word: str, *parts: str) -> str:
        return f"{self.style.prefix}{word}({', '.join(parts)})"


_OWN_NAMES = Printer(PLAIN, attrgetter("name"))


def show(expr: Expr, names: Mapping[Any, str] | None = None) -> str:
    """Write `expr` as in Python; `names` overrides names (if variables or buffers share one)."""
    printer = Printer(PLAIN, lambda what: names.get(what, what.name)) if names else _OWN_NAMES
    return printer.expr(expr)
