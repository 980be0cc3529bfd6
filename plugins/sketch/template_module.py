"""All sketches of a computation as the text of a template module."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

from pegbox.compute import identifier
from pegbox.expr import quoted, unused_name
from pegbox.loops import literal
from pegbox.plugins.sketch.limit import WRITTEN_OUT, BodyLimit, SketchLimit, written_out
from pegbox.plugins.sketch.module_text import (
    argument_text,
    block,
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
from pegbox.plugins.sketch.steps import CHOICE, Verbatim, schedule_lines, targets
from pegbox.plugins.sketch.te_code import compute_lines

if TYPE_CHECKING:
    from pegbox.plugins.sketch.space import Sketch, SketchSpace


@dataclass(frozen=True)
class _Names:
    """The names of a module's functions, and the arguments of the template by their names in the workload."""

    template: str
    arguments: Mapping[str, str]
    compute: str
    plain: str
    declare: str
    written_out: str
    lists: str
    sketches: str
    when: str
    schedules: Mapping[str, str]
    packs: Mapping[str, str]
    tensors: tuple[str, ...]


def template_module(space: SketchSpace, name: str, arguments: Mapping[str, Any]) -> str:
    """Return the text of a module whose template `template_name(name)` has the same space and the same programs.

    Args:
        arguments: the workload's arguments by name; the module is only for these.
    """
    sketches = list(space.sketches.values())
    names = _names(space, name, arguments)
    computed = [*compute_lines(sketches[0].arguments, sketches[0].tensors), f"return {targets(names.tensors)}"]
    functions = [
        *_helpers(space, arguments, names),
        function_text(f"{names.compute}()", "tuple[te.Tensor, ...]", "What is computed.", computed),
        *([plain_function(sketches[0], names.plain)] if sketches[0].plain else []),
        *(_schedule(space, sketch, names.schedules[sketch.name]) for sketch in sketches),
        *(_choice(names) if len(sketches) > 1 else []),
        function_text(f"{names.declare}(cfg: pb.TemplateConfig)", "None", "The knobs.", _knob_lines(space, names)),
        _template(space, name, arguments, names),
        *(pack_function(layout, names.packs[layout.name]) for layout in sketches[0].layouts),
    ]
    about = f"A template for {in_docstring(name)}, written by `pegbox sketch`."
    contents = "What is computed, a schedule for each sketch, and the knobs."
    if len(sketches) > 1:
        contents += f" A sketch that is removed from\n{names.sketches} is not searched; its function may go too."
    return module_text(about, contents, functions, sketches[0])


def _names(space: SketchSpace, name: str, arguments: Mapping[str, Any]) -> _Names:
    tensors = tuple(next(iter(space.sketches.values())).tensors)
    template = template_name(name)
    given: dict[str, str] = {}  # the workload's names, except those that the template uses itself
    for key in arguments:
        given[key] = unused_name(identifier(key), {*given.values(), "te", "cfg", "list", "ValueError"})
    taken = [template, *given.values(), *tensors]

    def own(wanted: str) -> str:
        taken.append(unused_name(wanted, taken))
        return taken[-1]

    functions = own("_compute"), own("_plain"), own("_declare"), own(WRITTEN_OUT), own("_lists")
    choice = own("SKETCHES"), own("_when")
    schedules = {s: own(f"_schedule_{identifier(s)}".replace("__", "_").rstrip("_")) for s in space.sketches}
    layouts = next(iter(space.sketches.values())).layouts
    packs = {each.name: own(f"pack_{identifier(each.name)}") for each in layouts}
    return _Names(template, given, *functions, *choice, schedules, packs, tensors)


def _choice(names: _Names) -> list[str]:
    """Return the table of the sketches, and the function that tells which sketches a knob belongs to."""
    entries = "".join(f"\n    {quoted(sketch)}: {function}," for sketch, function in names.schedules.items())
    condition = [
        f"left = tuple(name for name in names if name in {names.sketches})",
        f'return {{"{CHOICE}": left}} if left else {{}}',
    ]
    doc = "The condition that one of these sketches is chosen; empty where none of them is left."
    when = function_text(f"{names.when}(*names: str)", "dict[str, tuple[str, ...]]", doc, condition)
    return [f"{names.sketches} = {{{entries}\n}}", when]


