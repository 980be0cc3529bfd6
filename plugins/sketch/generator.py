"""From a computation to its sketches, and to their space."""

from __future__ import annotations

from collections.abc import Sequence

from pegbox.codegen.targets.target import Target
from pegbox.compute.graph import post_order
from pegbox.compute.printer import identifier
from pegbox.compute.tensor import ComputeOp, Tensor
from pegbox.errors import TemplateError
from pegbox.expr.printer import unused_name
from pegbox.plugins.sketch.annotation import annotate
from pegbox.plugins.sketch.rules import Rule, ansor_rules, derive
from pegbox.plugins.sketch.space import Sketch, SketchSpace
from pegbox.plugins.sketch.state import State

RESERVED = ("s", "cfg", "te", "pb", "math")  # what the code of a template calls so


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
        sketches.append(
            Sketch(labels[-1], tuple(tensors), names, tuple(done.knobs.values()), tuple(done.limits), tuple(done.steps))
        )
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


def sketch_space(tensors: Sequence[Tensor], target: Target) -> SketchSpace:
    """The space generator `sketch`."""
    return SketchSpace(generate_sketches(tensors, target))
