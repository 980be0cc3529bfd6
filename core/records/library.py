"""The library of recorded spaces, opened by file or, for those that ship with pegbox, by name."""

from __future__ import annotations

import operator
import os
import re
import shlex
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from pegbox.checks import check_instance, check_list, check_path, check_text
from pegbox.codegen.targets.target import Target
from pegbox.errors import PegboxError, PluginError, RecordError, SpaceError, UnknownName
from pegbox.hooks import registry
from pegbox.records.history import check_target, is_of_other_code, without_namesakes
from pegbox.records.journal import Journal, RecordWarning
from pegbox.records.record import FUNCTION, Record, call, plain
from pegbox.records.recorded_space import RecordedSpace, latest_results
from pegbox.shown import value_text
from pegbox.space import Config
from pegbox.task.task import Task, create_task
from pegbox.task.template import Template
from pegbox.task.workload import registered_templates


class ResultsReader(Protocol):
    """A reader of another tool's files. A factory `factory()` makes one."""

    def accepts(self, path: Path, /) -> bool:
        """Decide if the file comes from that tool."""

    def read(self, path: Path, /, *, objective: str | None = None) -> RecordedSpace:
        """Read the file as a recorded space; tuners minimise the `objective`, the time by default.

        Raises `RecordError` if the file cannot be read, or has no such objective.
        """


def reader_of(path: Path) -> ResultsReader | None:
    """Find the reader that accepts the file; None for a .jsonl file, which holds records of pegbox.

    The built-in reader comes last: it accepts every JSON document, and explains any fault.
    """
    if ".jsonl" in path.suffixes:
        return None
    for claim in sorted(registry.claims("results_reader"), key=lambda claim: claim.owner.endswith("(built in)")):
        try:
            reader: ResultsReader = registry.get("results_reader", claim.name)()
        except PluginError as error:
            warnings.warn(f"{error}; read without it", RecordWarning, stacklevel=3)
            continue
        if reader.accepts(path):
            return reader
    return None


SHIPPED = Path(__file__).parent / "shipped"
_SUFFIX = ".jsonl.xz"


def recorded_spaces() -> tuple[str, ...]:
    """List the names of the recorded spaces that ship with pegbox."""
    return tuple(sorted(path.name.removesuffix(_SUFFIX) for path in SHIPPED.glob("*" + _SUFFIX)))


def recorded_space(
    source: str | os.PathLike[str],
    task: Task | None = None,
    *,
    args: Sequence[Any] | None = None,
    host: str | None = None,
    target: str | None = None,
    objective: str | None = None,
) -> RecordedSpace:
    """Open a recorded space: a file of records (.jsonl, also packed as .gz or .xz) or the name of one that ships.

    Each configuration has its latest result. Results of other tools are read by plugins; the built-in one reads those
    of Kernel Tuner (T4 and cache files) and KTT.

    Args:
        source: the file, or the name.
        task: the task of the records; by default the template that they name, with their arguments.
        args: the template's arguments, to choose from a file that holds several workloads.
        host, target: the machine and the target, to choose from a file that holds several.
        objective: the measurement to minimise, for another tool's results; the time by default.

    Raises:
        RecordError: there is no such file, it is damaged, it does not hold one workload on one machine, its records
            are from another space than the task's, or no configuration ran.
    """
    if task is not None:
        check_instance("task", task, Task, "a task from pegbox.create_task", error=RecordError)
    if args is not None:
        args = tuple(check_list("args", args, "the template's arguments as a list or tuple", error=RecordError))
    path = find_source(source)
    if (reader := reader_of(path)) is not None:
        if task is not None:
            raise RecordError(
                f"{str(path)!r} holds results of another tool, not of {call(*plain(task.workload))}: give the recorded "
                "space in place of the task, as in pb.tune(pb.recorded_space(path)), and name no template"
            )
        chosen = {"args": args, "host": host, "target": target}
        if given := [name for name, value in chosen.items() if value is not None]:
            raise RecordError(f"{str(path)!r} holds results of another tool, one space: leave {', '.join(given)} out")
        return reader.read(path, objective=objective)
    if objective is not None:
        raise RecordError(
            f"objective={value_text(objective)}: {value_text(str(path))} holds records of pegbox, whose "
            "objective is the time"
        )
    records = choose_records(Journal(path).read(), str(path), task=task, args=args, host=host, target=target)
    found, rows = rows_of(records, str(path), task)
    results = latest_results(records, [row.tobytes() for row in rows])
    configs = {row.tobytes(): Config(found.space, tuple(row.tolist())) for row in rows}
    return RecordedSpace(
        label(records[0]),
        found.space,
        {configs[key]: result for key, result in results.items()},
        flop=found.flop,
        task=found,
        source=str(path),
        host=records[0].host,
        target=records[0].target,
    )


