"""Runs programs, scheduled or lowered, element by element: what the loop IR means.

Scheduled programs (blocks, predicates, inits) and lowered ones (Alloc, If) both run. Every access is checked against
the buffer's shape, every read against what has been written, every block variable against its domain. Parallel loops
run backwards. An intermediate buffer is forgotten at each iteration of the innermost loop around all of its uses,
because that is where lowering allocates it.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, TypeAlias

import numpy as np

from pegbox.errors import LoweringError
from pegbox.expr.dtypes import element
from pegbox.expr.dtypes import lanes as lanes_of
from pegbox.expr.low_level import PREFETCH, Broadcast, Reinterpret, Stride, is_machine_call, stored_box
from pegbox.expr.nodes import Binary, Buffer, Call, Cast, Compare, Const, Expr, Load, Logic, Not, Select, Var
from pegbox.expr.numpy_operators import BINARY
from pegbox.expr.numpy_operators import FUNCTIONS as _CALLS
from pegbox.expr.operators import COMPARE
from pegbox.expr.visit import free_vars, loads
from pegbox.loops.nodes import Alloc, BlockRealize, Evaluate, For, ForKind, Function, If, Seq, Stmt, Store
from pegbox.loops.visit import children, expressions

_Env: TypeAlias = dict[Var, Any]
_Code: TypeAlias = Callable[[_Env], Any]
_Run: TypeAlias = Callable[[_Env], None]
_DTYPES = {"bool": np.bool_}


def _dot4(total: Any, a: Any, b: Any) -> Any:
    """Sums of four products of bytes, the first ones unsigned, added to 32-bit integers."""
    products = a.view(np.uint8).astype(np.int32) * b.view(np.int8).astype(np.int32)
    return total + products.reshape(-1, 4).sum(1, dtype=np.int32)


def _dot2(total: Any, a: Any, b: Any) -> Any:
    """Sums of two products of 16-bit floats, added to 32-bit floats."""
    products = a.astype(np.float32) * b.astype(np.float32)
    return total + products.reshape(-1, 2).sum(1)


# The machine code of shipped tensor intrinsics; the effect of any other is unknown here.
_MACHINE: dict[str, Callable[..., Any]] = {
    "llvm.x86.avx512.vpdpbusd.512": _dot4,
    "llvm.x86.avx512bf16.dpbf16ps.512": _dot2,
}


def interpret(func: Function, inputs: Sequence[np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
    """The outputs of a function, in the order of its parameters.

    Args:
        inputs: an array for each parameter that is not an output, in call order; or one for each parameter, for a
            program that changes some in place (a copy of them is what changes).

    Raises:
        IndexError: an access outside of a buffer, a read of an element that nothing has written, or a block variable
            outside of its domain.
        LoweringError: the arrays do not fit the parameters, or an output is not written completely.
    """
    machine = _Machine(func, inputs)
    with np.errstate(all="ignore"):
        machine.stmt(func.body)({})
    for buffer in func.outputs:
        if not machine.written[buffer].all():
            missing = tuple(int(i) for i in np.argwhere(~machine.written[buffer])[0])
            raise LoweringError(f"{func.name}: {buffer.name}{list(missing)} is never written")
    return [machine.arrays[b] for b in func.params if b in func.outputs]


class _Machine:
    """Memory, and the translation of a program into functions: it is looked at once, and runs for each element."""

    def __init__(self, func: Function, inputs: Sequence[np.ndarray[Any, Any]]) -> None:
        self.arrays: dict[Buffer, np.ndarray[Any, Any]] = {}
        self.written: dict[Buffer, np.ndarray[Any, Any]] = {}
        wanted = [b for b in func.params if b not in func.outputs]
        started = len(inputs) == len(func.params)
        if started:
            wanted = list(func.params)
        if len(wanted) != len(inputs):
            raise LoweringError(f"{func.name} takes {len(wanted)} inputs {[b.name for b in wanted]}, got {len(inputs)}")
        for buffer, array in zip(wanted, inputs, strict=True):
            if tuple(array.shape) != buffer.shape or str(array.dtype) != buffer.dtype:
                raise LoweringError(f"{func.name}: {buffer!r} cannot hold an array {array.dtype}{list(array.shape)}")
            self.arrays[buffer] = array.copy() if buffer in func.outputs else array
            self.written[buffer] = np.ones(buffer.shape, bool)
        for buffer in (*(() if started else func.outputs), *func.allocs):
            self._fresh(buffer)
        self.homes = _homes(func)

    def _fresh(self, buffer: Buffer) -> None:
        self.arrays[buffer] = np.zeros(buffer.shape, _DTYPES.get(buffer.dtype, buffer.dtype))
        self.written[buffer] = np.zeros(buffer.shape, bool)

    def stmt(self, stmt: Stmt, *, in_block: bool = False) -> _Run:
        """Return the function that runs a statement."""
        match stmt:
            case For():
                return self._loop(stmt, in_block)
            case Seq(stmts):
                parts = [self.stmt(each, in_block=in_block) for each in stmts]

                def sequence(env: _Env) -> None:
                    for part in parts:
                        part(env)

                return sequence
            case If(condition, then):
                test, body = self._code(condition), self.stmt(then, in_block=in_block)
                return lambda env: body(env) if test(env) else None
            case Store():
                return self._store(stmt)
            case Evaluate(expr):
                return lambda env: _check_effect(expr)
            case Alloc(buffer, inside):
                body = self.stmt(inside, in_block=in_block)

                def allocate(env: _Env) -> None:
                    self._fresh(buffer)
                    body(env)

                return allocate
            case BlockRealize():
                return self._block(stmt, in_block)
            case _:
                raise TypeError(f"unknown statement {type(stmt).__name__}")

    def _loop(self, loop: For, in_block: bool) -> _Run:
        var, body, fresh = loop.var, self.stmt(loop.body, in_block=in_block), self.homes.get(loop.var, ())
        values = [np.int64(value) for value in range(loop.extent)]
        if loop.kind is ForKind.PARALLEL:
            values.reverse()

        def run(env: _Env) -> None:
            for value in values:
                for buffer in fresh:
                    self._fresh(buffer)
                env[var] = value
                body(env)

        return run

    def _store(self, store: Store) -> _Run:
        buffer, value = store.buffer, self._code(store.value)
        box = self._box(buffer, store.indices, stored_box(store.indices, store.value))

        def run(env: _Env) -> None:
            place = box(env)
            self.arrays[buffer][place] = value(env)
            self.written[buffer][place] = True

        return run

    def _block(self, realize: BlockRealize, in_block: bool) -> _Run:
        block, predicate = realize.block, self._code(realize.predicate)
        bound = [(it.var, it.extent, self._code(e)) for it, e in zip(block.iters, realize.values, strict=True)]
        reducing = [it.var for it in block.iters if it.is_reduce]
        init = None if block.init is None else self.stmt(block.init, in_block=True)
        body = self.stmt(block.body, in_block=True)

        def run(env: _Env) -> None:
            if not predicate(env):
                return
            # A block speaks of its own variables; one inside another also of those of that one, and the loops
            # between.
            known = dict(env) if in_block else {}
            for var, extent, code in bound:
                value = code(env)
                if not 0 <= value < extent:
                    raise IndexError(f"block {block.name}: {var.name} = {value}, outside of range({extent})")
                known[var] = value
            if init is not None and all(known[var] == 0 for var in reducing):
                init(known)
            body(known)

        return run

    def _place(self, buffer: Buffer, indices: Sequence[Expr]) -> Callable[[_Env], tuple[int, ...]]:
        codes, shape = [self._code(index) for index in indices], buffer.shape

        def place(env: _Env) -> tuple[int, ...]:
            found = tuple([int(code(env)) for code in codes])
            inside = len(found) == len(shape)
            for i, n in zip(found, shape, strict=False):
                inside = inside and 0 <= i < n
            if not inside:
                raise IndexError(f"{buffer.name}{list(found)} is outside of the shape {list(shape)}")
            return found

        return place

    def _box(
        self, buffer: Buffer, indices: Sequence[Expr], box: Sequence[int]
    ) -> Callable[[_Env], tuple[int | slice, ...]]:
        """The place of a single element, or of the neighbours in a box."""
        place = self._place(buffer, indices)
        if math.prod(box) == 1:
            return place

        def places(env: _Env) -> tuple[int | slice, ...]:
            first = place(env)
            if any(i + n > extent for i, n, extent in zip(first, box, buffer.shape, strict=True)):
                raise IndexError(
                    f"{buffer.name}{list(first)}: {list(box)} elements from there leave {list(buffer.shape)}"
                )
            return tuple(i if n == 1 else slice(i, i + n) for i, n in zip(first, box, strict=True))

        return places

    def _code(self, expr: Expr) -> _Code:
        """Return the code that gives the value of an expression, as a NumPy scalar of its dtype."""
        match expr:
            case Const(value, dtype):
                constant = _scalar_type(dtype)(value)
                return lambda env: constant
            case Var():
                return operator.itemgetter(expr)
            case Binary(op, a, b):
                return _applied(BINARY[op], self._code(a), self._code(b))
            case Compare(op, a, b):
                return _applied(COMPARE[op], self._code(a), self._code(b))
            case Logic("and", a, b):
                left, right = self._code(a), self._code(b)
                return lambda env: right(env) if (known := left(env)) else known
            case Logic("or", a, b):
                left, right = self._code(a), self._code(b)
                return lambda env: known if (known := left(env)) else right(env)
            case Not(a):
                inner = self._code(a)
                return lambda env: np.logical_not(inner(env))
            case Select(cond, a, b):
                test, yes, no = self._code(cond), self._code(a), self._code(b)
                return lambda env: yes(env) if test(env) else no(env)
            case Cast(dtype, a):
                inner = self._code(a)
                return lambda env: np.asarray(inner(env)).astype(element(dtype))[()]
            case Call(name, args, dtype):
                return _called(name, [self._code(a) for a in args], dtype)
            case Broadcast(a, lanes):
                inner = self._code(a)
                return lambda env: np.full(lanes, inner(env))
            case Reinterpret(dtype, a):
                inner = self._code(a)
                return lambda env: _reinterpreted(inner(env), dtype)
            case Stride(buffer, dim):
                stride = np.int64(math.prod(buffer.shape[dim + 1 :]))
                return lambda env: stride
            case Load():
                return self._load(expr)
            case _:
                raise TypeError(f"unknown expression {type(expr).__name__}")

    def _load(self, load: Load) -> _Code:
        buffer, box = load.buffer, self._box(load.buffer, load.indices, load.box)

        def run(env: _Env) -> Any:
            place = box(env)
            written = self.written[buffer][place]
            if not (written.all() if written.ndim else written):
                raise IndexError(f"{buffer.name}{list(place)} is read before anything has been written there")
            found = self.arrays[buffer][place]
            return found.reshape(-1).copy() if found.ndim else found

        return run


def _check_effect(expr: Expr) -> None:
    """A prefetch has no effect; the effect of others is unknown here."""
    if not (isinstance(expr, Call) and expr.name == PREFETCH):
        raise LoweringError(f"the interpreter runs no machine code: {expr}; build the program instead")


def _applied(function: Callable[[Any, Any], Any], a: _Code, b: _Code) -> _Code:
    return lambda env: function(a(env), b(env))


def _called(name: str, args: Sequence[_Code], dtype: str) -> _Code:
    def run(env: _Env) -> Any:
        values = [a(env) for a in args]
        if not is_machine_call(name):
            return np.dtype(dtype).type(_CALLS[name](*values))
        if name not in _MACHINE:
            raise LoweringError(f"the interpreter does not know {name}; build the program instead")
        return _MACHINE[name](*values)

    return run


def _reinterpreted(value: Any, dtype: str) -> Any:
    bits = np.atleast_1d(value).view(element(dtype))
    return bits if lanes_of(dtype) else bits[0]


@cache
def _scalar_type(dtype: str) -> Any:
    return np.dtype(dtype).type


def _homes(func: Function) -> dict[Var, list[Buffer]]:
    """Map each loop to the intermediate buffers of which it is the innermost loop around all uses."""
    paths: dict[Buffer, list[Var]] = {}

    def meet(buffer: Buffer, path: list[Var]) -> None:
        known = paths.setdefault(buffer, path)
        common = [a for a, b in zip(known, path, strict=False) if a is b]
        paths[buffer] = common

    def visit(stmt: Stmt, path: list[Var]) -> None:
        if isinstance(stmt, Store):
            meet(stmt.buffer, path)
        for expr in expressions(stmt):
            for load in loads(expr):
                meet(load.buffer, path)
        if isinstance(stmt, BlockRealize) and stmt.block.init is not None:
            # A reduction starts before its outermost reduce loop.
            reducing = {
                v for it, e in zip(stmt.block.iters, stmt.values, strict=True) if it.is_reduce for v in free_vars(e)
            }
            first = next((n for n, var in enumerate(path) if var in reducing), len(path))
            for region in stmt.block.writes:
                meet(region.buffer, path[:first])
        below = [*path, stmt.var] if isinstance(stmt, For) else path
        for child in children(stmt):
            visit(child, below)

    visit(func.body, [])
    homes: dict[Var, list[Buffer]] = {}
    for buffer in func.allocs:
        if paths.get(buffer):
            homes.setdefault(paths[buffer][-1], []).append(buffer)
    return homes