def _knob_lines(space: SketchSpace, names: _Names) -> list[str]:
    lines = [f'cfg.define_knob("{CHOICE}", list({names.sketches}))'] if len(space.sketches) > 1 else []
    for users, group in groupby(space.declared, lambda knob: tuple(space.declared[knob][1])):
        lines += _of_sketches(space, names, users, [_declaration(space, knob, users) for knob in group])
    for limit in space.limits:
        having = limit.sketches if isinstance(limit, SketchLimit) else space.having(limit.knobs)
        lines += _of_sketches(space, names, having, [constraint_text(limit, names.written_out)])
    return lines or ["pass"]


def _of_sketches(space: SketchSpace, names: _Names, users: Sequence[str], lines: list[str]) -> Iterator[str]:
    """Write statements about knobs that only some of the sketches have."""
    if len(users) == len(space.sketches):
        yield from lines
        return
    condition = f"{names.when}({', '.join(map(quoted, users))})"
    named = any("when=when" in line or "**when" in line for line in lines)
    yield block(f"if when := {condition}:" if named else f"if {condition}:", lines)


def _declaration(space: SketchSpace, name: str, users: Sequence[str]) -> str:
    own = {key: value for key, value in space.condition(name).items() if key != CHOICE}
    when: Any = own
    if len(users) < len(space.sketches):
        parts = "".join(f", {quoted(key)}: {literal(value)}" for key, value in own.items())
        when = Verbatim(f"{{**when{parts}}}" if own else "when")
    return space.declared[name][0].declaration(name, when).python("cfg", None, literal)


def _helpers(space: SketchSpace, arguments: Mapping[str, Any], names: _Names) -> list[str]:
    """Return the helper functions that other functions call."""
    limited = any(isinstance(limit, BodyLimit) for sketch in space.sketches.values() for limit in sketch.limits)
    listed = any(isinstance(value, list) for value in arguments.values())
    needed = [(lists, names.lists)] * listed + [(written_out, names.written_out)] * limited
    return [helper_text(function, name) for function, name in needed]


def _schedule(space: SketchSpace, sketch: Sketch, function: str) -> str:
    given = ", ".join(f"{name}: te.Tensor" for name in sketch.tensors)
    lines = schedule_lines(sketch.steps, knobs=space.names(sketch))
    signature = f"{function}(cfg: pb.TemplateConfig, s: te.TESchedule, {given})"
    return function_text(signature, "None", f"The sketch {in_docstring(sketch.name)}.", lines or ["pass"])


def _template(space: SketchSpace, name: str, arguments: Mapping[str, Any], names: _Names) -> str:
    first = next(iter(space.sketches.values()))
    called = {id(t): key for key, t in first.tensors.items()}
    given = ", ".join(called[id(t)] for t in first.arguments)
    outputs = ", ".join(called[id(t)] for t in first.outputs)
    own = {names.arguments[key]: value for key, value in arguments.items()}
    parameters = "".join(f", {key}={argument_text(value)}" for key, value in own.items())
    lines = [
        *value_check(own, names.lists), f"{targets(names.tensors)} = {names.compute}()", f"{names.declare}(cfg)",
    ]  # fmt: skip
    if first.plain:
        lines.append(f"cfg.define_plain(lambda: {names.plain}({', '.join(input_names(first))}))")
    chosen = f'{names.sketches}[cfg["{CHOICE}"].val]' if len(space.sketches) > 1 else names.schedules[first.name]
    lines += [f"s = te.create_schedule([{outputs}])", f"{chosen}(cfg, s, {', '.join(names.tensors)})"]
    lines.append(f"return s, [{given}]")
    signature = f"{names.template}(cfg: pb.TemplateConfig{parameters})"
    doc = f"{in_docstring(name)}: what `pegbox tune` takes."
    return function_text(signature, "tuple[te.TESchedule, list[te.Tensor]]", doc, lines)
