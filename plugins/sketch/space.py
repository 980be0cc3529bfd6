"""`Sketch` and `SketchSpace`: one sketch, and the space of several, whose choice is a knob."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pegbox.compute import ComputeOp, Tensor
from pegbox.errors import ArgumentError, ScheduleError
from pegbox.expr import unused_name
from pegbox.plugins.sketch.limit import Limit, SketchLimit
from pegbox.plugins.sketch.packed_layout import LAYOUT_FREE, PackedLayout
from pegbox.plugins.sketch.steps import CHOICE, KnobChoices, SketchKnob, SketchStep, StepRun, schedule_lines
from pegbox.plugins.sketch.te_code import compute_lines
from pegbox.te import TESchedule, create_schedule

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class Sketch:
    """A way to schedule a computation that leaves values to knobs.

    Attributes:
        name: the rules that made it.
        arguments: the kernel's arguments in call order.
        layouts: the layouts of arguments packed ahead.
        credits: the number of steps after each rule; knobs and places were added after them.
        plain: the outputs of the same computation with unpacked operands; empty if none is packed.
    """

    name: str
    arguments: tuple[Tensor, ...]
    tensors: Mapping[str, Tensor]
    knobs: tuple[SketchKnob, ...]
    limits: tuple[Limit, ...]
    steps: tuple[SketchStep, ...]
    layouts: tuple[PackedLayout, ...] = ()
    credits: tuple[tuple[int, str], ...] = ()
    plain: tuple[Tensor, ...] = ()

    @property
    def outputs(self) -> list[Tensor]:
        return [t for t in self.arguments if isinstance(t.op, ComputeOp)]

    def code(self, values: KnobChoices | None) -> str:
        """Write the computation and the schedule for the values of the knobs as te code."""
        outputs = ", ".join(name for name, t in self.tensors.items() if t in self.outputs)
        lines = [*compute_lines(self.arguments, self.tensors), "", f"s = te.create_schedule([{outputs}])"]
        return "\n".join([*lines, *schedule_lines(self.steps, values)]) + "\n"

    def schedule(self, cfg: Any) -> TESchedule:
        """Make the schedule for the values of the knobs.

        Raises:
            ScheduleError: the schedule is not legal; the message names the responsible rule.
        """
        run = StepRun(create_schedule([t.op for t in self.outputs]), dict(self.tensors), cfg)
        for number, step in enumerate(self.steps):
            try:
                run.do([step])
            except ScheduleError as error:
                rule = next((rule for count, rule in self.credits if number < count), "the annotation")
                raise ScheduleError(
                    f"sketch {self.name}, {rule}: {error}", "task.schedule_code(config) shows the steps"
                ) from error
        return run.s


class SketchSpace:
    """The space of several sketches: `space(cfg)` declares all knobs, and applies the chosen sketch.

    Attributes:
        declared: the knobs by their names in the space, each with the sketches that have it; equal knobs are merged.
        limits: the constraints of the space, each once, with the names of their knobs in it.
    """

    def __init__(self, sketches: Sequence[Sketch]) -> None:
        self.sketches = {sketch.name: sketch for sketch in sketches}
        self.declared = _shared(sketches)
        self._names: dict[str, dict[str, str]] = {sketch.name: {} for sketch in sketches}
        for name, (knob, users) in self.declared.items():
            for user in users:
                self._names[user][knob.name] = name
        self.declarations = [knob.declaration(name, self.condition(name)) for name, (knob, _) in self.declared.items()]
        self.limits = self._limits()

    def __call__(self, cfg: Any) -> tuple[TESchedule, list[Tensor]]:
        if len(self.sketches) > 1:
            cfg.define_knob(CHOICE, list(self.sketches))
        for step in self.declarations:
            step.call(cfg, None)
        for limit in self.limits:
            cfg.add_constraint(limit.holds, reads=limit.knobs, message=limit.message)
        chosen = self.chosen(cfg)
        if chosen.plain:
            cfg.define_plain(lambda: chosen.plain)
        return chosen.schedule(self.own(cfg, chosen)), list(chosen.arguments)

    @property
    def source(self) -> str:
        """The computation, and each sketch's use of its knobs, as te code; see `pegbox.task.workload.Space`."""
        first = next(iter(self.sketches.values()))
        lines = list(compute_lines(first.arguments, first.tensors))
        for name, sketch in self.sketches.items():
            lines += [f"# {name}", *schedule_lines(sketch.steps, knobs=self.names(sketch))]
        return "\n".join(lines)

    def schedule_code(self, cfg: Any) -> str:
        """Return the computation and the schedule of one configuration as te code."""
        sketch = self.chosen(cfg)
        return sketch.code(self.own(cfg, sketch))

    def pack_weights(self, array: np.ndarray[Any, Any], name: str = "") -> np.ndarray[Any, Any]:
        """Pack an operand for every kernel of the space: panel after panel, with zeros after its end.

        Args:
            name: the operand's name in the computation; not needed if only one is packed.

        Raises:
            ArgumentError: no operand is packed, or not this one, or the array has another shape or dtype.
        """
        layouts = {each.name: each for each in next(iter(self.sketches.values())).layouts}
        if not layouts:
            raise ArgumentError(
                f"pack_weights: no input's layout is free; list those that are packed ahead in the attribute "
                f"attrs={{'{LAYOUT_FREE}': [B]}} of te.compute, or in space='sketch:layout_free=B'"
            )
        chosen = name or next(iter(layouts))
        if chosen not in layouts or (not name and len(layouts) > 1):
            raise ArgumentError(f"pack_weights: name={name!r}; give one of those that are packed: {', '.join(layouts)}")
        return layouts[chosen].pack(array)

    def _limits(self) -> list[Limit | SketchLimit]:
        users: dict[Limit, list[str]] = {}
        for sketch in self.sketches.values():
            for limit in dict.fromkeys(limit.renamed(self.names(sketch)) for limit in sketch.limits):
                users.setdefault(limit, []).append(sketch.name)
        return [self._of_sketches(limit, tuple(sketches)) for limit, sketches in users.items()]

    def _of_sketches(self, limit: Limit, sketches: tuple[str, ...]) -> Limit | SketchLimit:
        return limit if len(self.having(limit.knobs)) == len(sketches) else SketchLimit(limit, CHOICE, sketches)

    def having(self, knobs: Sequence[str]) -> list[str]:
        """Return the sketches that have all of the given knobs."""
        return [sketch for sketch in self.sketches if all(sketch in self.declared[knob][1] for knob in knobs)]

    def chosen(self, cfg: Any) -> Sketch:
        """Return the sketch that a configuration chooses."""
        return self.sketches[cfg[CHOICE].val] if len(self.sketches) > 1 else next(iter(self.sketches.values()))

    def own(self, cfg: Any, sketch: Sketch) -> KnobChoices:
        """Return the values of a sketch's knobs by their names in the sketch."""
        return _Renamed(cfg, self.names(sketch))

    def names(self, sketch: Sketch) -> dict[str, str]:
        """Return the names in the space of a sketch's knobs."""
        return self._names[sketch.name]

    def condition(self, name: str) -> dict[str, Any]:
        """Return the condition under which a knob exists."""
        knob, users = self.declared[name]
        found = {} if len(users) == len(self.sketches) else {CHOICE: tuple(users)}
        if knob.when is not None:
            found[self.names(self.sketches[users[0]])[knob.when[0]]] = knob.when[1]
        return found


@dataclass(frozen=True)
class _Renamed:
    cfg: Any
    names: Mapping[str, str]

    def __getitem__(self, name: str) -> Any:
        return self.cfg[self.names[name]]


def _shared(sketches: Sequence[Sketch]) -> dict[str, tuple[SketchKnob, list[str]]]:
    names: dict[tuple[SketchKnob, str], str] = {}
    users: dict[str, tuple[SketchKnob, list[str]]] = {}
    for sketch in sketches:
        own: dict[str, str] = {}  # a knob follows the one on which it depends
        for knob in sketch.knobs:
            meaning = knob, "" if knob.when is None else own[knob.when[0]]
            if meaning not in names:
                names[meaning] = unused_name(knob.name, users)
            own[knob.name] = names[meaning]
            users.setdefault(own[knob.name], (knob, []))[1].append(sketch.name)
    return users
