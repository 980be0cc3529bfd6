"""`tvm.lower` and `tvm.build`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pegbox
from pegbox.compute.tensor import Tensor
from pegbox.errors import ArgumentError
from pegbox.loops.module import IRModule
from pegbox.loops.nodes import Function
from pegbox.plugins.tvm.ir.transform import PassContext
from pegbox.plugins.tvm.runtime.module import Module
from pegbox.plugins.tvm.sized_module import SizedModule
from pegbox.plugins.tvm.target import Target, TargetLike
from pegbox.schedule.te.schedule import TESchedule
from pegbox.schedule.te.sizes import variables_of

_UNNAMED = "default_function"


def lower(
    inp: TESchedule | Function | IRModule,
    args: Sequence[Tensor] | None = None,
    name: str = "main",
    binds: Mapping[Any, Any] | None = None,
    simple_mode: bool = False,
) -> IRModule:
    """The plain loop program of a schedule, function or module, as a module; see `pegbox.lower`.

    Of a schedule with size variables it shows the program of numbers that stand in for them; `build` takes the module
    for all sizes.

    Raises:
        ArgumentError: `binds`, or what `pegbox.lower` refuses.
        ScheduleError: the schedule is not legal, or an argument is missing.
    """
    _check_binds(binds)
    context = PassContext.current()
    if isinstance(inp, IRModule):
        plain_module = IRModule({label: context.function(func) for label, func in inp.functions.items()})
        return pegbox.lower(plain_module, simple_mode=simple_mode)
    plain = context.schedule(inp) if isinstance(inp, TESchedule) else context.function(inp)
    if isinstance(plain, TESchedule) and variables_of(plain):
        return SizedModule(plain, list(args or ()), name, simple_mode=simple_mode)
    return IRModule({name: pegbox.lower(plain, list(args or ()), name, simple_mode=simple_mode)})


def build(
    inputs: Any,
    args: Sequence[Tensor] | None = None,
    target: TargetLike | None = None,
    target_host: TargetLike | None = None,
    runtime: object = None,
    name: str = _UNNAMED,
    binds: Mapping[Any, Any] | None = None,
) -> Module:
    """Compile a schedule with its arguments, a function, a module, or modules by their targets.

    Raises:
        TargetError: a target that is no CPU.
        ArgumentError, ScheduleError, CompileError: as `lower`, and what cannot be compiled.
    """
    if isinstance(inputs, Mapping):
        if len(inputs) != 1:
            raise ArgumentError(f"build: modules for {len(inputs)} targets; build them one by one")
        ((target, inputs),) = inputs.items()
    machine = None if target is None else Target(target, target_host)
    if isinstance(inputs, SizedModule):
        inputs, args, name = inputs.schedule, inputs.args, inputs.name if name == _UNNAMED else name
    if isinstance(inputs, TESchedule):
        _check_binds(binds)
        plain = PassContext.current().schedule(inputs)
        return Module(pegbox.build(plain, list(args or ()), machine, name=name))
    if isinstance(inputs, Function) and name == _UNNAMED:
        name = inputs.name
    return Module(pegbox.build(lower(inputs, args, name, binds), target=machine))


def _check_binds(binds: Mapping[Any, Any] | None) -> None:
    """Raises ArgumentError: there are any."""
    if binds:
        raise ArgumentError("binds=...: a tensor has the buffer that it has; leave it out")
