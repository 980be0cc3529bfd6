"""Workloads and space generators: computations without a schedule, and templates made of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, overload

from pegbox.codegen.targets.target import Target
from pegbox.compute.tensor import ComputeOp, Tensor
from pegbox.errors import PegboxError, TemplateError
from pegbox.hooks import registry
from pegbox.schedule.schedule import Schedule
from pegbox.schedule.te.schedule import TESchedule
from pegbox.task.config_view import TemplateConfig
from pegbox.task.function import NamedFunction
from pegbox.task.template import Template, find_template, registered_template

_AT = "@"  # between a workload and its space generator in the name of a template


@dataclass(frozen=True)
class Workload(NamedFunction):
    """A named function of shapes and types that gives the arguments of a kernel: [inputs..., outputs...]."""

    kind: ClassVar[str] = "workload"

    __reduce__ = NamedFunction.__reduce__

    def tensors(self, *args: Any, **kwargs: Any) -> tuple[Tensor, ...]:
        """The kernel's arguments in call order.

        Raises:
            TemplateError: the function raises, or gives no list of tensors, or only inputs.
        """
        try:
            made = self.function(*args, **kwargs)
        except PegboxError:
            raise
        except (Exception, SystemExit) as error:
            raise TemplateError(f"workload {self.name} raised {type(error).__name__}: {error}") from error
        listed = made if isinstance(made, Sequence) else [made]
        if not all(isinstance(t, Tensor) for t in listed) or not any(isinstance(t.op, ComputeOp) for t in listed):
            raise TemplateError(
                f"workload {self.name} returned {made!r}; return [inputs..., outputs...]: all arguments of the kernel, "
                "at least one of them computed"
            )
        return tuple(listed)


@overload
def workload(name: str) -> Callable[[Callable[..., Any]], Workload]: ...
@overload
def workload(name: Callable[..., Any]) -> Workload: ...
def workload(name: str | Callable[..., Any]) -> Any:
    """Decorator: register a workload function under a name (its own, when used without one).

    Raises:
        PluginError: another definition has the name already.
    """
    if callable(name):
        return workload(name.__name__)(name)
    return lambda function: Workload.registered(name, function)


def find_workload(ref: object) -> Workload:
    """The workload that `ref` means: a Workload, a function, a name, or "path/to/file.py:name".

    Raises:
        UnknownName, PluginError: the registry does not know it, or the file cannot be imported.
        TemplateError: what was found is not a workload.
    """
    return Workload.of(registry.resolve("workload", ref), ref)


class Space(Protocol):
    """What a space generator makes of a computation: a template's body, for these tensors on this target."""

    def __call__(self, cfg: TemplateConfig) -> tuple[TESchedule | Schedule, Sequence[Tensor]]:
        """Declare the knobs with `cfg.define_*` and apply those of `cfg`, as a template does."""


class SpaceGenerator(Protocol):
    """Derives spaces from computations: `generator(tensors, target)`."""

    def __call__(self, tensors: Sequence[Tensor], target: Target) -> Space:
        """The space of a computation.

        Args:
            tensors: the kernel's arguments in call order.

        Raises:
            TemplateError: the generator has nothing for this computation.
        """


class _Generated:
    """The function of a template that a generator makes: it derives the space of each workload once."""

    def __init__(self, workload: Workload, generator: SpaceGenerator, space_given: object) -> None:
        self.workload, self.generator, self.space_given = workload, generator, space_given
        self._spaces: dict[str, Space] = {}
        parameters = list(workload.signature.parameters.values())
        cfg = inspect.Parameter("cfg", inspect.Parameter.POSITIONAL_ONLY)
        self.__signature__ = inspect.Signature([cfg, *parameters])
        self.__doc__ = workload.doc

    def __call__(self, cfg: TemplateConfig, /, *args: Any, **kwargs: Any) -> Any:
        return self.space(cfg.target, args, kwargs)(cfg)

    def space(self, target: Target, args: Sequence[Any], kwargs: dict[str, Any]) -> Space:
        key = repr((str(target), self.workload.bind(args, kwargs)))
        if key not in self._spaces:
            self._spaces[key] = self.generator(self.workload.tensors(*args, **kwargs), target)
        return self._spaces[key]


@dataclass(frozen=True)
class GeneratedTemplate(Template):
    """The template that a space generator makes of a workload, called "workload@generator"."""

    def schedule_code(self, cfg: TemplateConfig, args: Sequence[Any], kwargs: dict[str, Any]) -> str:
        """What `Task.schedule_code` gives.

        Raises:
            TemplateError: the generator writes no code.
        """
        space = self.function.space(cfg.target, args, kwargs)  # type: ignore[attr-defined]
        if not hasattr(space, "schedule_code"):
            raise TemplateError(f"{self.name}: the space generator writes no code; show_schedule(config) shows loops")
        return str(space.schedule_code(cfg))

    def __reduce__(self) -> tuple[Any, ...]:
        generated: _Generated = self.function  # type: ignore[assignment]
        return generated_template, (generated.workload, generated.space_given)


def generated_template(workload: object, space: object) -> GeneratedTemplate:
    """A template for a workload whose space a generator derives.

    Args:
        workload: a Workload, a function, a name, or "path/to/file.py:name".
        space: the name of a space generator, "path/to/file.py:name", or the generator itself.

    Raises:
        UnknownName, PluginError: either is not found.
        TemplateError: `workload` is not one.
    """
    found = find_workload(workload)
    generator = registry.resolve("space_generator", space)
    if not callable(generator):
        raise TemplateError(f"space={space!r} is {generator!r}; give the name of a space generator, such as 'sketch'")
    if isinstance(space, str):
        generator = generator()
    label = space if isinstance(space, str) else getattr(space, "__name__", type(space).__name__)
    return GeneratedTemplate(f"{found.name}{_AT}{label}", _Generated(found, generator, space))


def template_of(ref: object, *, registered: bool = False) -> Template:
    """The template that `ref` means, "workload@generator" among them.

    Args:
        registered: only what the registry knows: nothing else is imported or run.

    Raises:
        UnknownName, PluginError, TemplateError: as `find_template`.
    """
    if isinstance(ref, str) and _AT in ref:
        workload, _, space = ref.rpartition(_AT)
        if registered:
            registry.get("space_generator", space)
        return generated_template(registry.get("workload", workload) if registered else workload, space)
    if isinstance(ref, Workload):
        raise TemplateError(f"{ref.name} is a workload: it says nothing of a schedule; add space='sketch'")
    return registered_template(str(ref)) if registered else find_template(ref)
