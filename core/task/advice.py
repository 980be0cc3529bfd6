"""Advice for a value that is given instead of a task: `pegbox.tune([A, B, C])`."""

from __future__ import annotations

from pegbox.compute.tensor import Tensor
from pegbox.loops.module import IRModule
from pegbox.loops.nodes import Function
from pegbox.schedule.schedule import Schedule
from pegbox.schedule.te.schedule import TESchedule
from pegbox.task.function import NamedFunction

_SKETCH = "pegbox.create_task({name}, args=(...), space='sketch')"


def advice(what: object) -> str:
    """Say how to make a task from this object, or how else to use it; empty without advice."""
    match what:
        case Tensor():
            return advice([what])
        case TESchedule() | Schedule() | Function() | IRModule():
            arguments = "schedule, [A, B, C]" if isinstance(what, TESchedule) else "it"
            return (
                f"a {type(what).__name__} leaves nothing open; pegbox.build({arguments}) compiles it. To search, write "
                "a function of cfg that makes it, a template (docs/templates.md)"
            )
        case NamedFunction(name=name, kind="workload"):
            return f"a workload becomes one with arguments: {_SKETCH.format(name=name)}"
        case NamedFunction(name=name):
            return f"a template becomes one with arguments: pegbox.create_task({name}, args=(...))"
        case [*members] if members and all(isinstance(member, Tensor) for member in members):
            names = ", ".join(member.name for member in members if isinstance(member, Tensor))
            return (
                f"tensors are a computation; return [{names}] from a function decorated with @pegbox.workload, and "
                f"tune {_SKETCH.format(name='function')}; or write a template (docs/templates.md)"
            )
        case _ if callable(what):
            name = getattr(what, "__name__", "function")
            return (
                f"make one with pegbox.create_task({name}, args=(...)), and space='sketch' if the function has no "
                "schedule"
            )
        case _:
            return ""
