"""One sketch as a template module to edit, also for other shapes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from pegbox.checks import check_instance, check_text, near_names
from pegbox.compute import identifier
from pegbox.errors import ArgumentError, PegboxError
from pegbox.expr import unused_name
from pegbox.loops import literal
from pegbox.plugins.sketch.generator import computation, names_of
from pegbox.plugins.sketch.limit import TileLimit
from pegbox.plugins.sketch.module_text import (
    argument_text,
    check_literals,
    constraint_text,
    function_text,
    helper_text,
    in_docstring,
    input_names,
    lists,
    module_text,
    pack_function,
    plain_function,
    template_name,
    value_check,
)
from pegbox.plugins.sketch.shape_arguments import over_arguments, words_of
from pegbox.plugins.sketch.space import Sketch, SketchSpace
from pegbox.plugins.sketch.steps import KnobChoices, Name, SketchKnob, StepWriter, Verbatim
from pegbox.plugins.sketch.te_code import compute_lines
from pegbox.space import Config
from pegbox.task import ApplyingConfig, GeneratedTemplate, Task


def sketch_template(task: Task, config: Config | None = None, *, sketch: str = "") -> str:
    """Write a template module with one sketch of a task, to be edited and tuned.

    Its knobs are the splits of the sketch. It fits other shapes, too, if the workload's arguments can be found in the
    computation.

    Args:
        config: a configuration of the task, such as the best: its sketch is written, with its places, threads and
            unrolling. The module's comments show its splits.
        sketch: the name of a sketch, in place of `config`: its other choices are knobs, too.

    Raises:
        ArgumentError: both or neither are given, the task has no sketches, or none of that name.
        TemplateError: an argument cannot be written as Python.
    """
    space = sketch_space(task)
    if (config is None) == (check_text("sketch", sketch) == ""):
        raise ArgumentError("give a config, such as result.best.config, or the name of a sketch")
    values: KnobChoices | None = None
    if config is None:
        if sketch not in space.sketches:
            known = near_names(sketch, space.sketches)
            raise ArgumentError(f"{task.name} has no sketch {sketch!r}{known}")
        chosen = space.sketches[sketch]
    else:
        cfg = ApplyingConfig(check_instance("config", config, Config, "one of task.space"), task.target)
        chosen = space.chosen(cfg)
        values = space.own(cfg, chosen)
    return _Module(task, space, chosen, values).text()


def sketch_space(task: Task) -> SketchSpace:
    """Return the sketches of a task. Raises `ArgumentError` if it has none."""
    check_instance("task", task, Task, "what pegbox.create_task makes")
    template = task.template
    space = template.space(task.target, task.args, task.kwargs) if isinstance(template, GeneratedTemplate) else None
    if not isinstance(space, SketchSpace):
        raise ArgumentError(f"{task!r} has no sketches; make it with space='sketch'")
    return space


def same_splits(task: Task, config: Config, written: Task) -> Config:
    """Return the written template's configuration for a configuration of the task."""
    space = sketch_space(task)
    cfg = ApplyingConfig(config, task.target)
    values = space.own(cfg, space.chosen(cfg))
    return written.space.from_json({"entity": [[name, "sp", list(values[name].size)] for name in written.space.knobs]})


