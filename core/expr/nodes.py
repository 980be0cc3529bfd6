"""Expressions: immutable scalar values over variables and buffer elements.

The whole grammar:

    Expr ::= Const(value)                      a literal
           | Var(name)                         identity counts, the name is for people
           | Binary(op, a, b)                  add sub mul div floordiv floormod min max
           | Compare(op, a, b)                 lt le gt ge eq ne, gives bool
           | Logic(op, a, b)  | Not(a)         and or
           | Select(cond, a, b)                only the chosen side is evaluated
           | Cast(dtype, a)
           | Call(name, args)                  an intrinsic: exp, log, ...
           | Load(buffer, indices)             one element of a buffer
           | Reduce(...)                       only at the top of a computation, never inside the loop IR
           | what pegbox.expr.low_level adds for the bodies of tensor intrinsics

Every node carries its `dtype`. Nodes are built through the functions of `pegbox.expr.build` (which the operators
use), where constants fold and types meet. They use plain slotted classes instead of frozen dataclasses because
a tuner builds hundreds of thousands of them: construction is three times as fast.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn, TypeAlias

from pegbox.errors import ExprError, UnknownValue
from pegbox.expr import dtypes

if TYPE_CHECKING:
    from typing_extensions import Self


class _Operators(dict[str, "Callable[..., Expr]"]):
    """The functions that operators call; modules that import this one fill the table."""

    def __missing__(self, name: str) -> Callable[..., Expr]:
        from pegbox.expr import build, intrinsics  # noqa: F401

        return self.get(name)  # type: ignore[return-value]


OPERATORS = _Operators()

# NumPy's functions that pegbox.te also has, with their names in te.
_OF_TE = {
    name: name
    for name in [
        "exp", "exp2", "log", "log2", "log10", "log1p", "sqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh", "power",
        "floor", "ceil", "trunc", "fmod", "hypot", "copysign", "maximum", "minimum", "isnan", "isinf", "isfinite",
    ]
}  # fmt: skip
_OF_TE.update(absolute="abs", rint="round", arcsin="asin", arccos="acos", arctan="atan", arctan2="atan2")
_OF_TE.update(arcsinh="asinh", arccosh="acosh", arctanh="atanh")


BinaryOp: TypeAlias = Literal["add", "sub", "mul", "div", "floordiv", "floormod", "min", "max"]
CompareOp: TypeAlias = Literal["lt", "le", "gt", "ge", "eq", "ne"]
LogicOp: TypeAlias = Literal["and", "or"]


class Buffer:
    """A dense row-major array that programs read and write. Identity counts: two buffers are never equal.

    `shape` holds Python ints (shapes are static), `scope` is the memory that holds it, such as "global" or "local".
    """

    __slots__ = ("dtype", "name", "scope", "shape")

    def __init__(self, name: str, shape: tuple[int, ...], dtype: str = "float32", scope: str = "global") -> None:
        self.name: Final = name
        self.shape: Final = shape
        self.dtype: Final = dtypes.check(dtype)
        self.scope: Final = scope

    def in_scope(self, scope: str) -> Buffer:
        """Return a buffer of another scope for the same elements."""
        return Buffer(self.name, self.shape, self.dtype, scope)

    @property
    def size(self) -> int:
        """The number of elements."""
        total = 1
        for extent in self.shape:
            total *= extent
        return total

    @property
    def nbytes(self) -> int:
        return self.size * dtypes.nbytes(self.dtype)

    def __repr__(self) -> str:
        return f"Buffer({self.name}: {self.dtype}{list(self.shape)})"


class Whole:
    """A base of values with their own `+`, `-`, `*` and `/` with expressions: whole tensors."""

    __slots__ = ()


def _operator(name: str) -> Callable[[Expr, object], Expr]:
    """Make the method of an operator; defer to a `Whole` on the right side if it has the operator."""
    of_whole = name in ("add", "sub", "mul", "div")

    def method(self: Expr, other: object) -> Expr:
        return NotImplemented if of_whole and isinstance(other, Whole) else OPERATORS[name](self, other)

    return method


def _reflected(name: str) -> Callable[[Expr, object], Expr]:
    def method(self: Expr, other: object) -> Expr:
        return OPERATORS[name](other, self)

    return method


def _refusal(asking: str, remedy: str) -> Callable[..., NoReturn]:
    """Make a method that Python calls for a number."""

    def method(self: Expr, *_: object) -> NoReturn:
        raise UnknownValue(f"{asking} asks {self} for its value, which is known only when the program runs; {remedy}")

    return method


class Expr:
    """The base of all expressions. `==` builds a comparison whose truth value is structural equality."""

    __slots__ = ("_hash", "dtype")
    dtype: str
    _hash: int  # cached, because shared parts would be hashed again for everything that holds them

    __add__, __radd__ = _operator("add"), _reflected("add")
    __sub__, __rsub__ = _operator("sub"), _reflected("sub")
    __mul__, __rmul__ = _operator("mul"), _reflected("mul")
    __truediv__, __rtruediv__ = _operator("div"), _reflected("div")
    __floordiv__, __rfloordiv__ = _operator("floordiv"), _reflected("floordiv")
    __mod__, __rmod__ = _operator("floormod"), _reflected("floormod")
    __lt__, __le__, __gt__, __ge__ = _operator("lt"), _operator("le"), _operator("gt"), _operator("ge")
    __and__, __or__, __xor__ = _operator("and"), _operator("or"), _operator("xor")
    __rand__, __ror__, __rxor__ = _reflected("and"), _reflected("or"), _reflected("xor")
    __lshift__, __rshift__ = _operator("shift_left"), _operator("shift_right")
    __rlshift__, __rrshift__ = _reflected("shift_left"), _reflected("shift_right")

    def __neg__(self) -> Expr:
        return OPERATORS["neg"](self)

    def astype(self, dtype: str) -> Expr:
        """Convert to another type; a vector type such as "int32x16" gets a scalar in every lane."""
        return OPERATORS["cast"](dtype, self)

    def __eq__(self, other: object) -> Any:
        return OPERATORS["eq"](self, other)

    def __ne__(self, other: object) -> Any:
        return OPERATORS["ne"](self, other)

    def equal(self, other: object) -> Expr:
        """Return the condition `self == other`, as in TVM; it has no truth value."""
        return OPERATORS["equal"](self, other)

    def __invert__(self) -> Expr:
        return OPERATORS["not"](self)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """Let NumPy's operators work like Python's; refuse its functions, which would need numbers."""
        import numpy  # the caller has loaded it

        plain = [numpy.array(x, dtype=object) if isinstance(x, Expr) else x for x in inputs]
        try:
            return getattr(ufunc, method)(*plain, **options)
        except (TypeError, ExprError) as error:
            if isinstance(error, ExprError) and ufunc.__name__ not in _OF_TE:
                raise  # an error of the operator itself
            raise ExprError(
                f"np.{ufunc.__name__}({', '.join(map(str, inputs))}): NumPy's functions work on numbers, which are "
                f"known only when the program runs; use te.{_OF_TE.get(ufunc.__name__, 'exp, te.log and the like')}"
            ) from error

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            self._hash = hash((type(self), *(getattr(self, name) for name in self.__match_args__)))
            return self._hash

    def __getstate__(self) -> tuple[dict[str, Any] | None, dict[str, Any]]:
        """Leave the hash out of pickles and copies, because it depends on this process and these variables."""
        slots = [name for kind in type(self).__mro__ for name in kind.__dict__.get("__slots__", ()) if name != "_hash"]
        return getattr(self, "__dict__", None), {name: getattr(self, name) for name in slots if hasattr(self, name)}

    __match_args__: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        raise ExprError(
            f"the truth value of {self} is known only when the program runs; "
            "use te.if_then_else(cond, a, b), te.all(...) and te.any(...) instead of if, and, or, "
            "and te.max(a, b), te.min(a, b) instead of max, min"
        )

    def __repr__(self) -> str:
        from pegbox.expr.printer import show  # the printer imports this module

        return show(self)

    if not TYPE_CHECKING:  # type checkers refuse such calls anyway
        __float__ = _refusal(
            "float(x) or a function of Python's math", "use te.exp, te.log and the like, or te.cast('float32', x)"
        )
        __int__ = _refusal("int(x)", "use te.cast('int32', x)")
        __index__ = _refusal(
            "range(x), or a list's index,", "use te.sum over a te.reduce_axis, or a tensor in place of a list"
        )
        __complex__ = _refusal("complex(x)", "compute the real and the imaginary part apart")
        __abs__ = _refusal("abs(x)", "use te.abs(x)")
        __round__ = _refusal("round(x)", "use te.round(x)")
        __floor__ = _refusal("math.floor(x)", "use te.floor(x)")
        __ceil__ = _refusal("math.ceil(x)", "use te.ceil(x)")
        __trunc__ = _refusal("math.trunc(x)", "use te.trunc(x)")
        __pow__ = _refusal("x ** y", "use te.power(x, y), or x * x")
        __rpow__ = _refusal("x ** y", "use te.power(x, y)")
        __divmod__ = __rdivmod__ = _refusal("divmod(x, y)", "use x // y and x % y")


class Const(Expr):
    """A literal; `value` is a Python bool, int or float according to `dtype`."""

    __slots__ = ("value",)
    __match_args__ = ("value", "dtype")

    def __init__(self, value: int | float | bool, dtype: str) -> None:
        self.value = value
        self.dtype = dtype

    def __hash__(self) -> int:
        value = self.value
        # Equal constants have equal hashes; Python's NaNs differ in theirs.
        return hash(("nan" if type(value) is float and value != value else value, self.dtype))

    def __index__(self) -> int:
        """Return the value of an integer literal, for Python's own uses of it: the factor of a split, `range(...)`."""
        if isinstance(self.value, float | bool):
            raise TypeError(f"{self} is not an integer")
        return self.value

    @property
    def integer(self) -> int:
        """The value of an integer literal, the object itself: it may be a traced one (`pegbox.features`)."""
        return self.value  # type: ignore[return-value]


