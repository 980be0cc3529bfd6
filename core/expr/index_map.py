"""Index maps: functions such as `lambda i, j: (i // 16, j, i % 16)` from old indices to those of a new layout."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NoReturn

from pegbox.checks import check_callable, check_int, check_list, check_text
from pegbox.errors import ExprError
from pegbox.expr import build
from pegbox.expr.bounds import Ranges
from pegbox.expr.index_layout import Layout, layout_of
from pegbox.expr.nodes import Binary, Const, Expr, Var
from pegbox.expr.printer import show, unused_name
from pegbox.expr.reader import Reader
from pegbox.expr.simplify import simplify
from pegbox.expr.visit import free_vars, substitute
from pegbox.shown import value_text

# A bound on indices in both directions, larger than any buffer.
_ADDRESSABLE = (-(2**47), 2**47)


class IndexMap:
    """An index map: `final_indices` in terms of the variables `initial_indices`. It is immutable, and compared by its
    text.

    >>> packed = IndexMap.from_func(lambda i, j: (i // 16, j, i % 16))
    >>> packed
    IndexMap(lambda i, j: (i // 16, j, i % 16))
    >>> packed.map_shape((100, 8))
    (7, 8, 16)
    """

    __slots__ = ("final_indices", "initial_indices")

    # TVM's separator of several memory dimensions, without a meaning on CPUs, where memory has one.
    AXIS_SEPARATOR: ClassVar[object] = "axis separator"

    def __init__(self, initial_indices: Sequence[Var], final_indices: Sequence[Expr]) -> None:
        """Make a map from variables and affine expressions of them (sums, products with constants, // and % by
        constants).

        Raises:
            ExprError: an expression is not affine, or there is none.
        """
        self.initial_indices = tuple(
            check_list("initial_indices", initial_indices, "variables", error=ExprError, of=Var)
        )
        self.final_indices = tuple(check_list("final_indices", final_indices, "expressions", error=ExprError, of=Expr))
        if not self.final_indices:
            raise ExprError("an index map gives at least one index")
        for expr in self.final_indices:
            _check(expr, set(self.initial_indices))

    @staticmethod
    def from_func(func: Callable[..., Any], ndim: int | None = None) -> IndexMap:
        """Make a map from a function of index variables that returns one or several indices.

        Args:
            ndim: the number of variables; needed if the function takes `*indices`.

        Raises:
            ExprError: the function does not take that many, or does not return affine expressions of them.
        """
        variables = [Var(name) for name in _names(func, ndim)]
        result = func(*variables)
        given = list(result) if isinstance(result, tuple | list) else [result]
        return IndexMap(variables, [_index(e) for e in given if e is not IndexMap.AXIS_SEPARATOR])

    @staticmethod
    def from_text(text: str) -> IndexMap:
        """Read a map from the text that `str` writes: `lambda i, j: (i // 16, j, i % 16)`.

        Raises:
            ExprError: the text is not such a lambda.
        """
        check_text("index map", text, error=ExprError)
        try:
            tree = ast.parse(text.strip(), mode="eval").body
        # A ValueError is half of a surrogate pair, a RecursionError brackets that are nested too deeply.
        except (SyntaxError, ValueError, RecursionError) as error:
            raise ExprError(
                f"{value_text(text)} is not an index map: {error}; write lambda i, j: (i // 16, j, i % 16)"
            ) from error
        if not isinstance(tree, ast.Lambda):
            raise ExprError(f"{text!r} is not an index map; write lambda i, j: (i // 16, j, i % 16)")
        names = [a.arg for a in tree.args.args]
        variables = {name: Var(name) for name in names}
        body = tree.body.elts if isinstance(tree.body, ast.Tuple | ast.List) else [tree.body]
        return IndexMap([variables[n] for n in names], [*map(_Indices(text, variables).value, body)])

    @property
    def ndim(self) -> int:
        """The number of indices that the map takes."""
        return len(self.initial_indices)

    def map_indices(self, indices: Sequence[Expr | int], ranges: Ranges | None = None) -> list[Expr]:
        """Map the indices of an element. The result is simplified with the `ranges` of variables; others are within
        2^47.

        Raises:
            ExprError: the number of indices is not the map's.
        """
        indices = check_list("indices", indices, f"{self.ndim} expressions", error=ExprError)
        if len(indices) != self.ndim:
            raise ExprError(f"{self} takes {self.ndim} indices, got {len(indices)}")
        if ranges is not None and not isinstance(ranges, Mapping):
            raise ExprError(f"ranges={value_text(ranges)} is not a mapping; give (first, last) of each variable")
        mapping = dict(zip(self.initial_indices, map(build.as_expr, indices), strict=True))
        within = {var: _ADDRESSABLE for expr in mapping.values() for var in free_vars(expr)} | dict(ranges or {})
        return [simplify(substitute(e, mapping), within) for e in self.final_indices]

    def map_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Return the shape that holds all elements of a buffer of the given shape.

        Raises:
            ExprError: the number of extents is not the map's, or an index would be negative.
        """
        return self.layout(shape).shape

    def inverse(self, shape: Sequence[int]) -> IndexMap:
        """Return the inverse map, from the new indices of a buffer of `shape`.

        Raises:
            ExprError: the map is not one to one, leaves gaps, or its inverse cannot be found.
        """
        found = self.layout(shape)
        if not found.onto:
            raise ExprError(f"{self} of the shape {list(shape)} leaves gaps in {list(found.shape)}: it has no inverse")
        return found.inverse()

    def layout(self, shape: Sequence[int]) -> Layout:
        """Apply the map to a buffer's shape."""
        extents = check_list("shape", shape, f"{self.ndim} extents", error=ExprError)
        return layout_of(self, tuple(check_int("extent", extent, error=ExprError) for extent in extents))

    def trace_python(self) -> str:
        """Write the map as an argument in Python code."""
        return str(self)

    def trace_json(self) -> str:
        """Write the map as JSON."""
        return str(self)

    @classmethod
    def from_trace_json(cls, data: str) -> IndexMap:
        """Read the form written by `trace_json`."""
        return cls.from_text(data)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IndexMap) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))

    def __str__(self) -> str:
        names: dict[Var, str] = {}
        for var in self.initial_indices:
            names[var] = unused_name(var.name, names.values())
        parts = [show(e, names) for e in self.final_indices]
        inner = f"{parts[0]},)" if len(parts) == 1 else f"{', '.join(parts)})"
        return f"lambda {', '.join(names.values())}: ({inner}"

    def __repr__(self) -> str:
        return f"IndexMap({self})"


def _names(func: Callable[..., Any], ndim: int | None) -> list[str]:
    check_callable("func", func, "a function such as lambda i, j: (j, i)", error=ExprError)
    if ndim is not None:
        check_int("ndim", ndim, minimum=0, error=ExprError)
    try:
        params = list(inspect.signature(func).parameters.values())
    except ValueError:
        raise ExprError(f"{value_text(func)} does not name its arguments; write lambda i, j: (j, i)") from None
    names = [p.name for p in params if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    many = next((p for p in params if p.kind is p.VAR_POSITIONAL), None)
    if many is not None:
        if ndim is None or ndim < len(names):
            raise ExprError(f"an index map of *{many.name} needs ndim: how many indices there are")
        names += [f"i{n}" for n in range(ndim - len(names))]
    if ndim is not None and len(names) != ndim:
        raise ExprError(
            f"the index map takes {len(names)} indices, {', '.join(names)}, where there are {value_text(ndim)}"
        )
    return names


def _index(value: object) -> Expr:
    expr = build.as_expr(value)
    return expr if expr.dtype == "int64" else build.cast("int64", expr)


def _check(expr: Expr, variables: set[Var]) -> None:
    """Raise ExprError unless the expression is affine in the variables."""
    match expr:
        case Const(value) if isinstance(value, int):
            return
        case Var() if expr in variables:
            return
        case Binary("add" | "sub", a, b):
            _check(a, variables)
            _check(b, variables)
        case Binary("mul", a, b) if isinstance(a, Const) or isinstance(b, Const):
            _check(b if isinstance(a, Const) else a, variables)
        case Binary("floordiv" | "floormod", a, Const(value)) if int(value) > 0:
            _check(a, variables)
        case _:
            raise ExprError(
                f"{expr} is not affine: index maps add indices, multiply them by constants, and take // and % by "
                "positive constants"
            )


class _Indices(Reader):
    """A reader of a map's new indices."""

    def __init__(self, text: str, variables: dict[str, Var]) -> None:
        self.text = text
        self.variables = variables

    def name(self, node: ast.Name | ast.Attribute) -> Expr:
        if isinstance(node, ast.Name) and node.id in self.variables:
            return self.variables[node.id]
        self.refuse(node)

    def refuse(self, node: ast.AST, operation: ast.AST | None = None) -> NoReturn:
        raise ExprError(
            f"{ast.unparse(node)!r} in the index map {self.text!r} is not an affine expression of its indices"
        )
