"""A program from hand-written NumPy code for a computation."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Sequence
from textwrap import indent

from pegbox.compute.numpy_program import NumpyProgram
from pegbox.compute.tensor import PlaceholderOp, Tensor
from pegbox.errors import TemplateError


def program_of_code(code: str, tensors: Sequence[Tensor]) -> NumpyProgram:
    """Make a program from an expression of `np` and the inputs by name; several outputs are a tuple.

    `tensors` are a kernel's arguments.

    Raises:
        TemplateError: it is not an expression, or has other names.
    """
    inputs = [t for t in tensors if isinstance(t.op, PlaceholderOp)]
    outputs = [t for t in tensors if not isinstance(t.op, PlaceholderOp)]
    try:
        tree = ast.parse(f"({code}\n)", mode="eval")
    except (SyntaxError, ValueError) as error:
        raise TemplateError(
            f"cfg.define_plain({code!r}) is not an expression of Python ({error}); write one such as "
            f'"np.maximum({inputs[0].name if inputs else 0}, 0)"'
        ) from None
    if not code.strip() or any(isinstance(node, ast.Yield | ast.YieldFrom | ast.Await) for node in ast.walk(tree)):
        raise TemplateError(f"cfg.define_plain({code!r}) has no value; write an expression without yield and await")
    known = {"np", *(t.name for t in inputs)}
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    bound = {node.id for node in names if isinstance(node.ctx, ast.Store)}
    bound |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    for node in names:
        if node.id not in known | bound and not hasattr(builtins, node.id):
            raise TemplateError(f"cfg.define_plain({code!r}): {node.id} is none of {', '.join(sorted(known))}")
    lines = [f"{t.name} = _inputs[{place}]" for place, t in enumerate(inputs) if t.name.isidentifier()]
    lines.append(f"_made = [{', '.join(f'np.empty({t.shape}, {t.dtype!r})' for t in outputs)}]")
    values = f"[({code}\n)]" if len(outputs) == 1 else f"({code}\n)"
    lines += ["def _run():", f"    _made[:] = {values}", "return _run, _made"]
    return NumpyProgram("def prepare(_inputs):\n" + indent("\n".join(lines), "    ") + "\n")
