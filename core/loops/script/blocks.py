"""Reader of blocks in scripts: variables, regions, init, and the inference of omitted parts."""

from __future__ import annotations

import ast
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pegbox.expr import build
from pegbox.expr.affine import constant, linear
from pegbox.expr.bounds import linear_bounds
from pegbox.expr.nodes import Const, Expr, Var
from pegbox.expr.visit import free_vars
from pegbox.loops.access.block_region import contained, derived_regions, uncovered
from pegbox.loops.access.region import written
from pegbox.loops.nodes import Annotation, Block, BlockIter, BlockRealize, IterKind, Region, Stmt, seq
from pegbox.loops.reductions.combiner import combination_of
from pegbox.loops.script.calls import arguments
from pegbox.loops.script.expressions import Expressions
from pegbox.loops.script.scope import SuiteNames
from pegbox.loops.visit import iter_ranges, walk

_KINDS = {"spatial": IterKind.SPATIAL, "S": IterKind.SPATIAL, "reduce": IterKind.REDUCE, "R": IterKind.REDUCE}


@dataclass
class BlockDraft:
    """A block while it is read; `nodes` holds the syntax of its statements, by word."""

    name: str
    node: ast.With
    iters: list[BlockIter] = field(default_factory=list)
    values: list[Expr] = field(default_factory=list)
    places: list[ast.AST] = field(default_factory=list)
    predicate: Expr = build.TRUE
    reads: tuple[Region, ...] | None = None
    writes: tuple[Region, ...] | None = None
    notes: dict[str, Any] = field(default_factory=dict)
    init: Stmt | None = None
    nodes: dict[str, ast.AST] = field(default_factory=dict)


