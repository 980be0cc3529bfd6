"""The names that scripts import as `I`."""

from __future__ import annotations

from pegbox.errors import ScriptError
from pegbox.loops.module import IRModule
from pegbox.loops.nodes import Function


def ir_module(cls: type) -> IRModule:
    """Turn a class whose functions are decorated with `T.prim_func` into a module.

    Raises:
        ScriptError: it has no function, or one that is not decorated.
    """
    functions: dict[str, Function] = {}
    for name, value in vars(cls).items():
        if isinstance(value, Function):
            functions[value.name] = value
        elif callable(value) and not name.startswith("__"):
            raise ScriptError(f"{cls.__name__}.{name} is a plain Python function; decorate it with @T.prim_func")
    if not functions:
        raise ScriptError(f"the module {cls.__name__} has no function; write one under @T.prim_func")
    return IRModule(functions)
