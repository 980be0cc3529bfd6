"""The `cfg` argument of a template: declares knobs in one run, returns the values of a configuration in all others."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from pegbox.checks import check_float, check_list
from pegbox.codegen.targets.target import Target
from pegbox.compute.tensor import Tensor
from pegbox.errors import InvalidConfig, SpaceError
from pegbox.expr.nodes import Var
from pegbox.expr.printer import unused_name
from pegbox.schedule.state.handles import LoopRef
from pegbox.shown import value_text
from pegbox.space import Config, ConfigSpace, Knob
from pegbox.space.config import not_a_config
from pegbox.task.apply import KnobValue, handle


def _extent(axis: Any) -> Any:
    """The extent of an axis of a computation; numbers stay."""
    return axis.extent if isinstance(axis, Var) and hasattr(axis, "extent") else axis


class _AxisNames:
    """Text for the axes of one knob, and for the same axes wherever they are in its options."""

    def __init__(self, axes: Sequence[Any]) -> None:
        self.by_axis: dict[Var | LoopRef, str] = {}
        axes = check_list("axes", axes, "a list of axes, or of their names", error=SpaceError)
        taken = {axis for axis in axes if isinstance(axis, str)}
        self.axes = [self._name(axis, taken) for axis in axes]

    def _name(self, axis: Any, taken: set[str]) -> str:
        """Its own name, numbered where several axes share it."""
        if not isinstance(axis, Var | LoopRef):
            return axis if isinstance(axis, str) else value_text(axis)
        if axis in self.by_axis:
            return self.by_axis[axis]
        name = unused_name(axis.name, taken)
        taken.add(name)
        self.by_axis[axis] = name
        return name

    def of(self, value: Any) -> Any:
        """`value` with names for axes, at any depth of lists."""
        if isinstance(value, Var | LoopRef):
            return self.by_axis.get(value, value.name)
        return [self.of(item) for item in value] if isinstance(value, list | tuple) else value

    def options(self, options: Mapping[str, Any]) -> dict[str, Any]:
        return {key: value if key == "when" else self.of(value) for key, value in options.items()}


class TemplateConfig(ABC):
    """The `cfg` of a template: `cfg["name"]` is the value of a knob, `define_*` declare knobs.

    Attributes:
        target: the target of the program (`cfg.target.vector_bits`, `.vector_registers`, `.caches`, `.num_cores`).
    """

    def __init__(self, target: Target) -> None:
        self.target = target

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self}>"

    @abstractmethod
    def __getitem__(self, name: str) -> KnobValue:
        """The value of a knob: its first one while the space is declared, else the configuration's."""

    @abstractmethod
    def define_split(self, name: str, axis: Any, policy: str = "factors", **options: Any) -> tuple[str, ...]:
        """See `ConfigSpace.define_split`; `axis` may be an axis of a tensor."""

    @abstractmethod
    def define_knob(self, name: str, candidates: Iterable[Any], *, when: Mapping[str, Any] | None = None) -> None:
        """See `ConfigSpace.define_knob`."""

    @abstractmethod
    def define_reorder(self, name: str, axes: Sequence[Any], policy: str, **options: Any) -> tuple[str, ...]:
        """See `ConfigSpace.define_reorder`; axes, in the options as well, are axes of tensors, loops or names."""

    @abstractmethod
    def define_annotate(self, name: str, axes: Sequence[Any], policy: str, **options: Any) -> tuple[str, ...]:
        """See `ConfigSpace.define_annotate`; axes of tensors, loops or names."""

    @abstractmethod
    def add_constraint(self, predicate: Callable[[Config], bool], *, reads: Sequence[str], message: str) -> None:
        """See `ConfigSpace.add_constraint`."""

    def raise_error(self, message: str) -> None:  # noqa: B027 - nothing happens while the space is declared
        """Refuse this configuration (it becomes a failed trial of kind "invalid").

        The run that declares the space goes on: its configuration was not chosen.

        Raises:
            InvalidConfig: in every other run.
        """

    def add_flop(self, flop: float) -> None:  # noqa: B027 - only the run that declares the space counts it
        """Say how much arithmetic the operator asks for, where counting that of the computation would mislead.

        A computation in blocks that stick out of the operator's shape has more than the operator; speeds are of the
        operator. Several calls add up.
        """

    def define_plain(self, outputs: Callable[[], Sequence[Tensor]]) -> None:  # noqa: B027 - as above
        """Give the plain computation, where the template's own has copies and layouts of a schedule in it.

        `outputs` gives, for the template's own inputs, the outputs in the order of the kernel's arguments. It is called
        only after a search, when NumPy is timed on the same operator.
        """


