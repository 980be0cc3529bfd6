"""What turns a method of a schedule into a primitive, a composite of primitives, or a question."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

from pegbox.errors import ScheduleError
from pegbox.schedule.errors import add_call, names_of, shown
from pegbox.schedule.state.arguments import Signature
from pegbox.schedule.state.handles import SampledInt, handles
from pegbox.schedule.state.trace import Step, frozen

if TYPE_CHECKING:
    from pegbox.schedule.state.base import ScheduleBase

_Method = TypeVar("_Method", bound=Callable[..., Any])

PRIMITIVES: set[str] = set()  # the names of all of them


@overload
def primitive(method: _Method) -> _Method: ...


@overload
def primitive(*, moves: bool = True, any_block: bool = False) -> Callable[[_Method], _Method]: ...


def primitive(method: Any = None, *, moves: bool = True, any_block: bool = False) -> Any:
    """Check the types of arguments, make refusals uniform, and record calls in the trace once they succeeded.

    A refused call changes nothing, also not what a method had already set. Primitives that call other primitives are
    not decorated so (their parts are recorded) but with `composite`.

    Args:
        any_block: good for every block, also for those whose iterations depend on each other in ways that only their
            order keeps right (see `analysis.dependence`). The arguments of other primitives are checked for those.
        moves: blocks change places with others, or values take another way to them: refused for blocks on buffers
            that are written again after they were read. False for what only changes a nest in itself.
    """
    if method is None:
        return partial(primitive, moves=moves, any_block=any_block)
    name = method.__name__
    signature = Signature(method)
    PRIMITIVES.add(name)

    @wraps(method)
    def recorded(self: ScheduleBase, *args: Any, **options: Any) -> Any:
        before = self._state()
        try:
            signature.check(args, options)
            scope = self._enter((*args, *options.values()))
            # Loops are told by their place before the step: afterwards they may be gone.
            step_args = tuple(self._trace_value(a) for a in args)
            step_options = {
                k: self._trace_value(v) for k, v in options.items() if v is not None or signature.defaults.get(k)
            }
            if not any_block:
                self._check_legal((*args, *options.values()), moves)
            immovable = None if any_block or moves or scope is not None else self._immovable((*args, *options.values()))
            self._amended = {}
            result = method(self, *map(given, args), **{k: given(v) for k, v in options.items()})
            if scope is not None:
                self._set(scope.rebuilt(self.func))
            if immovable is not None:
                self._mark_immovable(*immovable)
        except Exception as error:
            self._restore(before)
            _tell(error, self, name, args, options)
            raise
        for key, value in self._amended.items():
            if key in signature.names[: len(args)]:
                place = signature.names.index(key)
                step_args = (*step_args[:place], frozen(value), *step_args[place + 1 :])
            else:
                step_options[key] = frozen(value)
        self._steps.append(Step(name, step_args, tuple(step_options.items())))
        return result

    return recorded


def composite(method: _Method) -> _Method:
    """For a method that is made of primitives: all of them are done, or none."""
    signature = Signature(method)

    @wraps(method)
    def whole(self: ScheduleBase, *args: Any, **options: Any) -> Any:
        before = self._state()
        try:
            signature.check(args, options)
            return method(self, *args, **options)
        except Exception as error:
            self._restore(before)
            _tell(error, self, method.__name__, args, options)
            raise

    return cast("_Method", whole)


def lookup(method: _Method) -> _Method:
    """For a method that only asks: about something inside of a block, it asks the program inside of that block."""

    @wraps(method)
    def asked(self: ScheduleBase, *args: Any, **options: Any) -> Any:
        before = self._func, self._index
        self._enter((*args, *options.values()))
        try:
            return method(self, *args, **options)
        finally:
            self._func, self._index = before

    return cast("_Method", asked)


def given(value: Any) -> Any:
    """An argument as primitives see it: what was drawn is a plain number."""
    if isinstance(value, SampledInt):
        return int(value)
    if isinstance(value, tuple | list) and any(isinstance(v, SampledInt) for v in value):
        return type(value)(map(given, value))
    return value


def _tell(
    error: Exception, schedule: ScheduleBase, primitive: str, args: Sequence[Any], options: Mapping[str, Any]
) -> None:
    """Say in a refusal which call it is of, and show the program."""
    if not isinstance(error, ScheduleError) or not add_call(error, primitive, args, options):
        return
    if not error.program and schedule._func is not None:
        with suppress(ScheduleError):  # a lowered program has no tree
            tree = schedule.tree
            marked = [h for h in handles((*args, *options.values())) if h in tree.blocks or h in tree.loops]
            error.program, error.place = shown(tree, marked), names_of(marked)
