"""Inputs of tuners from a task: features of its programs, and measurements of other shapes."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from pegbox.checks import check_list
from pegbox.errors import ArgumentError, PegboxError, SpaceError
from pegbox.features import program_features as features_of
from pegbox.records.history import by_task
from pegbox.records.journal import Journal, RecordWarning
from pegbox.records.library import find_source
from pegbox.records.record import Record, call, plain
from pegbox.records.recorded_space import latest_results
from pegbox.search.allocation import BestOfAllocation
from pegbox.search.factory import TunerInputs, declared_inputs, make_tuner, tuner_label
from pegbox.search.group_tuner import GroupTuner
from pegbox.search.models.experience import shipped_experience, template_task
from pegbox.search.protocols import FeatureSource, Transfer, Tuner, TunerFactory
from pegbox.shown import value_text
from pegbox.space import ConfigSpace
from pegbox.task.group import TaskGroup
from pegbox.task.task import Task, create_task

if TYPE_CHECKING:
    from pegbox.search.protocols import SearchTask

TransferSource: TypeAlias = str | os.PathLike[str] | Journal


def tuner_inputs(
    tuner: str | TunerFactory,
    task: SearchTask | ConfigSpace,
    transfer: TransferSource | Sequence[TransferSource] | None = None,
) -> TunerInputs:
    """Make the inputs that the tuner takes in addition to the space and the seed. A space alone has no programs.

    Raises `ArgumentError` for a `transfer` that the tuner does not take or that holds nothing useful.
    """
    takes = declared_inputs(tuner)
    if transfer is not None and "transfer" not in takes:
        raise ArgumentError(
            f"transfer={value_text(transfer)}: the tuner {tuner_label(tuner)} cannot learn from other shapes "
            "(it has no parameter transfer); leave transfer out, or choose another tuner"
        )
    if isinstance(task, ConfigSpace):
        if transfer is not None:
            raise ArgumentError(
                f"transfer={value_text(transfer)}: a space has no template, so there are no other shapes to learn from"
            )
        return {}
    given: TunerInputs = {"program": program_features(task)} if takes else {}
    if "experience" in takes:
        given["experience"] = shipped_experience(task)
    if transfer is not None:
        given["transfer"] = load_transfer(transfer, task)
    return given


def tuner_over(
    tuner: str | TunerFactory,
    over: SearchTask | ConfigSpace | TaskGroup,
    *,
    seed: int = 0,
    transfer: TransferSource | Sequence[TransferSource] | None = None,
    options: Mapping[str, object] | None = None,
) -> Tuner:
    """Make a tuner over a space, or the space of a task, with the inputs that it declares; for a group, one tuner per
    task.

    Raises the errors of `make_tuner` and `tuner_inputs`, and `SpaceError` if no configuration is valid.
    """
    if isinstance(over, TaskGroup):
        return group_tuner(over, lambda task: tuner_over(tuner, task, seed=seed, transfer=transfer, options=options))
    space = over if isinstance(over, ConfigSpace) else over.space
    # Before the tuner is asked, because an empty space is not the tuner's fault.
    space.sample(1, np.random.default_rng(0))
    return make_tuner(tuner, space, seed=seed, options=options, **tuner_inputs(tuner, over, transfer))


def group_tuner(group: TaskGroup, make: Callable[[Task], Tuner]) -> GroupTuner:
    """Make the tuner of a group from the tuners that `make` returns for its tasks."""
    return GroupTuner(group, {name: make(task) for name, task in group.tasks.items()}, BestOfAllocation())


def program_features(task: SearchTask) -> FeatureSource | None:
    """Make the features of the task's programs; None without a template (results of other tools)."""
    own = template_task(task)
    return None if own is None else features_of(own)


def load_transfer(sources: TransferSource | Sequence[TransferSource], task: SearchTask) -> tuple[Transfer, ...]:
    """Load the sources' records of other shapes of the task's template on its target, one `Transfer` per shape.

    Records of other templates, of other targets and of changed spaces are skipped with a warning; those of the task
    itself belong in `records`, with `resume`.

    Raises:
        ArgumentError: the task has no template, or nothing useful was found.
        RecordError: a file cannot be read.
    """
    own = template_task(task)
    if own is None:
        raise ArgumentError(
            f"transfer={value_text(sources)}: {task.name} has no template, so there are no other shapes to learn from"
        )
    several = [sources] if isinstance(sources, str | os.PathLike | Journal) else sources
    listed = check_list("transfer", several, "a file of records, the name of a recorded space, or a list of these")
    found: list[Transfer] = []
    skipped: list[str] = []
    for source in listed:
        journal = source if isinstance(source, Journal) else Journal(find_source(source))
        for records in by_task(journal.read()):
            made = _transfer(records, own)
            if isinstance(made, Transfer):
                found.append(made)
            else:
                skipped.append(f"{len(records):,} records in {str(journal.path)!r}: {made}")
    if not found:
        why = "; ".join(skipped) or "no records"
        raise ArgumentError(f"transfer: nothing can be learned for {call(*plain(own.workload))} on {own.target}: {why}")
    for message in skipped:
        warnings.warn(f"transfer: skipped {message}", RecordWarning, stacklevel=3)
    return tuple(found)


def _transfer(records: Sequence[Record], task: Task) -> Transfer | str:
    """Make a `Transfer` from the records of one workload, or explain why they are useless."""
    first = records[0]
    if all(record.emulated for record in records):
        return f"of {first.described}, from an emulator, whose times do not measure a processor"
    records = [record for record in records if not record.emulated]
    if first.name != task.name:
        return f"of the template {first.name}, the task is of {task.name}"
    if first.target != str(task.target) and not first.tool:
        return (
            f"of the target {first.target!r}, the task is for {str(task.target)!r}: make it for target={first.target!r}"
        )
    if first.is_of(task):
        return f"of {first.described}, the task itself: pass them as records=, with resume=True"
    try:
        other = create_task(task.template, first.args, dict(first.kwargs), target=task.target)
        if first.space != other.fingerprint and not first.tool:
            return f"of {first.described}, with a space that has changed since"
        rows = other.space.rows_from_json([record.choices for record in records])
    except (PegboxError, SpaceError) as error:
        return f"of {first.described}: {error}"
    results = latest_results(records, [row.tobytes() for row in rows])
    digits = np.array([np.frombuffer(key, dtype=np.int64) for key in results])
    costs = np.array([result.cost for result in results.values()])
    return Transfer(first.described, features_of(other)(digits), costs)
