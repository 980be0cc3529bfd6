"""Reader of expressions in scripts: Python syntax to expressions of the IR, buffers, or plain Python values."""

from __future__ import annotations

import ast
import builtins
import math
import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar, NoReturn

from pegbox.errors import PegboxError, ScriptError
from pegbox.expr import build, dtypes, intrinsics
from pegbox.expr.affine import difference
from pegbox.expr.low_level import Stride, VectorLoad, is_contiguous
from pegbox.expr.nodes import OPERATORS, Buffer, Const, Expr, Load
from pegbox.expr.reader import ARITHMETIC, CONDITIONS, Operations, Reader
from pegbox.loops.nodes import Region
from pegbox.loops.script.calls import CALLS
from pegbox.loops.script.scope import MISSING, ScriptScope
from pegbox.loops.script.source import ScriptSource
from pegbox.loops.script.vectors import Lane, check_count
from pegbox.loops.script.views import Data, View
from pegbox.loops.script.words import Word, Words, unknown

_ON_EXPRESSIONS: dict[Any, Callable[..., Expr]] = {
    builtins.min: lambda *parts: _fold(build.minimum, parts),
    builtins.max: lambda *parts: _fold(build.maximum, parts),
    builtins.abs: lambda a: intrinsics.call("abs", a),
}


def _fold(combine: Callable[[Any, Any], Expr], parts: Sequence[Any]) -> Expr:
    result = parts[0]
    for part in parts[1:]:
        result = combine(result, part)
    return build.as_expr(result)


