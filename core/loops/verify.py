"""The check that a program is well-formed, as all other modules assume."""

from __future__ import annotations

from pegbox.errors import LoweringError
from pegbox.expr import dtypes
from pegbox.expr.affine import linear
from pegbox.expr.bounds import Interval, bounds
from pegbox.expr.low_level import stored_box
from pegbox.expr.nodes import Buffer, Const, Expr, Load, Logic, Select, Var
from pegbox.expr.visit import children as operands
from pegbox.loops.access.block_region import uncovered
from pegbox.loops.nodes import Alloc, BlockRealize, Evaluate, For, Function, If, Region, Seq, Stmt, Store


def verify(func: Function) -> None:
    """Check a scheduled or lowered function.

    Variables are bound once and used where they are known, buffers are parameters or allocated, blocks have unique
    names and use only their own variables; block variables stay in their domains and indices in their shapes, unless a
    condition may keep them there; a block touches only its stated regions.

    Raises:
        LoweringError: the program is malformed; the message describes the first fault.
    """
    _Verifier(func).run()


class _Verifier:
    """A walk of a program; `ranges` are those of the variables that may be used; `sure`: no condition is around."""

    def __init__(self, func: Function) -> None:
        self.func = func
        self.bound: set[Var] = set()
        self.names: set[str] = set()
        self.buffers: set[Buffer] = {*func.params, *func.allocs}
        self.ranges: dict[Var, Interval] = {}

    def run(self) -> None:
        func = self.func
        for buffer in (*func.params, *func.allocs):
            self.shape(buffer)
        if len(set(func.params)) != len(func.params):
            raise self.fault("a buffer occurs twice among the parameters")
        for buffer in func.outputs:
            if buffer not in func.params:
                raise self.fault(f"the output {buffer.name} is not among the parameters")
        self.stmt(func.body, True, False)

    def fault(self, text: str) -> LoweringError:
        return LoweringError(f"{self.func.name}: {text}")

    def shape(self, buffer: Buffer) -> None:
        if any(extent < 1 for extent in buffer.shape):
            raise self.fault(f"the buffer {buffer.name} has an empty dimension: {list(buffer.shape)}")

    def stmt(self, stmt: Stmt, sure: bool, in_block: bool) -> None:
        match stmt:
            case For(var, extent, body):
                self.bind(var, extent, "loop")
                self.stmt(body, sure, in_block)
                del self.ranges[var]
            case Seq(stmts):
                for each in stmts:
                    self.stmt(each, sure, in_block)
            case If(condition, then):
                self.condition(condition, sure)
                self.stmt(then, False, in_block)
            case Store():
                self.store(stmt, sure)
            case Evaluate(expr):
                self.expr(expr, sure)
            case Alloc(buffer, body):
                self.shape(buffer)
                inside = buffer not in self.buffers
                self.buffers.add(buffer)
                self.stmt(body, sure, in_block)
                if inside:
                    self.buffers.remove(buffer)
            case BlockRealize():
                self.realize(stmt, sure, in_block)
            case _:
                raise TypeError(f"unknown statement {type(stmt).__name__}")

    def bind(self, var: Var, extent: int, what: str) -> None:
        if var in self.bound:
            raise self.fault(f"the {what} variable {var.name} is bound twice")
        if extent < 1:
            raise self.fault(f"the {what} variable {var.name} has an empty domain, range({extent})")
        self.bound.add(var)
        self.ranges[var] = (0, extent - 1)

    def condition(self, expr: Expr, sure: bool) -> None:
        if expr.dtype != "bool":
            raise self.fault(f"the condition {expr} is {expr.dtype}; compare it with something")
        self.expr(expr, sure)

    def store(self, stmt: Store, sure: bool) -> None:
        self.access(stmt.buffer, stmt.indices, stored_box(stmt.indices, stmt.value), sure)
        self.expr(stmt.value, sure)
        if dtypes.element(stmt.value.dtype) != stmt.buffer.dtype:
            raise self.fault(f"{stmt.value}, {stmt.value.dtype}, is stored in {stmt.buffer!r}")

    def realize(self, stmt: BlockRealize, sure: bool, in_block: bool) -> None:
        block = stmt.block
        if block.name in self.names:
            raise self.fault(f"two blocks are called {block.name!r}")
        self.names.add(block.name)
        if len(stmt.values) != len(block.iters):
            raise self.fault(f"block {block.name} has {len(block.iters)} variables and {len(stmt.values)} values")
        self.condition(stmt.predicate, False)
        always = isinstance(stmt.predicate, Const) and bool(stmt.predicate.value)
        for it, value in zip(block.iters, stmt.values, strict=True):
            self.expr(value, sure)
            self.domain(value, it.extent, f"block {block.name}: {it.var.name} = {value}", sure and always)
        if block.init is not None and not block.is_reduction:
            raise self.fault(f"block {block.name} has an init but no reduce variable")
        outer = self.ranges
        self.ranges = dict(outer) if in_block else {}
        for it in block.iters:
            self.bind(it.var, it.extent, "block")
        for region in (*block.reads, *block.writes):
            self.region(region)
        for part in (block.init, block.body):
            if part is not None:
                self.stmt(part, sure and always, True)
        self.ranges = outer
        missed = uncovered(block.iters, block.body, block.init, block.reads, block.writes)
        if missed is not None:
            verb = "writes" if missed.stores else "reads"
            raise self.fault(f"block {block.name} {verb} {missed.buffer.name} beyond the regions that it states")

    def region(self, region: Region) -> None:
        self.rank(region.buffer, len(region.box))
        for lo, _ in region.box:
            self.expr(lo, False)

    def rank(self, buffer: Buffer, count: int) -> None:
        if buffer not in self.buffers:
            raise self.fault(f"the buffer {buffer.name} is neither a parameter nor allocated around its use")
        if len(buffer.shape) != count:
            raise self.fault(f"{buffer!r} has {len(buffer.shape)} dimension(s) and is given {count} indices")

    def access(self, buffer: Buffer, indices: tuple[Expr, ...], box: tuple[int, ...], sure: bool) -> None:
        self.rank(buffer, len(indices))
        for number, (index, count) in enumerate(zip(indices, box, strict=True)):
            if index.dtype != dtypes.INDEX:
                raise self.fault(f"the index {index} of {buffer.name} is {index.dtype}, not {dtypes.INDEX}")
            self.expr(index, sure)
            self.domain(index, buffer.shape[number] - count + 1, f"index {number} of {buffer.name}, {index}", sure)

    def domain(self, expr: Expr, extent: int, what: str, sure: bool) -> None:
        """Fail where the expression certainly leaves range(extent)."""
        if not sure:
            return
        if all(isinstance(term, Var) for term in linear(expr).terms):
            between = bounds(expr, self.ranges)
            if between is not None and (between[0] < 0 or between[1] >= extent):
                raise self.fault(f"{what}, goes from {between[0]} to {between[1]}, beyond range({extent})")

    def expr(self, expr: Expr, sure: bool) -> None:
        match expr:
            case Var():
                if expr not in self.ranges:
                    raise self.fault(f"the variable {expr.name} is used where it is not known")
            case Load(buffer, indices):
                self.access(buffer, indices, expr.box, sure)
            case Select() | Logic():
                # Some parts of these may not be evaluated.
                for part in operands(expr):
                    self.expr(part, False)
            case _:
                for part in operands(expr):
                    self.expr(part, sure)