class Var(Expr):
    """A variable. Two variables of one name are different variables."""

    __slots__ = ("name",)
    __match_args__ = ("name",)

    def __init__(self, name: str, dtype: str = dtypes.INDEX) -> None:
        self.name = name
        self.dtype = dtype

    __hash__ = object.__hash__

    def copy(self) -> Self:
        """Return a new variable of the same name."""
        return type(self)(self.name, self.dtype)


class Binary(Expr):
    __slots__ = ("a", "b", "op")
    __match_args__ = ("op", "a", "b")

    def __init__(self, op: BinaryOp, a: Expr, b: Expr) -> None:
        self.op = op
        self.a = a
        self.b = b
        self.dtype = a.dtype


class Compare(Expr):
    __slots__ = ("a", "b", "op")
    __match_args__ = ("op", "a", "b")

    def __init__(self, op: CompareOp, a: Expr, b: Expr) -> None:
        self.op = op
        self.a = a
        self.b = b
        self.dtype = "bool"

    def __bool__(self) -> bool:
        """Compare structurally for == and !=, so that expressions work in containers; others have no truth value."""
        from pegbox.expr.equal import same  # it imports this module

        if self.op == "eq":
            return same(self.a, self.b)
        if self.op == "ne":
            return not same(self.a, self.b)
        return super().__bool__()


