"""The `cfg` of a template: declares the space in one run, applies a configuration in all others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pegbox.errors import InvalidConfig
from pegbox.expr.nodes import Var
from pegbox.space import Config, ConfigSpace
from pegbox.task.apply import handle


def _extent(axis: Any) -> Any:
    """The extent of an axis of a computation; numbers stay."""
    return axis.extent if isinstance(axis, Var) and hasattr(axis, "extent") else axis


def _names(axes: Sequence[Any]) -> list[str]:
    return [axis.name if isinstance(axis, Var) else str(axis) for axis in axes]


class TemplateConfig:
    """What both runs share: `cfg["name"]` and a way to refuse a configuration."""

    def __getitem__(self, name: str) -> Any:
        raise NotImplementedError

    def raise_error(self, message: str) -> None:
        """Refuse this configuration (it becomes a failed trial of kind "invalid").

        The run that declares the space goes on: what it runs with is nobody's choice.

        Raises:
            InvalidConfig: in every other run.
        """


class DeclaringConfig(TemplateConfig):
    """The first run: `define_*` add knobs to `space`; `cfg["name"]` gives a knob's first value meanwhile."""

    def __init__(self) -> None:
        self.space = ConfigSpace()

    def __getitem__(self, name: str) -> Any:
        knobs = self.space.knobs
        # An unknown name is an error with the list of known ones, which Config words best.
        entity = knobs[name].entities[0] if name in knobs else self.space.get(0)[name]
        return handle(entity)

    def define_split(self, name: str, axis: Any, policy: str = "factors", **options: Any) -> None:
        """See `ConfigSpace.define_split`; `axis` may be an axis of a tensor."""
        self.space.define_split(name, _extent(axis), policy, **options)

    def define_knob(self, name: str, candidates: Sequence[Any], **options: Any) -> None:
        """See `ConfigSpace.define_knob`."""
        self.space.define_knob(name, candidates, **options)

    def define_reorder(self, name: str, axes: Sequence[Any], policy: str, **options: Any) -> None:
        """See `ConfigSpace.define_reorder`; axes of tensors or names."""
        self.space.define_reorder(name, _names(axes), policy, **options)

    def define_annotate(self, name: str, axes: Sequence[Any], policy: str, **options: Any) -> None:
        """See `ConfigSpace.define_annotate`; axes of tensors or names."""
        self.space.define_annotate(name, _names(axes), policy, **options)

    def add_constraint(self, predicate: Callable[[Config], bool], *, reads: Sequence[str], message: str) -> None:
        """See `ConfigSpace.add_constraint`."""
        self.space.add_constraint(predicate, reads=reads, message=message)

    def __str__(self) -> str:
        return "the first configuration"


class ApplyingConfig(TemplateConfig):
    """Every other run: `define_*` do nothing, `cfg["name"]` is the configuration's value."""

    def __init__(self, config: Config) -> None:
        self.config = config

    def __getitem__(self, name: str) -> Any:
        return handle(self.config[name])

    def raise_error(self, message: str) -> None:
        raise InvalidConfig(f"the template refuses {self}: {message}")

    def define_split(self, *_: Any, **__: Any) -> None:
        """Declared already."""

    define_knob = define_reorder = define_annotate = add_constraint = define_split

    def __str__(self) -> str:
        return str(self.config)
