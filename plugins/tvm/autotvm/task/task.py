"""`tvm.autotvm.task.task`: templates that ask for their configuration, and tasks."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import pegbox.task.task as pegbox_task
from pegbox.checks import check_list, near_names
from pegbox.codegen.targets.target import Target as PegboxTarget
from pegbox.compute.flop import count_flop
from pegbox.compute.ops import placeholder
from pegbox.compute.tensor import Tensor
from pegbox.errors import InvalidConfig, PluginError, TemplateError, UnknownName
from pegbox.plugins.tvm.absence import names
from pegbox.plugins.tvm.autotvm.task.config import ConfigEntity
from pegbox.plugins.tvm.autotvm.task.config_space import ConfigSpace
from pegbox.plugins.tvm.autotvm.task.dispatcher import ApplyConfig, DispatchContext
from pegbox.plugins.tvm.target import Target, TargetLike
from pegbox.space import Config
from pegbox.task.config_view import DeclaringConfig, TemplateConfig
from pegbox.task.function import NamedFunction
from pegbox.task.template import Template

__getattr__ = names(__name__)

TASK_TABLE: dict[str, AutotvmTemplate] = {}
"""The templates of scripts by name. They are apart from pegbox's own, so that a name may be there, too."""


@dataclass(frozen=True)
class AutotvmTemplate(Template):
    """A template whose function takes no configuration, but asks for it with `get_config()`."""

    leading: ClassVar[int] = 0

    __reduce__ = NamedFunction.__reduce__

    @property
    def remedy(self) -> str:
        return ""

    @property
    def __name__(self) -> str:
        return self.function.__name__

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Run it with the configuration of the context around the call; for pegbox, with the one that stands first.

        The context is `apply_history_best` or another one; where none knows the workload, it is a fallback.
        """
        view, rest = (args[0], args[1:]) if args and isinstance(args[0], TemplateConfig) else (None, args)
        bound = self.signature.bind(*rest, **kwargs).args if kwargs else rest  # a search runs it thousands of times
        if view is not None:
            return self._run_with_view(view, *bound)
        return self.run_with(DispatchContext.current.query(None, args_to_workload(bound, self.name)), *bound)

    def _run_with_view(self, cfg: TemplateConfig, /, *args: Any) -> Any:
        if isinstance(cfg, DeclaringConfig):
            space = ConfigSpace(cfg)
            with cfg.target:
                made = self.run_with(space, *args)
            _ = space.space  # what multi_filter says is about all knobs
            return made
        entity = ConfigEntity.of(cfg.config)  # type: ignore[attr-defined]
        try:
            with cfg.target:
                made = self.run_with(entity, *args)
        except Exception as error:
            if entity.errors:
                raise _refused(self.name, entity) from error
            raise
        if entity.errors:
            raise _refused(self.name, entity)
        return made

    def run_with(self, config: Any, *args: Any) -> Any:
        """Run it with a configuration by AutoTVM's names."""
        with ApplyConfig(config):
            return self.function(*deserialize_args(args))


def _refused(name: str, entity: ConfigEntity) -> InvalidConfig:
    return InvalidConfig(f"the template {name} refuses {entity}: {'; '.join(entity.errors)}")


def template(task_name: str | Callable[..., Any], func: Callable[..., Any] | None = None) -> Any:
    """Decorator: make a function a template under a name; without one, as before TVM 0.7, under its own.

    What it gives is called with the template's arguments alone; `pegbox.create_task` takes it, too.

    Raises:
        PluginError: another function has the name already.
    """
    if callable(task_name):
        return template(task_name.__name__, task_name)
    if func is None:
        return functools.partial(template, task_name)
    known = TASK_TABLE.get(task_name)
    if known is not None and _home(known.function) != _home(func):
        raise PluginError(
            f"template {task_name!r}: {known.function.__module__}.{known.function.__qualname__} has this name already; "
            "give it another one"
        )
    made = TASK_TABLE[task_name] = AutotvmTemplate(task_name, func)
    return made


def _home(function: Callable[..., Any]) -> tuple[str, str]:
    return function.__module__, function.__qualname__


def get_config() -> Any:
    """In a template: its configuration, which is the space while that is declared."""
    return DispatchContext.current.query(None, None)


