"""Lines of AutoTVM's logs (version 0.2) as the fields of records, and back.

They say less than records of pegbox: arguments by place instead of by name, no fingerprint of the space, no machine.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pegbox.measure.result import Failed, FailureKind, Ok, Result
from pegbox.records.document import checked, config, costs, field, seconds

if TYPE_CHECKING:
    from pegbox.records.record import Record

TOOL = "autotvm"
VERSION = 0.2

AUTOTVM_FAILURES = {
    1: FailureKind.INVALID,
    2: FailureKind.COMPILE_ERROR,
    3: FailureKind.COMPILE_ERROR,
    4: FailureKind.RUN_ERROR,
    5: FailureKind.WRONG_RESULT,
    6: FailureKind.TIMEOUT,
    7: FailureKind.TIMEOUT,
    8: FailureKind.RUN_ERROR,
}
"""The kinds of failures by AutoTVM's error numbers."""

AUTOTVM_NUMBERS = {
    FailureKind.INVALID: 1,
    FailureKind.COMPILE_ERROR: 2,
    FailureKind.RUN_ERROR: 4,
    FailureKind.CRASH: 4,
    FailureKind.WRONG_RESULT: 5,
    FailureKind.TIMEOUT: 7,
}
"""AutoTVM's error numbers by the kinds of failures."""


def is_autotvm(form: Mapping[str, Any]) -> bool:
    """Decide whether a line is one of AutoTVM's, whose versions begin with 0."""
    version = form.get("version", form.get("v"))
    return type(version) is float and version < 1 and not form.keys().isdisjoint(("input", "i"))


def fields_of(form: Mapping[str, Any]) -> dict[str, Any]:
    """Read the arguments of `Record` in a line. Raises `KeyError` and `ValueError` as `document.field` does."""
    if (version := form.get("version", form.get("v"))) != VERSION:
        raise ValueError(f"version {version} of AutoTVM's logs: {VERSION} is read; convert it with AutoTVM")
    target, name, args, kwargs = field(form, "input", list)
    listed, number, total, timestamp = field(form, "result", list)
    found = config(form["config"])
    return {
        "target": checked("the target", target, str),
        "name": checked("the template's name", name, str),
        "args": checked("args", args, list),
        "kwargs": checked("kwargs", kwargs, dict),
        "config": {"index": found["index"], "entity": found["entity"]},
        "result": result_of(number, listed, seconds("total seconds", total), seconds("timestamp", timestamp)),
        "tool": TOOL,
    }


def result_of(number: int, listed: list[Any], total: float, timestamp: float, message: str = "") -> Result:
    """Make the result of AutoTVM's error number and costs. Raises `ValueError` for what is neither."""
    if checked("the error number", number, int) == 0:
        return Ok(costs(checked("costs", listed, list)), total, timestamp)
    if number not in AUTOTVM_FAILURES:
        raise ValueError(f"error number {number}: AutoTVM's are 0 to {max(AUTOTVM_FAILURES)}")
    return Failed(AUTOTVM_FAILURES[number], message, total, timestamp)


def number_of(result: Result) -> int:
    """Return AutoTVM's error number of a result, 0 for a good one."""
    return AUTOTVM_NUMBERS[result.kind] if isinstance(result, Failed) else 0


def form_of(record: Record, failed_cost: float) -> dict[str, Any]:
    """Write the line of a record that was one of AutoTVM's."""
    result = record.result
    listed = [failed_cost] if isinstance(result, Failed) else list(result.costs)
    return {
        "input": [record.target, record.name, record.args, record.kwargs],
        "config": {"index": record.config.get("index"), "code_hash": None, "entity": record.config.get("entity")},
        "result": [listed, number_of(result), result.total_seconds, result.timestamp],
        "version": VERSION,
    }


def is_for_cpu(target: str) -> bool:
    """Decide whether a target string of TVM's, "llvm -keys=cpu ..." or a JSON object, means a CPU."""
    if target.startswith("{"):
        try:
            return bool(json.loads(target).get("kind") == "llvm")
        except ValueError:
            return False
    return target.split()[:1] == ["llvm"]