class Blocks(Expressions):
    """A reader of `with T.block(...)`."""

    blocks: dict[str, ast.AST]
    inits: dict[str, ast.AST]
    drafts: list[BlockDraft]

    @abstractmethod
    def suite(self, stmts: Sequence[ast.stmt]) -> list[Stmt]:
        """Read the statements of a suite, in the scope that is open."""

    def block(self, node: ast.With, call: ast.Call) -> Stmt:
        (name_node,) = arguments(self, call, "name", optional=1)
        name = "" if name_node is None else self.value(name_node)
        if not isinstance(name, str):
            self.fail(call, f"{name!r} is not a name of a block", "write it as text")
        if name in self.blocks:
            self.fail(call, f"a second block is called {name!r}", "give each block of a function a name of its own")
        self.blocks[name] = call
        draft = BlockDraft(name, node)
        self.drafts.append(draft)
        with self.scope.frame(is_block=True) as frame:
            body = seq(*self.suite(node.body))
            block = self.finished(draft, body, call)
        self.drafts.pop()
        self.check_values(draft, frame)
        return BlockRealize(tuple(draft.values), block, draft.predicate)

    def draft(self, node: ast.AST, word: str) -> BlockDraft:
        if not self.drafts:
            self.fail(node, f"T.{word} is outside a block", 'put it under `with T.block("name"):`')
        return self.drafts[-1]

    def once(self, node: ast.AST, word: str) -> BlockDraft:
        draft = self.draft(node, word)
        if word in draft.nodes:
            self.fail(node, f"a second T.{word} in block {draft.name!r}", "say it once")
        draft.nodes[word] = node
        return draft

    def axes(self, node: ast.AST, targets: Sequence[ast.expr], call: ast.Call, word: str) -> None:
        """Read `vi = T.axis.spatial(n, i)` or `vi, vj = T.axis.remap("SR", [i, j])`."""
        draft, kind = self.draft(call, word), word.partition(".")[2]
        if self.scope.frames[-1].is_block is False:
            self.fail(call, f"T.{word} is inside another statement", "put it at the start of the block")
        found = self.remap(call) if kind == "remap" else [self.axis(call, _KINDS[kind])]
        if len(found) != len(targets):
            self.fail(node, f"{len(targets)} name(s) for {len(found)} block variable(s)", "give one name for each")
        for target, (kind_, (first, extent), value, place) in zip(targets, found, strict=True):
            if not isinstance(target, ast.Name):
                self.fail(target, "a block variable is bound to a plain name")
            if target.id in self.scope.frames[-1].names:
                self.fail(target, f"the block variable {target.id} is bound twice", "give each its own name")
            var = Var(target.id)
            self.scope.bind_variable(target.id, var, build.add(var, build.index(first)), first, extent)
            draft.iters.append(BlockIter(var, extent, kind_))
            draft.values.append(value)
            draft.places.append(place)

    def axis(self, call: ast.Call, kind: IterKind) -> tuple[IterKind, tuple[int, int], Expr, ast.AST]:
        domain, value = arguments(self, call, "domain", "value", "dtype", optional=1)[:2]
        assert domain is not None
        assert value is not None
        first, extent = self.domain(domain)
        bound = self.outside(value, self.index)
        return kind, (first, extent), _shifted(bound, first), value

    def outside(self, node: ast.expr, read: Callable[[ast.expr], Expr]) -> Expr:
        """Read an expression over the loops around the block."""
        frame = self.scope.frames[-1]
        frame.heading = True
        value = read(node)
        frame.heading = False
        own = sorted(var.name for var in free_vars(value) if var in frame.variables)
        if own:
            self.fail(node, f"the block's own {own[0]} is not known here", "bind block variables to the loops around")
        return value

    def domain(self, node: ast.expr) -> tuple[int, int]:
        """Read the first value and the number of values, of `128` or `(0, 128)`."""
        if isinstance(node, ast.Tuple | ast.List):
            if len(node.elts) != 2:
                self.fail(node, "a domain is a number, or a pair (first, end)")
            first, end = (self.integer(each, "domain") for each in node.elts)
        else:
            value = self.value(node)
            pair = isinstance(value, tuple | list) and len(value) == 2
            first, end = (int(value[0]), int(value[1])) if pair else (0, self.integer(node, "domain"))
        if end <= first:
            self.fail(node, f"the domain from {first} to {end} is empty", "give it at least one value")
        return first, end - first

    def remap(self, call: ast.Call) -> list[tuple[IterKind, tuple[int, int], Expr, ast.AST]]:
        kinds_node, loops = arguments(self, call, "kinds", "bindings", "dtype", optional=1)[:2]
        assert kinds_node is not None
        kinds = self.value(kinds_node)
        if not isinstance(kinds, str) or set(kinds) - {"S", "R"}:
            self.fail(kinds_node, f"{kinds!r}: remap takes text of S (spatial) and R (reduce)", 'write "SSR", say')
        if not isinstance(loops, ast.List | ast.Tuple):
            self.fail(loops or call, "remap takes the list of loops", "write [i, j, k]")
        if len(loops.elts) != len(kinds):
            self.fail(
                call,
                f"{kinds!r} has {len(kinds)} letter(s) for {len(loops.elts)} loop(s)",
                "give one letter for each loop",
            )
        found: list[tuple[IterKind, tuple[int, int], Expr, ast.AST]] = []
        for kind, node in zip(map(_KINDS.__getitem__, kinds), loops.elts, strict=True):
            value = self.outside(node, self.index)
            domain = self.scope.domain(node.id) if isinstance(node, ast.Name) else None
            if domain is None:
                self.fail(
                    node,
                    f"remap: {ast.unparse(node)} is not a loop",
                    f"write T.axis.{kind}(extent, {ast.unparse(node)}) for it",
                )
            found.append((kind, domain, _shifted(value, domain[0]), node))
        return found

    def where(self, call: ast.Call) -> None:
        draft = self.draft(call, "where")
        (node,) = arguments(self, call, "predicate")
        draft.predicate = build.logical_and(draft.predicate, self.outside(node, self.condition))

    def condition(self, node: ast.expr) -> Expr:
        value = self.guarded(node, build.as_expr, self.scalar(node))
        if value.dtype != "bool":
            self.fail(node, f"{value} is {value.dtype} where a condition is needed", "compare it with something")
        return value  # type: ignore[no-any-return]

    def regions(self, call: ast.Call, word: str) -> None:
        draft = self.once(call, word)
        parts = [n for a in call.args for n in (a.elts if isinstance(a, ast.List | ast.Tuple) else [a])]
        found = tuple(self.region(part) for part in parts)
        if word == "reads":
            draft.reads = found
        else:
            draft.writes = found

    def block_attr(self, call: ast.Call) -> None:
        draft = self.draft(call, "block_attr")
        (node,) = arguments(self, call, "attrs")
        notes = self.literal(node)
        if not isinstance(notes, dict):
            self.fail(node, "T.block_attr takes a dictionary", 'write {"key": value}')
        draft.notes |= notes

    def init(self, node: ast.With, call: ast.Call) -> None:
        draft = self.once(call, "init")
        if not any(it.is_reduce for it in draft.iters):
            self.fail(
                call,
                f"T.init in block {draft.name!r}, which has no reduce variable",
                "bind one before it: vk = T.axis.reduce(extent, k); a block without reduction needs no init",
            )
        self.inits[draft.name] = call
        with self.scope.frame():
            draft.init = seq(*self.suite(node.body))
        reducing = {it.var for it in draft.iters if it.is_reduce}
        for region in (region for stmt in walk(draft.init) for region in written(stmt)):
            for var in (v for lo, _ in region.box for v in free_vars(lo) if v in reducing):
                self.fail(
                    call,
                    f"the init of block {draft.name!r} writes {region.buffer.name} at the reduce variable {var.name}: "
                    "it is done once, where the reduction starts, so that the other elements would have no start",
                    f"make {var.name} spatial, T.axis.spatial, or leave it out of the indices",
                )

    def finished(self, draft: BlockDraft, body: Stmt, call: ast.Call) -> Block:
        derived = derived_regions(draft.iters, body, draft.init)
        reads = derived[0] if draft.reads is None else draft.reads
        writes = derived[1] if draft.writes is None else draft.writes
        missed = uncovered(draft.iters, body, draft.init, reads, writes)
        if missed is not None:
            word = "writes" if missed.stores else "reads"
            place = ", ".join(str(lo) if n == 1 else f"{lo}:{lo + n}" for lo, n in missed.region.box)
            self.fail(
                draft.nodes.get(word, call),
                f"block {draft.name!r} {word} {missed.buffer.name}[{place}], which T.{word} does not show to be "
                "covered",
                f"name all that it {word}, or leave T.{word} out: it is then worked out from the body",
            )
        ranges = iter_ranges(draft.iters)
        # Reads of the block's own results are part of its writes.
        reads = tuple(region for region in reads if not contained(region, writes, ranges))
        notes: tuple[Annotation, ...] = tuple(draft.notes.items())
        block = Block(draft.name, tuple(draft.iters), reads, writes, body, draft.init, notes)
        combination = None if "combiner" in draft.notes else combination_of(block)
        if combination is None:
            return block
        return replace(block, annotations=(("combiner", combination.name), *notes))

    def check_values(self, draft: BlockDraft, frame: SuiteNames) -> None:
        """Check that block variables stay in their domains, unless there is a predicate."""
        if not (isinstance(draft.predicate, Const) and draft.predicate.value):
            return
        ranges = self.scope.ranges()
        for it, value, place in zip(draft.iters, draft.values, draft.places, strict=True):
            form = linear(value)
            between = linear_bounds(form, ranges) if all(isinstance(t, Var) for t in form.terms) else None
            if between is not None and (between[0] < 0 or between[1] >= it.extent):
                first = frame.domains[it.var.name][0]
                self.fail(
                    place,
                    f"{it.var.name} goes from {between[0] + first} to {between[1] + first}, beyond its domain from "
                    f"{first} to {it.extent + first - 1}",
                    "give the domain that the loops run over, or say with T.where(...) which iterations are real",
                )


def _shifted(value: Expr, first: int) -> Expr:
    """Return the value relative to the first one of its domain."""
    return linear(value).add(constant(-first)).to_expr() if first else value
