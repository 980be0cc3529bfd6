"""The node tests of the ONNX project, run by pegbox, and the table of operators that they make."""

from __future__ import annotations

import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper
from onnx.backend.test.case.test_case import TestCase
from onnx.backend.test.loader import load_model_tests

from pegbox.errors import GraphError
from pegbox.graph import Graph, evaluate
from pegbox.plugins.onnx.backend import PegboxBackend, Program
from pegbox.plugins.onnx.model_file import is_own
from pegbox.plugins.onnx.node_reader import OLDEST_OPSET
from pegbox.plugins.onnx.operator import OPERATORS
from pegbox.plugins.onnx.refusal import RefusedModel

_LEFT_OUT = {
    "control flow": ("If", "Loop", "Scan"),
    "sequences": ("Sequence", "SplitToSequence"),
    "optionals": ("Optional",),
    "strings": ("String", "Regex", "TfIdf", "LabelEncoder"),
    "random numbers": ("Random", "Bernoulli", "Multinomial"),
}
"""The inputs of the suite that are not tensors of numbers, by parts of the names of operators."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of a test.

    Attributes:
        name, operator: of the test.
        reasons: why its model was refused; empty if it passed or gave wrong values.
        wrong: how its values differ; empty if they don't, or were not computed.
        built: whether anything was compiled, or prepared to be evaluated.
    """

    name: str
    operator: str
    reasons: tuple[str, ...] = ()
    wrong: str = ""
    built: bool = True

    @property
    def passed(self) -> bool:
        return not self.reasons and not self.wrong


@cache
def node_tests() -> list[TestCase]:
    """List the tests of operators on tensors of numbers, without training."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [test for test in load_model_tests(kind="node") if not left_out(test)]


def left_out(test: TestCase) -> str:
    """Return the reason for which a test is not among `node_tests`; empty for others."""
    graph = test.model.graph
    if any(not is_own(node.domain) for node in graph.node):
        return "other operators than ONNX's own"
    if "training" in test.name:
        return "training"
    for reason, parts in _LEFT_OUT.items():
        if any(part in node.op_type for node in graph.node for part in parts):
            return reason
    for value in (*graph.input, *graph.output):
        if not value.type.HasField("tensor_type"):
            return "sequences"
        if value.type.tensor_type.elem_type == TensorProto.STRING:
            return "strings"
    return ""


def evaluated(graph: Graph) -> Program:
    """Make a function that evaluates a graph by the reference evaluator."""
    return lambda *arrays: evaluate(graph, dict(zip(graph.inputs, arrays, strict=True)))


def run_test(test: TestCase, build: Callable[[Graph], Program]) -> Outcome:
    """Run a test as the project's own runner does, with another way to make a program of a graph."""
    built = []

    def noted(graph: Graph) -> Program:
        built.append(graph)
        return build(graph)

    class NotedBackend(PegboxBackend):
        build = staticmethod(noted)

    operator = operators_of_tests()[test.name]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            prepared = NotedBackend.prepare(test.model)
            for inputs, outputs in test.data_sets:
                made = prepared.run([_array(each) for each in inputs])
                for value, wanted in zip(made, map(_array, outputs), strict=True):
                    if wrong := _difference(value, wanted, test):
                        return Outcome(test.name, operator, wrong=wrong)
    except GraphError as error:
        reasons = tuple(each.reason for each in error.refusals) if isinstance(error, RefusedModel) else (str(error),)
        return Outcome(test.name, operator, reasons=tuple(dict.fromkeys(reasons)), built=bool(built))
    return Outcome(test.name, operator)


def _array(value: Any) -> Any:
    return numpy_helper.to_array(value) if isinstance(value, TensorProto) else np.asarray(value)


def _difference(value: Any, wanted: Any, test: TestCase) -> str:
    if value.dtype != wanted.dtype or value.shape != wanted.shape:
        return f"{value.dtype}{value.shape} instead of {wanted.dtype}{wanted.shape}"
    # The tolerances are those of float32; a result of 16 bits may be rounded to the other neighbour.
    precise = wanted.dtype.itemsize >= 4 or wanted.dtype.kind in "biu"
    relative = test.rtol if precise else max(test.rtol, 2 * float(onnx_epsilon(wanted.dtype)))
    number = "float64" if wanted.dtype.kind not in "biu" else wanted.dtype
    absolute = max(test.atol, _rounding(wanted)) if test.name.startswith("test_dft") else test.atol
    try:
        np.testing.assert_allclose(value.astype(number), wanted.astype(number), rtol=relative, atol=absolute)
    except AssertionError as error:
        return " ".join(str(error).split())[:300]
    return ""


