"""Templates made of sketches: one space for all sketches of a computation, their choice a knob like others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pegbox.codegen.targets.target import Target
from pegbox.compute.graph import post_order
from pegbox.compute.printer import identifier
from pegbox.compute.tensor import ComputeOp, Tensor
from pegbox.errors import TemplateError
from pegbox.expr.printer import unused_name
from pegbox.plugins.sketch.annotation import annotate
from pegbox.plugins.sketch.rules import Rule, ansor_rules, derive
from pegbox.plugins.sketch.state import State
from pegbox.plugins.sketch.steps import Choices, Knob, Run, Step
from pegbox.schedule.te.schedule import TESchedule, create_schedule

CHOICE = "sketch"
RESERVED = ("s", "cfg", "te", "pb", "math")  # what the code of a template calls so


@dataclass(frozen=True)
class Sketch:
    """A way to schedule a computation that leaves values to knobs.

    Attributes:
        name: the rules that made it.
        arguments: the kernel's arguments in call order.
    """

    name: str
    arguments: tuple[Tensor, ...]
    tensors: Mapping[str, Tensor]
    knobs: tuple[Knob, ...]
    steps: tuple[Step, ...]

    def schedule(self, cfg: Any) -> TESchedule:
        """The schedule that the values of the knobs make.

        Raises:
            ScheduleError: they make one that is not legal.
        """
        outputs = [t.op for t in self.arguments if isinstance(t.op, ComputeOp)]
        run = Run(create_schedule(outputs), dict(self.tensors), cfg)
        run.do(self.steps)
        return run.s


def generate_sketches(
    tensors: Sequence[Tensor], target: str | Target = "llvm", rules: Sequence[Rule] | None = None
) -> list[Sketch]:
    """The sketches of a computation, by Ansor's rules unless others are given.

    Args:
        tensors: the kernel's arguments in call order, inputs and outputs.

    Raises:
        TemplateError: nothing is computed, or two stages have one name.
    """
    resolved = target if isinstance(target, Target) else Target(target)
    outputs = [t for t in tensors if isinstance(t.op, ComputeOp)]
    if not outputs:
        raise TemplateError(f"there is nothing to schedule: {[t.name for t in tensors]} are inputs; give outputs too")
    names = _names(outputs)
    derived = derive(State(outputs, names, resolved.num_cores), ansor_rules() if rules is None else rules)
    labels: list[str] = []
    sketches = []
    for state in derived:
        labels.append(unused_name("+".join(state.applied) or "plain", labels))
        done = annotate(state, resolved)
        sketches.append(Sketch(labels[-1], tuple(tensors), names, tuple(done.knobs.values()), tuple(done.steps)))
    return sketches


def _names(outputs: Sequence[Tensor]) -> dict[str, Tensor]:
    """Every tensor of the graph by a name that is an identifier, and not one that the code of a sketch has."""
    found: dict[str, Tensor] = {}
    stages: set[str] = set()
    for op in post_order([t.op for t in outputs]):
        if op.name in stages:
            raise TemplateError(f"two stages are called {op.name!r}; give each its own name=")
        stages.add(op.name)
        for tensor in op.outputs:
            found[unused_name(identifier(tensor.name), {*found, *RESERVED})] = tensor
    return found


class SketchSpace:
    """What a template of several sketches does: `space(cfg)` declares all knobs, and applies the chosen sketch.

    Attributes:
        declared: the knobs by their names in the space, each with the sketches that have it: equal ones are one.
    """

    def __init__(self, sketches: Sequence[Sketch]) -> None:
        self.sketches = {sketch.name: sketch for sketch in sketches}
        self.declared = _shared(sketches)

    def __call__(self, cfg: Any) -> tuple[TESchedule, list[Tensor]]:
        if len(self.sketches) > 1:
            cfg.define_knob(CHOICE, list(self.sketches))
        for name, (knob, _) in self.declared.items():
            knob.declare(cfg, name, self.condition(name))
        chosen = self.chosen(cfg)
        return chosen.schedule(self.own(cfg, chosen)), list(chosen.arguments)

    def chosen(self, cfg: Any) -> Sketch:
        """The sketch that a configuration chooses."""
        return self.sketches[cfg[CHOICE].val] if len(self.sketches) > 1 else next(iter(self.sketches.values()))

    def own(self, cfg: Any, sketch: Sketch) -> Choices:
        """The values of a sketch's knobs by the names that they have in the sketch."""
        return _Renamed(cfg, self.names(sketch))

    def names(self, sketch: Sketch) -> dict[str, str]:
        """The names in the space of a sketch's knobs."""
        return {knob.name: name for name, (knob, users) in self.declared.items() if sketch.name in users}

    def condition(self, name: str) -> dict[str, Any]:
        """When a knob exists."""
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


def _shared(sketches: Sequence[Sketch]) -> dict[str, tuple[Knob, list[str]]]:
    names: dict[Knob, str] = {}
    users: dict[str, tuple[Knob, list[str]]] = {}
    for sketch in sketches:
        for knob in sketch.knobs:
            if knob not in names:
                names[knob] = unused_name(knob.name, users)
            users.setdefault(names[knob], (knob, []))[1].append(sketch.name)
    return users
