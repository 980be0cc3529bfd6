"""Printer of programs as scripts, which read back to equal programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pegbox.expr.nodes import Buffer, Const, Expr, Var
from pegbox.loops.access.region import written_below
from pegbox.loops.module import IRModule
from pegbox.loops.nodes import Alloc, Annotation, Block, BlockRealize, For, ForKind, Function, If, Stmt
from pegbox.loops.printer import INDENT, StatementPrinter, indented
from pegbox.loops.reductions.combiner import combination_of
from pegbox.loops.script.loop_carried import fresh
from pegbox.loops.script.race import race
from pegbox.loops.script.style import SCRIPT, Names, identifier, literal
from pegbox.loops.visit import realizes

FRESH = "tir.buffers_are_fresh"  # every iteration writes the elements of intermediates that it reads
APART = "tir.iterations_are_apart"  # no two concurrent iterations touch an element that one of them writes


def script_of_module(mod: IRModule) -> str:
    """Print the module as a class, with the functions in their order."""
    lines = ["# from pegbox.tir.script import ir as I, tir as T", "", "@I.ir_module", "class Module:"]
    for number, func in enumerate(mod.functions.values()):
        lines += [""] if number else []
        lines += [INDENT + line if line else "" for line in _function(func)]
    return "\n".join(lines) + "\n"


def script_of_function(func: Function) -> str:
    """Print the function alone."""
    return "\n".join(["# from pegbox.tir.script import tir as T", "", *_function(func)]) + "\n"


def written_params(params: Sequence[Buffer], body: Stmt) -> tuple[Buffer, ...]:
    """Return the parameters that a program writes, which are its outputs by default."""
    found = written_below(body)
    return tuple(buffer for buffer in params if buffer in found)


def _function(func: Function) -> Iterator[str]:
    names = Names()
    label = identifier(func.name)
    attrs = dict(func.attrs)
    private = attrs.pop("tir.is_private", False) is True
    notes = [f"name={literal(func.name)}"] if label != func.name else []
    notes += ["private=True"] if private else []
    yield f"@T.prim_func({', '.join(notes)})" if notes else "@T.prim_func"
    params = ", ".join(f"{names.declare(b)}: T.Buffer({_buffer(b, names)})" for b in func.params)
    yield f"def {label}({params}) -> None:"
    if func.outputs != written_params(func.params, func.body):
        attrs["tir.outputs"] = tuple(names[buffer] for buffer in func.outputs)
    if fresh(func) is not func:  # true of every program; readers of this text need not prove it
        attrs[FRESH] = True
    if race(func) is not None:
        attrs[APART] = True
    if attrs:
        yield f"{INDENT}T.func_attr({literal(attrs)})"
    lines = [f"{names.declare(b)} = T.alloc_buffer({_buffer(b, names)})" for b in func.allocs]
    lines += _Script(names).stmt(func.body)
    if any(realize.block.name == "root" for realize in realizes(func.body)):
        # Readers ignore a block "root" around everything; a second one around it keeps the program's own.
        lines = ['with T.block("root"):', *indented(lines)]
    yield from indented(lines)


def _buffer(buffer: Buffer, names: Names) -> str:
    """Write the shape, the dtype, and unusual attributes."""
    parts = [literal(buffer.shape), literal(buffer.dtype)]
    parts += [f"scope={literal(buffer.scope)}"] if buffer.scope != "global" else []
    parts += [f"name={literal(buffer.name)}"] if names[buffer] != buffer.name else []
    return ", ".join(parts)


class _Script(StatementPrinter):
    """A printer in which suites are scopes of names; `extents` holds those of the loops around."""

    nothing = ("pass",)

    def __init__(self, names: Names) -> None:
        super().__init__(SCRIPT, names.__getitem__)
        self.names = names
        self.extents: dict[Var, int] = {}

    def suite(self, stmt: Stmt) -> list[str]:
        with self.names.scope():
            return indented(self.stmt(stmt))

    def condition(self, stmt: If) -> str:
        text = self.expr(stmt.condition)
        if stmt.guard:
            return f"T.guard({text})"
        # A plain True or False would be Python's, which a reader evaluates at once.
        return f"T.bool({text})" if isinstance(stmt.condition, Const) else text

    def evaluation(self, expr: Expr) -> str:
        return f"T.evaluate({self.expr(expr)})"

    def alloc(self, stmt: Alloc, last: bool) -> list[str]:
        """Print a buffer that lives until the end of its suite, or of a new suite."""
        if last:
            name = self.names.declare(stmt.buffer)
            return [f"{name} = T.decl_buffer({_buffer(stmt.buffer, self.names)})", *self.stmt(stmt.body)]
        with self.names.scope():
            name = self.names.declare(stmt.buffer)
            return [f"with T.decl_buffer({_buffer(stmt.buffer, self.names)}) as {name}:", *self.suite(stmt.body)]

    def loop(self, stmt: For) -> list[str]:
        """Print a loop, or several directly nested plain ones."""
        with self.names.scope():
            nest, body = [stmt], stmt.body
            while _is_plain(stmt) and isinstance(body, For) and _is_plain(body):
                nest.append(body)
                body = body.body
            self.extents.update({loop.var: loop.extent for loop in nest})
            variables = ", ".join(self.names.declare(loop.var) for loop in nest)
            if len(nest) > 1:
                domain = f"T.grid({', '.join(str(loop.extent) for loop in nest)})"
            else:
                domain = f"range({stmt.extent})" if _is_plain(stmt) else _domain(stmt)
            return [f"for {variables} in {domain}:", *self.suite(body)]

    def realize(self, stmt: BlockRealize) -> list[str]:
        with self.names.scope():
            return [f"with T.block({literal(stmt.block.name)}):", *indented(self.block(stmt))]

    def block(self, stmt: BlockRealize) -> list[str]:
        block = stmt.block
        lines = list(self.axes(stmt))
        if not (isinstance(stmt.predicate, Const) and stmt.predicate.value):
            lines.append(f"T.where({self.expr(stmt.predicate)})")
        lines += [f"T.reads({self.regions(block.reads)})", f"T.writes({self.regions(block.writes)})"]
        if notes := _block_notes(block):
            lines.append(f"T.block_attr({literal(notes)})")
        if block.init is not None:
            lines += ["with T.init():", *self.suite(block.init)]
        return lines + self.stmt(block.body)

    def axes(self, stmt: BlockRealize) -> Iterator[str]:
        """Print the block's variables; consecutive ones that are just loops share a line."""
        pairs = list(zip(stmt.block.iters, stmt.values, strict=True))
        # Values use names from around the block, so they are printed before its own variables come into scope.
        texts = [self.expr(value) for value in stmt.values]
        plain = [isinstance(v, Var) and self.extents.get(v) == it.extent for it, v in pairs]
        start = 0
        while start < len(pairs):
            end = start
            while end < len(pairs) and plain[end]:
                end += 1
            if end - start < 2:
                it = pairs[start][0]
                yield f"{self.names.declare(it.var)} = T.axis.{it.kind}({it.extent}, {texts[start]})"
                start += 1
            else:
                run = [it for it, _ in pairs[start:end]]
                variables = ", ".join(self.names.declare(it.var) for it in run)
                kinds = "".join("R" if it.is_reduce else "S" for it in run)
                yield f'{variables} = T.axis.remap("{kinds}", [{", ".join(texts[start:end])}])'
                start = end


def _is_plain(loop: For) -> bool:
    return loop.kind is ForKind.SERIAL and not loop.annotations


def _domain(loop: For) -> str:
    parts = [str(loop.extent)]
    notes: dict[str, Any] = dict(loop.annotations)
    if loop.kind.option:
        parts.append(f"{loop.kind.option}={literal(loop.kind.value)}")
    if notes:
        parts.append(f"annotations={literal(notes)}")
    return f"T.{loop.kind.word}({', '.join(parts)})"


def _block_notes(block: Block) -> dict[str, Any]:
    """Return the annotations, without a combiner that readers recognize."""
    notes: list[Annotation] = list(block.annotations)
    named = dict(notes).get("combiner")
    if named is not None:
        seen = combination_of(block)
        if seen is not None and seen.name == named:
            notes = [(key, value) for key, value in notes if key != "combiner"]
    return dict(notes)
