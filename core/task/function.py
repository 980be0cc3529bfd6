"""`NamedFunction`: the common base of templates and workloads, with checked arguments and pickling."""

from __future__ import annotations

import inspect
import pickle
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from pegbox.checks import near_names
from pegbox.errors import TemplateError
from pegbox.hooks import registry
from pegbox.hooks.refs import import_file, is_file_module
from pegbox.origin import Definition
from pegbox.shown import value_text

_Named = TypeVar("_Named", bound="NamedFunction")


@dataclass(frozen=True)
class NamedFunction:
    """A function with its name in the registry."""

    name: str
    function: Callable[..., Any]

    kind: ClassVar[str]
    leading: ClassVar[int] = 0  # the number of parameters that pegbox provides

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    @property
    def __wrapped__(self) -> Callable[..., Any]:
        """The function, under the name by which `inspect` and the registry find it."""
        return self.function

    @property
    def doc(self) -> str:
        """The function's docstring, or an empty string."""
        return inspect.getdoc(self.function) or ""

    @property
    def ref(self) -> str:
        """The place of the function, "my_ops.py:conv"; empty if it is not at the top level of a user's file."""
        file, name = Definition.of(self.function).file, getattr(self.function, "__qualname__", "<")
        return f"{file}:{name}" if file and name.isidentifier() else ""

    @property
    def signature(self) -> inspect.Signature:
        """The parameters for the user's arguments."""
        try:
            full = inspect.signature(self.function)
        except ValueError as error:  # a built-in type has none
            raise TemplateError(f"{self.kind} {self.name}: {error}; give a function of Python") from None
        return full.replace(parameters=list(full.parameters.values())[self.leading :])

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments by name, with defaults: the same workload always looks the same.

        Raises:
            TemplateError: the arguments do not fit the function.
        """
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as error:
            given = ", ".join([*map(repr, args), *(f"{k}={value_text(v)}" for k, v in kwargs.items())])
            known = self.signature.parameters
            wrong = next((name for name in kwargs if name not in known), None)
            raise TemplateError(
                f"{self.kind} {self.name}{shown(self.signature)} cannot take ({given}): {error}"
                + ("" if wrong is None else near_names(wrong, known))
            ) from error
        self._check_integers(bound)
        bound.apply_defaults()
        try:
            return {name: _plain(value) for name, value in bound.arguments.items()}
        except RecursionError:
            raise TemplateError(f"{self.kind} {self.name}: an argument is a list that is nested too deeply") from None

    def _check_integers(self, bound: inspect.BoundArguments) -> None:
        """Raise `TemplateError` for text or a float in the place of an integer, as in `64 64 sixty`."""
        parameters = bound.signature.parameters
        for name, value in bound.arguments.items():
            if isinstance(value, str | float) and parameters[name].annotation in (int, "int"):
                raise TemplateError(
                    f"{self.kind} {self.name}{shown(bound.signature)}: {name}={value_text(value)} is not an integer"
                )

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by the function's module and name, because the name may belong to the object that replaced it."""
        module, path = self.function.__module__, ""
        if "<" in self.function.__qualname__:
            raise pickle.PicklingError(
                f"{self.kind} {self.name} ({self.function.__qualname__}) is defined inside a function, where no other "
                "process finds it; define it at the top of a module"
            )
        if is_file_module(module):
            path = str(sys.modules[module].__file__)
        return _unpickled, (type(self), self.name, module, path, self.function.__qualname__)

    @classmethod
    def registered(cls: type[_Named], name: str, function: Callable[..., Any]) -> _Named:
        """Make an object of the class, and register it for the module of the function.

        Raises:
            PluginError: another definition already has the name.
        """
        made = cls(name, function)
        registry.register(cls.kind, name, made, owner=function.__module__)
        return made

    @classmethod
    def of(cls: type[_Named], function: object, ref: object) -> _Named:
        """Wrap an object from the registry, which may be a plain function.

        Raises:
            TemplateError: the object is not a function.
        """
        if isinstance(function, cls):
            return function
        if callable(function) and not isinstance(function, NamedFunction):
            return cls(getattr(function, "__name__", str(ref)), function)
        found = "" if ref is function else f"{value_text(function)}, "
        raise TemplateError(
            f"{value_text(ref)} is {found}not a {cls.kind} function; decorate one with @pegbox.{cls.kind}('name')"
        )


def name_of(function: object) -> str:
    """Return a function's Python name.

    Raises:
        TemplateError: it has none.
    """
    name = getattr(function, "__name__", None)
    if not isinstance(name, str):
        raise TemplateError(f"{value_text(function)} has no name; write one in the decorator, as in ('my_op')")
    return name


def _unpickled(kind: type[NamedFunction], name: str, module: str, path: str, attribute: str) -> NamedFunction:
    home = import_file(Path(path)) if path else import_module(module)
    found = attrgetter(attribute)(home)
    if isinstance(found, kind) and found.name == name:
        return found
    return kind(name, found.function if isinstance(found, NamedFunction) else found)


class _Bare(str):
    """Text whose repr has no quotes."""

    __repr__ = str.__str__


def shown(signature: inspect.Signature) -> str:
    """Write the parameters, with annotations as in the source."""
    parameters = [
        p.replace(annotation=_Bare(p.annotation)) if isinstance(p.annotation, str) else p
        for p in signature.parameters.values()
    ]
    return str(inspect.Signature(parameters))


def _plain(value: Any) -> Any:
    """Turn NumPy's numbers into Python's and tuples into lists, as JSON does, so that equal arguments look the same."""
    match value:
        case list() | tuple():
            return [_plain(item) for item in value]
        case dict():
            return {key: _plain(item) for key, item in value.items()}
        case _:
            return value.item() if getattr(value, "ndim", None) == 0 and hasattr(value, "item") else value
