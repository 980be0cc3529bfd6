"""Sketches as the text of a template module."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from inspect import Parameter
from typing import TYPE_CHECKING, Any

from pegbox.compute import RESERVED as RESERVED_TE
from pegbox.compute import identifier
from pegbox.errors import TemplateError
from pegbox.expr import quoted, unused_name
from pegbox.loops import literal
from pegbox.plugins.sketch.limit import WRITTEN_OUT, BodyLimit, written_out
from pegbox.plugins.sketch.steps import CHOICE, schedule_lines, targets
from pegbox.plugins.sketch.te_code import RESERVED, compute_lines, list_of, plain_lines
from pegbox.task import Workload

if TYPE_CHECKING:
    from pegbox.plugins.sketch.packed_layout import PackedLayout
    from pegbox.plugins.sketch.space import Sketch, SketchSpace

_WIDTH = 120
_GLUE = "\xa0"  # a space at which no line ends
_PLAIN_TEXT = re.compile(r"""'[^'"\\\s]*'|"[^'"\\\s]*\"""")


@dataclass(frozen=True)
class _Names:
    """What the functions of a module are called, and the arguments of the template by their names in the workload."""

    template: str
    arguments: Mapping[str, str]
    compute: str
    plain: str
    declare: str
    written_out: str
    lists: str
    schedules: Mapping[str, str]
    packs: Mapping[str, str]
    tensors: tuple[str, ...]


def template_module(space: SketchSpace, name: str, arguments: Mapping[str, Any]) -> str:
    """The text of a module whose template `template_name(name)` has the same space and the same programs.

    Args:
        arguments: what the workload was called with, by name: the module is for these only.
    """
    sketches = list(space.sketches.values())
    names = _names(space, name, arguments)
    computed = [*compute_lines(sketches[0].arguments, sketches[0].tensors), f"return {targets(names.tensors)}"]
    functions = [
        *_helpers(space, arguments, names),
        _function(f"{names.compute}()", "tuple[te.Tensor, ...]", "What is computed.", computed),
        _function(f"{names.declare}(cfg: pb.TemplateConfig)", "None", "The knobs.", _knob_lines(space, names)),
        *([_plain(sketches[0], names.plain)] if sketches[0].plain else []),
        *(_schedule(space, sketch, names.schedules[sketch.name]) for sketch in sketches),
        _template(space, name, arguments, names),
        *(_pack(layout, names.packs[layout.name]) for layout in sketches[0].layouts),
    ]
    imports = ["import math\n"] if any("math.prod(" in text for text in functions) else []
    imports += ["import numpy as np"] if sketches[0].layouts else []
    imports += ["import pegbox as pb", "from pegbox import te"]
    about = f"A template for {_in_docstring(name)}, written by `pegbox sketch`."
    contents = "What is computed, the knobs, and a schedule for each sketch."
    head = [f'"""{about}\n\n{contents}\n"""\n', "from __future__ import annotations\n", *imports]
    return "\n\n\n".join(["\n".join(head), *functions]) + "\n"


def template_name(name: str) -> str:
    """Name the template of a workload in its module."""
    return unused_name(identifier(name), (*RESERVED_TE, *RESERVED, "isinstance", "tuple", "object", "int"))


def check_literals(workload: Workload, arguments: Mapping[str, Any]) -> None:
    """Can a module be written for these arguments of a workload?

    Raises:
        TemplateError: one cannot be written as Python, or the workload takes any number of them.
    """
    for key, parameter in workload.signature.parameters.items():
        if parameter.kind in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD):
            raise TemplateError(
                f"workload {workload.name}: {parameter} takes any number of arguments, which a template module cannot; "
                "give each a parameter of its own"
            )
        if not _is_literal(arguments[key]):
            raise TemplateError(
                f"workload {workload.name}: {key}={arguments[key]!r} cannot be written in a template module; give a "
                "number, a text, None, or lists of them"
            )


def _is_literal(value: Any) -> bool:
    try:
        return bool(ast.literal_eval(repr(value)) == value)
    except (ValueError, SyntaxError):
        return False