class _Module:
    """The parts of a module of one sketch."""

    def __init__(self, task: Task, space: SketchSpace, sketch: Sketch, values: KnobChoices | None) -> None:
        assert isinstance(task.template, GeneratedTemplate)  # it has sketches
        self.task, self.space, self.sketch, self.values = task, space, sketch, values
        self.workload = task.template.workload
        self.arguments = task.workload[1]
        check_literals(self.workload, self.arguments)
        lines = compute_lines(sketch.arguments, sketch.tensors)
        taken = {*words_of(lines), *(name for step in sketch.steps for name in getattr(step, "results", ()))}
        taken |= {"s", "te", "cfg", "pb", "math", "np", "min", "list", "ValueError", *sketch.tensors}
        self.names: dict[str, str] = {}
        for key in self.arguments:
            self.names[key] = unused_name(identifier(key), {*taken, *self.names.values()})
        self.taken = {*taken, *self.names.values()}
        sizes = {self.names[k]: v for k, v in self.arguments.items() if type(v) is int and v > 0}
        known = self._lines_of(sizes) == lines  # without packing, and without rules that leave more terms
        self.lines, self.varied = over_arguments(self._lines_of, sizes) if known else (lines, [])

    def _lines_of(self, sizes: Mapping[str, int]) -> list[str] | None:
        """Return the te code of the computation for other sizes; None if it refuses them."""
        given = {key: sizes.get(name, self.arguments[key]) for key, name in self.names.items()}
        try:
            arguments = computation(self.workload.tensors(**given))
            return compute_lines(arguments, names_of(arguments))
        except (PegboxError, RecursionError):
            return None

    def text(self) -> str:
        sketch, name = self.sketch, self.workload.name
        template = template_name(name)
        plain, own_lists = (unused_name(wanted, {*self.taken, template}) for wanted in ("_plain", "_lists"))
        own = {self.names[key]: value for key, value in self.arguments.items()}
        fixed = {key: value for key, value in own.items() if key not in self.varied}
        parameters = "".join(f", {key}={argument_text(value)}" for key, value in own.items())
        lines = [*value_check(fixed, own_lists), *self.lines]
        if sketch.plain:
            lines.append(f"cfg.define_plain(lambda: {plain}({', '.join(input_names(sketch))}))")
        lines += [*self._schedule_lines(), f"return s, [{', '.join(map(self._name_of, sketch.arguments))}]"]
        signature = f"{template}(cfg: pb.TemplateConfig{parameters})"
        doc = f"{in_docstring(name)} by the sketch {in_docstring(sketch.name)}."
        functions = [
            *([helper_text(lists, own_lists)] if any(isinstance(value, list) for value in fixed.values()) else []),
            *([plain_function(sketch, plain)] if sketch.plain else []),
            function_text(signature, "tuple[te.TESchedule, list[te.Tensor]]", doc, lines),
            *(pack_function(each, unused_name(f"pack_{identifier(each.name)}", [template])) for each in sketch.layouts),
        ]
        about = f"A template for {in_docstring(name)}, written by `pegbox sketch`."
        varied = f"Other values of {', '.join(self.varied)} are computed, too." if self.varied else "For one shape."
        best = " The comments show the configuration that it was written from." if self.values else ""
        return module_text(about, varied + best, functions, sketch)

    def _name_of(self, tensor: Any) -> str:
        return next(name for name, each in self.sketch.tensors.items() if each is tensor)

    def _schedule_lines(self) -> list[str]:
        sketch = self.sketch
        splits = [knob for knob in sketch.knobs if knob.extent is not None]
        writer = _TemplateWriter(self.values, {}, {knob.name: knob for knob in splits}, self._lanes())
        lines = [f"s = te.create_schedule([{', '.join(map(self._name_of, sketch.outputs))}])"]
        if self.values is None:
            others = [knob for knob in sketch.knobs if knob.extent is None]
            conditions = [{} if knob.when is None else dict([knob.when]) for knob in others]
            lines += [
                knob.declaration(knob.name, when).python("cfg", None, literal)
                for knob, when in zip(others, conditions, strict=True)
            ]
        lines += _without_unused(list(writer.lines(sketch.steps)))
        return [*lines, *(constraint_text(limit, "") for limit in self._limits())]

    def _limits(self) -> Iterator[TileLimit]:
        """Yield the limits of tiles, which also hold for other shapes, except the smallest size."""
        for limit in dict.fromkeys(each for each in self.sketch.limits if isinstance(each, TileLimit)):
            message = f"the tile fits the {limit.registers} vector registers"
            yield replace(limit, least=1, message=message) if self.varied else limit

    def _lanes(self) -> dict[str, int]:
        """Return the lanes of the splits along vectors, if the shape may vary."""
        limits = [limit for limit in self.sketch.limits if isinstance(limit, TileLimit)]
        return {limit.knobs[-1]: limit.lanes for limit in limits} if self.varied else {}


@dataclass(frozen=True)
class _TemplateWriter(StepWriter):
    """A writer of steps as a template's code with splits as knobs, declared at their first use."""

    splits: dict[str, SketchKnob]
    lanes: Mapping[str, int]
    known: set[str] = field(default_factory=set)

    open_splits: ClassVar[bool] = True

    def declared(self, knob: str, loop: str) -> Sequence[str]:
        if knob in self.known:
            return ()
        self.known.add(knob)
        split = self.splits[knob]
        best = [] if self.cfg is None else [f"# best: {list(self.cfg[knob].size)}"]
        options: dict[str, Any] = {"axis": Name(loop)}
        if knob in self.lanes and split.allowed:
            options |= {"fits": Verbatim(_fits(split, self.lanes[knob], loop)), "policy": "verbose"}
        return [*best, split.declaration(knob, {}, **options).python("cfg", self, literal)]


def _without_unused(lines: list[str]) -> list[str]:
    """Drop the lines that only name unused axes."""
    counts = Counter(word for line in lines for word in re.findall(r"\w+", line))
    unused = re.compile(r"(\(?\w.*) = s\[\w+\]\.op\.(reduce_)?axis")
    found = ((unused.fullmatch(line), line) for line in lines)
    return [line for axes, line in found if axes is None or any(counts[w] > 1 for w in re.findall(r"\w+", axes[1]))]


def _fits(split: SketchKnob, lanes: int, loop: str) -> str:
    """Return the filter of a split along vectors, for any extent: it fills them as well as the sketch's splits."""
    most = "" if split.innermost is None else f"split.size[-1] <= {split.innermost}"
    full = f"split.size[-1] % min({lanes}, {loop}.extent) == 0"
    parts = [full] if all(extent % lanes == 0 for extent in split.allowed) else []
    return f"lambda split: {' and '.join([*parts, *filter(None, [most])]) or 'True'}"