def rows_of(records: Sequence[Record], source: str, task: Any = None) -> tuple[Any, np.ndarray]:
    """Find the task or the objective of the records, and the digits of each record's config.

    Raises `RecordError` as `recorded_space` does; warns of records of other code than the task's.
    """
    found = _task_of(records[0], source) if task is None else task
    if not records[0].tool:  # lines of AutoTVM name no space; those that don't fit are refused below
        _compare_fingerprints(records[0].space, records[0].target, found, source)
    if any(is_of_other_code(record, found) for record in records):
        warnings.warn(
            f"{source!r}: recorded with other code of {call(*plain(found.workload))} than it has now: costs are "
            "those of the old code",
            RecordWarning,
            stacklevel=3,
        )
    try:
        rows = found.space.rows_from_json([record.choices for record in records])
    except SpaceError as error:
        raise RecordError(f"{source!r}: a config does not fit the space of {found.name}: {error}") from error
    return found, rows


def choose_records(
    records: Sequence[Record],
    source: str,
    *,
    task: Any = None,
    args: Sequence[Any] | None = None,
    host: str | None = None,
    target: str | None = None,
) -> list[Record]:
    """Select the records of one workload on one target, measured on one machine, from one space.

    Raises `RecordError` if there are none, or any of these is ambiguous.
    """
    kept = _of_one_workload(records, source, task, args)
    if target is None and task is not None and any(record.target == str(task.target) for record in kept):
        target = str(task.target)
    kept = _of_one(_of_one(kept, source, "target", target), source, "host", host)
    if len(found := dict.fromkeys(record.space for record in kept)) > 1:
        if len(places := dict.fromkeys(record.ref or record.name for record in kept)) > 1:
            raise RecordError(
                f"{source!r} mixes records of several templates: {_listed(places)}; choose one: task=... (on the "
                "command line TEMPLATE and its arguments)"
            )
        shown = " and ".join(fingerprint[:12] for fingerprint in found)
        raise RecordError(
            f"{source!r} mixes records of several definitions of the space ({shown}): the template has changed in "
            "between; record again into another file"
        )
    return kept


def find_source(source: str | os.PathLike[str]) -> Path:
    """Find the file, or else the space of that name. Raises `RecordError` if there is neither."""
    path = check_path("recorded space", source, error=RecordError)
    if path.is_file():
        return path
    shipped = SHIPPED / f"{source}{_SUFFIX}"
    if isinstance(source, str) and source in recorded_spaces():
        return shipped
    known = ", ".join(recorded_spaces()) or "none"
    raise RecordError(f"{str(source)!r} is neither a file nor a recorded space that ships with pegbox ({known})")


def check_of_task(recorded: RecordedSpace, task: Task) -> None:
    """Raise `RecordError` unless the space was recorded of this task."""
    check_instance("task", task, Task, "a task from pegbox.create_task", error=RecordError)
    source = recorded.source or recorded.name
    if recorded.task is None or plain(recorded.task.workload) != plain(task.workload):
        held = recorded.name if recorded.task is None else call(*plain(recorded.task.workload))
        raise RecordError(f"{source}: recorded for {held}, but the task is {call(*plain(task.workload))}")
    own = recorded.task if recorded.full_space is recorded.task.space else None
    fingerprint = recorded.full_space.fingerprint if own is None else own.fingerprint
    _compare_fingerprints(fingerprint, recorded.target, task, source)


def label(record: Record) -> str:
    """Make a name for tables and files: matmul-512x512x512."""
    parts = [record.name, "x".join(map(str, record.args))]
    parts += [f"{name}={value}" for name, value in sorted(record.kwargs.items())]
    return "-".join(re.sub(r"[^\w.=+,]+", "_", part).strip("_") for part in parts if part)


def _of_one_workload(
    records: Sequence[Record], source: str, task: Task | None, args: Sequence[Any] | None
) -> list[Record]:
    if args is not None:
        args = tuple(check_list("args", args, "the template's arguments as a list or tuple", error=RecordError))
    if not records:
        raise RecordError(f"{source!r} holds no records")
    kept = [record for record in records if not record.of_model]
    if not kept:
        held = _listed(record.described for record in records)
        raise RecordError(f"{source!r} holds no trials of a task, only seconds of whole models: {held}")
    if task is not None:
        kept = without_namesakes([record for record in kept if record.is_of(task)], task)
    elif args is not None:
        wanted = plain(args)
        kept = [record for record in kept if record.args == wanted]
    if not kept:
        asked = f"args={value_text(args)}" if task is None else call(*plain(task.workload))
        raise RecordError(
            f"{source!r} holds no record of {asked}; it holds {_listed(record.described for record in records)}"
        )
    if len(found := dict.fromkeys(record.described for record in kept)) > 1:
        raise RecordError(
            f"{source!r} holds several workloads: {_listed(found)}; choose one: args={kept[0].args!r}, or task=..."
        )
    return kept


