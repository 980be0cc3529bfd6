"""Templates: functions that say what is computed and which choices its schedule leaves open."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, overload

from pegbox.hooks import registry
from pegbox.task.function import NamedFunction


@dataclass(frozen=True)
class Template(NamedFunction):
    """A named template function `function(cfg, *args, **kwargs) -> (schedule, tensors)`.

    It runs once to declare the space (`cfg.define_*`) and once per candidate to apply a configuration (`cfg[name]`).
    """

    kind: ClassVar[str] = "template"
    leading: ClassVar[int] = 1  # cfg

    __reduce__ = NamedFunction.__reduce__


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
    return lambda function: Template.registered(name, function)


def find_template(ref: object) -> Template:
    """The template that `ref` means: a Template, a function, a name, or "path/to/file.py:name".

    Raises:
        UnknownName, PluginError: the registry does not know it, or the file cannot be imported.
        TemplateError: what was found is not a template.
    """
    return Template.of(registry.resolve("template", ref), ref)


def registered_template(name: str) -> Template:
    """The template that is registered under a name, which may come from anywhere: nothing else is imported or run.

    Raises:
        UnknownName, PluginError: the registry does not know it.
        TemplateError: what is registered is not a template.
    """
    return Template.of(registry.get("template", name), name)