class Task:
    """A template with its arguments and a target. `inner` is the task as pegbox has it, made when first needed."""

    def __init__(self, name: str, args: Sequence[Any], target: TargetLike | None = None) -> None:
        self.name = name
        self.args = serialize_args(args)
        self.kwargs: dict[str, Any] = {}
        self.target = _target_of(target)
        self.target_host = None

    @cached_property
    def inner(self) -> pegbox_task.Task:
        """Raises `UnknownName` where no template has the name, and what pegbox raises for a task."""
        return pegbox_task.Task(_known(self.name), self.args, {}, PegboxTarget(str(self.target)))

    @property
    def workload(self) -> tuple[Any, ...]:
        """The name and the arguments."""
        return (self.name, *self.args)

    @cached_property
    def config_space(self) -> ConfigSpace:
        """What is searched."""
        return ConfigSpace.of(self.inner.space)

    @property
    def flop(self) -> float:
        """Operations of one call."""
        return self.inner.flop

    @property
    def func(self) -> Callable[..., Any]:
        """The template, which takes the arguments of the task."""
        return _known(self.name)

    def instantiate(self, config: Any) -> Any:
        """The schedule and the arguments of one configuration."""
        with self.target:
            return _known(self.name).run_with(config, *self.args)

    def config_of(self, config: ConfigEntity) -> Config:
        """A configuration as pegbox has it. Raises `SpaceError` where it is of another space."""
        return config.in_space(self.inner.space)

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in vars(self).items() if key not in ("inner", "config_space")}

    def __repr__(self) -> str:
        return f"Task(func_name={self.name}, args={self.args}, kwargs={self.kwargs}, workload={self.workload})"


def _target_of(given: TargetLike | None) -> Target:
    return given if isinstance(given, Target) else Target(PegboxTarget.default() if given is None else given)


def _known(name: str) -> AutotvmTemplate:
    if name not in TASK_TABLE:
        raise UnknownName(
            f"no template {name!r} has been defined: import the module with @autotvm.template({name!r}) first"
            f"{near_names(name, TASK_TABLE)}"
        )
    return TASK_TABLE[name]


def create(task_name: object, args: Sequence[Any], target: Any = None, target_host: Any = None) -> Task:
    """A task from a template's name, or what the decorator gave.

    Raises:
        UnknownName, TemplateError, TargetError: as `pegbox.create_task`.
    """
    name = task_name.name if isinstance(task_name, AutotvmTemplate) else task_name
    if not isinstance(name, str):
        raise TemplateError(f"{name!r} is no template; decorate it with @autotvm.template('name')")
    made = Task(name, check_list("args", args, "the template's arguments as a list or tuple"), target)
    _ = made.inner  # which says what is wrong
    return made


def serialize_args(args: Sequence[Any]) -> tuple[Any, ...]:
    """Arguments as they stand in a workload: tensors by shape and type, lists as tuples, numbers as Python's."""
    return tuple(map(_plain, args))


def _plain(value: Any) -> Any:
    if isinstance(value, Tensor):
        return ("TENSOR", tuple(value.shape), value.dtype)
    if isinstance(value, list | tuple):
        return tuple(map(_plain, value))
    value = getattr(value, "value", value)
    return value.item() if getattr(value, "ndim", None) == 0 and hasattr(value, "item") else value


def deserialize_args(args: Sequence[Any]) -> list[Any]:
    """Placeholders for the tensors of a workload."""
    return [
        placeholder(arg[1], dtype=arg[2])
        if isinstance(arg, list | tuple) and arg[:1] in (("TENSOR",), ["TENSOR"])
        else arg
        for arg in args
    ]


def args_to_workload(args: Sequence[Any], task_name: str | None = None) -> tuple[Any, ...]:
    """The workload that arguments mean."""
    return serialize_args(args) if task_name is None else (task_name, *serialize_args(args))


def compute_flop(sch: Any) -> float:
    """The operations of a schedule's computation. Raises `TemplateError` where it has none."""
    flop = count_flop([tensor for op in sch.outputs for tensor in op.outputs])
    if not flop:
        raise FlopCalculationError("the computation has no arithmetic; say what it asks for with cfg.add_flop")
    return flop


class FlopCalculationError(TemplateError, RuntimeError):
    """The arithmetic of a computation cannot be counted."""


def _no_topi(task_name: str, func: Any = None) -> Any:
    raise TemplateError(
        f"{task_name!r}: there is no Relay here whose operators a compute and a schedule could be registered for; "
        "write one function that computes and schedules, with @autotvm.template"
    )


register_topi_compute = register_topi_schedule = _no_topi
