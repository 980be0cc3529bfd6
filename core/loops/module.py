"""Modules: functions by name, the unit that scripts hold and that is built."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from pegbox.errors import LoweringError
from pegbox.loops.nodes import Function


class IRModule:
    """Functions by name. Immutable: `with_function` gives a changed one."""

    def __init__(self, functions: Mapping[str, Function] | Function) -> None:
        """From functions by name, or from a single function, which keeps its name.

        Raises:
            LoweringError: there is no function.
        """
        given = {functions.name: functions} if isinstance(functions, Function) else dict(functions)
        if not given:
            raise LoweringError("IRModule: no function given; a module has at least one")
        self.functions: dict[str, Function] = {n: replace(f, name=n) if f.name != n else f for n, f in given.items()}

    def __getitem__(self, name: str) -> Function:
        """The function of that name.

        Raises:
            LoweringError: there is none.
        """
        if name not in self.functions:
            raise LoweringError(f"the module has no function {name!r}; it has {', '.join(self.functions)}")
        return self.functions[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.functions)

    def __len__(self) -> int:
        return len(self.functions)

    def with_function(self, func: Function) -> IRModule:
        """The module with the function of that name exchanged or added."""
        return IRModule({**self.functions, func.name: func})