def _names(space: SketchSpace, name: str, arguments: Mapping[str, Any]) -> _Names:
    tensors = tuple(next(iter(space.sketches.values())).tensors)
    template = template_name(name)
    given: dict[str, str] = {}  # those of the workload, but for the names that the template uses itself
    for key in arguments:
        given[key] = unused_name(identifier(key), {*given.values(), "te", "cfg", "list", "ValueError"})
    taken = [template, *given.values(), *tensors]

    def own(wanted: str) -> str:
        taken.append(unused_name(wanted, taken))
        return taken[-1]

    functions = own("_compute"), own("_plain"), own("_declare"), own(WRITTEN_OUT), own("_lists")
    schedules = {s: own(f"_schedule_{identifier(s)}".replace("__", "_").rstrip("_")) for s in space.sketches}
    layouts = next(iter(space.sketches.values())).layouts
    packs = {each.name: own(f"pack_{identifier(each.name)}") for each in layouts}
    return _Names(template, given, *functions, schedules, packs, tensors)


def _knob_lines(space: SketchSpace, names: _Names) -> list[str]:
    lines = [step.python("cfg", None, literal) for step in space.declarations]
    for limit in space.limits:
        holds = _cut(f"lambda c: {limit.text(names.written_out)},")
        given = f"reads={list_of(limit.knobs)},", f"message={quoted(limit.message)},"
        lines.append("\n".join(["cfg.add_constraint(", *(f"    {part}" for part in (*holds, *given)), ")"]))
    chosen = [f'cfg.define_knob("{CHOICE}", {list_of(space.sketches)})'] if len(space.sketches) > 1 else []
    return [*chosen, *lines] or ["pass"]


def _helpers(space: SketchSpace, arguments: Mapping[str, Any], names: _Names) -> list[str]:
    """The functions that other ones call, where they do."""
    limited = any(isinstance(limit, BodyLimit) for sketch in space.sketches.values() for limit in sketch.limits)
    listed = any(isinstance(value, list) for value in arguments.values())
    needed = [(lists, names.lists)] * listed + [(written_out, names.written_out)] * limited
    return [re.sub(rf"\b{own.__name__}\(", f"{name}(", inspect.getsource(own).strip()) for own, name in needed]


def _schedule(space: SketchSpace, sketch: Sketch, function: str) -> str:
    given = ", ".join(f"{name}: te.Tensor" for name in sketch.tensors)
    lines = schedule_lines(sketch.steps, knobs=space.names(sketch))
    signature = f"{function}(cfg: pb.TemplateConfig, s: te.TESchedule, {given})"
    return _function(signature, "None", f"The sketch {_in_docstring(sketch.name)}.", lines or ["pass"])


def _plain(sketch: Sketch, function: str) -> str:
    """The function that computes the same of operands that are unpacked, for the time that NumPy takes."""
    given = ", ".join(f"{name}: te.Tensor" for name in _inputs(sketch))
    doc = "The same without packed operands: what NumPy is timed on."
    return _function(f"{function}({given})", "list[te.Tensor]", doc, plain_lines(sketch.plain, sketch.tensors))


def _inputs(sketch: Sketch) -> list[str]:
    return [
        name for name, tensor in sketch.tensors.items() if tensor not in sketch.outputs and tensor in sketch.arguments
    ]


def _pack(layout: PackedLayout, function: str) -> str:
    """The function that packs an operand ahead."""
    wanted = f"{_in_docstring(layout.name)}, {layout.dtype} of shape {layout.shape}"
    refusal = quoted(f"give {wanted}")
    lines = [
        f'if array.shape != {layout.shape} or array.dtype.name != "{layout.dtype}":',
        f"    raise ValueError({refusal})",
        *([f"array = np.pad(array, {layout.padding})"] if any(after for _, after in layout.padding) else []),
        f"return np.ascontiguousarray(array.reshape{layout.cut_shape}.transpose{layout.cut_order})",
    ]
    return _function(f"{function}(array: np.ndarray)", "np.ndarray", f"{wanted}, as the kernels take it.", lines)


