"""`TensorIntrin`: a description of a computation, and the statements that compute it.

The description is a program of one nest; its parameters are the operands, as large as the tile. The statements use the
same buffers. `tensorize` replaces a nest that computes the same (see `match.py`) by them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from pegbox.checks import check_text
from pegbox.errors import ScheduleError
from pegbox.expr.bounds import Ranges, bounds
from pegbox.expr.nodes import Buffer
from pegbox.loops.access.interval import Relaxation, index_interval
from pegbox.loops.access.region import read, written
from pegbox.loops.foreign import CLibrary, CSource, ForeignCode, code_of, foreign_code
from pegbox.loops.nodes import Alloc, BlockRealize, For, Function, Region, Stmt
from pegbox.loops.passes.flatten import flatten_blocks
from pegbox.loops.passes.init import lower_inits
from pegbox.loops.visit import children, realizes, replace_buffer, straight_nest
from pegbox.shown import value_text


@dataclass(frozen=True, eq=False)
class TensorIntrin:
    """A `description` of a computation, and a `body` that computes it.

    If the description initializes a reduction, so does `body`. For a reduction whose loops extend outside the tile,
    `update` adds to existing values and `reset` initializes them (without one, `body` does the first step). All of them
    use the description's parameters. `code` is the source of C functions that they call.
    """

    name: str
    description: Function
    body: Stmt | None
    reset: Stmt | None = None
    update: Stmt | None = None
    code: tuple[ForeignCode, ...] = ()

    @staticmethod
    def register(
        name: str,
        desc: Function,
        impl: Function,
        override: bool = False,
        *,
        code: CSource | CLibrary | Iterable[ForeignCode] = (),
    ) -> TensorIntrin:
        """Make an intrinsic and register it by name.

        Args:
            desc: a program of one nest around one block, which describes the computation.
            impl: a program with the same parameters, in the same order, that does the same.
            code: the C functions that `impl` calls.

        Raises:
            ScheduleError: the name is taken, the parameters differ, or `desc` or `impl` is malformed.
        """
        intrin = TensorIntrin(name, desc, _in_terms_of(name, desc, impl), code=(*code_of(impl), *foreign_code(code)))
        return intrin.registered(override=override)

    def registered(self, *, override: bool = False) -> TensorIntrin:
        """Check the intrinsic, and register it by its name.

        Raises:
            ScheduleError: the name is taken, or the description or the statements are malformed.
        """
        if not isinstance(self.name, str) or not self.name:
            raise ScheduleError(
                f"tensor intrinsic {value_text(self.name)}: a name is a string that is not empty", "give one"
            )
        if self.name in _REGISTRY and not override:
            raise ScheduleError(
                f"tensor intrinsic {self.name!r} is registered already", "give override=True, or a new name"
            )
        _check(self)
        _REGISTRY[self.name] = self
        return self

    @staticmethod
    def is_registered(name: str) -> bool:
        """Check if the name is taken."""
        return check_text("name of a tensor intrinsic", name, error=ScheduleError) in _REGISTRY

    @staticmethod
    def registered_names() -> frozenset[str]:
        """Return the names that are taken."""
        return frozenset(_REGISTRY)

    @staticmethod
    def get(name: str) -> TensorIntrin:
        """Return the intrinsic of that name; shipped ones are made at the first request.

        Raises:
            ScheduleError: there is none.
        """
        check_text("name of a tensor intrinsic", name, error=ScheduleError)
        if name not in _REGISTRY:
            for maker in MAKERS:
                if (made := maker(name)) is not None:
                    return made.registered()
            shipped = "vpdpbusd, dpbf16ps, float32_tile_MxNxK (numbers for M, N, K)"
            known = ", ".join(sorted(_REGISTRY)) or "none"
            raise ScheduleError(
                f"no tensor intrinsic is called {name!r}; registered: {known}; shipped: {shipped}",
                "make one with tir.TensorIntrin.register or te.decl_tensor_intrin",
            )
        return _REGISTRY[name]


_REGISTRY: dict[str, TensorIntrin] = {}

# Shipped families: each function returns the intrinsic of a name, or None.
MAKERS: list[Callable[[str], TensorIntrin | None]] = []


def plain(func: Function) -> Stmt:
    """Return the body of a program without blocks, with its intermediate buffers allocated around it."""
    stmt = flatten_blocks(lower_inits(func)).body
    for buffer in reversed(func.allocs):
        stmt = Alloc(buffer, stmt)
    return stmt


def _in_terms_of(name: str, desc: Function, impl: Function) -> Stmt:
    """Return the statements of `impl` on the buffers of `desc`."""
    for func in (desc, impl):
        if not isinstance(func, Function):
            raise ScheduleError(
                f"tensor intrinsic {value_text(name)}: {value_text(func)} is not a program",
                "give functions of the loop IR",
            )
    mine, theirs = ([(b.shape, b.dtype) for b in f.params] for f in (desc, impl))
    if mine != theirs:
        raise ScheduleError(
            f"tensor intrinsic {name!r}: the description takes {_params(desc)}, the implementation {_params(impl)}",
            "give both the same parameters in the same order",
        )
    return replace_buffer(plain(impl), dict(zip(impl.params, desc.params, strict=True)))


def _params(func: Function) -> str:
    return ", ".join(f"{b.name}: {b.dtype}{list(b.shape)}" for b in func.params)


def described(intrin: TensorIntrin) -> tuple[list[For], BlockRealize]:
    """Return the loops of the description and its block; a block without variables around the loops is ignored.

    Raises:
        ScheduleError: the description is not one nest around one block.
    """
    loops, node = straight_nest(intrin.description.body)
    while isinstance(node, BlockRealize) and not node.block.iters and any(realizes(node.block.body)):
        more, node = straight_nest(node.block.body)
        loops += more
    if not isinstance(node, BlockRealize) or any(realizes(node.block.body)):
        raise ScheduleError(
            f"tensor intrinsic {intrin.name!r}: the description is not one nest around one block",
            "describe one computation, with a block in the innermost loop",
            program=str(intrin.description).rstrip(),
        )
    return loops, node


def _check(intrin: TensorIntrin) -> None:
    """Check that the statements stay inside the operands, and write only the elements that the description writes."""
    loops, realize = described(intrin)
    _check_whole(intrin, loops, realize)
    own = {w.buffer for w in realize.block.writes}
    for part in (intrin.body, intrin.reset, intrin.update):
        if part is not None:
            _check_accesses(intrin, part, own, {}, set(intrin.description.params))


def _check_whole(intrin: TensorIntrin, loops: list[For], realize: BlockRealize) -> None:
    """Check that the description accesses all elements of its operands."""
    relax = Relaxation({x.var for x in loops}, {x.var: (0, x.extent - 1) for x in loops})
    for buffer in intrin.description.params:
        stores = any(w.buffer is buffer for w in realize.block.writes)
        found = [r for r in (realize.block.writes if stores else realize.block.reads) if r.buffer is buffer]
        boxes = [[index_interval(lo, realize, relax) for lo, _ in region.box] for region in found]
        if not boxes or any(i is None or not i.lo.is_const or (stores and not i.exact) for box in boxes for i in box):
            raise _not_whole(intrin, buffer)
        for dim, extent in enumerate(buffer.shape):
            spans = [(i.lo.const, i.lo.const + i.width) for box in boxes if (i := box[dim]) is not None]
            if min(lo for lo, _ in spans) != 0 or max(hi for _, hi in spans) != extent - 1:
                raise _not_whole(intrin, buffer)
        moved = [var for box in boxes for i in box if i is not None for var in i.moved_by]
        if stores and (len(boxes) > 1 or len(moved) != len(set(moved))):
            raise _not_whole(intrin, buffer)


def _not_whole(intrin: TensorIntrin, buffer: Buffer) -> ScheduleError:
    return ScheduleError(
        f"tensor intrinsic {intrin.name!r}: the description does not touch {buffer!r} as a whole, element by element",
        "give each operand the shape of what the description reads or writes of it",
        program=str(intrin.description).rstrip(),
    )


def _check_accesses(intrin: TensorIntrin, stmt: Stmt, own: set[Buffer], ranges: Ranges, known: set[Buffer]) -> None:
    if isinstance(stmt, For):
        ranges = {**ranges, stmt.var: (0, stmt.extent - 1)}
    if isinstance(stmt, Alloc):
        known, own = known | {stmt.buffer}, own | {stmt.buffer}
    problems = [_problem(region, own, ranges, known) for region in written(stmt)]
    problems += [_problem(region, known, ranges, known) for region in read(stmt)]
    for problem in filter(None, problems):
        raise ScheduleError(f"tensor intrinsic {intrin.name!r}: its statements {problem}; in\n{stmt}")
    for child in children(stmt):
        _check_accesses(intrin, child, own, ranges, known)


def _problem(region: Region, allowed: set[Buffer], ranges: Ranges, known: set[Buffer]) -> str:
    buffer = region.buffer
    if buffer not in known:
        return f"use {buffer!r}, which is not an operand of the description"
    if buffer not in allowed:
        return f"write {buffer.name}, which the description only reads"
    if len(region.box) != len(buffer.shape):
        return f"give {buffer!r} {len(region.box)} indices"
    for (lo, count), extent in zip(region.box, buffer.shape, strict=True):
        between = bounds(lo, ranges)
        if between is None or between[0] < 0 or between[1] + count > extent:
            return f"may leave {buffer!r} at the index {lo}, {count} element(s) from there"
    return ""
