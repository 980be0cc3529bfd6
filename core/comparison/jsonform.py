"""Reports as JSON files and back."""

from __future__ import annotations

import json
import math
import os
import re
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from pegbox.checks import check_path
from pegbox.comparison.report_fields import runs_of, setup_of
from pegbox.comparison.runs import Run, Setup
from pegbox.errors import RecordError
from pegbox.output import Content, check_output, write_file
from pegbox.records.document import read_document
from pegbox.records.fields import field

if TYPE_CHECKING:
    from pegbox.comparison.report import Comparison

KIND = "pegbox comparison"
REPORT = Content("the report of a comparison as JSON", re.compile(rb'\s*\{\s*"kind"\s*:\s*"' + KIND.encode() + b'"'))
VERSION = 1
"""Of the format; a newer one is refused."""


def report_to_json(report: Comparison) -> dict[str, Any]:
    """Plain values. What follows from the runs (summaries, verdicts) is there for scripts, and not read back."""
    plain = {
        "kind": KIND,
        "version": VERSION,
        "setup": asdict(report.setup),
        "best_known": {task.name: report.best_known(task.name) for task in report.tasks},
        "summaries": [asdict(summary) for summary in report.summaries()],
        "verdicts": [{**asdict(verdict), "decided": verdict.decided} for verdict in report.verdicts()],
        "words": {task.name: report.words(task.name) for task in report.tasks},
        "spaces": report.space_words(),
        "runs": [asdict(run) for run in report.runs],
    }
    return dict(_finite(plain))


def write_report(report: Comparison, path: str | os.PathLike[str]) -> None:
    """Write the file that `read_report` reads; replace an older report of that name at once, or not at all."""
    out = check_path("path", path)
    check_output(out, REPORT)
    write_file(out, json.dumps(report_to_json(report), allow_nan=False) + "\n")


def read_report(path: str | os.PathLike[str]) -> tuple[Setup, tuple[Run, ...]]:
    """The setup and the runs of a file, checked field by field. Raises `RecordError`."""
    file = check_path("report", path, error=RecordError)
    try:
        form = read_document(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise RecordError(
            f"the report {str(file)!r} cannot be read: {error.strerror}; name a file that report.save(path) wrote"
        ) from None
    except (ValueError, RecordError) as error:
        raise RecordError(f"{path} is not JSON: {error}") from None
    if not isinstance(form, dict) or form.get("kind") != KIND:
        raise RecordError(f"{path} is not a report of a comparison; those are written by report.save(path)")
    try:
        version = field(form, "version", int)
        if version > VERSION:
            raise RecordError(f"{path} has version {version}, newer than this pegbox reads ({VERSION}): update it")
        setup = setup_of(field(form, "setup", dict))
        return setup, runs_of(field(form, "runs", list), setup)
    except KeyError as error:
        raise RecordError(f"{path}: the field {error} is missing") from None
    except ValueError as error:
        raise RecordError(f"{path}: a field has the wrong form: {error}") from None


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
