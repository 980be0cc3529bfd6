"""Opening a suite's problems, results files and functions that make objectives, and digests of their content."""

from __future__ import annotations

import inspect
import math
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pegbox.digest import sha256
from pegbox.errors import ArgumentError, PluginError, RecordError
from pegbox.hooks.refs import import_file, import_ref, is_module_ref, split_file_ref
from pegbox.measure.result import Ok
from pegbox.origin import explained
from pegbox.records.journal import RecordWarning
from pegbox.records.library import recorded_space, recorded_spaces
from pegbox.records.recorded_space import RecordedSpace
from pegbox.records.without_template import recorded_knobs
from pegbox.search.objective import Objective
from pegbox.suites.suite import Problem

_SAME = 1e-9
"""The relative difference up to which two optima count as equal."""


def open_file(name: str, folder: Path, file: str, *, description: str = "", optimum: float | None = None) -> Problem:
    """Open a results file of the folder, or the recorded space of that name that ships with pegbox.

    If the template of the records has changed, or is not installed, the space has only the knobs.

    Raises `RecordError` if the file is missing or damaged, or its optimum is not the one that the suite declares.
    """
    path = folder / file
    if not path.is_file() and file in recorded_spaces():
        recorded = recorded_space(file)
    elif not path.is_file():
        raise RecordError(f"there is no file {str(path)!r}")
    else:
        recorded = _opened(path)
    if optimum is not None and not math.isclose(optimum, recorded.best_cost, rel_tol=_SAME):
        raise RecordError(f"{str(path)!r}: its best cost is {recorded.best_cost!r}, but the suite declares {optimum!r}")
    recorded.name = name
    return Problem(name, recorded, recorded_digest(recorded), description, optimum)


def _opened(path: Path) -> RecordedSpace:
    with warnings.catch_warnings():
        # Records may be of other code of a template: only their costs count here.
        warnings.simplefilter("ignore", RecordWarning)
        try:
            return recorded_space(path)
        except RecordError as error:
            try:
                return recorded_knobs(path)
            except RecordError:
                raise error from None


def open_objective(
    name: str,
    folder: Path,
    ref: str,
    options: Mapping[str, Any],
    *,
    description: str = "",
    optimum: float | None = None,
) -> Problem:
    """Call the function that `ref` names, a file of the folder or a module, which makes a pure `Objective`.

    Raises `ArgumentError` if it returns something else, `PluginError` if it cannot be imported or raises.
    """
    make = _imported(folder, ref)
    try:
        inspect.signature(make).bind(**options)
    except TypeError as error:
        raise ArgumentError(f"objective {ref!r}: its options do not fit {inspect.signature(make)}: {error}") from None
    try:
        objective = make(**options)
    except Exception as error:
        raise PluginError(f"{ref} raised {explained(error)}") from error
    if not isinstance(objective, Objective):
        raise ArgumentError(f"{ref} made a {type(objective).__name__} instead of a pegbox.Objective")
    if not objective.pure:
        raise ArgumentError(
            f"{ref}: the runs of a suite are simultaneous, so its costs must depend on the configuration "
            "alone; pass pegbox.Objective(..., pure=True)"
        )
    objective.name = name
    module = sys.modules[make.__module__]
    text = f"{ref} {sorted(options.items())} {objective.space.fingerprint}\n{inspect.getsource(module)}"
    return Problem(name, objective, str(sha256(text.encode()).hexdigest()), description, optimum)


def _imported(folder: Path, ref: str) -> Any:
    if (found := split_file_ref(ref)) is not None:
        path, attribute = folder / found[0], found[1]
        made = getattr(import_file(path), attribute, None)
    elif is_module_ref(ref):
        try:
            made = import_ref(ref)
        except Exception as error:
            raise PluginError(f"{ref} cannot be imported: {explained(error)}") from error
    else:
        raise ArgumentError(f"objective {ref!r}: write it as 'file.py:function' or 'package.module:function'")
    if not inspect.isfunction(made):
        raise ArgumentError(f"objective {ref!r} is not a function; give one that makes a pegbox.Objective")
    return made


def recorded_digest(recorded: RecordedSpace) -> str:
    """Compute the digest of a recorded space: its knobs, and the costs of each configuration, regardless of packing."""
    lines = sorted(
        f"{config.digits} {result.costs if isinstance(result, Ok) else result.kind}"
        for config, result in recorded.results.items()
    )
    text = "\n".join([recorded.full_space.fingerprint, *lines])
    return str(sha256(text.encode()).hexdigest())
