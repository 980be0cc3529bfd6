"""Folders as suites: a `suite.json` lists the problems; without one, each results file is a problem.

`suite.json` is JSON, which Python 3.10 reads without another package (TOML needs 3.11):

    {"suite": "mine", "description": "...", "spaces": [
        {"name": "gemm", "file": "gemm.jsonl.xz", "description": "..."},
        {"name": "trap", "objective": "functions.py:trap", "options": {"length": 12}, "optimum": 1.0}]}

A problem that cannot be opened is listed as missing; comparisons use the others.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pegbox.checks import check_path, did_you_mean
from pegbox.errors import ArgumentError, PegboxError, RecordError
from pegbox.origin import explained
from pegbox.records.document import checked, costs, field, read_document
from pegbox.suites.content import open_file, open_objective
from pegbox.suites.suite import Missing, Problem, Suite

FILE = "suite.json"
SHIPPED = Path(__file__).parent / "shipped"

_RESULTS = (".json", ".json.gz", ".json.xz", ".json.zip", ".jsonl", ".jsonl.gz", ".jsonl.xz")
"""The endings of results files: records, and those of other tools."""

_FIELDS = {"name", "file", "objective", "options", "optimum", "description"}


def shipped_suites() -> tuple[str, ...]:
    """List the names of the suites that ship with pegbox."""
    return tuple(sorted(path.parent.name for path in SHIPPED.glob(f"*/{FILE}")))


def load_suite(source: str | os.PathLike[str] | Suite) -> Suite:
    """Open a suite: the name of one that ships with pegbox, or a folder (`./templates` if a suite has the same name).

    Without a `suite.json`, each results file in the folder and below it is a problem, named by its path: records of
    pegbox, and the files of Kernel Tuner and KTT.

    Raises `ArgumentError` if there is no such suite, or nothing in it can be opened.
    """
    if isinstance(source, Suite):
        return source
    folder = _find(source)
    suite = _listed(folder) if (folder / FILE).is_file() else _unlisted(folder)
    if not suite.problems:
        reasons = "; ".join(map(str, suite.missing)) or "it holds no results file"
        raise ArgumentError(f"suite {str(source)!r}: none of its problems can be opened: {reasons}")
    return suite


def _find(source: str | os.PathLike[str]) -> Path:
    path = check_path("suite", source)
    if isinstance(source, str) and source in shipped_suites():
        return SHIPPED / source
    if path.is_dir():
        return path
    known = ", ".join(shipped_suites())
    raise ArgumentError(
        f"suite {str(source)!r} is neither a folder nor a suite that ships with pegbox ({known})"
        f"{did_you_mean(source, shipped_suites())}"
    )


def _listed(folder: Path) -> Suite:
    file = folder / FILE
    try:
        form = checked("the suite", read_document(file.read_text(encoding="utf-8")), dict)
        name, description = field(form, "suite", str, folder.name), field(form, "description", str, "")
        entries = field(form, "spaces", list)
    except KeyError as error:
        raise ArgumentError(f"{str(file)!r}: the field {error} is missing; 'spaces' lists the problems") from None
    except (OSError, ValueError, RecordError) as error:
        raise ArgumentError(f"{str(file)!r} cannot be read as a suite: {error}") from None
    problems: dict[str, Problem] = {}
    missing: list[Missing] = []
    for place, entry in enumerate(entries):
        label = _label(entry, place)
        try:
            problem = _problem(folder, label, entry)
            if label in problems:
                raise ArgumentError(f"another problem of {str(file)!r} has the same name; rename one of them")
            problems[label] = problem
        except (PegboxError, ValueError, OSError) as error:
            missing.append(Missing(label, explained(error) if not isinstance(error, PegboxError) else str(error)))
    return Suite(name, tuple(problems.values()), tuple(missing), description, str(folder))


def _label(entry: Any, place: int) -> str:
    given = entry.get("name") or entry.get("file") or entry.get("objective") if isinstance(entry, Mapping) else None
    return given if isinstance(given, str) else f"problem {place + 1}"


def _problem(folder: Path, label: str, entry: Any) -> Problem:
    """Open a problem of `suite.json`. Raises `PegboxError` or `ValueError` with the reason why it cannot be."""
    form = checked("a problem", entry, dict)
    if unknown := sorted(form.keys() - _FIELDS):
        known = ", ".join(sorted(_FIELDS))
        raise ArgumentError(f"the field {unknown[0]!r} is unknown; a problem has {known}")
    description, optimum = field(form, "description", str, ""), form.get("optimum")
    best = None if optimum is None else costs([optimum])[0]
    match form.get("file"), form.get("objective"):
        case str(file), None:
            return open_file(label, folder, file, description=description, optimum=best)
        case None, str(ref):
            options = field(form, "options", dict, {})
            return open_objective(label, folder, ref, options, description=description, optimum=best)
    raise ArgumentError("give 'file', a results file, or 'objective', a function that makes a pegbox.Objective")


def _unlisted(folder: Path) -> Suite:
    problems, missing = [], []
    for path in _results(folder):
        name = path.relative_to(folder).as_posix()
        for ending in sorted(_RESULTS, key=len, reverse=True):
            name = name.removesuffix(ending)
        try:
            problems.append(open_file(name, folder, str(path.relative_to(folder))))
        except PegboxError as error:
            missing.append(Missing(name, str(error)))
    return Suite(folder.resolve().name, tuple(problems), tuple(missing), source=str(folder))


def _results(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        if (
            path.name.endswith(_RESULTS)
            and path.is_file()
            and not path.name.endswith(("-metadata.json", "schema.json"))
        ):
            yield path
