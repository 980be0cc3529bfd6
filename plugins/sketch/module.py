"""Sketches as the text of a template module."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from pegbox.compute.printer import identifier
from pegbox.plugins.sketch.code import compute_lines, knob_line, schedule_lines
from pegbox.plugins.sketch.steps import CHOICE

if TYPE_CHECKING:
    from pegbox.plugins.sketch.space import Sketch, SketchSpace

_WIDTH = 120


def template_module(space: SketchSpace, name: str, arguments: Mapping[str, Any]) -> str:
    """The text of a module whose template `name` has the same space and the same programs.

    Args:
        arguments: what the workload was called with, by name: the module is for these only.
    """
    sketches = list(space.sketches.values())
    tensors = ", ".join(sketches[0].tensors)
    functions = {s.name: f"schedule_{identifier(s.name)}".replace("__", "_").rstrip("_") for s in sketches}
    parts = [
        f'"""A template for {name}, written by `pegbox sketch`: what is computed, the knobs, and a schedule for each '
        'sketch."""\n\nfrom __future__ import annotations\n\nimport math\n\nimport pegbox as pb\nfrom pegbox import te',
        _function(
            "compute()",
            "tuple[te.Tensor, ...]",
            "What is computed.",
            [*compute_lines(sketches[0].arguments, sketches[0].tensors), f"return {tensors}"],
        ),
        _function("declare(cfg: pb.TemplateConfig)", "None", "The knobs.", _knob_lines(space)),
        *(_schedule(space, sketch, functions[sketch.name], tensors) for sketch in sketches),
        _template(space, name, arguments, functions, tensors),
    ]
    return "\n\n\n".join(parts) + "\n"


def _knob_lines(space: SketchSpace) -> list[str]:
    lines = [knob_line(knob, name, space.condition(name)) for name, (knob, _) in space.declared.items()]
    for limit, names in space.limits():
        product = " * ".join(f'c["{name}"].size[-1]' for name in names)
        lines.append(
            f"cfg.add_constraint(lambda c: {product} <= {limit.most}, reads={list(names)!r}, message={limit.message!r})"
        )
    chosen = [f'cfg.define_knob("{CHOICE}", {list(space.sketches)!r})'] if len(space.sketches) > 1 else []
    return [*chosen, *lines] or ["pass"]


def _schedule(space: SketchSpace, sketch: Sketch, function: str, tensors: str) -> str:
    given = ", ".join(f"{name}: te.Tensor" for name in sketch.tensors)
    lines = schedule_lines(sketch.steps, knobs=space.names(sketch))
    signature = f"{function}(cfg: pb.TemplateConfig, s: te.TESchedule, {given})"
    return _function(signature, "None", f"The sketch {sketch.name!r}.", lines or ["pass"])


def _template(
    space: SketchSpace, name: str, arguments: Mapping[str, Any], functions: Mapping[str, str], tensors: str
) -> str:
    first = next(iter(space.sketches.values()))
    names = {id(t): key for key, t in first.tensors.items()}
    given = ", ".join(names[id(t)] for t in first.arguments)
    outputs = ", ".join(names[id(t)] for t in first.outputs)
    parameters = "".join(f", {key}={value!r}" for key, value in arguments.items())
    lines = _check(arguments)
    lines += [f"{tensors}{',' if ',' not in tensors else ''} = compute()", "declare(cfg)"]
    lines += [f"s = te.create_schedule([{outputs}])"]
    word = "if"
    for sketch, function in functions.items():
        call = f"{function}(cfg, s, {tensors})"
        lines += [f'{word} cfg["{CHOICE}"].val == {sketch!r}:', f"    {call}"] if len(functions) > 1 else [call]
        word = "elif"
    lines.append(f"return s, [{given}]")
    signature = f"{identifier(name)}(cfg: pb.TemplateConfig{parameters})"
    return _function(signature, "tuple[te.TESchedule, list[te.Tensor]]", f"{name}: what `pegbox tune` takes.", lines)


def _check(arguments: Mapping[str, Any]) -> list[str]:
    """The module is for one shape: another one is refused."""
    if not arguments:
        return []
    asked, made = f"({', '.join(arguments)},)", f"({', '.join(map(repr, arguments.values()))},)"
    told = ", ".join(f"{key}={value}" for key, value in arguments.items())
    return [f"if {asked} != {made}:", f'    raise ValueError("this template was written for {told}")']


def _function(signature: str, result: str, doc: str, lines: Iterable[str]) -> str:
    body = "\n".join(textwrap.indent(_wrapped(line), "    ") for line in lines)
    return f'{_wrapped(f"def {signature} -> {result}:")}\n    """{doc}"""\n{body}'


def _wrapped(line: str) -> str:
    """A line that is too long with what its first parenthesis holds on lines of its own."""
    opening, closing = line.find("("), line.rfind(")")
    if len(line) + 4 <= _WIDTH or opening < 0 or line.startswith(" ") or _has_spaced_text(line):
        return line
    inner = textwrap.wrap(line[opening + 1 : closing], _WIDTH - 8, break_long_words=False, break_on_hyphens=False)
    return "\n".join([line[: opening + 1], *("    " + each for each in inner), line[closing:]])


def _has_spaced_text(line: str) -> bool:
    """Is there a quoted text with a space in it, which must not be cut?"""
    return any(" " in part for part in line.replace("'", '"').split('"')[1::2])
