"""Plain stores that replace masked stores of one lane, which LLVM 22.1 compiles to stores of too many bytes.

For AVX-512, LLVM turns such a masked store into a scalar store; if the vector was truncated, it stores the element
before truncation, and so overwrites bytes after its place (docs/llvm-defects.md). Such stores come from the last
vectors of loops, including loops that LLVM vectorizes, so they are replaced after its passes.

The compiling process imports this module (`llvm.py`), so the module imports nothing else of pegbox.
"""

from __future__ import annotations

import itertools
import re
from typing import Any

_MASKED = "llvm.masked.store."
_MASKED_STORE = re.compile(r"^ *(?:tail )?call void @llvm\.masked\.store\.[\w.]+\((.*)\)[^()\n]*$", re.MULTILINE)
_VECTOR = re.compile(r"<(?P<count>\d+) x (?P<element>\w+)> (?P<value>.*)", re.DOTALL)
_POINTER = re.compile(r"ptr(?: (?:align \d+|[a-z]+(?:\([^)]*\))?))* (?P<value>[%@].*)")
_BRACKETS = str.maketrans("<([{>)]}", "(((())))")


def without_single_lanes(module: Any) -> str | None:
    """Write the module with a plain store for each masked store of one known lane; None if there is no such store."""
    if not any(function.name.startswith(_MASKED) for function in module.functions):
        return None
    text, count = str(module), itertools.count()
    repaired = _MASKED_STORE.sub(lambda match: _of_one_lane(match, f"%single.{next(count)}"), text)
    return None if repaired == text else repaired


def _of_one_lane(match: re.Match[str], name: str) -> str:
    """Write the instructions that replace a masked store; a store of several lanes, or of unknown ones, stays."""
    stored, place, *_, mask = _arguments(match[1])
    vector, pointer = _VECTOR.fullmatch(stored), _POINTER.fullmatch(place)
    live = [part.strip() for part in mask.partition("> <")[2].rstrip(">").split(",")]
    if vector is None or pointer is None or live.count("i1 true") != 1 or len(live) != int(vector["count"]):
        return match[0]
    lane, element = live.index("i1 true"), vector["element"]
    return (
        f"  {name} = extractelement {stored}, i64 {lane}\n"
        f"  {name}.place = getelementptr {element}, ptr {pointer['value']}, i64 {lane}\n"
        f"  store {element} {name}, ptr {name}.place, align 1"
    )


def _arguments(text: str) -> list[str]:
    """Split at the commas outside brackets."""
    parts, depth, start = [], 0, 0
    for position, letter in enumerate(text.translate(_BRACKETS)):
        depth += (letter == "(") - (letter == ")")
        if letter == "," and not depth:
            parts.append(text[start:position].strip())
            start = position + 1
    return [*parts, text[start:].strip()]
