"""Runs lowered programs element by element, and suspects everything.

- Every index is checked against the shape of its buffer.
- What is allocated starts as poison (NaN, or a conspicuous integer), and so do outputs: whatever is read without
  having been written shows in the result.
- The lanes of a vectorized loop take each statement together, one statement after the other.
- Every float operation rounds to its own type, also where its value is not stored.
- The iterations of a parallel loop run backwards, and two of them may not touch one element that either writes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pegbox.compute.tensor import Tensor
from pegbox.expr import dtypes
from pegbox.expr.low_level import PREFETCH, Address
from pegbox.expr.nodes import Binary, Buffer, Call, Cast, Compare, Const, Expr, Load, Logic, Not, Select, Var
from pegbox.expr.operators import BINARY, COMPARE
from pegbox.expr.visit import free_vars, loads
from pegbox.loops.nodes import Alloc, Evaluate, For, ForKind, Function, If, Seq, Stmt, Store

Array = NDArray[Any]
Number = int | float | bool
Env = dict[Var, int]
Eval = Callable[[Env], Any]
Run = Callable[[Sequence[Env]], None]

POISON_INT = -7777
EVERY_OTHER = (math.nan, POISON_INT)


class BrokenProgram(AssertionError):
    """The program does what no lowered program may do."""


def run(func: Function, arguments: Sequence[Array], *, poison: int = POISON_INT) -> None:
    """Run a lowered function on arrays in the order of its parameters; outputs are overwritten in place."""
    check(func)
    machine = _Machine(poison)
    for buffer, array in zip(func.params, arguments, strict=True):
        if array.shape != buffer.shape or str(array.dtype) != buffer.dtype:
            raise BrokenProgram(f"{buffer} was given {array.dtype}{list(array.shape)}")
        machine.memory[buffer] = array.ravel().tolist()
        if buffer in func.outputs:
            machine.fill(buffer)
    body = machine.stmt(func.body)
    with np.errstate(all="ignore"):
        body([{}])
    for buffer, array in zip(func.params, arguments, strict=True):
        if buffer in func.outputs:
            # NumPy makes floats of a list with some integers above the limit of int64 and some below.
            kind = None if dtypes.is_float(buffer.dtype) else array.dtype
            array[...] = np.array(machine.memory[buffer], kind).astype(array.dtype).reshape(array.shape)


def run_on(func: Function, tensors: Sequence[Tensor], inputs: dict[Tensor, Array], **options: Any) -> list[Array]:
    """Run on named inputs; gives the outputs in the order of the parameters."""
    arrays = [inputs[t] if t in inputs else np.zeros(t.shape, t.dtype) for t in tensors]
    run(func, arrays, **options)
    return [a for a, t in zip(arrays, tensors, strict=True) if t.buffer in func.outputs]


def check(func: Function) -> None:
    """Is it a lowered program: every variable bound once by a loop around, every buffer a parameter or allocated?"""
    bound: set[Var] = set()
    made: set[Buffer] = set(func.params)

    def expr(e: Expr, loops: frozenset[Var], buffers: frozenset[Buffer]) -> None:
        if unbound := free_vars(e) - loops:
            raise BrokenProgram(f"{[v.name for v in unbound]} bound by no loop around {e}\n{func}")
        for load in loads(e):
            access(load.buffer, load.indices, buffers)

    def access(buffer: Buffer, indices: tuple[Expr, ...], buffers: frozenset[Buffer]) -> None:
        if buffer not in buffers:
            raise BrokenProgram(f"{buffer} is neither a parameter nor allocated around its use\n{func}")
        if len(indices) != len(buffer.shape):
            raise BrokenProgram(f"{buffer} is indexed with {len(indices)} indices\n{func}")

    def go(stmt: Stmt, loops: frozenset[Var], buffers: frozenset[Buffer]) -> None:
        match stmt:
            case For():
                if stmt.var in bound or stmt.extent < 1:
                    raise BrokenProgram(f"loop {stmt.var.name} of {stmt.extent}: bound twice or empty\n{func}")
                bound.add(stmt.var)
                go(stmt.body, loops | {stmt.var}, buffers)
            case Seq(stmts):
                for each in stmts:
                    go(each, loops, buffers)
            case If(condition, then):
                expr(condition, loops, buffers)
                go(then, loops, buffers)
            case Store(buffer, indices, value):
                access(buffer, indices, buffers)
                for each in (*indices, value):
                    expr(each, loops, buffers)
            case Evaluate(value):
                expr(value, loops, buffers)
            case Alloc(buffer, body):
                if buffer in made:
                    raise BrokenProgram(f"{buffer} is allocated twice\n{func}")
                made.add(buffer)
                go(body, loops, buffers | {buffer})
            case _:
                raise BrokenProgram(f"a {type(stmt).__name__} is left in the program\n{func}")

    go(func.body, frozenset(), frozenset(func.params))
    if func.allocs:
        raise BrokenProgram(f"allocations are left beside the program: {func.allocs}")


@dataclass
class _Ledger:
    """The writes and reads during one parallel loop; `shared` are the buffers that existed before it."""

    shared: frozenset[Buffer]
    iteration: int = 0
    writes: dict[tuple[Buffer, int], int] = field(default_factory=dict)
    reads: dict[tuple[Buffer, int], int] = field(default_factory=dict)

    def read(self, buffer: Buffer, at: int) -> None:
        if buffer in self.shared:
            if self.writes.get((buffer, at), self.iteration) != self.iteration:
                raise BrokenProgram(f"parallel iterations race: one reads element {at} of {buffer.name}, one writes it")
            self.reads[buffer, at] = self.iteration

    def write(self, buffer: Buffer, at: int) -> None:
        if buffer in self.shared:
            for others in (self.writes, self.reads):
                if others.get((buffer, at), self.iteration) != self.iteration:
                    raise BrokenProgram(f"parallel iterations race at element {at} of {buffer.name}")
            self.writes[buffer, at] = self.iteration


class _Machine:
    """Memory, and the translation of a program into Python closures (a tree walk would be five times slower)."""

    def __init__(self, poison: int) -> None:
        self.memory: dict[Buffer, list[Number]] = {}
        self.poison = poison
        self.ledgers: list[_Ledger] = []

    def fill(self, buffer: Buffer) -> None:
        if dtypes.is_float(buffer.dtype):
            value: Number = math.nan
        elif buffer.dtype == "bool":
            value = bool(self.poison)
        else:
            value = dtypes.wrap(self.poison, buffer.dtype)
        self.memory[buffer] = [value] * buffer.size

    def stmt(self, stmt: Stmt) -> Run:
        match stmt:
            case For():
                return self.loop(stmt)
            case Seq(stmts):
                parts = [self.stmt(s) for s in stmts]

                def sequence(lanes: Sequence[Env]) -> None:
                    for part in parts:
                        part(lanes)

                return sequence
            case If(condition, then):
                test, body = self.expr(condition), self.stmt(then)

                def branch(lanes: Sequence[Env]) -> None:
                    chosen = [lane for lane in lanes if test(lane)]
                    if chosen:
                        body(chosen)

                return branch
            case Store(buffer, indices, value):
                return self.store(buffer, indices, value)
            case Evaluate(expr):
                return self.effect(expr)
            case Alloc(buffer, body):
                inside = self.stmt(body)

                def allocate(lanes: Sequence[Env]) -> None:
                    if len(lanes) > 1:
                        # One copy for all lanes would be shared by them: run them one after the other.
                        for lane in lanes:
                            self.fill(buffer)
                            inside([lane])
                    else:
                        self.fill(buffer)
                        inside(lanes)
                    del self.memory[buffer]

                return allocate
            case _:
                raise BrokenProgram(f"cannot run a {type(stmt).__name__}")

    def loop(self, loop: For) -> Run:
        body, var, extent = self.stmt(loop.body), loop.var, loop.extent

        def serial(lanes: Sequence[Env]) -> None:
            for i in range(extent):
                for lane in lanes:
                    lane[var] = i
                body(lanes)

        def vectorized(lanes: Sequence[Env]) -> None:
            body([{**lane, var: i} for lane in lanes for i in range(extent)])

        def parallel(lanes: Sequence[Env]) -> None:
            ledger = _Ledger(frozenset(self.memory))
            self.ledgers.append(ledger)
            for i in reversed(range(extent)):
                ledger.iteration = i
                for lane in lanes:
                    lane[var] = i
                body(lanes)
            self.ledgers.pop()

        match loop.kind:
            case kind if kind.in_order or kind.is_bound:
                return serial
            case ForKind.VECTORIZED:
                return vectorized
            case ForKind.PARALLEL:
                return parallel

    def effect(self, expr: Expr) -> Run:
        """A prefetch touches nothing, but its address has to lie inside the buffer."""
        if not (isinstance(expr, Call) and expr.name == PREFETCH and isinstance(expr.args[0], Address)):
            raise BrokenProgram(f"cannot run machine code: {expr}")
        place = self.place(expr.args[0].buffer, expr.args[0].indices)

        def look(lanes: Sequence[Env]) -> None:
            for lane in lanes:
                place(lane)

        return look

    def store(self, buffer: Buffer, indices: tuple[Expr, ...], value: Expr) -> Run:
        place, compute, convert = self.place(buffer, indices), self.expr(value), _converter(buffer.dtype)

        def store(lanes: Sequence[Env]) -> None:
            for lane in lanes:
                at, new = place(lane), convert(compute(lane))
                for ledger in self.ledgers:
                    ledger.write(buffer, at)
                self.memory[buffer][at] = new

        return store

    def place(self, buffer: Buffer, indices: tuple[Expr, ...]) -> Callable[[Env], int]:
        parts = [(self.expr(index), extent) for index, extent in zip(indices, buffer.shape, strict=True)]

        def place(env: Env) -> int:
            at = 0
            for index, extent in parts:
                i = index(env)
                if not 0 <= i < extent:
                    where = [p(env) for p, _ in parts]
                    raise BrokenProgram(f"{buffer.name}{where} is outside of its shape {list(buffer.shape)}")
                at = at * extent + i
            return at

        return place

    def expr(self, expr: Expr) -> Eval:
        match expr:
            case Const(value):
                return lambda env: value
            case Var():
                return lambda env: env[expr]
            case Binary(op, a, b) | Compare(op, a, b):
                return self.binary(op, self.expr(a), self.expr(b), expr.dtype)
            case Logic(op, a, b):
                left, right = self.expr(a), self.expr(b)
                if op == "and":
                    return lambda env: left(env) and right(env)
                return lambda env: left(env) or right(env)
            case Not(a):
                inner = self.expr(a)
                return lambda env: not inner(env)
            case Select(cond, a, b):
                test, yes, no = self.expr(cond), self.expr(a), self.expr(b)
                return lambda env: yes(env) if test(env) else no(env)
            case Cast(dtype, a):
                inner, convert = self.expr(a), _converter(dtype)
                return lambda env: convert(inner(env))
            case Call(name, args, dtype):
                function, parts = _CALLS[name], [self.expr(a) for a in args]
                return _rounded(lambda env: function(*(p(env) for p in parts)), dtype)
            case Load(buffer, indices):
                place = self.place(buffer, indices)

                def load(env: Env) -> Number:
                    at = place(env)
                    for ledger in self.ledgers:
                        ledger.read(buffer, at)
                    return self.memory[buffer][at]

                return load
            case _:
                raise BrokenProgram(f"cannot evaluate a {type(expr).__name__}")

    @staticmethod
    def binary(op: str, a: Eval, b: Eval, dtype: str) -> Eval:
        function = _OPERATORS[op]
        if not dtypes.is_int(dtype):
            return _rounded(lambda env: function(a(env), b(env)), dtype)
        low, high = dtypes.value_range(dtype)

        def compute(env: Env) -> int:
            value = function(a(env), b(env))
            return value if low <= value <= high else dtypes.wrap(value, dtype)

        return compute


def _rounded(compute: Eval, dtype: str) -> Eval:
    """Round what is computed in float64 to its own type, as kernels do after each operation."""
    if not dtypes.is_float(dtype) or dtype == "float64":
        return compute
    convert = _converter(dtype)
    return lambda env: convert(compute(env))


def _converter(dtype: str) -> Callable[[Any], Number]:
    if dtype == "bool":
        return lambda x: bool(x != 0)
    if dtype == "float64":
        return float
    if dtypes.is_float(dtype):
        kind = np.dtype(dtype).type
        if dtype == "bfloat16":  # through float32, as kernels do; ml_dtypes takes no Python integers above 2^63
            return lambda x: float(kind(np.float32(x)))
        return lambda x: float(kind(x))
    low, high = dtypes.value_range(dtype)

    def convert(x: Any) -> int:
        value = int(x) if math.isfinite(x) else 0
        return value if low <= value <= high else dtypes.wrap(value, dtype)

    return convert


_OPERATORS = {**BINARY, **COMPARE}
_CALLS: dict[str, Callable[..., Any]] = {
    "exp": lambda x: float(np.exp(np.float64(x))),
    "log": lambda x: float(np.log(np.float64(x))),
    "sqrt": lambda x: float(np.sqrt(np.float64(x))),
    "tanh": math.tanh,
    "abs": abs,
    "floor": lambda x: float(np.floor(x)),
    "ceil": lambda x: float(np.ceil(x)),
    "round": lambda x: float(np.rint(x)),
    "trunc": lambda x: float(np.trunc(x)),
    "copysign": math.copysign,
    "erf": math.erf,
    "sigmoid": lambda x: 1 / (1 + math.exp(-x)),
}
