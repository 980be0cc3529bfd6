"""The operators of ONNX in the versions that a model names, and the nodes with unknown ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache

import onnx

from pegbox.checks import did_you_mean
from pegbox.plugins.onnx.model_file import is_own, opset_of
from pegbox.plugins.onnx.refusal import Refusal
from pegbox.plugins.onnx.structure import described, subgraphs

UNSUPPORTED = (
    "docs/onnx-operators.md lists those that are supported; export the model without it, or cut the model there"
)
_UPDATE = "update the package: pip install -U onnx"


def version_faults(model: onnx.ModelProto) -> list[Refusal]:
    """List a model's versions that the installed package onnx does not know."""
    latest = onnx.defs.onnx_opset_version()
    faults = []
    if model.ir_version > onnx.IR_VERSION:
        reason = f"it is written in version {model.ir_version} of the format; the package onnx knows {onnx.IR_VERSION}"
        faults.append(Refusal("the file", reason, _UPDATE))
    if opset_of(model) > latest:
        reason = f"they are of version {opset_of(model)} (opset); the package onnx knows {latest}"
        faults.append(Refusal("its operators", reason, _UPDATE))
    return faults


def unknown_operators(model: onnx.ModelProto) -> list[Refusal]:
    """List the nodes with operators that ONNX lacks, including nodes in subgraphs and functions.

    Operators of another domain whose version the model names are left out.
    """
    functions = {(each.domain, each.name) for each in model.functions}
    faults = list(_unknown(model.graph.node, _versions(model.opset_import), functions))
    for function in model.functions:
        faults += _unknown(function.node, _versions(function.opset_import), functions)
    return faults


def _versions(imports: Iterable[onnx.OperatorSetIdProto]) -> dict[str, int]:
    return {"" if is_own(each.domain) else each.domain: each.version for each in imports}


def _unknown(
    nodes: Iterable[onnx.NodeProto], versions: Mapping[str, int], functions: set[tuple[str, str]]
) -> Iterator[Refusal]:
    for node in nodes:
        for graph in subgraphs(node):
            yield from _unknown(graph.node, versions, functions)
        if (node.domain, node.op_type) in functions:
            continue
        if not is_own(node.domain):
            if node.domain not in versions:
                reason = f"the operator {node.domain}.{node.op_type} is not supported"
                yield Refusal(described(node), reason, UNSUPPORTED)
        elif (fault := _fault(node.op_type, versions.get("", 0))) is not None:
            yield Refusal(described(node), *fault)


@cache
def _fault(kind: str, version: int) -> tuple[str, str] | None:
    """Return the reason why an operator is unknown in a version, and the remedy; None for a known one."""
    known = _introductions()
    if kind not in known:
        return f"ONNX has no operator {kind}{did_you_mean(kind, known, shown=str)}", UNSUPPORTED
    if not onnx.defs.has(kind, version, ""):
        reason = f"the operator {kind} came with version {known[kind]}, and the model is of version {version} (opset)"
        return reason, f"export the model with opset_version={known[kind]}"
    return None


@cache
def _introductions() -> dict[str, int]:
    """Return the first version of each operator by its name."""
    found: dict[str, int] = {}
    for each in onnx.defs.get_all_schemas_with_history():
        if is_own(each.domain):
            found[each.name] = min(found.get(each.name, each.since_version), each.since_version)
    return found