class NumberCompare(Compare):
    """An `==` or `!=` of an expression and a Python number, until it becomes part of an expression.

    Containers compare expressions with expressions. The truth value of this node is needed by `if A[i] == 1`, and by
    `A[i] in (1, 2)`, for which structural equality would give False.
    """

    __slots__ = ()

    def __bool__(self) -> bool:
        raise UnknownValue(
            f"the truth value of {self} is known only when the program runs; use te.if_then_else(cond, a, b) instead "
            "of if, and te.any(x == 1, x == 2) instead of x in (1, 2)"
        )


class Logic(Expr):
    __slots__ = ("a", "b", "op")
    __match_args__ = ("op", "a", "b")

    def __init__(self, op: LogicOp, a: Expr, b: Expr) -> None:
        self.op = op
        self.a = a
        self.b = b
        self.dtype = "bool"


class Not(Expr):
    __slots__ = ("a",)
    __match_args__ = ("a",)

    def __init__(self, a: Expr) -> None:
        self.a = a
        self.dtype = "bool"


class Select(Expr):
    """A choice: `a` where `cond` holds, else `b`. The other side is not evaluated: its loads may be out of bounds."""

    __slots__ = ("a", "b", "cond")
    __match_args__ = ("cond", "a", "b")

    def __init__(self, cond: Expr, a: Expr, b: Expr) -> None:
        self.cond = cond
        self.a = a
        self.b = b
        self.dtype = a.dtype


class Cast(Expr):
    __slots__ = ("a",)
    __match_args__ = ("dtype", "a")

    def __init__(self, dtype: str, a: Expr) -> None:
        self.a = a
        self.dtype = dtype


class Call(Expr):
    """An intrinsic of `pegbox.expr.intrinsics`."""

    __slots__ = ("args", "name")
    __match_args__ = ("name", "args", "dtype")

    def __init__(self, name: str, args: tuple[Expr, ...], dtype: str) -> None:
        self.name = name
        self.args = args
        self.dtype = dtype


class Load(Expr):
    __slots__ = ("buffer", "indices")
    __match_args__ = ("buffer", "indices")

    def __init__(self, buffer: Buffer, indices: tuple[Expr, ...]) -> None:
        self.buffer = buffer
        self.indices = indices
        self.dtype = buffer.dtype

    def at(self, buffer: Buffer, indices: tuple[Expr, ...]) -> Load:
        """Return the same kind of access to another place."""
        return Load(buffer, indices)

    @property
    def box(self) -> tuple[int, ...]:
        """The number of touched elements along each dimension."""
        return (1,) * len(self.indices)
