"""Signatures: what an exported kernel takes, as text in its object code, so that it can be called from a library."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import asdict, replace

from pegbox.codegen.program import ArgSpec, CompiledProgram, Program
from pegbox.codegen.targets.target import Target

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
    """The kernels of a linked library, without their object code, and the family of each, in the order of places."""
    for found in _TEXT.finditer(code):
        said = json.loads(found[1])
        args = tuple(ArgSpec(**{**spec, "shape": tuple(spec["shape"])}) for spec in said["args"])
        rest = said["workspace_bytes"], said["num_threads"], Target(said["target"]), 0.0
        yield CompiledProgram(said["name"], args, b"", *rest), said["family"]
