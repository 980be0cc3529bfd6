"""Reader of buffers in scripts: their declarations, and views of other buffers."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from math import prod

from pegbox.expr import dtypes
from pegbox.expr.nodes import Buffer
from pegbox.loops.script.calls import arguments, dtype_of
from pegbox.loops.script.expressions import Expressions
from pegbox.loops.script.views import Data, View

# Properties of a buffer's address in TVM's programs; here every buffer is dense, and aligned as its elements are.
_PROMISES = ("align", "offset_factor")


class Buffers(Expressions):
    """A reader of the calls that make buffers; it binds each to its name."""

    def is_declaration(self, word: str, call: ast.Call) -> bool:
        """Check if the call makes a buffer that lives to the end of the suite, not a view of another one."""
        return word == "allocate" or (word == "decl_buffer" and _keyword(call, "data") is None)

    def declared(self, node: ast.AST, target: ast.expr, word: str, call: ast.Call) -> Buffer:
        if word == "decl_buffer":
            return self.new_buffer(node, target, call)
        given = arguments(self, call, "extents", "dtype", "scope", "condition", "annotations", optional=3)
        condition = given[3]
        if condition is not None and not self.literal(condition):
            self.fail(condition, "memory that is allocated under a condition", "leave the condition out")
        name = self.fresh_name(target)
        named = zip(("shape", "dtype", "scope"), given, strict=False)
        parts = {key: value for key, value in named if value is not None}
        buffer = self.described(call, parts, name)
        self.scope.bind(name, buffer)
        return buffer

    def view(self, target: ast.expr, call: ast.Call) -> None:
        """Read `A_1 = T.Buffer((16384,), "float32", data=A.data)`: another name, or another shape, of a buffer."""
        given = _keyword(call, "data")
        if given is None:
            self.fail(
                call,
                "T.Buffer(...) here has no memory",
                'give it some, data=A.data, or allocate it: A = T.alloc_buffer((128, 128), "float32")',
            )
        data = self.value(given)
        below = data.buffer if isinstance(data, Data | View) else data
        if not isinstance(below, Buffer):
            self.fail(given, f"{ast.unparse(given)} is not a memory", "write A.data, or a name that T.allocate gave")
        name = self.fresh_name(target)
        parts = {key: value for key, value in self.parts(call.args, call).items() if key != "data"}
        for key, plain in (("strides", ()), ("elem_offset", 0), ("axis_separators", ())):
            node = parts.pop(key, None)
            if node is not None and self.literal(node) not in (plain, (1,)):
                self.fail(node, f"{key}={ast.unparse(node)}: views begin where the memory does, and are dense")
        parts.setdefault("dtype", ast.copy_location(ast.Constant(below.dtype), call))
        shown = self.described(call, parts, name)
        self.check_same_memory(call, shown, below)
        view = View(name, shown.shape, below)
        if shown in self.vectors:
            self.vectors[view] = self.vectors[shown]
        self.scope.bind(name, below if shown.shape == below.shape and shown not in self.vectors else view)

    def check_same_memory(self, call: ast.Call, view: Buffer, below: Buffer) -> None:
        if view.dtype != below.dtype:
            self.fail(
                call, f"a view of {below.dtype} as {view.dtype}", "take elements and convert them: T.reinterpret(...)"
            )
        if prod(view.shape) > prod(below.shape):
            self.fail(
                call, f"{view.name} has {prod(view.shape)} elements, of which {below.name} holds {prod(below.shape)}"
            )

    def fresh_name(self, target: ast.expr) -> str:
        """Return the name that a buffer is bound to."""
        if not isinstance(target, ast.Name):
            self.fail(target, "a buffer is bound to a plain name")
        if target.id in self.scope.frames[-1].names:
            self.fail(target, f"{target.id} is bound already; names do not change here", "use another name")
        return target.id

    def new_buffer(self, node: ast.AST, target: ast.expr, call: ast.Call) -> Buffer:
        name = self.fresh_name(target)
        buffer = self.buffer(call, name)
        self.scope.bind(name, buffer)
        return buffer

    def buffer(self, call: ast.Call, name: str) -> Buffer:
        """Read `T.alloc_buffer((128, 128), "float32", scope="shared", name="A.shared")`."""
        return self.described(call, self.parts(call.args, call), name)

    def parts(self, args: Sequence[ast.expr], call: ast.Call) -> dict[str, ast.expr]:
        """Read a call's arguments about a buffer, by name; a shape and a dtype need no name."""
        return {**dict(zip(("shape", "dtype"), args, strict=False)), **{str(k.arg): k.value for k in call.keywords}}

    def described(self, node: ast.AST, parts: dict[str, ast.expr], name: str) -> Buffer:
        given = {key: value for key, value in parts.items() if key not in _PROMISES}
        extra = set(given) - {"shape", "dtype", "scope", "name"}
        if extra:
            self.fail(
                given[min(extra)], f"a buffer has no {min(extra)!r} here", "it has a shape, a dtype, scope= and name="
            )
        shape, dtype = given.get("shape"), given.get("dtype")
        if shape is None:
            self.fail(node, "the buffer has no shape", 'write ((128, 128), "float32")')
        kind = "float32" if dtype is None else dtype_of(self, dtype, vectors=True)
        scope = given.get("scope")
        label = given.get("name")
        words = [("global" if scope is None else self.value(scope)), (name if label is None else self.value(label))]
        if not all(isinstance(word, str) for word in words):
            self.fail(node, "scope and name of a buffer are text")
        extents, lanes = self.shape(shape), dtypes.lanes(kind)
        if not lanes or not extents:
            return Buffer(words[1], extents, kind, words[0])
        # A buffer of vectors becomes a buffer of elements; an index then accesses as many elements as a vector has.
        buffer = Buffer(words[1], (*extents[:-1], extents[-1] * lanes), dtypes.element(kind), words[0])
        self.vectors[buffer] = lanes
        return buffer

    def shape(self, node: ast.expr) -> tuple[int, ...]:
        if isinstance(node, ast.Tuple | ast.List):
            extents = [(each, self.integer(each, "extent")) for each in node.elts]
        else:
            value = self.value(node)
            many = isinstance(value, tuple | list)
            extents = [(node, dtypes.integer(v)) for v in value] if many else [(node, self.integer(node, "extent"))]  # type: ignore[misc]
        for each, extent in extents:
            if extent is None or extent < 1:
                self.fail(each, f"{ast.unparse(each)}: extents are whole numbers, one or more")
        return tuple(extent for _, extent in extents)


def _keyword(call: ast.Call, name: str) -> ast.expr | None:
    return next((k.value for k in call.keywords if k.arg == name), None)
