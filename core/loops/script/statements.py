"""Reader of statements in scripts: loops, stores, tests, names, effects."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any

from pegbox.errors import ScriptError
from pegbox.expr import build, dtypes
from pegbox.expr.affine import difference
from pegbox.expr.low_level import stored_box
from pegbox.expr.nodes import OPERATORS, Buffer, Call, Const, Expr, Load, Var
from pegbox.expr.visit import loads
from pegbox.loops.access.region import written_below
from pegbox.loops.nodes import Alloc, Evaluate, For, ForKind, If, Stmt, Store, seq
from pegbox.loops.script.blocks import BlockDraft
from pegbox.loops.script.buffers import Buffers
from pegbox.loops.script.calls import arguments
from pegbox.loops.script.loop_headers import Domains
from pegbox.loops.script.scope import ScriptScope
from pegbox.loops.script.source import ScriptSource
from pegbox.loops.script.vectors import Lane, has_lanes, reading
from pegbox.loops.script.views import View
from pegbox.loops.script.words import Word

_AUGMENTED = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div"}


# The words to the right of `=` that do not give a value.
_MAKERS = ("alloc_buffer", "decl_buffer", "match_buffer", "allocate", "Buffer")


class Statements(Domains, Buffers):
    """A reader of suites; `allocs` holds the function's own buffers."""

    def __init__(self, source: ScriptSource, outer: Mapping[str, Any]) -> None:
        super().__init__(source, ScriptScope(outer))
        self.blocks: dict[str, ast.AST] = {}
        self.inits: dict[str, ast.AST] = {}
        self.drafts: list[BlockDraft] = []
        self.allocs: list[Buffer] = []
        self.places: dict[Buffer, ast.AST] = {}
        self.loops: dict[str, ast.AST] = {}

    def suite(self, stmts: Sequence[ast.stmt]) -> list[Stmt]:
        """Read the statements in order; a buffer declared among them lives until the end of the suite."""
        found: list[Stmt] = []
        for number, node in enumerate(stmts):
            call = self.word_call(node.value) if isinstance(node, ast.Assign) else None
            if isinstance(node, ast.Assign) and call is not None and self.is_declaration(*call):
                buffer = self.declared(node, node.targets[0], *call)
                found.append(Alloc(buffer, seq(*self.suite(stmts[number + 1 :]))))
                return found
            snapshot = self.snapshot(node)
            if snapshot is not None:
                found.append(Alloc(snapshot.buffer, seq(snapshot, *self.suite(stmts[number + 1 :]))))
                return found
            found += self.stmt(node)
        return found

    def snapshot(self, node: ast.stmt) -> Store | None:
        """Read a name for a value loaded from memory, inside a block: a buffer of one element keeps the value."""
        match node:
            case ast.Assign([ast.Name(name) as target], value) | ast.AnnAssign(ast.Name(name) as target, _, value):
                pass
            case _:
                return None
        if value is None or not self.drafts or self.makes(value):
            return None
        held = self.value(value)
        if not isinstance(held, Expr) or not any(True for _ in loads(held)):
            return None
        if self.scope.is_local(name):
            self.fail(target, f"{name} is bound already; names do not change here", "use another name")
        buffer = Buffer(name, (1,), held.dtype, "local")
        self.scope.bind(name, Load(buffer, (build.index(0),)))
        return Store(buffer, (build.index(0),), held)

    def makes(self, node: ast.expr) -> bool:
        """Check if a call makes a variable or a buffer instead of a value."""
        call = self.word_call(node)
        return call is not None and (call[0].startswith("axis.") or call[0] in _MAKERS)

    def scoped(self, stmts: Sequence[ast.stmt]) -> Stmt:
        with self.scope.frame():
            return seq(*self.suite(stmts))

    def stmt(self, node: ast.stmt) -> list[Stmt]:
        match node:
            case ast.Pass() | ast.Expr(ast.Constant(str())):
                return []
            case ast.For():
                return [self.loop(node)]
            case ast.With():
                return self.with_(node)
            case ast.If():
                return self.test(node)
            case ast.Assign(targets, value):
                if len(targets) != 1:
                    self.fail(node, "one assignment has several targets", "write one assignment for each")
                return self.assign(node, targets[0], value)
            case ast.AnnAssign(target, _, value) if value is not None:
                return self.assign(node, target, value)
            case ast.AugAssign():
                return [self.augmented(node)]
            case ast.Expr(value):
                return self.effect(node, value)
            case ast.While():
                self.fail(
                    node, "while: loops have a number of iterations that is known before", "use for i in range(n)"
                )
            case _:
                what = type(node).__name__
                self.fail(node, f"{what}: this Python statement is not part of the script")

    def word_call(self, node: ast.expr | None) -> tuple[str, ast.Call] | None:
        """Return the word and the call, if the expression calls a name of T."""
        if not isinstance(node, ast.Call):
            return None
        function = self.value(node.func) if isinstance(node.func, ast.Name | ast.Attribute) else None
        return (function.name, node) if isinstance(function, Word) else None

    # loops

    def loop(self, node: ast.For) -> Stmt:
        if node.orelse:
            self.fail(node.orelse[0], "a loop has no else here")
        domains, kind, notes = self.domains(node.iter)
        targets = node.target.elts if isinstance(node.target, ast.Tuple | ast.List) else [node.target]
        if len(targets) != len(domains):
            self.fail(node.target, f"{len(targets)} name(s) for {len(domains)} loop(s)", "give one name for each loop")
        with self.scope.frame() as frame:
            loops = []
            for target, (first, extent) in zip(targets, domains, strict=True):
                if not isinstance(target, ast.Name):
                    self.fail(target, "a loop variable is a plain name")
                if target.id in frame.names:
                    self.fail(target, f"two loops are called {target.id}", "give each its own name")
                var = Var(target.id)
                if kind is not ForKind.SERIAL:
                    self.loops[target.id] = node.iter
                self.scope.bind_variable(target.id, var, build.add(var, build.index(first)), first, extent)
                loops.append((var, extent))
            body = self.scoped(node.body)
        for var, extent in reversed(loops):
            body = For(var, extent, body, kind, notes)
        return body

    # tests, stores, names

    def test(self, node: ast.If) -> list[Stmt]:
        word = self.word_call(node.test)
        if word is not None and word[0] == "guard":
            return [self.guard(node, word[1])]
        if not isinstance(self.value(node.test), Expr):
            return self.suite(node.body if self.value(node.test) else node.orelse)
        condition = self.condition(node.test)
        then = self.scoped(node.body)
        if not node.orelse:
            return [If(condition, then)]
        changed = written_below(then)
        if any(load.buffer in changed for load in loads(condition)):
            self.fail(
                node.test,
                "the condition reads elements that the first branch writes, and is evaluated again for else",
                "choose the value instead: T.if_then_else(cond, a, b)",
            )
        return [If(condition, then), If(build.logical_not(condition), self.scoped(node.orelse))]

    def guard(self, node: ast.If, call: ast.Call) -> Stmt:
        """Read a test made by lowering, which only printed lowered programs contain."""
        if self.drafts or node.orelse:
            self.fail(call, "T.guard marks tests of lowered programs", "write a plain if, or T.where(...)")
        (condition,) = arguments(self, call, "condition")
        return If(self.condition(condition), self.scoped(node.body), guard=True)

    def assign(self, node: ast.stmt, target: ast.expr, value: ast.expr) -> list[Stmt]:
        call = self.word_call(value)
        if call is not None and call[0].startswith("axis."):
            targets = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
            self.axes(node, targets, call[1], call[0])
            return []
        if call is not None and call[0] == "alloc_buffer":
            self.allocs.append(self.new_buffer(node, target, call[1]))
            self.places[self.allocs[-1]] = node
            return []
        if call is not None and call[0] in ("Buffer", "decl_buffer"):
            self.view(target, call[1])
            return []
        if call is not None and call[0] == "match_buffer":
            self.fail(value, "T.match_buffer of something that is not a handle among the parameters")
        if isinstance(target, ast.Subscript):
            return [self.store(target, value)]
        self.let(target, self.value(value), value)
        return []

    def let(self, target: ast.expr, value: Any, node: ast.expr) -> None:
        """Bind a name to an expression, which replaces every use of the name."""
        if isinstance(target, ast.Tuple | ast.List):
            if not isinstance(value, tuple | list) or len(value) != len(target.elts):
                self.fail(target, f"{ast.unparse(node)} does not give {len(target.elts)} values")
            for each, part in zip(target.elts, value, strict=True):
                self.let(each, part, node)
            return
        if not isinstance(target, ast.Name):
            self.fail(target, "only names and elements of buffers are assigned to")
        if isinstance(value, Expr) and any(True for _ in loads(value)):
            self.fail(
                node,
                f"{target.id} would mean a present value of memory, but is evaluated where memory may have changed",
                f'keep it in a buffer: {target.id} = T.alloc_buffer((1,), "{value.dtype}", scope="local")',
            )
        if isinstance(value, Buffer | View):
            self.fail(node, f"{target.id} would be a second name for the buffer {value.name}", "use the first one")
        if self.scope.is_local(target.id):
            self.fail(target, f"{target.id} is bound already; names do not change here", "use another name")
        self.scope.bind(target.id, value)

    def place(self, target: ast.Subscript) -> tuple[Buffer, tuple[Expr, ...], tuple[int, ...]]:
        base = self.value(target.value)
        if not isinstance(base, Buffer | View):
            self.fail(target.value, f"{ast.unparse(target.value)} is not a buffer", "store into a buffer's element")
        buffer, box = self.box(target, base)
        return buffer, tuple(lo for lo, _ in box), tuple(count for _, count in box)

    def store(self, target: ast.Subscript, node: ast.expr) -> Stmt:
        if has_lanes(target) or has_lanes(node):
            return self.store_of_lanes(target, node)
        try:
            return self.plain_store(target, node)
        except ScriptError as error:
            # Arithmetic works on vectors; comparisons, functions and the like are read lane by lane.
            if not self.has_vectors(node):
                raise
            try:
                return self.store_of_lanes(target, node)
            except ScriptError:
                raise error from None

    def has_vectors(self, node: ast.expr) -> bool:
        return any(isinstance(each, ast.Slice) for each in ast.walk(node)) or any(
            isinstance(each, ast.Name)
            and isinstance(view := self.scope.find(each.id), Buffer | View)
            and view in self.vectors
            for each in ast.walk(node)
        )

    def store_of_lanes(self, target: ast.Subscript, node: ast.expr) -> Stmt:
        """Read a store of a vector as a vectorized loop over its lanes."""
        var, count = Var("lane"), self.lanes_stored(target)
        with self.scope.frame() as frame, reading(self, Lane(var, count)):
            frame.variables[var] = count
            body = self.plain_store(target, node)
        return For(var, count, body, ForKind.VECTORIZED)

    def lanes_stored(self, target: ast.Subscript) -> int:
        base = self.value(target.value)
        if isinstance(base, Buffer | View) and base in self.vectors:
            return self.vectors[base]
        for part in ast.walk(target.slice):
            if isinstance(part, ast.Slice) and part.lower is not None and part.upper is not None:
                length = difference(self.index(part.upper), self.index(part.lower))
                step = 1 if part.step is None else self.integer(part.step, "step")
                if length.is_const and step > 0 and length.const > 0:
                    return -(-length.const // step)
            call = self.word_call(part) if isinstance(part, ast.Call) else None
            if call is not None and call[0].lower() in ("ramp", "broadcast") and call[1].args:
                return self.integer(call[1].args[-1], "number of lanes")
        self.fail(target, "a vector is stored in one element", "store it in as many: C[T.Ramp(i * 8, 1, 8)] = ...")

    def plain_store(self, target: ast.Subscript, node: ast.expr) -> Stmt:
        buffer, indices, extents = self.place(target)
        value = self.stored(node, self.scalar(node), buffer)
        if extents != stored_box(indices, value):
            lanes = dtypes.lanes(value.dtype) or 1
            self.fail(target, f"{lanes} value(s) are stored in {list(extents)} elements of {buffer.name}")
        return Store(buffer, indices, value)

    def augmented(self, node: ast.AugAssign) -> Stmt:
        """Read `C[vi] += x`."""
        if type(node.op) not in _AUGMENTED or not isinstance(node.target, ast.Subscript):
            self.fail(node, "only elements of buffers are changed, with +=, -=, *= or /=", "write the assignment out")
        buffer, indices, extents = self.place(node.target)
        if any(count != 1 for count in extents):
            self.fail(node.target, "one element is changed at a time")
        value = self.guarded(node, OPERATORS[_AUGMENTED[type(node.op)]], Load(buffer, indices), self.scalar(node.value))
        return Store(buffer, indices, self.stored(node.value, value, buffer))

    def stored(self, node: ast.AST, value: Any, buffer: Buffer) -> Expr:
        """Convert a value to the buffer's type if it is a plain number, or an index for a buffer of integers."""
        if not isinstance(value, Expr):
            constant: Expr = self.guarded(node, build.const, value, buffer.dtype)
            return constant
        if dtypes.element(value.dtype) == buffer.dtype:
            return value
        if value.dtype == dtypes.INDEX and dtypes.is_int(buffer.dtype):
            return build.cast(buffer.dtype, value)
        self.fail(
            node,
            f"{value.dtype} is stored in {buffer.name}, which holds {buffer.dtype}",
            f'convert it: T.cast(..., "{buffer.dtype}")',
        )

    # with, effects

    def with_(self, node: ast.With) -> list[Stmt]:
        if len(node.items) != 1:
            self.fail(node, "one `with` opens one thing here", "nest them")
        item = node.items[0]
        found = self.word_call(item.context_expr)
        if found is None or found[0] not in ("block", "init", "decl_buffer", "allocate"):
            self.fail(item.context_expr, "`with` opens T.block(...), T.init(), T.decl_buffer(...) or T.allocate(...)")
        word, call = found
        if word == "init":
            self.init(node, call)
            return []
        if word == "block":
            return [self.block(node, call)]
        with self.scope.frame():
            if item.optional_vars is None:
                self.fail(call, "the buffer has no name", f"write `with T.{word}(...) as A:`")
            if not self.is_declaration(word, call):
                self.view(item.optional_vars, call)
                return self.suite(node.body)
            buffer = self.declared(node, item.optional_vars, word, call)
            return [Alloc(buffer, seq(*self.suite(node.body)))]

    def effect(self, node: ast.stmt, value: ast.expr) -> list[Stmt]:
        found = self.word_call(value)
        if found is None:
            self.fail(node, f"{ast.unparse(value)} has no effect", "store it, or write T.evaluate(...)")
        word, call = found
        match word:
            case "where":
                self.where(call)
            case "reads" | "writes":
                self.regions(call, word)
            case "block_attr":
                self.block_attr(call)
            case "init":
                self.fail(call, "T.init() opens a suite", "write `with T.init():`")
            case "evaluate":
                (inner,) = arguments(self, call, "value")
                return self.evaluated(inner)
            case "call_extern" | "call_llvm_intrin" | "call_intrin":
                return self.evaluated(value)
            case "func_attr":
                self.fail(call, "T.func_attr has its place at the start of a function")
            case _:
                self.fail(node, f"T.{word}(...) is not a statement", "see docs/script.md for the statements")
        return []

    def evaluated(self, node: ast.expr) -> list[Stmt]:
        value = build.as_expr(self.scalar(node))
        if isinstance(value, Const):
            return []
        if not isinstance(value, Call):
            self.fail(node, f"{value} has no effect", "evaluate a call, or store the value")
        return [Evaluate(value)]