def _rounding(wanted: Any) -> float:
    """Return the rounding of the largest number: expected transforms hold it where exact ones are zero."""
    largest = np.abs(wanted).max(initial=0.0, where=np.isfinite(wanted))
    return float(largest * np.finfo(wanted.dtype).eps)


def onnx_epsilon(dtype: Any) -> float:
    """Return the distance of 1 to the next larger number of a type."""
    import ml_dtypes

    return float(ml_dtypes.finfo(dtype).eps)


@cache
def operators_of_tests() -> dict[str, str]:
    """Return the operator that each test is about; those of an operator's function are about the operator."""
    found = {}
    plain = {test.name: test.model.graph.node[0].op_type for test in node_tests() if len(test.model.graph.node) == 1}
    for test in node_tests():
        whole = test.name.partition("_expanded")[0]
        found[test.name] = plain.get(whole) or max(test.model.graph.node, key=lambda node: len(node.output)).op_type
    return found


def run_suite(build: Callable[[Graph], Program], tests: Sequence[TestCase]) -> list[Outcome]:
    """Run tests."""
    return [run_test(test, build) for test in tests]


def table(outcomes: Sequence[Outcome]) -> str:
    """Write the page of operators."""
    by_operator: dict[str, list[Outcome]] = defaultdict(list)
    for each in outcomes:
        by_operator[each.operator].append(each)
    passed = sum(each.passed for each in outcomes)
    refused = sum(bool(each.reasons) for each in outcomes)
    lines = [
        *_INTRODUCTION,
        "",
        f"Of the {len(outcomes)} tests of onnx {onnx.__version__}, {passed} pass "
        f"({100 * passed / len(outcomes):.0f}%), {refused} are refused, "
        f"and {len(outcomes) - passed - refused} give wrong values.",
        "",
        "| operator | from version | tests passed | refused |",
        "| --- | --- | --- | --- |",
    ]
    for operator in sorted({*by_operator, *OPERATORS}):
        group = by_operator.get(operator, [])
        good = sum(each.passed for each in group)
        since = _first_version(operator) if good or operator in OPERATORS else ""
        lines.append(f"| {operator} | {since} | {good} of {len(group)} | {_reasons(group)} |")
    return "\n".join(lines) + "\n"


def _first_version(operator: str) -> int:
    latest = onnx.defs.onnx_opset_version()
    return next((each for each in range(OLDEST_OPSET, latest + 1) if onnx.defs.has(operator, each)), latest)


def _reasons(group: Sequence[Outcome]) -> str:
    counts = Counter(reason for each in group for reason in each.reasons)
    shown = [f"{reason} ({count})" for reason, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))]
    return "; ".join(shown[:3] + (["..."] if len(shown) > 3 else [])).replace("|", "\\|").replace("\n", " ")


def sample(outcomes: Sequence[Outcome]) -> Iterator[TestCase]:
    """Choose for each operator the passed test with the smallest arrays."""
    tests = {test.name: test for test in node_tests()}
    chosen: dict[str, TestCase] = {}
    for each in outcomes:
        if each.passed:
            known = chosen.get(each.operator)
            if known is None or _size(tests[each.name]) < _size(known):
                chosen[each.operator] = tests[each.name]
    return iter(chosen.values())


def _size(test: TestCase) -> int:
    return sum(_array(each).size for arrays in test.data_sets[0] for each in arrays)


_INTRODUCTION = (
    "# Operators of ONNX",
    "",
    "This page lists the ONNX operators that [models](models.md) may use, with the outcome of the ONNX project's own",
    "tests (`onnx.backend.test`), which pegbox runs as a backend (`pegbox.plugins.onnx.backend`). Tests of sequences,",
    "optionals, strings, control flow, random numbers, training and operators outside ONNX's own domain are left out.",
    "Results in float16 and bfloat16 may differ by two roundings. A test writes this page: `PEGBOX_UPDATE_GOLDEN=1",
    "python3 -m pytest tests/onnx/test_node_suite.py`.",
    "",
    "A model with an unsupported operator, type or attribute is refused before anything is compiled; the error names",
    "all such nodes. The column `from version` shows the first version of ONNX's operators (opset) that is read;",
    "older models are read if their operators have not changed since version 7. Operators that ONNX defines by other",
    "operators are replaced by those. The last column gives the reasons for refused tests, and how many tests each",
    "concerns.",
)
