"""The earlier measurements of a task, for resuming a search and for building the best (`apply_history_best`)."""

from __future__ import annotations

import json
import math
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

from pegbox.checks import check_flag, check_instance, check_list, check_text
from pegbox.codegen.targets.host import describe_host, processor_of
from pegbox.errors import RecordError, SpaceError
from pegbox.measure.result import Result
from pegbox.origin import users_level
from pegbox.records.autotvm import is_for_cpu
from pegbox.records.in_effect import in_effect
from pegbox.records.journal import Journal, RecordWarning
from pegbox.records.record import Record, call, check_records, workload_of
from pegbox.shown import value_text
from pegbox.task.code_fingerprint import differ
from pegbox.task.group import tasks_of

if TYPE_CHECKING:
    from pegbox.measure.baselines.baseline import Baseline
    from pegbox.space import Config
    from pegbox.task.group import Tasks
    from pegbox.task.task import Task

RecordSource: TypeAlias = str | os.PathLike[str] | Journal
"""A file of records."""

_ELSEWHERE = "record again, into another file"
_Fault: TypeAlias = tuple[Callable[[Record], object], str]
"""A test for unusable records, and the reason."""

_FOREIGN: _Fault = (
    lambda record: record.tool,
    "are AutoTVM's, whose costs are those of another compiler; they are ignored (of another shape, give them as "
    "transfer=)",
)
_EMULATED: _Fault = (
    lambda record: record.emulated,
    "come from an emulator, whose times do not measure a processor; they are ignored",
)


def load_history(
    journal: Journal, task: Task, *, edited: bool = False, remedy: str = _ELSEWHERE
) -> tuple[list[Config], list[Result]]:
    """Load the configs of `task`, each once with its latest result, in the order of their first measurements.

    Raises `RecordError` as `own_records` and `to_config` do.
    """
    check_instance("journal", journal, Journal, "a pegbox.Journal of a file", error=RecordError)
    edited = check_flag("edited", edited, error=RecordError)
    own = own_records(journal, task, edited=edited, remedy=remedy)
    found = latest_by_config(own, task, source=str(journal.path))
    return list(found), list(found.values())


def own_records(journal: Journal, task: Task, *, edited: bool = False, remedy: str = _ELSEWHERE) -> list[Record]:
    """Read the records of `task` in the journal; none if the file does not exist yet.

    Records of other workloads are skipped. `edited` includes those of other code of the template. Raises `RecordError`
    as `of_code` does (`remedy` ends its message), as `matching` does, or if the file cannot be read.
    """
    if not journal.path.exists():
        return []
    source = str(journal.path)
    own = matching(journal.read(), task, source=source)
    own = _without(_EMULATED, _without(_FOREIGN, own, task, source), task, source)
    own = [record for record in own if not record.result.ok or record.is_accurate_for(task)]
    return own if edited else of_code(own, task, source=source, remedy=remedy)


def check_host(records: Iterable[Record], source: str, cluster: str = "", *, remedy: str, exact: bool = False) -> None:
    """Check that records of the file `source` come from the kind of machine that measures.

    Args:
        cluster: the kind of a cluster's machines; empty if this machine measures.
        remedy: the end of the error's message.
        exact: refuse another machine with the same processor, too.

    Raises:
        RecordError: some come from elsewhere.
    """
    here = cluster or describe_host()
    hosts = {record.host for record in records} - {here, ""}
    if others := sorted(host for host in hosts if exact or processor_of(host) != processor_of(here)):
        raise RecordError(
            f"{source!r} holds records of this task from {' and '.join(map(repr, others))}, but "
            f"{'the cluster' if cluster else 'this machine'} is {here!r}: costs of several machines do not compare; "
            f"{remedy}"
        )


def _without(fault: _Fault, records: list[Record], task: Task, source: str) -> list[Record]:
    """Select the records without the fault, and warn about the number of others."""
    has, why = fault
    sound = [record for record in records if not has(record)]
    if others := len(records) - len(sound):
        text = f"{source}: {others} records of {call(*task.workload)} {why}"
        warnings.warn(text, RecordWarning, stacklevel=3)
    return sound


def latest_by_config(records: Iterable[Record], task: Task, *, source: str = "the records") -> dict[Config, Result]:
    """Find the latest result of each config, in the order in which they first appear. Raises as `to_config` does."""
    return {to_config(record, task, source=source): record.result for record in latest(records)}


def matching(records: Iterable[Record], task: Task, *, source: str = "the records") -> list[Record]:
    """Select the records of this task's workload, target and space.

    A file may hold several workloads, several targets for each, and different templates with the same name. Raises
    `RecordError`, which shows both, if the workload has records only for other targets, or from a space that is not the
    task's: such a record would silently mean another schedule. Lines of AutoTVM name no space: `to_config` refuses
    those that don't fit.
    """
    workload_of(task)
    records = check_records(records)
    own = [record for record in records if record.is_of(task)]
    target, space = str(task.target), task.fingerprint
    here = [record for record in own if record.target == target or (record.tool and is_for_cpu(record.target))]
    if own and not here:
        check_target([record.target for record in own], task, source)
    here = without_namesakes(here, task)
    known = [record for record in here if record.tool or record.space == space]
    strangers = [record for record in here if not record.tool and record.space != space]
    if strangers:
        spaces = " and ".join(sorted({record.space[:12] for record in strangers}))
        others = sorted({record.ref for record in strangers} - {getattr(task, "ref", "")})
        elsewhere = f"they are of {' and '.join(others)}, or " if any(others) else ""
        raise RecordError(
            f"{source}: the records of {call(*task.workload)} are from the space {spaces}, the task's space is "
            f"{space[:12]}: {elsewhere}the template, its knobs, or the computation and rules that it was derived from "
            "have changed since; tune again into another file"
        )
    return known


