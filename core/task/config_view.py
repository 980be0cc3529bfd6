"""The `cfg` argument of a template: declares knobs in one run, returns the values of a configuration in all others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

from pegbox.checks import check_callable, check_float, check_list
from pegbox.codegen.targets.target import Target
from pegbox.compute.tensor import Tensor
from pegbox.errors import InvalidConfig, PegboxError, SpaceError, TemplateError
from pegbox.expr.nodes import Var
from pegbox.expr.printer import unused_name
from pegbox.origin import explained, located
from pegbox.schedule.state.handles import LoopRef
from pegbox.shown import value_text
from pegbox.space import Config, ConfigSpace, Knob
from pegbox.space.config import not_a_config
from pegbox.task.apply import KnobValue, handle


class _AxisNames:
    """Names for the axes of one knob, also where its options mention them."""

    def __init__(self, axes: Sequence[Any]) -> None:
        self.by_axis: dict[Var | LoopRef, str] = {}
        axes = check_list("axes", axes, "a list of axes, or of their names", error=SpaceError)
        taken = {axis for axis in axes if isinstance(axis, str)}
        self.axes = [self._name(axis, taken) for axis in axes]

    def _name(self, axis: Any, taken: set[str]) -> str:
        """Return the name of an axis, numbered if several axes share it."""
        if not isinstance(axis, Var | LoopRef):
            return axis if isinstance(axis, str) else value_text(axis)
        if axis in self.by_axis:
            return self.by_axis[axis]
        name = unused_name(axis.name, taken)
        taken.add(name)
        self.by_axis[axis] = name
        return name

    def of(self, value: Any) -> Any:
        """Replace axes in `value` by their names, at any depth of lists."""
        if isinstance(value, Var | LoopRef):
            return self.by_axis.get(value, value.name)
        return [self.of(item) for item in value] if isinstance(value, list | tuple) else value

    def options(self, options: Mapping[str, Any]) -> dict[str, Any]:
        return {key: value if key == "when" else self.of(value) for key, value in options.items()}


class TemplateConfig:
    """The `cfg` of a template: `cfg["name"]` is the value of a knob; `define_*` declare knobs.

    This class serves the first run, which adds the knobs to `space`; every other run has an `ApplyingConfig`.

    Attributes:
        target: the target of the program (`cfg.target.vector_bits`, `.vector_registers`, `.caches`, `.num_cores`).
        accuracy: the largest error that the user asked for, relative to the largest magnitude of an output: a template
            may refuse algorithms that cannot reach it; None for the default of tasks.
    """

    def __init__(self, target: Target, accuracy: float | None = None) -> None:
        self.target, self.accuracy = target, accuracy
        self.space = ConfigSpace()
        self.flop: float | None = None
        self.plain: Callable[[], Sequence[Tensor]] | str | None = None
        self.prefers_first = False
        self.preference: Callable[[Config], bool] | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self}>"

    def __str__(self) -> str:
        return "the first configuration"

    def __getitem__(self, name: str) -> KnobValue:
        """Return the value of a knob: the first one while the space is declared, else the configuration's."""
        knobs = self.space.knobs
        # Config words the error for an unknown name, with the list of known ones.
        value: KnobValue = handle(
            knobs[name].entities[0] if isinstance(name, str) and name in knobs else self.space.get(0)[name]
        )
        return value

    def define_split(self, name: str, axis: Any, policy: str = "factors", **options: Any) -> tuple[str, ...]:
        """See `ConfigSpace.define_split`; `axis` may be an axis of a tensor."""
        extent = axis.extent if isinstance(axis, Var) and hasattr(axis, "extent") else axis
        return self.space.define_split(name, extent, policy, **options)

    def define_knob(self, name: str, candidates: Iterable[Any], *, when: Mapping[str, Any] | None = None) -> None:
        """See `ConfigSpace.define_knob`."""
        self.space.define_knob(name, candidates, when=when)

    def define_int(self, name: str, low: int, high: int, **options: Any) -> None:
        """See `ConfigSpace.define_int`."""
        self.space.define_int(name, low, high, **options)

    def define_float(self, name: str, low: float, high: float, **options: Any) -> None:
        """See `ConfigSpace.define_float`."""
        self.space.define_float(name, low, high, **options)

    def define_reorder(self, name: str, axes: Sequence[Any], policy: str, **options: Any) -> tuple[str, ...]:
        """See `ConfigSpace.define_reorder`; axes, also in the options, may be axes of tensors, loops or names."""
        names = _AxisNames(axes)
        return self.space.define_reorder(name, names.axes, policy, **names.options(options))

    def define_annotate(self, name: str, axes: Sequence[Any], policy: str, **options: Any) -> tuple[str, ...]:
        """See `ConfigSpace.define_annotate`; axes may be axes of tensors, loops or names."""
        names = _AxisNames(axes)
        return self.space.define_annotate(name, names.axes, policy, **names.options(options))

    def add_constraint(self, predicate: Callable[[Config], bool], *, reads: Sequence[str], message: str) -> None:
        """See `ConfigSpace.add_constraint`."""
        self.space.add_constraint(predicate, reads=reads, message=message)

    def raise_error(self, message: str) -> None:
        """Refuse this configuration (it becomes a failed trial of kind "invalid").

        The run that declares the space continues, since its configuration was not chosen.

        Raises:
            InvalidConfig: in every other run.
        """

    def add_flop(self, flop: float) -> None:
        """Declare the operator's amount of arithmetic, if counting that of the computation would mislead.

        A computation in blocks that stick out of the operator's shape does more than the operator, and speeds refer to
        the operator. Several calls add up.
        """
        self.flop = (self.flop or 0.0) + check_float("flop", flop)

    def define_plain(self, outputs: Callable[[], Sequence[Tensor]] | str) -> None:
        """Declare the plain computation on which NumPy is timed, if pegbox cannot derive it from the template's.

        `outputs` is a function of the template's inputs that returns the outputs in the order of the kernel's
        arguments, without the copies and layouts of a schedule. Kernels are checked against them, too. Or it is NumPy
        code: an expression of `np` and the inputs by name, such as "np.take(table, rows, axis=0)", for the output or a
        tuple of outputs.
        """
        if not isinstance(outputs, str):
            check_callable("define_plain: outputs", outputs, "a function that gives tensors, or NumPy code as a text")
        self.plain = outputs

    def prefer_first(self) -> None:
        """Declare that the first value of each knob is an estimate: predictions and searches begin with them."""
        self.prefers_first = True

    def prefer(self, predicate: Callable[[Config], bool]) -> None:
        """Let predictions prefer configurations for which a condition holds, among those expected to be fast.

        A kernel that is timed alone finds its data in the caches; in a model, it may find other data there. The
        condition is also asked about random configurations, of which predictions sample the preferred ones first.
        """
        check_callable("prefer: predicate", predicate, "a function that decides about a configuration")
        self.preference = partial(_holds, predicate)


