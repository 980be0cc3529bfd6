"""Reader of functions and modules in scripts, from text or from decorated Python functions."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Mapping
from typing import Any

from pegbox.checks import check_text
from pegbox.errors import LoweringError, ScriptError
from pegbox.expr.nodes import Buffer
from pegbox.loops.module import IRModule
from pegbox.loops.nodes import Function, Seq, Stmt, seq
from pegbox.loops.refusal import Refusal
from pegbox.loops.script.calls import arguments
from pegbox.loops.script.loop_carried import early_init, fresh
from pegbox.loops.script.printer import APART, FRESH, written_params
from pegbox.loops.script.race import race
from pegbox.loops.script.source import ScriptSource, source_of
from pegbox.loops.script.statements import Statements
from pegbox.loops.script.words import I, T, TypeWord
from pegbox.loops.verify import verify

_OF_BLOCKS = ("reads", "writes", "block_attr")

# The functions that a text may call without importing them.
_BUILTINS = {
    name: getattr(builtins, name)
    for name in ("range", "min", "max", "abs", "len", "int", "float", "bool", "str", "tuple", "list", "sum", "round")
}


def read_function(python: Any, outer: Mapping[str, Any], *, name: str | None = None, private: bool = False) -> Function:
    """Read a program from the text of a Python function.

    Args:
        outer: the names around it.

    Raises:
        ScriptError: the text is not in the dialect; the error points at the place in the file.
    """
    source = source_of(python)
    tree = source.parse()
    found = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    if not found:
        raise source.error(1 + source.shift, 0, 1, "this is not a function", "write def name(A: T.Buffer(...)): ...")
    return _function(source, found[0], {**_BUILTINS, **outer}, name=name, private=private)


def read_text(text: str, file: str = "<script>") -> IRModule | Function:
    """Read a script; return a module for a class or several functions, and a function for a single one.

    Raises:
        ScriptError: the text is not in the dialect; the error points at its line and column.
    """
    check_text("from_source: text", text, error=ScriptError)
    lines = tuple(text.splitlines(keepends=True))
    source = ScriptSource(check_text("from_source: file", file, error=ScriptError), lines)
    reader = _Text(source)
    for node in source.parse().body:
        if isinstance(node, ast.ClassDef):
            reader.class_(node)
        else:
            reader.member(node)
    if reader.module is not None:
        return reader.module
    if not reader.functions:
        raise source.error(
            1, 0, 1, "the text holds no program", "write a function under @T.prim_func, or a class of them"
        )
    single = len(reader.functions) == 1
    return next(iter(reader.functions.values())) if single else IRModule(reader.functions)


class _Text:
    """The statements of a whole text, outside functions."""

    def __init__(self, source: ScriptSource) -> None:
        self.source = source
        self.names: dict[str, Any] = {**_BUILTINS, "T": T, "I": I}
        self.functions: dict[str, Function] = {}
        self.module: IRModule | None = None

    def member(self, node: ast.stmt) -> None:
        """Read a member of the text or of a module's class."""
        match node:
            case ast.Import() | ast.ImportFrom():
                for alias in node.names:
                    if alias.name in ("tir", "ir"):
                        self.names[alias.asname or alias.name] = T if alias.name == "tir" else I
            case ast.Assign([ast.Name(name)], value):
                self.names[name] = self.reader().value(value)
            case ast.Expr(ast.Constant(str())) | ast.Pass():
                pass
            case ast.FunctionDef():
                func = self.function(node)
                if func.name in self.functions:
                    raise self.source.fault(node, f"a second function is called {func.name!r}", "rename one of them")
                self.functions[func.name] = func
            case _:
                raise self.source.fault(
                    node,
                    f"{type(node).__name__} between functions",
                    "write only imports, constants and functions there",
                )

    def reader(self) -> Statements:
        return Statements(self.source, self.names)

    def class_(self, node: ast.ClassDef) -> None:
        self.decorator(node, node.decorator_list, "ir_module", "a class of functions is decorated with @I.ir_module")
        if self.module is not None or self.functions:
            raise self.source.fault(node, "the text holds several modules", "read one at a time")
        for each in node.body:
            self.member(each)
        if not self.functions:
            raise self.source.fault(node, "the module has no function", "write one under @T.prim_func")
        self.module = IRModule(self.functions)

    def function(self, node: ast.FunctionDef) -> Function:
        call = self.decorator(node, node.decorator_list, "prim_func", "a function is decorated with @T.prim_func")
        reader = self.reader()
        name, private = (None, None) if call is None else arguments(reader, call, "name", "private", optional=2)
        return _function(
            self.source,
            node,
            self.names,
            name=None if name is None else str(reader.value(name)),
            private=private is not None and bool(reader.value(private)),
        )

    def decorator(self, node: ast.AST, given: list[ast.expr], wanted: str, remedy: str) -> ast.Call | None:
        """Check the decorator; return its call, if it is one."""
        if len(given) != 1:
            raise self.source.fault(node, f"{len(given) or 'no'} decorator(s)", remedy)
        plain = given[0].func if isinstance(given[0], ast.Call) else given[0]
        value = self.reader().value(plain) if isinstance(plain, ast.Name | ast.Attribute) else None
        if getattr(value, "name", None) != wanted:
            raise self.source.fault(given[0], f"unknown decorator {ast.unparse(given[0])}", remedy)
        return given[0] if isinstance(given[0], ast.Call) else None


