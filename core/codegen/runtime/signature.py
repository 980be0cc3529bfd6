"""Signatures: what an exported kernel takes, as text in its object code, so that it can be called from a library."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from typing import Any

from pegbox.codegen.program import ArgSpec, CompiledProgram, Program
from pegbox.codegen.targets.target import Target
from pegbox.errors import ArgumentError, ExprError, TargetError
from pegbox.expr import dtypes

_MARK = "pegbox kernel: "
_TEXT = re.compile(rb"pegbox kernel: (\{[^\0]*\})\0")


def with_signature(program: Program) -> Program:
    """The program with its signature as a constant, `@NAME__signature`."""
    said = {
        "name": program.name,
        "args": [asdict(spec) for spec in program.args],
        "workspace_bytes": program.workspace_bytes,
        "num_threads": program.num_threads,
        "target": str(program.target),
        "family": program.family,
    }
    text = f"{_MARK}{json.dumps(said)}".encode()
    escaped = "".join(chr(c) if 32 <= c < 127 and c not in b'"\\' else f"\\{c:02X}" for c in text)
    constant = f'@{program.name}__signature = constant [{len(text) + 1} x i8] c"{escaped}\\00"\n'
    return replace(program, ll=f"{program.ll}\n{constant}")


def signatures(code: bytes) -> Iterator[tuple[CompiledProgram, str]]:
    """The kernels of a linked library, without their object code, and the family of each, in the order of places.

    Raises:
        ArgumentError: what a kernel says of itself is damaged.
    """
    for found in _TEXT.finditer(code):
        try:
            yield _read(json.loads(found[1]))
        except (
            ValueError,
            LookupError,
            TypeError,
            AttributeError,
            OverflowError,
            RecursionError,
            ExprError,
            TargetError,
        ) as error:
            shown = found[1].decode(errors="replace")[:80]
            raise ArgumentError(f"the description of a kernel is damaged ({error}): {shown}...") from error


def _read(said: Any) -> tuple[CompiledProgram, str]:
    args = tuple(
        ArgSpec(str(spec["name"]), _shape(spec), dtypes.check(spec["dtype"]), bool(spec["is_output"]))
        for spec in said["args"]
    )
    rest = int(said["workspace_bytes"]), int(said["num_threads"]), Target(said["target"]), 0.0
    return CompiledProgram(str(said["name"]), args, b"", *rest), str(said["family"])


def _shape(spec: Mapping[str, Any]) -> tuple[int, ...]:
    shape = tuple(map(int, spec["shape"]))
    if any(extent < 1 for extent in shape):
        raise ValueError(f"shape {list(shape)}")
    return shape
