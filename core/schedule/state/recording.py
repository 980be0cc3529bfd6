"""Decorators that make a function a primitive, a composite of primitives, or a query."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial, wraps
from typing import Any, NamedTuple, TypeVar, cast, overload

from pegbox.checks import check_keywords
from pegbox.errors import ScheduleError
from pegbox.loops.nodes import Alloc, BlockRealize, For, If, Seq, Stmt
from pegbox.schedule.analysis.recurrence import check_ordered, check_rows
from pegbox.schedule.errors import add_call, showing, shown
from pegbox.schedule.state.arguments import Signature
from pegbox.schedule.state.block_scope import BlockScope, common_path
from pegbox.schedule.state.circular_buffer import check_circular_buffers, has_circular_buffers
from pegbox.schedule.state.handles import LoopRef, SampledInt, SampledLoop, handles
from pegbox.schedule.state.schedule_state import ScheduleState
from pegbox.schedule.state.step import Step, frozen, plain
from pegbox.schedule.state.trace import Drawn, LoopAt
from pegbox.schedule.tree import Tree

_Method = TypeVar("_Method", bound=Callable[..., Any])

PRIMITIVES: set[str] = set()  # the names of all of them


@overload
def primitive(method: _Method) -> _Method: ...


@overload
def primitive(*, moves: bool = True, any_block: bool = False) -> Callable[[_Method], _Method]: ...


def primitive(method: Any = None, *, moves: bool = True, any_block: bool = False) -> Any:
    """Check the types of arguments, make refusals uniform, and record calls in the trace once they succeeded.

    A refused call changes nothing. Primitives that call other primitives are decorated with `composite` instead, so
    that their parts are recorded.

    Args:
        any_block: True if the primitive is legal for every block, even if the block's iterations depend on each other
            and must keep their order (see `analysis.dependence`); the arguments of other primitives are checked for
            such blocks.
        moves: True if blocks may be reordered relative to others, or get their values another way, which is refused for
            blocks on buffers that are written again after they were read; False if only a nest itself changes.
    """
    if method is None:
        return partial(primitive, moves=moves, any_block=any_block)
    name = method.__name__
    signature = Signature(method)
    PRIMITIVES.add(name)

    @wraps(method)
    def recorded(sch: ScheduleState, *args: Any, **options: Any) -> Any:
        before = sch.snapshot()
        values = (*args, *options.values())
        inside = None
        try:
            signature.check(args, options)
            order = _Order.of(sch, any_block=any_block)
            scope = _enter(sch, values, changes=True)
            inside = None if scope is None else sch.tree
            # Loops are recorded by their place before the step: afterwards they may no longer exist.
            step_args = tuple(_trace_value(sch, a) for a in args)
            step_options = {
                k: _trace_value(sch, v) for k, v in options.items() if v is not None or signature.defaults.get(k)
            }
            stays = None
            if not any_block:
                tree = sch.tree
                sch.legality.check(sch.func.name, tree, values, moves=moves)
                stays = None if moves or scope is not None else sch.legality.immovable(sch.func.name, tree, values)
            sch.amended = {}
            result = method(sch, *map(given, args), **{k: given(v) for k, v in options.items()})
            if scope is not None:
                inside = None
                sch.update(scope.rebuilt(sch.func))
            if stays is not None:
                sch.legality.mark_immovable(sch.func.name, sch.tree.blocks.keys() - tree.blocks.keys(), stays)
            order.check(sch.tree)
        except Exception as error:
            sch.restore(before)
            _tell(error, sch, name, args, options, inside)
            raise
        sch.steps.append(_step(name, signature, step_args, step_options, sch.amended))
        return result

    return recorded


class _Order(NamedTuple):
    """The order of iterations that a primitive must keep.

    Attributes:
        circular: the program before the primitive, if it has circular buffers; else None.
        rows: the program before the primitive, if it has rows that depend on earlier ones; else None.
        any_block: True if the primitive may change blocks whose iterations depend on each other.
    """

    circular: Tree | None
    rows: Tree | None
    any_block: bool

    @classmethod
    def of(cls, sch: ScheduleState, *, any_block: bool) -> _Order:
        """Find the order that a primitive must keep in the program of a schedule."""
        if sch.func_name is None:
            return cls(None, None, any_block)
        circular = sch.tree if has_circular_buffers(sch.tree) else None
        return cls(circular, sch.tree if not any_block and sch.legality.rows(sch.func_name) else None, any_block)

    def check(self, tree: Tree) -> None:
        """Raise `ScheduleError` if the program after the primitive does not keep the order."""
        if self.circular is not None:
            with showing(self.circular):
                check_circular_buffers(self.circular, tree)
        if self.rows is not None:
            with showing(self.rows):
                check_rows(self.rows, tree)
        if not self.any_block:
            check_ordered(tree)


def _step(
    name: str, signature: Signature, args: tuple[Any, ...], options: dict[str, Any], amended: Mapping[str, Any]
) -> Step:
    """Make the step of a call, with the arguments that the primitive has amended."""
    for key, value in amended.items():
        if key in signature.names[: len(args)]:
            place = signature.names.index(key)
            args = (*args[:place], frozen(value), *args[place + 1 :])
        else:
            options = {**options, key: frozen(value)}
    return Step(name, args, tuple(options.items()))


def composite(method: _Method) -> _Method:
    """Decorate a function that calls primitives, so that all of them are done, or none."""
    signature = Signature(method)

    @wraps(method)
    def all_or_nothing(sch: ScheduleState, *args: Any, **options: Any) -> Any:
        before = sch.snapshot()
        try:
            signature.check(args, options)
            return method(sch, *args, **options)
        except Exception as error:
            sch.restore(before)
            _tell(error, sch, method.__name__, args, options)
            raise

    return cast("_Method", all_or_nothing)


def lookup(method: _Method) -> _Method:
    """Decorate a look-up, which searches the program inside a block if its arguments are inside one."""

    @wraps(method)
    def asked(sch: ScheduleState, *args: Any, **options: Any) -> Any:
        before = sch.snapshot()
        _enter(sch, (*args, *options.values()), changes=False)
        try:
            return method(sch, *args, **options)
        finally:
            sch.restore(before)

    return cast("_Method", asked)


def _enter(sch: ScheduleState, arguments: Sequence[Any], *, changes: bool) -> BlockScope | None:
    """Make the inside of a block the current program, if the arguments are inside one.

    Raises:
        ScheduleError: the inside is to be changed, but the block must keep its order.
    """
    if sch.func_name is None:
        return None
    path = common_path(sch.func, sch.tree, handles(arguments))
    if not path:
        return None
    if changes:
        sch.legality.check_around(sch.func_name, sch.tree, path[0])
    scope = BlockScope(sch.func, path)
    sch.update(scope.innermost)
    return scope


def _trace_value(sch: ScheduleState, value: Any, depth: int = 0) -> Any:
    """Return an argument as the trace stores it."""
    if isinstance(value, SampledInt | SampledLoop) and value.draw in sch.draws:
        return Drawn(sch.draws[value.draw], value.position if isinstance(value, SampledInt) else 0)
    if isinstance(value, LoopRef):
        return _place(sch, value)
    if isinstance(value, tuple | list) and depth < 4:  # no primitive accepts handles in deeper lists
        return tuple(_trace_value(sch, v, depth + 1) for v in value)
    return frozen(given(value))


def _place(sch: ScheduleState, loop: LoopRef) -> LoopAt:
    node: Stmt = sch.find_loop(loop)
    depth = len(sch.tree.ancestors(node))
    while not isinstance(node, BlockRealize):
        if isinstance(node, For | Alloc):
            node = node.body
        elif isinstance(node, If):
            node = node.then
        elif isinstance(node, Seq):
            node = node.stmts[0]
        else:
            raise ScheduleError(f"loop {loop.name} is around a {type(node).__name__}", "schedule before lowering")
    return LoopAt(node.block.name, depth)


def given(value: Any) -> Any:
    """Return an argument as primitives get it: drawn numbers and NumPy's numbers become plain ones."""
    if isinstance(value, SampledInt):
        return int(value)
    if isinstance(value, tuple | list) and any(isinstance(v, SampledInt) for v in value):
        return type(value)(map(given, value))
    return plain(value)


def _tell(
    error: Exception,
    sch: ScheduleState,
    primitive: str,
    args: Sequence[Any],
    options: Mapping[str, Any],
    inside: Tree | None = None,
) -> None:
    """Add to a refusal the refused call, and the program, or the `inside` of a block of it."""
    if isinstance(error, TypeError) and (method := getattr(sch, primitive, None)) is not None:
        check_keywords(method, options)
    if not isinstance(error, ScheduleError) or not add_call(error, primitive, args, options):
        return
    if not error.program and sch.func_name is not None:
        with suppress(ScheduleError):  # a lowered program has no tree
            tree = sch.tree
            shows = inside if error.marked and inside else tree
            given = [h for h in handles((*args, *options.values())) if h in tree.blocks or h in tree.loops]
            error.program = shown(shows, error.marked or given)
            error.marked = error.marked or tuple(given)
    error.marked = error.place  # names instead of variables, so that copies of an error are equal to it
