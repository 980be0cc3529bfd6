"""The nodes of the loop IR: functions of nested loops around blocks.

The whole grammar:

    Function ::= name(params: Buffer*, outputs) body
    Stmt     ::= For(var, extent, kind, body)          0 <= var < extent; `kind` is a ForKind
               | Seq(stmts)
               | BlockRealize(values, predicate, block)
               | If(condition, then)
               | Store(buffer, indices, value)         a vector value goes to as many neighbours
               | Evaluate(expr)                        a call for its effect
               | Alloc(buffer, body)                   the buffer lives while the body runs
    Block    ::= name, iters: BlockIter*, reads: Region*, writes: Region*, init: Stmt?, body: Stmt

A block is the unit that schedules move. Its body uses only its own iteration variables; a BlockRealize binds each of
them to an expression of the loops around it, and its predicate selects the real iterations (splits that do not divide
make some that are not). A reduction block has an `init`, run where all its reduce variables are at the start of their
domains. The idea is TensorIR's (Feng et al., ASPLOS 2023).

Scheduled programs have blocks; lowered programs (the code generator's input) have none: there `values` are
substituted, predicates have become If, and every buffer that is not a parameter has an Alloc.

All nodes are immutable; a change rebuilds the path from the root and shares the rest. Loops are identified by
their `var` (each For has its own), blocks by their name (unique in a function).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, TypeAlias

from pegbox.checks import check_text
from pegbox.errors import LoweringError
from pegbox.expr.build import TRUE
from pegbox.expr.nodes import Buffer, Expr, Var
from pegbox.loops.kind import ForKind as ForKind

Annotation: TypeAlias = tuple[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class Stmt:
    """A base of all statements. They are compared by identity; `Function`s are compared by structure."""

    def __str__(self) -> str:
        from pegbox.loops.printer import show_stmt  # the printer imports this module

        return show_stmt(self)


@dataclass(frozen=True, slots=True, eq=False)
class For(Stmt):
    """A loop `for var in range(extent)`.

    Annotations: ("pragma_auto_unroll_max_step", n), ("pragma_unroll_explicit", bool).
    """

    var: Var
    extent: int
    body: Stmt
    kind: ForKind = ForKind.SERIAL
    annotations: tuple[Annotation, ...] = ()

    @property
    def loop_var(self) -> Var:
        """The variable, as TVM calls it."""
        return self.var

    def with_body(self, body: Stmt) -> For:
        return self if body is self.body else For(self.var, self.extent, body, self.kind, self.annotations)


@dataclass(frozen=True, slots=True, eq=False)
class Seq(Stmt):
    stmts: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True, eq=False)
class If(Stmt):
    """A statement `then` that runs if the condition holds.

    `guard` marks a condition that only keeps an iteration inside its domain: values written without the test would
    never be read, so that a pass may drop it wherever memory allows the extra work.
    """

    condition: Expr
    then: Stmt
    guard: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Store(Stmt):
    """An assignment `buffer[indices] = value`; under a vectorized loop one store per lane."""

    buffer: Buffer
    indices: tuple[Expr, ...]
    value: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Evaluate(Stmt):
    """A call for its effect: of a C function, an LLVM intrinsic, a prefetch. `Address`es name the touched memory."""

    expr: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Alloc(Stmt):
    buffer: Buffer
    body: Stmt


class IterKind(str, Enum):
    SPATIAL = "spatial"
    REDUCE = "reduce"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True)
class BlockIter:
    """An iteration variable of a block with domain [0, extent)."""

    var: Var
    extent: int
    kind: IterKind

    @property
    def is_reduce(self) -> bool:
        return self.kind is IterKind.REDUCE


@dataclass(frozen=True, slots=True)
class Region:
    """A box of a buffer: per dimension (lowest index, number of elements)."""

    buffer: Buffer
    box: tuple[tuple[Expr, int], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """A computation of one point, in terms of its own variables.

    `annotations` may hold ("combiner", name): the reduction's combiner, for people and for vectorized reductions. A
    user's own reducer is kept whole, as ("reducer", (name, combination)): see `pegbox.loops.reductions.combiner`.
    """

    name: str
    iters: tuple[BlockIter, ...]
    reads: tuple[Region, ...]
    writes: tuple[Region, ...]
    body: Stmt
    init: Stmt | None = None
    annotations: tuple[Annotation, ...] = ()

    @property
    def name_hint(self) -> str:
        """The name, as TVM calls it."""
        return self.name

    @property
    def is_reduction(self) -> bool:
        return any(it.is_reduce for it in self.iters)


@dataclass(frozen=True, slots=True, eq=False)
class BlockRealize(Stmt):
    values: tuple[Expr, ...]
    block: Block
    predicate: Expr = TRUE

    @property
    def bindings(self) -> dict[Var, Expr]:
        """The values of the block's variables."""
        return {it.var: value for it, value in zip(self.block.iters, self.values, strict=True)}