def without_namesakes(records: list[Record], task: Task) -> list[Record]:
    """Drop the records of another template with the same name; keep all of them if none is from the space."""
    space, place = task.fingerprint, getattr(task, "ref", "")
    if not any(record.tool or record.space == space for record in records):
        return records
    return [record for record in records if record.tool or record.space == space or record.ref == place]


def check_target(recorded: Iterable[str], task: Task, source: str) -> None:
    """Raise `RecordError` if all records of a task's workload are for other targets."""
    targets, own = set(recorded), str(task.target)
    if targets and own not in targets:
        raise RecordError(
            f"{source}: the records of {call(*task.workload)} are for the target "
            f"{' and '.join(map(repr, sorted(targets)))}, the task is for {own!r}: give that target, or another file"
        )


def of_code(
    records: Sequence[Record], task: Task, *, source: str = "the records", remedy: str = _ELSEWHERE
) -> list[Record]:
    """Select a task's records that were measured with the present code of its template.

    If none match, that is an error: their costs may be those of other programs, and only the user knows. If some match,
    the others are left out with a `RecordWarning`. Records without a fingerprint of the code match.

    Raises:
        RecordError: all of them are of other code; `remedy` ends the message.
    """
    current = [record for record in records if not is_of_other_code(record, task)]
    if others := len(records) - len(current):
        count = f"{source}: {others} of {len(records)} records of {call(*task.workload)}"
        message = f"{count} were measured with other code than it has now"
        if not current:
            raise RecordError(f"{message}: their costs may be those of other programs; {remedy}")
        warnings.warn(f"{message}; they are ignored", RecordWarning, stacklevel=3)
    return current


def is_of_other_code(record: Record, task: Task) -> bool:
    """Decide if the template's code was edited after the record, as far as the record shows."""
    return bool(record.code) and differ(record.code, task.code)


def latest(records: Iterable[Record]) -> list[Record]:
    """Find the latest record of each config, in the order in which the configs first appear."""
    return list({_key(record): record for record in records}.values())


def _key(record: Record) -> tuple[str, str]:
    """Make a key that is equal for records of one config."""
    return record.space, json.dumps(record.config, sort_keys=True)


def by_task(records: Iterable[Record]) -> list[list[Record]]:
    """Group the records of each workload on each target from each space, in the order of first appearance."""
    groups: dict[tuple[str, str, str], list[Record]] = {}
    for record in check_records(records):
        key = (json.dumps(record.workload, sort_keys=True), record.target, record.space)
        groups.setdefault(key, []).append(record)
    return list(groups.values())


def to_config(record: Record, task: Task, *, source: str = "the records") -> Config:
    """Find the record's config in the task's space; raise `RecordError` if the space does not hold it."""
    try:
        return task.space.from_json(record.choices)
    except SpaceError as error:
        raise RecordError(f"{source}: a config does not fit the space of {task.name}: {error}") from error


def best(records: Iterable[Record], task: Task | None = None) -> Record | None:
    """Find the fastest record; None when no trial succeeded.

    A config's latest measurement counts; those of emulators count only without others.

    If the best were measured again at the end of a run, all others lose, since single measurements favour the lucky. So
    do all that precede the record of a configuration that was the fastest in a model.

    Args:
        records: oldest first, as a journal gives them.
        task: consider only records of this task; raise `RecordError` if they are from another space or target, or of
            other code of the template.
    """
    records = check_records(records)
    kept = records if task is None else of_code(matching(records, task), task)
    kept = [record for record in kept if not record.emulated] or kept
    last = max((place for place, record in enumerate(kept) if record.remeasured), default=-1)
    places = {id(record): place for place, record in enumerate(kept)}
    every = [record for record in latest(kept) if record.result.ok]
    ok = [record for record in every if not record.tool] or every  # costs of other tools are not comparable
    current = [record for record in ok if record.remeasured or places[id(record)] > last]
    chosen = max((record.result.timestamp for record in kept if record.in_model), default=-math.inf)
    return fastest_record(current or ok, since=chosen)


def fastest_record(records: Iterable[Record], *, since: float = -math.inf) -> Record | None:
    """Find the fastest record of tasks that compute the same thing; None without any.

    Records before the latest configuration that was the fastest in a model, or before another time, lose.
    """
    listed = list(records)
    chosen = max([since, *(record.result.timestamp for record in listed if record.in_model)])
    current = [record for record in listed if record.result.timestamp >= chosen]
    return min(current or listed, key=lambda record: record.cost, default=None)