def _of_one(records: Sequence[Record], source: str, what: str, wanted: str | None) -> list[Record]:
    """Select the records of one host or one target: costs of two machines do not compare.

    The name of the machine is enough: `vm` for `vm (AMD EPYC)`.
    """
    if wanted is not None:
        check_text(what, wanted, error=RecordError)
    value: Callable[[Record], str] = operator.attrgetter(what)
    kept = [r for r in records if wanted is None or wanted in (value(r), value(r).partition(" (")[0])]
    if not kept:
        raise RecordError(
            f"{value_text(source)} holds no records of the {what} {value_text(wanted)}; it holds "
            f"{_listed(map(value, records))}"
        )
    if len(found := Counter(map(value, kept))) > 1:
        counts = ", ".join(f"{name!r} ({count:,} records)" for name, count in found.items())
        raise RecordError(
            f"{source!r} mixes records of several {what}s, whose costs do not compare: {counts}; choose one: "
            f"{what}={next(iter(found))!r} (--{what} on the command line)"
        )
    return kept


def _task_of(record: Record, source: str) -> Task:
    """Look up the task among registered templates. A file may be anyone's: modules that it names are not imported."""
    if record.target == FUNCTION:
        raise RecordError(
            f"{source!r}: the records are of the function {record.name} (pegbox.minimize), which has no task; "
            "pegbox.load_result and 'pegbox plot' draw the search"
        )
    try:
        return registered_task(record)
    except PegboxError as unknown:
        error = unknown
    if record.ref:
        raise RecordError(
            f"{source!r}: the records are of {record.described} of {record.ref}, which is not imported because a file "
            f"of records names it; {_with_ref(record)}"
        ) from error
    raise RecordError(
        f"{source!r}: the records are of {record.described} from a space with the fingerprint "
        f"{record.space[:12] or '(unknown)'}, which cannot be made here: {error}; import the template first, or "
        "give task=pegbox.create_task('file.py:name', ...) (on the command line TEMPLATE and its arguments)"
    ) from error


def registered_task(record: Record, *, target: str | Target | None = None) -> Task:
    """Make the task of a record from a template registered under its name: nothing else is imported or run.

    If there are several, as when a file has its own `matmul`, the one in the record's file is used, or else the one
    whose space was recorded.

    Args:
        target: a target to use instead of the record's.

    Raises:
        UnknownName, PluginError, TemplateError, TargetError, ArgumentError: there is no such task here.
        RecordError: it is not a record.
    """
    check_instance("record", record, Record, "a pegbox.records.Record", error=RecordError)
    templates = registered_templates(record.name)
    found = [each for each in templates if each.ref == record.ref] or ([] if record.ref else templates)
    if len(found) != 1:
        found = [template for template in templates if _has_space(template, record)]
    if not found:
        place = f" of {record.ref}" if record.ref else ""
        raise UnknownName(f"no template {record.name!r}{place} is imported here, but another of that name")
    where = record.target if target is None else target
    return create_task(found[-1], record.args, dict(record.kwargs), target=where)


def _has_space(template: Template, record: Record) -> bool:
    try:
        task = create_task(template, record.args, dict(record.kwargs), target=record.target)
    except PegboxError:  # a template with other arguments
        return False
    return task.fingerprint == record.space


def _with_ref(record: Record) -> str:
    """Write the task as in Python and as on the command line."""
    space = record.name.partition("@")[2]
    words = [record.ref, *map(str, record.args), *(f"{name}={value}" for name, value in record.kwargs.items())]
    words += (["--space", space] if space else []) + ["--target", record.target]
    options = [f"args={record.args!r}"] + ([f"kwargs={dict(record.kwargs)!r}"] if record.kwargs else [])
    options += [f"space={space!r}"] if space else []
    return (
        f"give task=pegbox.create_task({record.ref!r}, {', '.join(options)}, target={record.target!r}), "
        f"on the command line {shlex.join(words)}"
    )


def _compare_fingerprints(recorded: str, target: str, task: Any, source: str) -> None:
    own = task.fingerprint
    if recorded != own:
        check_target([target] if target else [], task, source)  # derived spaces depend on it
        raise RecordError(
            f"{source!r}: recorded from a space with the fingerprint {recorded[:12]}, but the space of "
            f"{call(*plain(task.workload))} has {own[:12]}: the template, its knobs, or the computation and rules "
            "that it was derived from have changed since; record again"
        )


def _listed(values: Iterable[str]) -> str:
    found = [value or "(unknown)" for value in dict.fromkeys(values)]
    return ", ".join(found[:6]) + (f" and {len(found) - 6} more" if len(found) > 6 else "")