@dataclass(frozen=True, slots=True, eq=False)
class Function:
    """A function of `params`, in call order; `outputs` are the parameters that it writes.

    `allocs` are the intermediate buffers of a scheduled program (a lowered program has Alloc nodes instead). `origins`
    of a lowered program are its original blocks, each with the names of the buffers that it writes. They are a symbol
    table, by which `loops` finds the statements of a stage.
    """

    name: str
    params: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]
    body: Stmt
    allocs: tuple[Buffer, ...] = ()
    attrs: dict[str, Any] = field(default_factory=dict)
    origins: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @property
    def allocations(self) -> dict[str, tuple[tuple[int, ...], str, str]]:
        """The intermediate buffers: {name: (shape, dtype, scope)}; a second one of a name is called `NAME_1`."""
        from pegbox.loops.queries import allocations  # it imports this module

        return allocations(self)

    def loops(self, name: str, *, init: bool = False) -> list[tuple[str, int, str]]:
        """Return the loops around the statement of a stage or block, outermost first: (name, extent, kind).

        A lowered program has no loops of one iteration; if lowering has cut the loops into a main part and tails, they
        are those of the main part. For a reduction, they are those of the update.

        Args:
            init: the statement that starts the elements of a reduction, instead; so does the name "C_init".

        Raises:
            LoweringError: no block or buffer is called so (an inlined stage has none), or there is no init.
        """
        from pegbox.loops.queries import loops_around  # it imports this module

        return loops_around(self, name, init=init)

    def with_body(self, body: Stmt) -> Function:
        return replace(self, body=body)

    def with_attr(self, name: str | Mapping[str, Any], value: Any = None) -> Function:
        """Return the function with another attribute, or those of a mapping; "global_symbol" also sets its name."""
        named = name if isinstance(name, Mapping) else {check_text("with_attr: name", name, error=LoweringError): value}
        attrs = {**self.attrs, **named}
        return replace(self, name=str(attrs.get("global_symbol", self.name)), attrs=attrs)

    def without_attr(self, name: str) -> Function:
        """Return the function without an attribute; its name stays."""
        return replace(self, attrs={key: value for key, value in self.attrs.items() if key != name})

    def script(self) -> str:
        """Return the function as Python text that reads back to an equal one: see `pegbox.loops.script`."""
        from pegbox.loops.script.printer import script_of_function  # it imports this module

        return script_of_function(self)

    def show(self) -> None:
        """Print the script."""
        print(self.script(), end="")

    def __eq__(self, other: object) -> bool:
        """Compare programs up to the names of variables: see `pegbox.loops.equal`."""
        from pegbox.loops.equal import structural_equal  # it imports this module

        return structural_equal(self, other) if isinstance(other, Function) else NotImplemented

    def __hash__(self) -> int:
        return hash((self.name, tuple((b.name, b.shape, b.dtype) for b in self.params), len(self.allocs)))

    def __str__(self) -> str:
        from pegbox.loops.printer import show_function  # it imports this module

        return show_function(self)


def seq(*stmts: Stmt) -> Stmt:
    """Put statements in order, flattened; a single one stays itself."""
    flat: list[Stmt] = []
    for stmt in stmts:
        flat.extend(stmt.stmts if isinstance(stmt, Seq) else (stmt,))
    return flat[0] if len(flat) == 1 else Seq(tuple(flat))