def trials_of(records: Iterable[Record]) -> list[Record]:
    """Select the records of a search's trials, without the measurements that were repeated at its end.

    Packed records keep only the last measurement of a configuration, in place of the trial.
    """
    listed = check_records(records)
    known = {_key(record) for record in listed if not record.remeasured}
    again = latest(record for record in listed if record.remeasured and _key(record) not in known)
    return [*(record for record in listed if not record.remeasured), *again]


def latest_baseline(records: Sequence[Record], host: str | None = None) -> Baseline | None:
    """Find the baseline of the latest run's best record, if it has one and, with `host`, comes from that machine."""
    if host is not None:
        check_text("latest_baseline: host", host, error=RecordError)
    there = (record for record in reversed(check_records(records)) if host in (None, record.host))
    return next((record.baseline for record in there if record.baseline is not None), None)


def best_of_each(records: Iterable[Record]) -> list[Record]:
    """Find the best record of each workload on each target from each space, in the order of first appearance.

    Records of emulators don't count.
    """
    real = [record for record in check_records(records) if not record.emulated]
    return [found for group in by_task(real) if (found := best(group)) is not None]


class History:
    """Records to choose from; `source` is their origin, for messages."""

    def __init__(self, records: Iterable[Record], *, source: str = "the records") -> None:
        self.records = tuple(check_records(records))
        self.source = source

    def best_config(self, task: Tasks) -> Config | None:
        """Find the config of the best record of this task; None if its workload has no successful measurement.

        Raises as `best_record` does.
        """
        found = self.best_record(task)
        if found is None:
            return None
        owner = next(each for each in tasks_of(task) if found.is_of(each))
        return to_config(found, owner, source=self.source)

    def best_record(self, task: Tasks) -> Record | None:
        """Find the best record of this task, or of all tasks of a group; None if there is no successful measurement.

        Records of emulators, whose times do not measure a processor, are ignored with a `RecordWarning`. Raises
        `RecordError`, which shows both, if the records of its workload are for another target or space.
        """
        own: list[Record] = []
        current: list[Record] = []
        for each in tasks_of(task):
            known = _without(_EMULATED, matching(self.records, each, source=self.source), each, self.source)
            known = [record for record in known if record.is_accurate_for(each)]
            own += known
            current += [record for record in known if not is_of_other_code(record, each)]
        places = {id(record): place for place, record in enumerate(self.records)}
        found = best(sorted(current, key=lambda record: places[id(record)]))
        subject = f"{self.source}: the best configuration of {call(*tasks_of(task)[0].workload)}"
        if found is None and (found := best(own)) is not None:
            message = "was measured with other code than it has now, and may not be the best any more: tune again"
            warnings.warn(f"{subject} {message}", RecordWarning, stacklevel=users_level())
        if found is not None and found.tool:
            message = f"is AutoTVM's, which measured it for {found.target!r} with another compiler, and may not be the"
            warnings.warn(f"{subject} {message} best here: tune again", RecordWarning, stacklevel=users_level())
        return found

    def absence(self, task: Tasks) -> str:
        """Explain why `best_config` finds none for this task, and suggest a remedy."""
        message = f"no valid record of {value_text(task)} in {self}"
        own = [record for each in tasks_of(task) for record in matching(self.records, each, source=self.source)]
        hosts = dict.fromkeys(record.host for record in own if record.emulated and record.result.ok)
        if not hosts:
            return f"{message}; tune it first"
        return (
            f"{message}: there are some from an emulator ({', '.join(hosts)}), whose times do not measure a processor; "
            "name a configuration: --config N (config=N), or tune on such a processor (--runner dask)"
        )

    def __str__(self) -> str:
        known = sorted({f"{record.name}{record.args}" for record in self.records})
        if not known:
            return f"{self.source}, which has no records"
        return f"{len(self.records)} records of {', '.join(known)} from {self.source}"


def current_history() -> History | None:
    """Return the history of the innermost `apply_history_best` around the caller (in its thread or task), or None."""
    return in_effect.get()


@contextmanager
def apply_history_best(source: RecordSource | Iterable[RecordSource | Record]) -> Iterator[History]:
    """Let builds of tasks within the block use the best config from these records.

    Args:
        source: a file of records, a journal, or a list of files, journals and records, which count as one file in that
            order. Raises `RecordError` at once if a file cannot be read.
    """
    several = [source] if isinstance(source, str | os.PathLike | Journal) else source
    wanted = "a file of records, a journal, or a list of these and of records"
    kinds = (str, os.PathLike, Journal, Record)
    records: list[Record] = []
    names: list[str] = []
    for each in check_list("apply_history_best: source", several, wanted, error=RecordError, of=kinds):
        if isinstance(each, Record):
            records.append(each)
            continue
        journal = each if isinstance(each, Journal) else Journal(each)
        records += journal.read()
        names.append(str(journal.path))
    history = History(records, source=" and ".join(names) or "the records")
    token = in_effect.set(history)
    try:
        yield history
    finally:
        in_effect.reset(token)