def _template(space: SketchSpace, name: str, arguments: Mapping[str, Any], names: _Names) -> str:
    first = next(iter(space.sketches.values()))
    called = {id(t): key for key, t in first.tensors.items()}
    given = ", ".join(called[id(t)] for t in first.arguments)
    outputs = ", ".join(called[id(t)] for t in first.outputs)
    own = {names.arguments[key]: value for key, value in arguments.items()}
    parameters = "".join(f", {key}={_literal(value)}" for key, value in own.items())
    lines = [*_check(own, names), f"{targets(names.tensors)} = {names.compute}()", f"{names.declare}(cfg)"]
    if first.plain:
        lines.append(f"cfg.define_plain(lambda: {names.plain}({', '.join(_inputs(first))}))")
    lines += [f"s = te.create_schedule([{outputs}])"]
    word = "if"
    for sketch, function in names.schedules.items():
        call = f"{function}(cfg, s, {', '.join(names.tensors)})"
        several = [f'{word} cfg["{CHOICE}"].val == {quoted(sketch)}:', f"    {call}"]
        lines += several if len(names.schedules) > 1 else [call]
        word = "elif"
    lines.append(f"return s, [{given}]")
    signature = f"{names.template}(cfg: pb.TemplateConfig{parameters})"
    doc = f"{_in_docstring(name)}: what `pegbox tune` takes."
    return _function(signature, "tuple[te.TESchedule, list[te.Tensor]]", doc, lines)


def _literal(value: Any) -> str:
    """An argument as a default; a list is a tuple, which cannot be changed."""
    return literal(value) if isinstance(value, int | float | str | list | None) else repr(value)


def _check(arguments: Mapping[str, Any], names: _Names) -> list[str]:
    """The module is for one shape: another one is refused."""
    if not arguments:
        return []
    asked = _tuple([f"{names.lists}({key})" if isinstance(value, list) else key for key, value in arguments.items()])
    made = [repr(value) if isinstance(value, list) else _literal(value) for value in arguments.values()]
    refusal = quoted(f"this template was written for {', '.join(f'{key}={value}' for key, value in arguments.items())}")
    return [f"if {asked} != {_tuple(made)}:", f"    raise ValueError({refusal})"]


def lists(value: object) -> object:
    """Tuples as lists, at any depth."""
    return [lists(each) for each in value] if isinstance(value, list | tuple) else value


def _tuple(parts: Sequence[str]) -> str:
    return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"


def _in_docstring(text: str) -> str:
    """A name as the text of a docstring can hold it."""
    return text if text.isprintable() and '"' not in text and "\\" not in text else ascii(text).replace('"', "'")


def _function(signature: str, result: str, doc: str, lines: Iterable[str]) -> str:
    body = "\n".join(textwrap.indent(_wrapped(line), "    ") for line in lines)
    return f'{_wrapped(f"def {signature} -> {result}:")}\n    """{doc}"""\n{body}'


def _wrapped(line: str) -> str:
    """A line that is too long with what its first parenthesis holds on lines of its own."""
    opening, closing = line.find("("), line.rfind(")")
    if len(line) + 4 <= _WIDTH or opening < 0 or line.startswith(" ") or "\n" in line or _has_spaced_text(line):
        return line
    glued = line[opening + 1 : closing].replace(": ", f":{_GLUE}")
    inner = textwrap.wrap(glued, _WIDTH - 8, break_long_words=False, break_on_hyphens=False)
    return "\n".join([line[: opening + 1], *("    " + each.replace(_GLUE, " ") for each in inner), line[closing:]])


def _cut(line: str) -> list[str]:
    """A line inside parentheses, cut at spaces where it is too long."""
    if _has_spaced_text(line):
        return [line]
    inner = textwrap.wrap(line, _WIDTH - 12, break_long_words=False, break_on_hyphens=False)
    return [inner[0], *("    " + each for each in inner[1:])]


def _has_spaced_text(line: str) -> bool:
    """Is there a text with a space or an escape in it, which must not be cut?"""
    return any(quote in _PLAIN_TEXT.sub("", line) for quote in "'\"")
