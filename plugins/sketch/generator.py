"""`SketchGenerator`: the space generator `sketch`, from a computation to its sketches and their space."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pegbox.checks import check_choice, check_int, check_list, check_text
from pegbox.codegen import Target, target_of
from pegbox.compute import (
    ComputeOp,
    ExternOp,
    Operation,
    ScanOp,
    Tensor,
    check_static,
    placeholders,
    post_order,
    read_buffers,
    tensor_names,
    without_zeros,
)
from pegbox.errors import ArgumentError, TemplateError
from pegbox.expr import unused_name
from pegbox.hooks import registry
from pegbox.plugins.sketch.annotation import annotate
from pegbox.plugins.sketch.dot_product import DotProduct
from pegbox.plugins.sketch.lane_axis import LaneAxis
from pegbox.plugins.sketch.lane_sums import LaneSums
from pegbox.plugins.sketch.packed_layout import PackedLayout, pack_ahead
from pegbox.plugins.sketch.rules import MultiLevelTiling, Rule, ansor_rules, derive
from pegbox.plugins.sketch.scan_rows import scan_rules
from pegbox.plugins.sketch.shared_tiles import SharedTiles
from pegbox.plugins.sketch.space import Sketch, SketchSpace
from pegbox.plugins.sketch.state import State
from pegbox.plugins.sketch.te_code import RESERVED
from pegbox.plugins.sketch.transposition import Transposition

_STRUCTURE = re.compile("S[SR]*R[SR]*S")


@dataclass(frozen=True)
class SketchGenerator:
    """The space generator `sketch`: templates that rules derive from a computation.

    Args:
        rules: "default": plugins' rules (in the order of their names), then Ansor's, with knobs for copies of operands
            and tiles that fit the registers; "ansor": only Ansor's rules and knobs; or a list.
        structure: the levels of tiles, S spatial and R reduce, outermost first.
        max_innermost_factor: the largest number of iterations of the innermost loop of a split; with "ansor" also for
            reduce axes.
        layout_free: inputs that the kernel takes packed ahead of time, such as "B" or "B+W", in addition to those in an
            operation's attribute `layout_free_placeholders`.
        pack_ahead: False leaves all inputs unpacked, regardless of that attribute.
    """

    rules: str | Sequence[Rule] = "default"
    structure: str = "SSRSRS"
    max_innermost_factor: int = 64
    layout_free: str = ""
    pack_ahead: bool = True

    def __post_init__(self) -> None:
        if _STRUCTURE.fullmatch(check_text("structure", self.structure)) is None:
            wanted = "levels as S and R, an S first and last and an R between, such as 'SSRSRS'"
            raise ArgumentError(f"structure={self.structure!r}: write {wanted}")
        if isinstance(self.rules, str):
            check_choice("rules", self.rules, ("default", "ansor"))
        else:
            listed = check_list("rules", self.rules, "'default', 'ansor', or a list of rules", of=Rule)
            if not listed:
                raise ArgumentError(f"rules={self.rules!r}: give at least one rule, an object with match and apply")
            if classes := [rule.__name__ for rule in listed if isinstance(rule, type)]:
                raise ArgumentError(f"rules has the class {classes[0]}; give an object: {classes[0]}()")
        check_int("max_innermost_factor", self.max_innermost_factor, minimum=1)
        if check_text("layout_free", self.layout_free) and not self.pack_ahead:
            raise ArgumentError(f"layout_free={self.layout_free!r} with pack_ahead=False: leave one of them out")

    def __call__(self, tensors: Sequence[Tensor], target: Target) -> SketchSpace:
        return SketchSpace(self.sketches(tensors, target))

    def with_packed(self, *names: str) -> SketchGenerator:
        """Return the generator whose kernels also take these inputs packed ahead; without names, no inputs."""
        given = check_list("names", names, "names of inputs, such as 'B'", of=str)
        known = filter(None, self.layout_free.split("+")) if given else ()
        return replace(self, layout_free="+".join(dict.fromkeys([*known, *given])), pack_ahead=bool(given))

    def sketches(self, tensors: Sequence[Tensor], target: str | Target | None = None) -> list[Sketch]:
        """Derive the sketches of a computation.

        Args:
            tensors: the kernel's arguments in call order, inputs and outputs; outputs alone are preceded by the inputs
                in the order of their use.
            target: by default `Target.default()`.

        Raises:
            TemplateError: nothing is computed, a stage is a statement, an input with a free layout is not an input or
                not read by exactly one tiled stage, or a rule takes an illegal step.
            ComputeError: sizes are variables.
        """
        own, target = self.rules != "ansor", target_of(target)
        given = computation(tensors) if own else arguments_of(tensors)
        layouts: tuple[PackedLayout, ...] = ()
        plain: tuple[Tensor, ...] = ()
        if self.pack_ahead:
            given, layouts, plain = pack_ahead(given, target, list(filter(None, self.layout_free.split("+"))))
        outputs = [t for t in given if isinstance(t.op, ComputeOp)]
        names = names_of(given)
        labels: list[str] = []
        sketches = []
        for state in derive(State(outputs, names, target, by_access=own), self._all_rules()):
            labels.append(unused_name("+".join(state.applied) or "plain", labels))
            done = annotate(state, target, packing=own)
            parts = tuple(done.knobs.values()), tuple(done.limits), tuple(done.steps)
            sketches.append(Sketch(labels[-1], given, names, *parts, layouts, tuple(done.credits), plain))
        if not sketches:
            raise TemplateError(
                f"the rules derive no sketch of {', '.join(names)}; let one go on at each stage: Skip()"
            )
        return sketches

    def _all_rules(self) -> Sequence[Rule]:
        if not isinstance(self.rules, str):
            return self.rules
        tiling = self.structure, self.max_innermost_factor
        # Ansor has no rules for scans.
        return default_rules(*tiling) if self.rules == "default" else [*scan_rules(), *ansor_rules(*tiling)]


def default_rules(structure: str = "SSRSRS", max_innermost_factor: int = 64) -> list[Rule]:
    """Return the plugins' rules, in the order of their names, then pegbox's own and Ansor's."""
    registered: list[Rule] = [registry.get("sketch_rule", name)() for name in registry.names("sketch_rule")]
    tiling = structure, max_innermost_factor, True, True
    dot = DotProduct(max_innermost_factor)
    lanes: list[Rule] = [LaneAxis(*tiling), LaneSums(max_innermost_factor), Transposition(max_innermost_factor)]
    own: list[Rule] = [SharedTiles(MultiLevelTiling(*tiling), dot), dot, *lanes]
    return [*registered, *scan_rules(), *own, *ansor_rules(*tiling, by_use=True)]


