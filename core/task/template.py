"""Templates: functions that say what is computed and which choices its schedule leaves open."""

from __future__ import annotations

import inspect
import pickle
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import Any, overload

from pegbox.errors import TemplateError
from pegbox.hooks import registry
from pegbox.hooks.refs import import_file, is_file_module


@dataclass(frozen=True)
class Template:
    """A named template function `function(cfg, *args, **kwargs) -> (schedule, tensors)`.

    It runs once to declare the space (`cfg.define_*`) and once per candidate to apply a configuration (`cfg[name]`).
    """

    name: str
    function: Callable[..., Any]

    def __call__(self, cfg: Any, *args: Any, **kwargs: Any) -> Any:
        return self.function(cfg, *args, **kwargs)

    @property
    def __wrapped__(self) -> Callable[..., Any]:
        """The function, where `inspect` and the registry look for it."""
        return self.function

    @property
    def doc(self) -> str:
        """The function's docstring, or an empty string."""
        return inspect.getdoc(self.function) or ""

    @property
    def signature(self) -> inspect.Signature:
        """The parameters after `cfg`."""
        full = inspect.signature(self.function)
        return full.replace(parameters=list(full.parameters.values())[1:])

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Arguments by name, defaults filled in: the same workload always looks the same.

        Raises:
            TemplateError: they do not fit the function.
        """
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as error:
            given = ", ".join([*map(repr, args), *(f"{k}={v!r}" for k, v in kwargs.items())])
            raise TemplateError(f"template {self.name}{self.signature} cannot take ({given}): {error}") from error
        bound.apply_defaults()
        return {name: _plain(value) for name, value in bound.arguments.items()}

    def __reduce__(self) -> tuple[Any, ...]:
        """By the place of the function, where pickle would find the template that took its name."""
        module, path = self.function.__module__, ""
        if "<" in self.function.__qualname__:
            raise pickle.PicklingError(
                f"template {self.name} ({self.function.__qualname__}) is defined inside a function, where no other "
                "process finds it; define it at the top of a module"
            )
        if is_file_module(module):
            path = str(sys.modules[module].__file__)
        return _unpickled, (self.name, module, path, self.function.__qualname__)


def _unpickled(name: str, module: str, path: str, attribute: str) -> Template:
    home = import_file(Path(path)) if path else import_module(module)
    found = attrgetter(attribute)(home)
    return found if isinstance(found, Template) and found.name == name else Template(name, _function(found))


def _function(found: Any) -> Callable[..., Any]:
    function: Callable[..., Any] = found.function if isinstance(found, Template) else found
    return function


def _plain(value: Any) -> Any:
    """NumPy's numbers as Python's and tuples as lists (as JSON has them), so that equal arguments look the same."""
    match value:
        case list() | tuple():
            return [_plain(item) for item in value]
        case dict():
            return {key: _plain(item) for key, item in value.items()}
        case _:
            return value.item() if getattr(value, "ndim", None) == 0 and hasattr(value, "item") else value


@overload
def template(name: str) -> Callable[[Callable[..., Any]], Template]: ...
@overload
def template(name: Callable[..., Any]) -> Template: ...
def template(name: str | Callable[..., Any]) -> Any:
    """Decorator: register a template function under a name (its own, when used without one).

    Raises:
        PluginError: another definition has the name already.
    """
    if callable(name):
        return template(name.__name__)(name)

    def register(function: Callable[..., Any]) -> Template:
        made = Template(name, function)
        registry.register("template", name, made, owner=function.__module__)
        return made

    return register


def find_template(ref: object) -> Template:
    """The template that `ref` means: a Template, a function, a name, or "path/to/file.py:name".

    Raises:
        UnknownName, PluginError: the registry does not know it, or the file cannot be imported.
        TemplateError: what was found is not a template.
    """
    return _as_template(registry.resolve("template", ref), ref)


def registered_template(name: str) -> Template:
    """The template that is registered under a name, which may come from anywhere: nothing else is imported or run.

    Raises:
        UnknownName, PluginError: the registry does not know it.
        TemplateError: what is registered is not a template.
    """
    return _as_template(registry.get("template", name), name)


def _as_template(found: object, ref: object) -> Template:
    if isinstance(found, Template):
        return found
    if callable(found):
        return Template(getattr(found, "__name__", str(ref)), found)
    raise TemplateError(f"{ref!r} is {found!r}, not a template function; decorate one with @pegbox.template('name')")