def _holds(predicate: Callable[[Config], bool], config: Config) -> bool:
    """Ask a preference about a configuration.

    Raises:
        TemplateError: the preference raises an error of Python.
        PegboxError: the preference raises an error of pegbox, such as one for an unknown knob.
    """
    try:
        return bool(predicate(config))
    except PegboxError as error:
        located(error)
        raise
    except (Exception, SystemExit) as error:
        raise located(TemplateError(f"cfg.prefer raised {explained(error, f'at {config}')}"), error) from error


KnobValues: TypeAlias = TemplateConfig | Config
"""The type of an object with the knobs' values: a template's `cfg`, or the configuration that a constraint checks."""


class ApplyingConfig(TemplateConfig):
    """The `cfg` of every later run: `define_*` declare nothing, `cfg["name"]` is the configuration's value."""

    def __init__(self, config: Config, target: Target, accuracy: float | None = None) -> None:
        if not isinstance(config, Config):
            raise not_a_config(config, "one of task.space, such as task.space.get(0) or result.best.config")
        self.target, self.accuracy = target, accuracy
        self.config, self.space = config, config.space

    def __getitem__(self, name: str) -> KnobValue:
        value: KnobValue = handle(self.config[name])
        return value

    def raise_error(self, message: str) -> None:
        raise InvalidConfig(f"the template refuses {self}: {message}")

    def define_split(self, name: str, *_: Any, **__: Any) -> tuple[str, ...]:
        """Return the names of the loops that the declaration returned."""
        return self._declared(name).outputs

    define_reorder = define_annotate = define_split

    def define_knob(self, name: str, *_: Any, **__: Any) -> None:
        """Check that the knob is declared already."""
        self._declared(name)

    define_int = define_float = define_knob

    def add_constraint(self, *_: Any, **__: Any) -> None:
        """Do nothing: it was declared in the first run."""

    add_flop = define_plain = prefer_first = prefer = add_constraint

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
