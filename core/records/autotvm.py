"""Lines of AutoTVM's logs (version 0.2), converted to the fields of records, and back.

They hold less than records of pegbox: positional arguments instead of names, no fingerprint of the space, no machine.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pegbox.checks import check_instance
from pegbox.errors import ArgumentError
from pegbox.measure.result import Failed, FailureKind, Ok, Result
from pegbox.records.document import checked, config, costs, field, seconds

if TYPE_CHECKING:
    from pegbox.records.record import Record

TOOL = "autotvm"
VERSION = 0.2

_FAILURES = {
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

_NUMBERS = {
    FailureKind.INVALID: 1,
    FailureKind.COMPILE_ERROR: 2,
    FailureKind.RUN_ERROR: 4,
    FailureKind.CRASH: 4,
    FailureKind.WRONG_RESULT: 5,
    FailureKind.TIMEOUT: 7,
}
"""AutoTVM's error numbers by the kinds of failures."""


def is_autotvm(form: Mapping[str, Any]) -> bool:
    """Decide if a line is one of AutoTVM's, whose versions begin with 0."""
    version = form.get("version", form.get("v"))
    return type(version) is float and version < 1 and not form.keys().isdisjoint(("input", "i"))


def fields_of(form: Mapping[str, Any]) -> dict[str, Any]:
    """Read the arguments of `Record` in a line. Raises `KeyError` and `ValueError` as `document.field` does."""
    if (version := form.get("version", form.get("v"))) != VERSION:
        raise ValueError(f"version {version} of AutoTVM's logs: pegbox reads {VERSION}; convert it with AutoTVM")
    target, name, args, kwargs = field(form, "input", list)
    listed, number, total, timestamp = field(form, "result", list)
    found = config(form["config"])
    return {
        "target": checked("the target", target, str),
        "name": checked("the template's name", name, str),
        "args": checked("args", args, list),
        "kwargs": checked("kwargs", kwargs, dict),
        "config": {"index": found["index"], "entity": found["entity"]},
        "result": autotvm_result(number, listed, total, timestamp),
        "tool": TOOL,
    }


def autotvm_result(
    number: int, listed: list[Any], total_seconds: float, timestamp: float, *, message: str = ""
) -> Result:
    """Make the result from AutoTVM's error number and costs, which are ignored unless the number is 0.

    Raises `ArgumentError` for costs that are not times, or an unknown error number.
    """
    try:
        total, stamp = seconds("total seconds", total_seconds), seconds("timestamp", timestamp)
        if checked("the error number", number, int) == 0:
            return Ok(costs(checked("costs", listed, list)), total, stamp)
        if number not in _FAILURES:
            raise ValueError(f"error number {number}: AutoTVM's are 0 to {max(_FAILURES)}")
        return Failed(_FAILURES[number], checked("the message", message, str), total, stamp)
    except ValueError as error:
        raise ArgumentError(str(error)) from error


def autotvm_number(result: Result) -> int:
    """Return AutoTVM's error number of a result, 0 for a good one."""
    if isinstance(result, Failed):
        return _NUMBERS[result.kind]
    check_instance("result", result, Ok, "a result, Ok or Failed")
    return 0


def form_of(record: Record, failed_cost: float) -> dict[str, Any]:
    """Write the line of a record that came from AutoTVM."""
    result = record.result
    listed = [failed_cost] if isinstance(result, Failed) else list(result.costs)
    return {
        "input": [record.target, record.name, record.args, record.kwargs],
        "config": {"index": record.config.get("index"), "code_hash": None, "entity": record.config.get("entity")},
        "result": [listed, autotvm_number(result), result.total_seconds, result.timestamp],
        "version": VERSION,
    }


def is_for_cpu(target: str) -> bool:
    """Decide if a target string of TVM's, "llvm -keys=cpu ..." or a JSON object, means a CPU."""
    if target.startswith("{"):
        try:
            return bool(json.loads(target).get("kind") == "llvm")
        except ValueError:
            return False
    return target.split()[:1] == ["llvm"]