def _function(
    source: ScriptSource, node: ast.FunctionDef, outer: Mapping[str, Any], *, name: str | None, private: bool
) -> Function:
    reader = _Function(source, outer)
    with reader.scope.frame():
        reader.parameters(node)
        body = seq(*reader.top(node.body))
    params = reader.params(node)
    attrs = dict(reader.attrs)
    if private:
        attrs["tir.is_private"] = True
    named, is_fresh, apart = attrs.pop("tir.outputs", None), attrs.pop(FRESH, False), attrs.pop(APART, False)
    outputs = written_params(params, body) if named is None else tuple(reader.labels[label] for label in named)
    func = Function(name or node.name, params, outputs, body, tuple(reader.allocs), attrs)
    try:
        verify(func)
    except LoweringError as error:
        raise source.fault(_head(node), str(error)) from None

    def refuse(found: Refusal, places: Mapping[str, ast.AST], more: str = "") -> ScriptError:
        place = next((places[str(name)] for name in found.place if name in places), _head(node))
        return source.fault(place, found.reason, found.remedy + more)

    if (early := early_init(func)) is not None:
        raise refuse(early, reader.inits)
    made = func if is_fresh else fresh(func)
    if isinstance(made, Refusal):
        raise refuse(made, {buffer.name: place for buffer, place in reader.places.items()})
    if not apart and (found := race(made)) is not None:
        trust = f'; where they certainly do not meet, say so: T.func_attr({{"{APART}": True}})'
        raise refuse(found, reader.loops, trust)
    return made


def _head(node: ast.FunctionDef) -> ast.AST:
    """Return the first line of a function, for errors to point at."""
    return ast.Name(node.name, lineno=node.lineno, col_offset=node.col_offset + 4, end_lineno=node.lineno,
                    end_col_offset=node.col_offset + 4 + len(node.name))  # fmt: skip