class Expressions(Reader):
    """A reader of expressions in a scope; every error points at the syntax that caused it."""

    operations: ClassVar[Operations] = {
        **ARITHMETIC,
        **CONDITIONS,
        ast.Div: (operator.truediv, build.div),
        ast.Pow: (operator.pow, partial(intrinsics.call, "pow")),
        ast.BitAnd: (operator.and_, OPERATORS["and"]),
        ast.BitOr: (operator.or_, OPERATORS["or"]),
        ast.BitXor: (operator.xor, OPERATORS["xor"]),
        ast.LShift: (operator.lshift, OPERATORS["shift_left"]),
        ast.RShift: (operator.rshift, OPERATORS["shift_right"]),
        ast.Invert: (operator.invert, OPERATORS["not"]),
        ast.UAdd: (operator.pos, build.as_expr),
    }

    def __init__(self, source: ScriptSource, scope: ScriptScope) -> None:
        self.source = source
        self.scope = scope
        self.lane: Lane | None = None
        self.vectors: dict[Buffer | View, int] = {}

    def fail(self, node: ast.AST, problem: str, remedy: str = "") -> NoReturn:
        raise self.source.fault(node, problem, remedy)

    def guarded(self, node: ast.AST, action: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Let errors about arguments, raised inside `with`, point at `node`."""
        try:
            return action(*args, **options)
        except ScriptError as error:
            if error.line:
                raise
            raise self.source.fault(node, error.reason, error.remedy) from None
        except PegboxError as error:
            raise self.source.fault(node, str(error)) from error
        except Exception as error:
            raise self.source.fault(node, f"{type(error).__name__}: {error}") from error

    def other(self, node: ast.expr) -> Any:
        """Read syntax that is neither arithmetic nor a condition: an `Expr`, a `Buffer`, or a Python object."""
        match node:
            case ast.Tuple(elts):
                return tuple(map(self.value, elts))
            case ast.List(elts):
                return list(map(self.value, elts))
            case ast.Dict(keys, values):
                pairs = zip(keys, values, strict=True)
                return {self.value(k): self.value(v) for k, v in pairs if k is not None}
            case ast.IfExp(test, body, orelse):
                condition = self.value(test)
                if not isinstance(condition, Expr):
                    return self.value(body if condition else orelse)
                return self.guarded(node, build.select, condition, self.scalar(body), self.scalar(orelse))
            case ast.Subscript():
                return self.subscript(node)
            case ast.Call():
                return self.call(node)
            case ast.JoinedStr(parts):
                return "".join(map(self.text, parts))
            case _:
                return super().other(node)

    def refuse(self, node: ast.AST, operation: ast.AST | None = None) -> NoReturn:
        if operation is None:
            what = type(node).__name__
            self.fail(node, f"{what}: this Python is not part of the script", "write it with loops and expressions")
        kind = "comparison" if isinstance(operation, ast.cmpop) else "operator"
        self.fail(node, f"the {kind} {type(operation).__name__} is not part of the script")

    def constant(self, node: ast.Constant) -> Any:
        return node.value

    def text(self, node: ast.expr) -> str:
        """Read a part of an f-string."""
        value = self.value(node.value if isinstance(node, ast.FormattedValue) else node)
        if isinstance(value, Expr):
            self.fail(node, f"{value} is known only when the program runs, and cannot be part of a text")
        return str(value)

    def name(self, node: ast.Name | ast.Attribute) -> Any:
        return self.variable(node, node.id) if isinstance(node, ast.Name) else self.attribute(node)

    def variable(self, node: ast.AST, name: str) -> Any:
        value = self.scope.find(name)
        if value is MISSING:
            names = [n for frame in self.scope.frames for n in frame.names]
            self.fail(
                node, unknown(repr(name), name, names), "bind it before it is used: a loop, a block variable, a buffer"
            )
        if isinstance(value, Expr):
            self.visible(node, name, value)
        return value

    def visible(self, node: ast.AST, name: str, value: Expr) -> None:
        hidden = self.scope.hidden(value)
        if hidden is not None:
            of = "the loop variable" if value is hidden else f"{name}, made of the loop variable"
            self.fail(
                node,
                f"the body of a block uses {of} {hidden.name}; it speaks of its own variables only",
                f"bind one: v{hidden.name} = T.axis.spatial(extent, {hidden.name}), and use v{hidden.name}",
            )

    def attribute(self, node: ast.Attribute) -> Any:
        base, name = self.value(node.value), node.attr
        if isinstance(base, Words):
            try:
                return getattr(base, name)
            except AttributeError as error:
                self.fail(node, str(error), "docs/script.md lists the names that there are")
        if isinstance(base, Buffer | View):
            return self.of_buffer(node, base, name)
        if isinstance(base, Expr):
            if name == "astype":
                return lambda dtype: build.cast(dtype, base)
            if name == "dtype":
                return base.dtype
            self.fail(node, f"{base} is a value and has no attribute {name!r}; it has dtype and astype")
        if name.startswith("_"):
            self.fail(node, f"{name!r}: names that start with an underscore are private")
        try:
            return getattr(base, name)
        except AttributeError as error:
            self.fail(node, str(error))

    def of_buffer(self, node: ast.AST, buffer: Buffer | View, name: str) -> Any:
        attributes = {"shape": buffer.shape, "dtype": buffer.dtype, "name": buffer.name}
        if name == "data":
            return Data(buffer.buffer if isinstance(buffer, View) else buffer)
        if name == "strides" and isinstance(buffer, Buffer):
            return tuple(Stride(buffer, dim) for dim in range(len(buffer.shape)))
        if name not in attributes:
            self.fail(
                node, f"the buffer {buffer.name} has no attribute {name!r}; it has shape, dtype, strides, data, name"
            )
        return attributes[name]

    def checked(self, node: ast.AST, value: Any) -> Any:
        """Check that a value is a number or an expression, which may be used in arithmetic."""
        if isinstance(value, Buffer | View):
            self.fail(node, f"the buffer {value.name} is not a value", f"take an element: {value.name}[...]")
        if isinstance(value, Data):
            what = f"the memory of {value.buffer.name} is not a value"
            self.fail(node, what, f"declare a buffer on it: T.Buffer(shape, data={value.buffer.name}.data)")
        if isinstance(value, Word | Words):
            self.fail(node, f"{value} is a name of the script, not a value", f"call it: {value}(...)")
        return value

    def scalar(self, node: ast.expr) -> Any:
        """Read a number or an expression."""
        value = self.checked(node, self.value(node))
        if not isinstance(value, Expr | bool | int | float):
            value = self.guarded(node, build.as_expr, value)
        return value

    def subscript(self, node: ast.Subscript) -> Any:
        base = self.value(node.value)
        if isinstance(base, Buffer | View):
            return self.load(node, base)
        if isinstance(base, Expr | Word | Words):
            self.fail(node, f"{base} has no elements")
        if isinstance(node.slice, ast.Slice):
            self.fail(node, "slices are for buffers")
        return self.guarded(node, operator.getitem, base, self.value(node.slice))

    def load(self, node: ast.Subscript, base: Buffer | View) -> Expr:
        buffer, box = self.box(node, base)
        indices, extents = tuple(lo for lo, _ in box), tuple(n for _, n in box)
        if math.prod(extents) == 1 and not any(isinstance(part, ast.Slice) for part in parts_of(node)):
            return Load(buffer, indices)
        if self.lane is not None and math.prod(extents) == 1:
            return Load(buffer, indices)
        if not is_contiguous(buffer.shape, extents):
            self.fail(
                node, "the elements of one value are neighbours in memory", "slice the last dimension, or whole rows"
            )
        return VectorLoad(buffer, indices, math.prod(extents), extents)

    def box(self, node: ast.Subscript, base: Buffer | View) -> tuple[Buffer, tuple[tuple[Expr, int], ...]]:
        """Read a buffer, and the lowest index and number of elements along each dimension."""
        parts = parts_of(node)
        if len(parts) != len(base.shape):
            self.fail(
                node,
                f"{base.name} has {len(base.shape)} dimension(s), {list(base.shape)}, and is given "
                f"{len(parts)} index(es)",
                "give one index for each dimension",
            )
        box = tuple(self.span(part, extent) for part, extent in zip(parts, base.shape, strict=True))
        if base in self.vectors:
            # The last index of a buffer of vectors counts vectors.
            box = (*box[:-1], (build.mul(box[-1][0], self.vectors[base]), self.vectors[base]))
        if self.lane is not None:
            box = tuple((lo if count == 1 else check_count(self, node, count).at(lo), 1) for lo, count in box)
        if isinstance(base, Buffer):
            return base, box
        below = base.below(box, self.scope.ranges())
        if below is None:
            self.fail(
                node,
                f"these elements of {base.name} do not form a box of {base.buffer.name}, whose memory it has",
                f"use {base.buffer.name}{list(base.buffer.shape)} itself",
            )
        return base.buffer, below

    def span(self, node: ast.expr, extent: int) -> tuple[Expr, int]:
        if not isinstance(node, ast.Slice):
            return self.index(node), 1
        if node.step is not None and self.lane is not None:
            return self.stepped(node), 1
        if node.step is not None:
            self.fail(node.step, "slices have no step here", "name the whole run of elements")
        lo = build.ZERO if node.lower is None else self.index(node.lower)
        hi = build.index(extent) if node.upper is None else self.index(node.upper)
        count = difference(hi, lo)
        if not count.is_const or count.const < 1:
            self.fail(node, f"the slice from {lo} to {hi} has no constant number of elements", "write it as lo:lo + n")
        return lo, count.const

    def stepped(self, node: ast.Slice) -> Expr:
        """Read `A[lo:hi:step]` in the current lane."""
        assert node.step is not None
        step = self.integer(node.step, "step")
        if node.lower is None or node.upper is None or step < 1:
            self.fail(node, "a slice with a step has both ends, and a step from 1 up")
        lo = self.index(node.lower)
        length = difference(self.index(node.upper), lo)
        if not length.is_const:
            self.fail(node, "the slice has no constant number of elements", "write it as lo:lo + n:step")
        return check_count(self, node, -(-length.const // step)).at(lo, step)

    def index(self, node: ast.expr) -> Expr:
        """Read an expression of index type."""
        value = self.scalar(node)
        if isinstance(value, bool) or not (
            isinstance(value, int) or (isinstance(value, Expr) and dtypes.is_int(value.dtype))
        ):
            what = value.dtype if isinstance(value, Expr) else type(value).__name__
            self.fail(node, f"{value} is {what}, not a whole number", 'convert it with T.cast(x, "int64")')
        if isinstance(value, Expr) and dtypes.lanes(value.dtype):
            self.fail(node, f"{value} is a vector; an index is a single number")
        return build.index(value) if isinstance(value, int) else build.cast(dtypes.INDEX, value)

    def region(self, node: ast.expr) -> Region:
        """Read `A[vi, 0:16]`, or `A` for the whole buffer."""
        if isinstance(node, ast.Subscript):
            base = self.value(node.value)
            if isinstance(base, Buffer | View):
                return Region(*self.box(node, base))
        else:
            base = self.value(node)
            if isinstance(base, Buffer):
                return Region(base, tuple((build.ZERO, extent) for extent in base.shape))
        self.fail(node, f"{ast.unparse(node)} is not a part of a buffer", "name elements: A[vi, 0:16]")

    def integer(self, node: ast.expr, what: str) -> int:
        """Read a number that is known while reading, such as an extent."""
        value = self.value(node)
        if isinstance(value, Const):
            value = value.value
        number = dtypes.integer(value) if not isinstance(value, Expr) else None
        if number is None:
            self.fail(
                node,
                f"the {what} {ast.unparse(node)} is not known while the script is read",
                "shapes and extents are static: write a number, or a name that is bound to one before the function",
            )
        return number

    def literal(self, node: ast.expr) -> Any:
        """Read a value of an annotation or attribute; lists become tuples, so that it can be compared and hashed."""
        return self.guarded(node, _plain, self.value(node))

    def call(self, node: ast.Call) -> Any:
        function = self.value(node.func)
        if isinstance(function, Word):
            if dtypes.is_vector(function.name):
                (value,) = node.args
                check_count(self, node, dtypes.lanes(function.name))
                return self.guarded(node, build.cast, dtypes.element(function.name), self.scalar(value))
            if function.name not in CALLS:
                self.fail(node, f"{function} is not an expression", "use it as a statement, or as the domain of a loop")
            return CALLS[function.name](self, node)
        args = [self.value(a) for a in node.args]
        options = {k.arg: self.value(k.value) for k in node.keywords if k.arg is not None}
        if any(isinstance(a, Expr) for a in args) and getattr(function, "__module__", None) == "builtins":
            if function not in _ON_EXPRESSIONS:
                name = getattr(function, "__name__", str(function))
                self.fail(
                    node, f"{name}(...) of a value that is known only when the program runs", "use the function of T"
                )
            return self.guarded(node, _ON_EXPRESSIONS[function], *args)
        if not callable(function):
            self.fail(node, f"{ast.unparse(node.func)} cannot be called")
        return self.guarded(node, function, *args, **options)


def parts_of(node: ast.Subscript) -> list[ast.expr]:
    """Return the indices of a subscript; `A[()]` has none."""
    return list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]


def _plain(value: Any) -> Any:
    if isinstance(value, Const):
        return value.value
    if isinstance(value, tuple | list):
        return tuple(map(_plain, value))
    if isinstance(value, dict):
        return {_plain(k): _plain(v) for k, v in value.items()}
    number = dtypes.integer(value)
    if number is not None:
        return number
    if isinstance(value, bool | float | str) or value is None:
        return value
    raise ScriptError(f"{value!r} cannot be kept", remedy="write numbers, strings, or tuples of them")
