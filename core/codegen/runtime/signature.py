"""Signatures: descriptions of exported kernels, as text in their object code, so that a library can be loaded."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any

from pegbox.codegen.program import ArgSpec, CompiledProgram, Program
from pegbox.codegen.targets.target import Target
from pegbox.errors import ArgumentError, PegboxError
from pegbox.expr import dtypes

_MARK = "pegbox kernel: "
_TEXT = re.compile(rb"pegbox kernel: (\{[^\0]*\})\0")


def with_signature(program: Program) -> Program:
    """Add a program's signature as a constant, `@NAME__signature`."""
    content = {
        "name": program.name,
        "args": [asdict(spec) for spec in program.args],
        "workspace_bytes": program.workspace_bytes,
        "num_threads": program.num_threads,
        "target": str(program.target),
        "family": program.family,
    }
    text = f"{_MARK}{json.dumps(content)}".encode()
    escaped = "".join(chr(c) if 32 <= c < 127 and c not in b'"\\' else f"\\{c:02X}" for c in text)
    constant = f'@{program.name}__signature = constant [{len(text) + 1} x i8] c"{escaped}\\00"\n'
    return replace(program, ll=f"{program.ll}\n{constant}")


def signatures(code: bytes) -> Iterator[tuple[CompiledProgram, str]]:
    """Read the kernels of a linked library, without their object code, and the family of each, in the order of places.

    Raises:
        ArgumentError: the description of a kernel is damaged.
    """
    for found in _TEXT.finditer(code):
        try:
            yield _read(json.loads(found[1]))
        except (
            ValueError,
            LookupError,
            TypeError,
            AttributeError,
            ArithmeticError,
            RecursionError,
            PegboxError,
        ) as error:
            shown = found[1].decode(errors="replace")[:80]
            raise ArgumentError(f"the description of a kernel is damaged ({error}): {shown}...") from error


def _read(content: Any) -> tuple[CompiledProgram, str]:
    args = []
    for spec in content["args"]:
        shape = tuple(map(int, spec["shape"]))
        if any(extent < 1 for extent in shape):
            raise ValueError(f"shape {list(shape)}")
        args.append(ArgSpec(str(spec["name"]), shape, dtypes.check(spec["dtype"]), bool(spec["is_output"])))
    rest = int(content["workspace_bytes"]), int(content["num_threads"]), Target(content["target"]), 0.0
    return CompiledProgram(str(content["name"]), tuple(args), b"", *rest), str(content["family"])
