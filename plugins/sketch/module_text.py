"""Text of template modules: functions, lines of at most 120 characters, and the common parts."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from inspect import Parameter
from typing import TYPE_CHECKING, Any

from pegbox.compute import RESERVED as RESERVED_TE
from pegbox.compute import identifier
from pegbox.errors import TemplateError
from pegbox.expr import quoted, unused_name
from pegbox.loops import literal
from pegbox.plugins.sketch.te_code import RESERVED, list_of, plain_lines
from pegbox.task import Workload

if TYPE_CHECKING:
    from pegbox.plugins.sketch.limit import Limit, SketchLimit
    from pegbox.plugins.sketch.packed_layout import PackedLayout
    from pegbox.plugins.sketch.space import Sketch

_WIDTH = 120
_GLUE = "\xa0"  # a space without a line break
_LAMBDA = re.compile(r"^\s*(\w+=)?lambda [^:]*$")  # its parameters
_PLAIN_TEXT = re.compile(r"""'[^'"\\\s]*'|"[^'"\\\s]*\"""")


def module_text(about: str, contents: str, functions: Sequence[str], sketch: Sketch) -> str:
    """Return the text of a module with these functions and their imports."""
    imports = ["import math\n"] if any("math." in text for text in functions) else []
    imports += ["import numpy as np"] if sketch.layouts else []
    imports += ["import pegbox as pb", "from pegbox import te"]
    head = [f'"""{about}\n\n{contents}\n"""\n', "from __future__ import annotations\n", *imports]
    return "\n\n\n".join(["\n".join(head), *functions]) + "\n"


def template_name(name: str) -> str:
    """Name the template of a workload in its module."""
    return unused_name(identifier(name), (*RESERVED_TE, *RESERVED, "isinstance", "tuple", "object", "int"))


def check_literals(workload: Workload, arguments: Mapping[str, Any]) -> None:
    """Check if a module can be written for these arguments of a workload.

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


def constraint_text(limit: Limit | SketchLimit, function: str) -> str:
    """Return the call that adds a limit to a space; the function is `limit.written_out`."""
    holds = _cut(f"lambda c: {limit.text(function)},")
    given = f"reads={list_of(limit.knobs)},", f"message={quoted(limit.message)},"
    return "\n".join(["cfg.add_constraint(", *(f"    {part}" for part in (*holds, *given)), ")"])


def helper_text(function: Callable[..., object], name: str) -> str:
    """Return the source of one of pegbox's functions, under another name."""
    return re.sub(rf"\b{function.__name__}\(", f"{name}(", inspect.getsource(function).strip())


def plain_function(sketch: Sketch, function: str) -> str:
    """Return the function for the same computation of unpacked operands, for NumPy's time."""
    given = ", ".join(f"{name}: te.Tensor" for name in input_names(sketch))
    doc = "The same without packed operands: what NumPy is timed on."
    return function_text(f"{function}({given})", "list[te.Tensor]", doc, plain_lines(sketch.plain, sketch.tensors))


def input_names(sketch: Sketch) -> list[str]:
    """Return the names of the inputs among a sketch's arguments."""
    return [
        name for name, tensor in sketch.tensors.items() if tensor not in sketch.outputs and tensor in sketch.arguments
    ]


def pack_function(layout: PackedLayout, function: str) -> str:
    """Return the function that packs an operand ahead."""
    wanted = f"{in_docstring(layout.name)}, {layout.dtype} of shape {layout.shape}"
    refusal = quoted(f"give {wanted}")
    lines = [
        f'if array.shape != {layout.shape} or array.dtype.name != "{layout.dtype}":',
        f"    raise ValueError({refusal})",
        *([f"array = np.pad(array, {layout.padding})"] if any(after for _, after in layout.padding) else []),
        f"return np.ascontiguousarray(array.reshape{layout.cut_shape}.transpose{layout.cut_order})",
    ]
    return function_text(f"{function}(array: np.ndarray)", "np.ndarray", f"{wanted}, as the kernels take it.", lines)


def argument_text(value: Any) -> str:
    """Write an argument as a default; a list becomes an immutable tuple."""
    return literal(value) if isinstance(value, int | float | str | list | None) else repr(value)


def value_check(arguments: Mapping[str, Any], lists: str) -> list[str]:
    """Write the check that refuses any other values of some arguments.

    Args:
        lists: the name of the function `lists` in the module.
    """
    if not arguments:
        return []
    asked = _tuple([f"{lists}({key})" if isinstance(value, list) else key for key, value in arguments.items()])
    made = [repr(value) if isinstance(value, list) else argument_text(value) for value in arguments.values()]
    refusal = quoted(f"this template was written for {', '.join(f'{key}={value}' for key, value in arguments.items())}")
    return [f"if {asked} != {_tuple(made)}:", f"    raise ValueError({refusal})"]


def lists(value: object) -> object:
    """Turn tuples into lists, at any depth."""
    return [lists(each) for each in value] if isinstance(value, list | tuple) else value


def _tuple(parts: Sequence[str]) -> str:
    return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"


def in_docstring(text: str) -> str:
    """Escape a name for a docstring."""
    return text if text.isprintable() and '"' not in text and "\\" not in text else ascii(text).replace('"', "'")


def function_text(signature: str, result: str, doc: str, lines: Iterable[str]) -> str:
    """Return the text of a function."""
    body = "\n".join(textwrap.indent(_wrapped(line), "    ") for line in lines)
    return f'{_wrapped(f"def {signature} -> {result}:")}\n    """{doc}"""\n{body}'


def block(header: str, lines: Iterable[str]) -> str:
    """Return a statement with others inside."""
    return "\n".join([_wrapped(header), *(textwrap.indent(_wrapped(line, 8), "    ") for line in lines)])


def _wrapped(line: str, indent: int = 4) -> str:
    """Break a long line, with the content of its first parenthesis on separate lines."""
    opening, closing = line.find("("), line.rfind(")")
    if len(line) + indent <= _WIDTH or opening < 0 or line.startswith(" ") or "\n" in line or _has_spaced_text(line):
        return line
    glued = _glued(line[opening + 1 : closing], _WIDTH - indent - 4)
    inner = textwrap.wrap(glued, _WIDTH - indent - 4, break_long_words=False, break_on_hyphens=False)
    return "\n".join([line[: opening + 1], *("    " + each.replace(_GLUE, " ") for each in inner), line[closing:]])


def _glued(text: str, width: int) -> str:
    """Glue the words of each argument, so that lines break only between arguments, unless one is longer than a line."""
    parts, depth = [""], 0
    for each in text:
        depth += (each in "([{") - (each in ")]}")
        parts[-1] += each
        if each == "," and depth == 0 and not _LAMBDA.search(parts[-1]):
            parts.append("")
    spaced = (part.strip().replace(": ", f":{_GLUE}") for part in parts)
    return " ".join(part if len(part) > width else part.replace(" ", _GLUE) for part in spaced)


def _cut(line: str) -> list[str]:
    """Cut a long line inside parentheses at spaces."""
    if _has_spaced_text(line):
        return [line]
    inner = textwrap.wrap(line, _WIDTH - 12, break_long_words=False, break_on_hyphens=False)
    return [inner[0], *("    " + each for each in inner[1:])]


def _has_spaced_text(line: str) -> bool:
    """Check for a text with a space or an escape in it, which must not be cut."""
    return any(quote in _PLAIN_TEXT.sub("", line) for quote in "'\"")