def generate_sketches(
    tensors: Sequence[Tensor], target: str | Target | None = None, rules: str | Sequence[Rule] = "default"
) -> list[Sketch]:
    """Derive the sketches of a computation; see `SketchGenerator`."""
    return SketchGenerator(rules).sketches(tensors, target)


def unscheduled(tensors: Sequence[Tensor]) -> Sketch:
    """Return the computation without steps: every stage in its own loops, without choices.

    Raises as `arguments_of` does.
    """
    given = arguments_of(tensors)
    return Sketch("unscheduled", given, names_of(given), (), (), ())


def arguments_of(tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Check and return the arguments of a kernel; outputs alone are preceded by the inputs in the order of their use.

    Raises:
        TemplateError: nothing is computed, a stage is a statement, an input is missing, or two stages need each other.
        ComputeError: sizes are variables.
    """
    listed = check_list("tensors", tensors, "the arguments of a kernel, inputs and outputs", of=Tensor)
    outputs = [t for t in listed if isinstance(t.op, ComputeOp)]
    if not outputs:
        raise TemplateError(f"there is nothing to schedule: {[t.name for t in listed]} are inputs; add outputs")
    given = tuple(listed) if len(outputs) < len(listed) else (*placeholders(outputs), *outputs)
    check_static(order := post_order([tensor.op for tensor in given]))
    if statements := [op.name for op in order if isinstance(op, ExternOp)]:
        raise TemplateError(
            f"{', '.join(statements)}: statements of te.extern have no loops of which sketches could be made; "
            "write a template, or leave them out of the task"
        )
    _check_complete(given)
    _check_order(_ops(given))
    return given


def computation(tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Return the arguments of the kernel that sketches compute, without terms that are always zero."""
    return without_zeros(arguments_of(tensors))


def _check_complete(tensors: Sequence[Tensor]) -> None:
    """Raise TemplateError if an input is not among the kernel's arguments, or an argument is given twice."""
    outputs = [t for t in tensors if isinstance(t.op, ComputeOp)]
    missing = [t.name for t in placeholders(outputs) if t not in tensors]
    if missing:
        raise TemplateError(f"there are inputs that are not among the arguments: {', '.join(missing)}; give them too")
    twice = [t.name for n, t in enumerate(tensors) if t in tensors[:n]]
    if twice:
        raise TemplateError(f"the argument {twice[0]} is given twice; give each once")


def _check_order(ops: Sequence[Operation]) -> None:
    """Raise TemplateError if operations, listed producers first, need each other."""
    made = {t.buffer for op in ops if isinstance(op, ScanOp) for t in op.outputs}  # read before they are complete
    for op in ops:
        for buffer in read_buffers(op.body) if isinstance(op, ComputeOp) else ():
            if buffer not in made and any(buffer is t.buffer for other in ops for t in other.outputs):
                cycle = f"{op.name} reads {buffer.name}, which needs {op.name} itself"
                raise TemplateError(f"{cycle}: a cycle; compute one without the other")
        made.update(t.buffer for t in op.outputs)


def _ops(arguments: Sequence[Tensor]) -> list[Operation]:
    """Return all operations, inputs first, including those that nothing reads."""
    inputs = [t.op for t in arguments if not isinstance(t.op, ComputeOp)]
    return post_order([*inputs, *(t.op for t in arguments)])


def names_of(arguments: Sequence[Tensor]) -> dict[str, Tensor]:
    """Return all tensors by identifiers that a sketch's code does not use."""
    ops = _ops(arguments)
    names = tensor_names(ops, RESERVED)
    return {names[tensor.buffer]: tensor for op in ops for tensor in op.outputs}