KnobValues: TypeAlias = TemplateConfig | Config
"""A value with the knobs' values: the `cfg` of a template, or the configuration that a constraint is asked about."""


class DeclaringConfig(TemplateConfig):
    """The first run: `define_*` add knobs to `space`; `cfg["name"]` gives a knob's first value meanwhile."""

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self.space = ConfigSpace()
        self.flop: float | None = None
        self.plain: Callable[[], Sequence[Tensor]] | None = None

    def define_plain(self, outputs: Callable[[], Sequence[Tensor]]) -> None:
        self.plain = outputs

    def add_flop(self, flop: float) -> None:
        self.flop = (self.flop or 0.0) + check_float("flop", flop)

    def __getitem__(self, name: str) -> KnobValue:
        knobs = self.space.knobs
        # An unknown name is an error with the list of known ones, which Config words best.
        value: KnobValue = handle(
            knobs[name].entities[0] if isinstance(name, str) and name in knobs else self.space.get(0)[name]
        )
        return value

    def define_split(self, name: str, axis: Any, policy: str = "factors", **options: Any) -> tuple[str, ...]:
        return self.space.define_split(name, _extent(axis), policy, **options)

    def define_knob(self, name: str, candidates: Iterable[Any], **options: Any) -> None:
        self.space.define_knob(name, candidates, **options)

    def define_reorder(self, name: str, axes: Sequence[Any], policy: str, **options: Any) -> tuple[str, ...]:
        names = _AxisNames(axes)
        return self.space.define_reorder(name, names.axes, policy, **names.options(options))

    def define_annotate(self, name: str, axes: Sequence[Any], policy: str, **options: Any) -> tuple[str, ...]:
        names = _AxisNames(axes)
        return self.space.define_annotate(name, names.axes, policy, **names.options(options))

    def add_constraint(self, predicate: Callable[[Config], bool], *, reads: Sequence[str], message: str) -> None:
        self.space.add_constraint(predicate, reads=reads, message=message)

    def __str__(self) -> str:
        return "the first configuration"


class ApplyingConfig(TemplateConfig):
    """Every other run: `define_*` declare nothing, `cfg["name"]` is the configuration's value."""

    def __init__(self, config: Config, target: Target) -> None:
        super().__init__(target)
        if not isinstance(config, Config):
            raise not_a_config(config, "one of task.space, such as task.space.get(0) or result.best.config")
        self.config = config

    def __getitem__(self, name: str) -> KnobValue:
        value: KnobValue = handle(self.config[name])
        return value

    def raise_error(self, message: str) -> None:
        raise InvalidConfig(f"the template refuses {self}: {message}")

    def define_split(self, name: str, *_: Any, **__: Any) -> tuple[str, ...]:
        """Declared already; the names of the loops, as the declaration gave them."""
        return self._declared(name).outputs

    define_reorder = define_annotate = define_split

    def define_knob(self, name: str, *_: Any, **__: Any) -> None:
        """Declared already."""
        self._declared(name)

    def add_constraint(self, *_: Any, **__: Any) -> None:
        """Declared already."""

    def _declared(self, name: str) -> Knob:
        knob = self.config.space.knobs.get(name)
        if knob is None:
            raise SpaceError(
                f"knob {name!r} was not declared by the template's first run, which ran with the first configuration; "
                "declare the same knobs in every run, and give when={...} to those that only sometimes make sense"
            )
        return knob

    def __str__(self) -> str:
        return str(self.config)
