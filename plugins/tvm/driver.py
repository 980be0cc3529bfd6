"""`tvm.lower` and `tvm.build`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pegbox
from pegbox.errors import ArgumentError
from pegbox.plugins.tvm.runtime.module import Module
from pegbox.plugins.tvm.target import Target, TargetLike
from pegbox.schedule.te.program import shown_sizes, variables_of
from pegbox.te import Tensor, TESchedule
from pegbox.tir import IRModule, PrimFunc

_UNNAMED = "default_function"


class SizedModule(IRModule):
    """The module of a schedule with size variables: its program, for people, is that of numbers for the sizes."""

    def __init__(self, schedule: TESchedule, args: Sequence[Tensor], name: str, *, simple_mode: bool) -> None:
        """Lower a schedule, which may change afterwards.

        Raises:
            ScheduleError: it is not legal for these numbers, or an argument is missing.
        """
        self.schedule, self.args, self.name = schedule.copy(), list(args), name
        sizes = None if simple_mode else shown_sizes(variables_of(schedule))
        super().__init__({name: pegbox.lower(schedule, args, name, simple_mode=simple_mode, sizes=sizes)})


def lower(
    inp: TESchedule | PrimFunc | IRModule,
    args: Sequence[Tensor] | None = None,
    name: str = "main",
    binds: Mapping[Any, Any] | None = None,
    simple_mode: bool = False,
) -> IRModule:
    """Make the plain loop program of a schedule, function or module, as a module; see `pegbox.lower`.

    Raises:
        ArgumentError: `binds`, or what `pegbox.lower` refuses.
        ScheduleError: the schedule is not legal, or an argument is missing.
    """
    _check_binds(binds)
    if isinstance(inp, IRModule):
        return pegbox.lower(inp, simple_mode=simple_mode)
    if isinstance(inp, TESchedule) and variables_of(inp):
        return SizedModule(inp, list(args or ()), name, simple_mode=simple_mode)
    return IRModule({name: pegbox.lower(inp, list(args or ()), name, simple_mode=simple_mode)})


def build(
    inputs: TESchedule | PrimFunc | IRModule,
    args: Sequence[Tensor] | None = None,
    target: TargetLike | None = None,
    target_host: TargetLike | None = None,
    name: str = _UNNAMED,
    binds: Mapping[Any, Any] | None = None,
) -> Module:
    """Compile a schedule with its arguments, a function or a module.

    Raises:
        TargetError: the target is not a CPU.
        ArgumentError, ScheduleError, CompileError: as `lower`, and what cannot be compiled.
    """
    _check_binds(binds)
    machine = None if target is None else Target(target, target_host)
    if isinstance(inputs, SizedModule):
        args, name = inputs.args, inputs.name if name == _UNNAMED else name
        inputs = inputs.schedule
    if isinstance(inputs, TESchedule):
        return Module(pegbox.build(inputs, list(args or ()), machine, name=name))
    if isinstance(inputs, PrimFunc) and name == _UNNAMED:
        name = inputs.name
    return Module(pegbox.build(lower(inputs, args, name), target=machine))


def _check_binds(binds: Mapping[Any, Any] | None) -> None:
    if binds:
        raise ArgumentError("binds=...: a tensor has the buffer that it has; leave it out")
