"""`tvm.autotvm.task.task`: templates that ask for their configuration, and tasks."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import pegbox
from pegbox import Config, TemplateConfig
from pegbox.errors import ArgumentError, PluginError, TemplateError, UnknownName
from pegbox.plugins.tvm.autotvm.task.space import ConfigSpace, Knobs
from pegbox.plugins.tvm.registry import definition_of, tuples
from pegbox.plugins.tvm.target import Target, TargetLike
from pegbox.records import current_history
from pegbox.task import ApplyingConfig, Template

logger = logging.getLogger("autotvm")

TASK_TABLE: dict[str, AutotvmTemplate] = {}
"""The templates of scripts by name; pegbox's own registry may have the same names."""

_running: ContextVar[Knobs | None] = ContextVar("pegbox_tvm_config", default=None)


@dataclass(frozen=True)
class AutotvmTemplate(Template):
    """A template whose function takes no configuration, but asks for it with `get_config()`."""

    leading: ClassVar[int] = 0

    @property
    def remedy(self) -> str:
        return ""

    @property
    def __name__(self) -> str:
        return self.function.__name__

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Run it, for pegbox with the `cfg` that comes first.

        Else it runs with the configuration of the template around it, the best one of `apply_history_best`, or a
        fallback.
        """
        if args and isinstance(args[0], TemplateConfig):
            return self.run(Knobs(args[0]), *args[1:], **kwargs)
        return self.run(_running.get() or self._chosen(args, kwargs), *args, **kwargs)

    def run(self, knobs: Knobs, *args: Any, **kwargs: Any) -> Any:
        """Run it with a configuration."""
        outer, token = _running.get(), _running.set(knobs)
        try:
            with knobs.target:
                made = self.function(*map(tuples, args), **kwargs)
        finally:
            _running.reset(token)
        if outer is not knobs:  # else the template around it declares more
            knobs.close()
        return made

    def _chosen(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Knobs:
        target, history = pegbox.Target.default(), current_history()
        config = None if history is None else history.best_config(pegbox.Task(self, args, kwargs, target))
        if config is not None:
            return Knobs(ApplyingConfig(config, target))
        _warn_once(f"no configuration for target={target}, workload={(self.name, *args, *kwargs.items())}: a fallback")
        return _fallback(target)


def _fallback(target: pegbox.Target) -> Knobs:
    return Knobs(TemplateConfig(target), is_fallback=True)


@functools.cache
def _warn_once(message: str) -> None:
    logger.warning("%s is used, which may be far from the best; tune it first", message)


def get_config() -> Knobs:
    """Return the configuration of the template that runs; it declares the knobs while the space is made."""
    return _running.get() or _fallback(pegbox.Target.default())


def template(task_name: str | Callable[..., Any], func: Callable[..., Any] | None = None) -> Any:
    """Decorate a function to make it a template under a name; without one, as before TVM 0.7, under its own.

    The template is called with its arguments alone; `pegbox.create_task` takes it, too.

    Raises `PluginError` if another function has the name.
    """
    if callable(task_name):
        return template(task_name.__name__, task_name)
    if func is None:
        return functools.partial(template, task_name)
    known = TASK_TABLE.get(task_name)
    if known is not None and definition_of(known.function) != definition_of(func):
        place = ".".join(definition_of(known.function))
        raise PluginError(f"template {task_name!r}: {place} has this name already; give it another one")
    made = TASK_TABLE[task_name] = AutotvmTemplate(task_name, func)
    return made


class Task:
    """A template with its arguments and a target. `inner` is the task of pegbox, made when it is first needed."""

    def __init__(self, name: str, args: Sequence[Any], target: TargetLike | None = None) -> None:
        self.name = name
        self.args = tuples(tuple(args))
        self.kwargs: dict[str, Any] = {}
        self.target = Target(pegbox.Target.default() if target is None else target)

    @property
    def func(self) -> AutotvmTemplate:
        """The template. Raises `UnknownName` if none has the name."""
        if self.name not in TASK_TABLE:
            raise UnknownName(
                f"no template {self.name!r} has been defined: import the module with @autotvm.template({self.name!r}) "
                f"first; there are {', '.join(TASK_TABLE) or 'none'}"
            )
        return TASK_TABLE[self.name]

    @cached_property
    def inner(self) -> pegbox.Task:
        return pegbox.Task(self.func, self.args, {}, pegbox.Target(str(self.target)))

    @property
    def workload(self) -> tuple[Any, ...]:
        """The name and the arguments."""
        return (self.name, *self.args)

    @cached_property
    def config_space(self) -> ConfigSpace:
        """The knobs and their filter."""
        return ConfigSpace(self.inner.space)

    @property
    def flop(self) -> float:
        """The arithmetic operations of one call."""
        return self.inner.flop

    def instantiate(self, config: Config) -> Any:
        """Make the schedule and the arguments of a configuration."""
        return self.inner.instantiate(config)

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in vars(self).items() if key not in ("inner", "config_space")}

    def __repr__(self) -> str:
        return f"Task(func_name={self.name}, args={self.args}, target={str(self.target)!r})"


def create(task_name: object, args: Sequence[Any], target: TargetLike | None = None) -> Task:
    """Make a task from a template or its name. Raises the errors of `pegbox.create_task`."""
    name = task_name.name if isinstance(task_name, AutotvmTemplate) else task_name
    if not isinstance(name, str):
        raise TemplateError(f"{name!r} is not a template; decorate it with @autotvm.template('name')")
    if not isinstance(args, list | tuple):
        raise ArgumentError(f"args={args!r}: give the template's arguments as a list or tuple")
    made = Task(name, args, target)
    _ = made.inner  # which says what is wrong
    return made
