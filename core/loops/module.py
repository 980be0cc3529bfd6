"""Modules: functions by name, the unit that scripts define and `build` takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from pegbox.checks import check_instance, check_mapping, check_text
from pegbox.errors import LoweringError
from pegbox.loops.nodes import Function
from pegbox.loops.verify import verify
from pegbox.shown import value_text

ENTRY = "main"


class IRModule:
    """A set of functions by name. Immutable: `with_function` gives a changed one."""

    def __init__(self, functions: Mapping[str, Function] | Function) -> None:
        """Make a module of functions by name, or of a single function, which keeps its name.

        Raises:
            LoweringError: there is no function.
        """
        given = (
            {functions.name: functions}
            if isinstance(functions, Function)
            else check_mapping("IRModule: functions", functions, "functions by name", error=LoweringError)
        )
        for func in given.values():
            check_instance("IRModule: function", func, Function, "what pegbox.lower gives", error=LoweringError)
        if not given:
            raise LoweringError("IRModule: no function given; a module has at least one")
        self.functions: dict[str, Function] = {n: replace(f, name=n) if f.name != n else f for n, f in given.items()}

    @classmethod
    def from_expr(cls, func: Function) -> IRModule:
        """Return a module of a single function, which keeps its name."""
        return cls(func)

    def __getitem__(self, name: str) -> Function:
        """Return the function of that name; a single function is also called "main", as in TVM.

        Raises:
            LoweringError: there is none.
        """
        return self.functions[self.name_of(name)]

    def name_of(self, name: str) -> str:
        """Return the name under which a function is in the module.

        Raises:
            LoweringError: there is none.
        """
        check_text("name of a function", name, error=LoweringError)
        if name == ENTRY and len(self.functions) == 1:
            return next(iter(self.functions))
        if name not in self.functions:
            raise LoweringError(f"the module has no function {value_text(name)}; it has {', '.join(self.functions)}")
        return name

    def __iter__(self) -> Iterator[str]:
        return iter(self.functions)

    def __len__(self) -> int:
        return len(self.functions)

    def with_function(self, func: Function) -> IRModule:
        """Return the module with the function of that name exchanged or added."""
        check_instance("with_function", func, Function, "what pegbox.lower gives", error=LoweringError)
        return IRModule({**self.functions, func.name: func})

    def functions_items(self) -> list[tuple[str, Function]]:
        """List names and functions."""
        return list(self.functions.items())

    def script(self) -> str:
        """Return the module as Python text that reads back to an equal one: see `pegbox.loops.script`."""
        from pegbox.loops.script.printer import script_of_module  # only printing needs it

        return script_of_module(self)

    def show(self) -> None:
        """Print the script."""
        print(self.script(), end="")

    def verify(self) -> None:
        """Check that every function is well-formed: see `pegbox.loops.verify`.

        Raises:
            LoweringError: one is not.
        """
        for func in self.functions.values():
            verify(func)

    def __str__(self) -> str:
        return self.script()

    def __repr__(self) -> str:
        return f"IRModule({', '.join(self.functions)})"

    def __eq__(self, other: object) -> bool:
        """Compare functions up to the names of variables: see `pegbox.loops.equal`."""
        return self.functions == other.functions if isinstance(other, IRModule) else NotImplemented

    def __hash__(self) -> int:
        return hash(frozenset(self.functions.items()))
