"""Templates: functions that define a computation, its schedule, and the choices that the schedule leaves open."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar, overload

from pegbox.codegen.targets.target import Target
from pegbox.errors import TemplateError, UnknownName
from pegbox.hooks import registry
from pegbox.origin import definition_of
from pegbox.task.code_fingerprint import code_fingerprint
from pegbox.task.function import NamedFunction, name_of
from pegbox.task.packing import Pack, PackedForm
from pegbox.task.sources import source_files

_PACKED_FORMS = "__pegbox_packed_forms__"
"""The attribute of a template's function that holds its packed forms, so that they go wherever the function goes."""

ADD_SPACE = "add space='sketch' (--space sketch on the command line)"
WITHOUT_SCHEDULE = f"is a workload: a computation without a schedule; {ADD_SPACE}"


@dataclass(frozen=True)
class Template(NamedFunction):
    """A named template function `function(cfg, *args, **kwargs) -> (schedule, tensors)`.

    It runs once to declare the space (`cfg.define_*`) and once per candidate to apply a configuration (`cfg[name]`).
    """

    kind: ClassVar[str] = "template"
    leading: ClassVar[int] = 1  # cfg
    returns: ClassVar[str] = (
        f"return (s, [A, B, C]): the schedule and the arguments; or, if the function has no schedule, {ADD_SPACE}"
    )

    __reduce__ = NamedFunction.__reduce__

    @property
    def remedy(self) -> str:
        """The advice for a function that fails, since its author may have left out the configuration."""
        if takes_config(self.function):
            return ""
        first = _first_parameter(self.function)
        fault = "it has no parameter for" if first is None else f"its first parameter {first.name!r} gets"
        return f"; {fault} the configuration cfg: if it has no schedule, {ADD_SPACE}"

    @property
    def base(self) -> Template:
        """The template itself, without an epilogue."""
        return self

    def source(self, target: Target, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str | None:
        """Write the template's use of its knobs as text; None if only its name identifies it."""
        return None

    def packs(self, name: str, **given: Any) -> Callable[[Pack], Pack]:
        """Decorate a function that packs an input ahead of calls, for `op.pack` of operators.

        ::

            @my_matmul.packs("B", weights="packed")
            def panels(task, array, replaced):
                return np.ascontiguousarray(array.T)

        Args:
            name: the name of the input's placeholder.
            given: the arguments with which the template takes it packed.
        """

        def added(pack: Pack) -> Pack:
            forms = vars(self.function).setdefault(_PACKED_FORMS, {})
            forms[name] = (given, pack)
            return pack

        return added

    def packed_form(self, name: str) -> PackedForm | None:
        """Return the form of the template that takes an input packed; None if there is none."""
        found = self._packed_forms.get(name)
        return None if found is None else PackedForm(self, *found)

    def packer(self, arguments: Mapping[str, Any]) -> Pack | None:
        """Return the function that packs the input that the template takes packed, given its arguments by name.

        None if it takes all inputs as they are.
        """
        return next((pack for given, pack in self._packed_forms.values() if given.items() <= arguments.items()), None)

    def unpacked(self, arguments: Mapping[str, Any]) -> tuple[str, dict[str, Any]] | None:
        """Return the name of the input that the template takes packed, and the arguments for the input as it is.

        None if it takes no input packed, or if the arguments that ask for packing have no defaults.
        """
        for name, (given, _) in self._packed_forms.items():
            if given.items() <= arguments.items():
                usual = {key: self.signature.parameters[key].default for key in given}
                return None if inspect.Parameter.empty in usual.values() else (name, {**arguments, **usual})
        return None

    @property
    def _packed_forms(self) -> Mapping[str, tuple[Mapping[str, Any], Pack]]:
        return getattr(self.function, _PACKED_FORMS, {})

    @property
    def code(self) -> str:
        """The fingerprint of the function's code, for records; empty if it is unknown."""
        return code_fingerprint(self.function)

    @property
    def source_files(self) -> list[str] | None:
        """The user's files that the programs of the template and its packing depend on; None if they are unknown."""
        return source_files(self.function, *(pack for _, pack in self._packed_forms.values()))

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return super().bind(args, kwargs)
        except TemplateError as error:
            if self.remedy:
                with suppress(TypeError, ValueError):  # ValueError: a built-in type has no signature
                    inspect.signature(self.function).bind(*args, **kwargs)
                    raise self.without_cfg() from error
            raise TemplateError(f"{error}{self.remedy}") from error

    def without_cfg(self) -> TemplateError:
        """Return the error for a function whose first parameter is not the configuration, as in AutoTVM."""
        parameters = list(inspect.signature(self.function).parameters)
        others = [name for name in parameters if name != "cfg"]
        error = TemplateError(
            f"template {self.name}: its first parameter {parameters[0]!r} gets the configuration; write def "
            f"{getattr(self.function, '__name__', self.name)}({', '.join(['cfg', *others])}), which declares knobs "
            "with cfg.define_knob(...) and reads them with cfg[...] (there is no get_config()). If it has no schedule, "
            f"{ADD_SPACE}"
        )
        error.source = definition_of(self.function)
        return error


def takes_config(function: Callable[..., Any]) -> bool:
    """Decide, by its name or annotation, if the first parameter is a template's configuration."""
    first = _first_parameter(function)
    return first is not None and (first.name in ("cfg", "config") or "Config" in str(first.annotation))


def _first_parameter(function: Callable[..., Any]) -> inspect.Parameter | None:
    try:
        return next(iter(inspect.signature(function).parameters.values()), None)
    except ValueError:  # a built-in type has no signature
        return None


@overload
def template(name: str) -> Callable[[Callable[..., Any]], Template]: ...
@overload
def template(name: Callable[..., Any]) -> Template: ...
def template(name: str | Callable[..., Any]) -> Any:
    """Decorate a template function: register it under a name (by default its own).

    Raises:
        PluginError: another definition already has the name.
    """
    if callable(name):
        return template(name_of(name))(name)
    return lambda function: Template.registered(name, function)


def find_template(ref: object) -> Template:
    """Return the template that `ref` means: a Template, a function, a name, or "path/to/file.py:name".

    Raises:
        UnknownName, PluginError: the registry does not know it, or the file cannot be imported.
        TemplateError: the object found is not a template.
    """
    try:
        found = registry.resolve("template", ref)
    except UnknownName as error:
        if ref not in registry.names("workload"):
            if isinstance(ref, str) and ref.isidentifier():
                raise UnknownName(f"{error}; one of your own is named with its file: FILE.py:{ref}") from None
            raise
        raise UnknownName(f"{ref!r} {WITHOUT_SCHEDULE}") from error
    if isinstance(found, NamedFunction) and found.kind == "workload":
        raise TemplateError(f"{ref if isinstance(ref, str) else found.name!r} {WITHOUT_SCHEDULE}")
    return Template.of(found, ref)