class _Function(Statements):
    """A reader of a function; `order` holds, for each parameter, a buffer or a handle that has none yet."""

    def __init__(self, source: ScriptSource, outer: Mapping[str, Any]) -> None:
        super().__init__(source, outer)
        self.order: dict[str, Buffer | None] = {}
        self.given: dict[str, ast.AST] = {}
        self.labels: dict[str, Buffer] = {}
        self.attrs: dict[str, Any] = {}
        self.root = False

    def parameters(self, node: ast.FunctionDef) -> None:
        a = node.args
        for extra in (a.vararg, a.kwarg, *a.kwonlyargs, *a.defaults):
            if extra is not None:
                self.fail(extra, "parameters are plain names with a type", 'write A: T.Buffer((128, 128), "float32")')
        for arg in (*a.posonlyargs, *a.args):
            if arg.annotation is None:
                self.fail(arg, f"the parameter {arg.arg} has no type", f'write {arg.arg}: T.Buffer((128,), "float32")')
            self.given[arg.arg] = arg
            self.order[arg.arg] = self.parameter(arg.arg, arg.annotation)
            if self.order[arg.arg] is not None:
                self.labels[arg.arg] = self.order[arg.arg]  # type: ignore[assignment]
                self.scope.bind(arg.arg, self.order[arg.arg])

    def parameter(self, name: str, node: ast.expr) -> Buffer | None:
        """Read the buffer of an annotation; None for a handle."""
        head = node.func if isinstance(node, ast.Call) else node.value if isinstance(node, ast.Subscript) else node
        word = self.value(head)
        if not isinstance(word, TypeWord) or (word.name == "Buffer" and head is node):
            self.fail(
                node,
                f"{ast.unparse(node)} is not a type of a parameter",
                'parameters are buffers: T.Buffer((128, 128), "float32"), or T.handle with T.match_buffer',
            )
        if word.name == "handle":
            return None
        if isinstance(node, ast.Call):
            return self.buffer(node, name)
        assert isinstance(node, ast.Subscript)
        match node.slice:
            case ast.Tuple([shape, dtype]):
                return self.described(node, {"shape": shape, "dtype": dtype}, name)
            case shape:
                return self.described(node, {"shape": shape}, name)

    def params(self, node: ast.FunctionDef) -> tuple[Buffer, ...]:
        found = []
        for name, buffer in self.order.items():
            if buffer is None:
                self.fail(
                    self.given[name],
                    f"the handle {name} is matched with no buffer",
                    f'write A = T.match_buffer({name}, (128, 128), "float32")',
                )
            found.append(buffer)
        if not found:
            self.fail(_head(node), "the function has no parameter", "results go to buffers that it is given")
        return tuple(found)

    def top(self, stmts: list[ast.stmt]) -> list[Stmt]:
        """Read the function's own suite, ignoring a block "root" around everything."""
        rest = list(stmts)
        while rest:
            node = rest[0]
            if self.match(node) or self.func_attr(node):
                rest.pop(0)
            elif self.is_root(node):
                assert isinstance(node, ast.With)
                self.root = True
                with self.scope.frame():
                    inside = self.top([s for s in node.body if self.word_of(s) not in _OF_BLOCKS])
                return [*inside, *self.suite(rest[1:])]
            elif self.declares(node):
                rest.pop(0)
            else:
                break
        return [s for s in self.suite(rest) if not (isinstance(s, Seq) and not s.stmts)]

    def declares(self, node: ast.stmt) -> bool:
        """Read an allocation or a docstring, after which a block "root" may still come."""
        if isinstance(node, ast.Assign) and self.word_of(node) == "alloc_buffer":
            self.stmt(node)
            return True
        return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)

    def is_root(self, node: ast.stmt) -> bool:
        if self.root or not isinstance(node, ast.With) or len(node.items) != 1:
            return False
        found = self.word_call(node.items[0].context_expr)
        if found is None or found[0] != "block" or not found[1].args or self.value(found[1].args[0]) != "root":
            return False
        return not any(isinstance(s, ast.Assign) and self.word_of(s).startswith("axis.") for s in node.body)

    def word_of(self, node: ast.stmt) -> str:
        """Return the T name that a statement calls, or ""."""
        found = self.word_call(node.value) if isinstance(node, ast.Expr | ast.Assign) else None
        return "" if found is None else found[0]

    def match(self, node: ast.stmt) -> bool:
        """Read `A = T.match_buffer(a, (128, 128), "float32")`."""
        found = self.word_call(node.value) if isinstance(node, ast.Assign) else None
        if not isinstance(node, ast.Assign) or found is None or found[0] != "match_buffer":
            return False
        call, target = found[1], node.targets[0]
        handle = call.args[0] if call.args else None
        if not isinstance(handle, ast.Name) or handle.id not in self.order or not isinstance(target, ast.Name):
            self.fail(
                call,
                "T.match_buffer gives a buffer to a handle among the parameters",
                "write A = T.match_buffer(a, ...)",
            )
        if self.order[handle.id] is not None:
            self.fail(call, f"{handle.id} has a buffer already")
        buffer = self.described(call, self.parts(call.args[1:], call), target.id)
        self.order[handle.id] = self.labels[target.id] = buffer
        self.scope.bind(target.id, buffer)
        return True

    def func_attr(self, node: ast.stmt) -> bool:
        found = self.word_call(node.value) if isinstance(node, ast.Expr) else None
        if found is None or found[0] != "func_attr":
            return False
        (given,) = arguments(self, found[1], "attrs")
        attrs = self.literal(given)
        if not isinstance(attrs, dict):
            self.fail(given, "T.func_attr takes a dictionary", 'write {"global_symbol": "main"}')
        self.attrs |= attrs
        return True
