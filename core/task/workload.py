"""Workloads and space generators: computations without a schedule, and templates made of them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, overload

from pegbox.codegen.targets.target import Target
from pegbox.compute.graph import placeholders, post_order
from pegbox.compute.sizes import check_static
from pegbox.compute.tensor import ComputeOp, PlaceholderOp, Tensor
from pegbox.digest import sha256
from pegbox.errors import ArgumentError, PegboxError, TemplateError
from pegbox.expr.printer import unused_name
from pegbox.hooks import registry
from pegbox.hooks.options import bind_options, construct, options_of
from pegbox.hooks.refs import Spec, parse_spec
from pegbox.origin import definition_of, explained, located
from pegbox.schedule.schedule import Schedule
from pegbox.schedule.te.schedule import TESchedule
from pegbox.shown import value_text
from pegbox.task.config_view import TemplateConfig
from pegbox.task.dag import ComputeDAG
from pegbox.task.function import NamedFunction, name_of, shown
from pegbox.task.packing import PackedForm
from pegbox.task.sources import source_files
from pegbox.task.template import ADD_SPACE, Template, find_template, takes_config

if TYPE_CHECKING:
    import numpy as np

    from pegbox.task.task import Task

_GENERATOR = "space_generator"
# "workload@generator" or "workload@generator:option=value"; in "/home/me@here/ops.py:name" the @ belongs to the path.
_GENERATED = re.compile(r"(.+?)@([^@:/]+(?::\s*[A-Za-z_]\w*\s*=.*)?)")
_WORD = re.compile(r"[^\s,@]*")  # text that can be the value of an option


@dataclass(frozen=True)
class Workload(NamedFunction):
    """A named function of shapes and types that returns the arguments of a kernel: [inputs..., outputs...]."""

    kind: ClassVar[str] = "workload"

    __reduce__ = NamedFunction.__reduce__

    def tensors(self, /, *args: Any, **kwargs: Any) -> tuple[Tensor, ...]:
        """Return the kernel's arguments in call order.

        Raises:
            TemplateError: the function raises, or does not return a list of tensors, or only inputs.
        """
        try:
            made = self.function(*args, **kwargs)
        except PegboxError as error:
            located(error)
            raise
        except (Exception, SystemExit) as error:
            raised = TemplateError(f"workload {self.name} raised {explained(error)}")
            raise located(raised, error) from error
        listed = made if isinstance(made, Sequence) else [made]
        returned, wanted = f"{made!r}", "at least one of them computed"
        if all(isinstance(t, Tensor) for t in listed) and any(isinstance(t.op, ComputeOp) for t in listed):
            missing = [t.name for t in placeholders(listed) if t not in listed]
            if not missing:
                return tuple(listed)
            returned = f"{[t.name for t in listed]} without the input {missing[0]}"
            wanted = "including those from which others are computed"
        malformed = TemplateError(
            f"workload {self.name} returned {returned}; return [inputs..., outputs...]: all arguments of the kernel, "
            f"{wanted}"
        )
        malformed.source = definition_of(self.function)
        raise malformed


@overload
def workload(name: str) -> Callable[[Callable[..., Any]], Workload]: ...
@overload
def workload(name: Callable[..., Any]) -> Workload: ...
def workload(name: str | Callable[..., Any]) -> Any:
    """Decorate a workload function: register it under a name (by default its own).

    Raises:
        PluginError: another definition already has the name.
    """
    if callable(name):
        return workload(name_of(name))(name)
    return lambda function: Workload.registered(name, function)


@dataclass(frozen=True)
class _Given:
    """The function of a computation given by its tensors."""

    arguments: tuple[Tensor, ...]

    def __call__(self) -> list[Tensor]:
        return list(self.arguments)


@dataclass(frozen=True)
class TensorWorkload(Workload):
    """A computation given by its tensors: it has one shape, and is pickled with them."""

    function: _Given

    def __reduce__(self) -> tuple[Any, ...]:
        return tensor_workload, (self.function.arguments,)

    @property
    def ref(self) -> str:
        return ""


def tensor_workload(tensors: Sequence[Tensor]) -> TensorWorkload:
    """Return the workload of a kernel's arguments; outputs alone are preceded by the inputs in the order of their use.

    Its name has the outputs' names and a digest of the computation, so that records distinguish computations.

    Raises:
        TemplateError: an argument is not a tensor, nothing is computed, or an input is missing.
        ComputeError: a size is a variable.
    """
    example = "give all arguments of the kernel, [A, B, C], or the outputs"
    others = [each for each in tensors if not isinstance(each, Tensor)]
    if others:
        raise TemplateError(f"create_task: {value_text(others[0])} is not a tensor; {example}")
    outputs = [each for each in tensors if not isinstance(each.op, PlaceholderOp)]
    if not outputs:
        names = ", ".join(each.name for each in tensors) or "an empty list"
        raise TemplateError(f"create_task: nothing of {names} is computed; {example}")
    inputs = placeholders(outputs)
    given = tuple(tensors) if len(outputs) < len(tensors) else (*inputs, *outputs)
    missing = [each.name for each in inputs if each not in given]
    if missing:
        listed = ", ".join(each.name for each in given)
        raise TemplateError(
            f"create_task: [{listed}] lacks the input {missing[0]}; give all arguments of the kernel, or the outputs"
        )
    check_static(post_order([each.op for each in given]))
    computation = f"{ComputeDAG(given)}\n{', '.join(each.name for each in given)}"
    digest = sha256(computation.encode()).hexdigest()[:8]
    return TensorWorkload(f"{'_'.join(each.name for each in outputs)}-{digest}", _Given(given))


def find_workload(ref: object) -> Workload:
    """Return the workload that `ref` means: a Workload, a function, a name, "path/to/file.py:name", or tensors.

    Raises:
        UnknownName, PluginError: the registry does not know it, or the file cannot be imported.
        TemplateError: the object found is not a workload, or the list holds anything but tensors.
    """
    if isinstance(ref, Tensor | list | tuple):
        return tensor_workload([ref] if isinstance(ref, Tensor) else ref)
    found = registry.resolve("workload", ref)
    if isinstance(found, Template) or (callable(found) and takes_config(found)):
        name = getattr(found, "name", None) or getattr(found, "__name__", str(ref))
        raise TemplateError(
            f"{name}{shown(inspect.signature(found))} is a template, which has a schedule of its own, not a workload, "
            "whose space is derived: leave space= (--space) out; or give a function of the shapes alone that returns "
            "[inputs..., outputs...]"
        )
    return Workload.of(found, ref)


class Space(Protocol):
    """The result of a space generator: the body of a template, for the tensors of a computation on a target.

    It may have `schedule_code(cfg)`, which writes te code for `Task.schedule_code`. If its kernels take packed inputs,
    it has `pack_weights(array, name)`, which packs one for `pegbox.templates.pack_weights`. And it may have a `source`,
    text that describes its computation and the use of its knobs: records with another source are refused; without a
    source, the knobs alone decide.
    """

    def __call__(self, cfg: TemplateConfig) -> tuple[TESchedule | Schedule, Sequence[Tensor]]:
        """Declare the knobs with `cfg.define_*` and apply those of `cfg`, as a template does."""


class SpaceGenerator(Protocol):
    """A function that derives spaces from computations: `generator(tensors, target)`.

    It may have `with_packed(*names)`, for `op.pack`, which returns a similar generator whose kernels take these inputs
    packed, too; without names, one whose kernels take all inputs as they are.
    """

    def __call__(self, tensors: Sequence[Tensor], target: Target) -> Space:
        """Return the space of a computation.

        Args:
            tensors: the kernel's arguments in call order.

        Raises:
            TemplateError: the generator has no schedule for this computation.
        """


class _Generated:
    """The function of a generated template: it derives the space of each workload once."""

    def __init__(self, workload: Workload, generator: SpaceGenerator, space_given: object) -> None:
        self.workload, self.generator, self.space_given = workload, generator, space_given
        self._spaces: dict[str, Space] = {}
        parameters = workload.signature.parameters
        cfg = inspect.Parameter(unused_name("cfg", parameters), inspect.Parameter.POSITIONAL_ONLY)
        self.__signature__ = inspect.Signature([cfg, *parameters.values()])
        self.__doc__ = workload.doc

    def __call__(self, cfg: TemplateConfig, /, *args: Any, **kwargs: Any) -> Any:
        space = self.space(cfg.target, args, kwargs)
        if not callable(space):
            raise TemplateError(
                f"the space generator {self.generator!r} returned {space!r}; it must return a function of cfg"
            )
        return space(cfg)

    def space(self, target: Target, args: Sequence[Any], kwargs: dict[str, Any]) -> Space:
        key = repr((str(target), self.workload.bind(args, kwargs)))
        if key not in self._spaces:
            self._spaces[key] = self.generator(self.workload.tensors(*args, **kwargs), target)
        return self._spaces[key]


@dataclass(frozen=True)
class GeneratedTemplate(Template):
    """The template that a space generator makes of a workload, called "workload@generator"."""

    returns: ClassVar[str] = "the function that a space generator returns must return (s, [A, B, C]), like a template"
    remedy: ClassVar[str] = ""
    code: ClassVar[str] = ""

    def schedule_code(self, cfg: TemplateConfig, args: Sequence[Any], kwargs: dict[str, Any]) -> str:
        """Write the code for `Task.schedule_code`.

        Raises:
            TemplateError: the generator writes no code.
        """
        space = self.space(cfg.target, args, kwargs)
        if not hasattr(space, "schedule_code"):
            raise TemplateError(f"{self.name}: the space generator writes no code; show_schedule(config) shows loops")
        return str(space.schedule_code(cfg))

    def source(self, target: Target, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str | None:
        """Return the space's `source`, if it has one."""
        found = getattr(self.space(target, args, kwargs), "source", None)
        if found is not None and not isinstance(found, str):
            raise TemplateError(
                f"{self.name}: the space's source is {found!r}; give text that describes the space, or leave it out"
            )
        return found

    def pack_weights(
        self, target: Target, args: Sequence[Any], kwargs: dict[str, Any], array: np.ndarray[Any, Any], name: str
    ) -> np.ndarray[Any, Any]:
        """Pack weights as `pegbox.templates.pack_weights` does.

        Raises:
            ArgumentError: the generator packs no operands, or not this one, or `array` is not an array.
        """
        space = self.space(target, args, kwargs)
        if not hasattr(space, "pack_weights"):
            raise ArgumentError(f"{self.name}: the space generator packs no operands ahead; give them as they are")
        packed: np.ndarray[Any, Any] = space.pack_weights(array, name)
        return packed

    @property
    def workload(self) -> Workload:
        """The computation without a schedule."""
        return self.function.workload  # type: ignore[attr-defined,no-any-return]

    @property
    def source_files(self) -> list[str] | None:
        """The source files of the workload and of the space generator."""
        return source_files(self.workload.function, self.function.generator)  # type: ignore[attr-defined]

    def with_packed(self, *names: str) -> GeneratedTemplate | None:
        """Return the template whose kernels take these inputs packed (no names: none); None if it cannot pack."""
        generated: _Generated = self.function  # type: ignore[assignment]
        make = getattr(generated.generator, "with_packed", None)
        return None if make is None else generated_template(generated.workload, make(*names))

    def packed_form(self, name: str) -> PackedForm | None:
        template = self.with_packed(name)
        if template is None:
            return None

        def pack(task: Task, array: np.ndarray[Any, Any], _: Mapping[str, Any]) -> np.ndarray[Any, Any]:
            return template.pack_weights(task.target, task.args, dict(task.kwargs), array, name)

        return PackedForm(template, {}, pack)

    def space(self, target: Target, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Return the generator's result for these arguments of the workload."""
        return self.function.space(target, args, kwargs)  # type: ignore[attr-defined]

    @property
    def ref(self) -> str:
        """The place where a user finds the workload."""
        return self.workload.ref

    def __reduce__(self) -> tuple[Any, ...]:
        generated: _Generated = self.function  # type: ignore[assignment]
        return generated_template, (generated.workload, generated.space_given)


def generated_template(workload: object, space: object) -> GeneratedTemplate:
    """Return a template for a workload whose space a generator derives.

    Args:
        workload: a Workload, a function, a name, or "path/to/file.py:name".
        space: the name of a space generator or "path/to/file.py:name", with options such as "sketch:rules=ansor", or
            the generator itself.

    Raises:
        UnknownName, PluginError: either is not found.
        TemplateError: `workload` is not one, or `space` is not a generator.
        ArgumentError: the generator lacks an option.
    """
    found = find_workload(workload)
    generator, label = _made(parse_spec(space)) if isinstance(space, str) else (space, _label(space, None))
    if not callable(generator):
        raise TemplateError(
            f"space={value_text(space)} is not a generator; give the name of a space generator, such as 'sketch'"
        )
    if isinstance(generator, type):
        made = next((vars(kind)["__call__"] for kind in generator.__mro__ if "__call__" in vars(kind)), None)
        if made is not None and not _refusal(made, None, (), None):
            raise TemplateError(f"space={space!r} is a class of generators; give one: space={generator.__name__}(...)")
    if refusal := _refusal(generator, (), None):
        raise TemplateError(
            f"space={space!r} cannot be called as generator(tensors, target): {refusal}; if it is a function that "
            "returns the generator, call it"
        )
    return GeneratedTemplate(f"{found.name}@{label}", _Generated(found, generator, space))


def _made(spec: Spec) -> tuple[Any, str]:
    """Make the generator from its name and options; return it with its label."""
    factory = registry.resolve(_GENERATOR, spec.name)
    if not callable(factory):
        return factory, str(spec)
    owner = f"space generator {spec.name!r}"
    options = bind_options(owner, factory, spec.options, leading=0)
    if refusal := _refusal(factory, **options):
        raise TemplateError(
            f"space={str(spec)!r}: {refusal}; text names a class of generators, or a function that gives one and "
            "takes only options"
        )
    generator = construct(owner, factory, **options)
    return generator, _label(generator, spec) if factory is type(generator) else str(spec)


def _label(generator: object, spec: Spec | None) -> str:
    """Name a generator by the text that would make it, if its class has a name and keeps its options as attributes.

    Otherwise, use the text that made it, or the name of the function or the class.
    """
    kind = type(generator)
    origin = f"{kind.__module__}:{kind.__qualname__}"
    names = [claim.name for claim in registry.claims(_GENERATOR) if claim.origin == origin]
    if len(names) == 1:
        defaults = {name: option.default for name, option in options_of(kind, leading=0).items()}
        given = {name: getattr(generator, name, None) for name in defaults}
        given = {name: value for name, value in given.items() if value is not defaults[name]}
        if all(isinstance(value, str | int | float) and _WORD.fullmatch(str(value)) for value in given.values()):
            spec = Spec(names[0], {name: str(value) for name, value in given.items() if value != defaults[name]})
    return str(getattr(generator, "__name__", kind.__name__) if spec is None else spec)


def _refusal(function: Callable[..., Any], *args: Any, **kwargs: Any) -> str:
    """Return the reason why a function does not take these arguments; empty if it does, or has no signature."""
    try:
        inspect.signature(function).bind(*args, **kwargs)
    except TypeError as error:
        return str(error)
    except ValueError:
        pass
    return ""


def template_of(ref: object) -> Template:
    """Return the template that `ref` means, which may be "workload@generator".

    Raises:
        UnknownName, PluginError, TemplateError: as in `find_template`.
        ArgumentError: the generator lacks an option.
    """
    if isinstance(ref, Tensor | list | tuple):
        raise TemplateError(f"{value_text(ref)}: tensors are a computation without a schedule; {ADD_SPACE}")
    match = _GENERATED.fullmatch(ref) if isinstance(ref, str) else None
    return find_template(ref) if match is None else generated_template(*match.groups())


def registered_templates(name: str) -> list[Template]:
    """Return the templates registered under a name, which several files may use. Nothing else is imported or run.

    Raises:
        UnknownName, PluginError, TemplateError, ArgumentError: there is no such template.
    """
    match = _GENERATED.fullmatch(name)
    if match is None:
        return [Template.of(found, name) for found in registry.every("template", name)]
    workload, space = match.groups()
    registry.get(_GENERATOR, parse_spec(space).name)
    return [generated_template(found, space) for found in registry.every("workload", workload)]
