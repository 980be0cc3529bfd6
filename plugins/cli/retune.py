"""`pegbox store retune`: tunes here the tasks that are known only for other processors."""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pegbox as pb
from pegbox.codegen import cpu_model
from pegbox.errors import ArgumentError, PegboxError, UnknownName
from pegbox.hooks import registry
from pegbox.plugins.cli import exits
from pegbox.plugins.cli.arguments import given
from pegbox.records import Record, registered_task
from pegbox.task import format_cost

if TYPE_CHECKING:
    from pegbox.store import TuningStore
    from pegbox.task import Task

_TRIALS = 64
_CORES = re.compile(r"-num-cores (\d+)")
_HEADER = f"{'':>9}{'there':>12}{'here':>12}{'NumPy here':>12}{'time':>8}  task"


class Job(NamedTuple):
    """A task to tune, the record of another processor, and the file of its trials until it is tuned."""

    task: Task
    record: Record
    file: Path


def retune(store: TuningStore, records: Sequence[Record], namespace: argparse.Namespace) -> int:
    """Tune each task that has no record for this processor, and print a line for each.

    The trials of a stopped search are kept next to the store, and the same command continues with them.
    """
    folder = store.folder / "retune"
    left_out: list[Record] = []
    jobs = list(_jobs(store, records, namespace, folder, left_out))
    if not jobs and left_out:
        raise exits.NothingFound(f"none of the {len(left_out)} remaining tasks can be made here")
    if not jobs:
        print("nothing is left to tune: all tasks of other processors are tuned here, too")
        return exits.DONE
    folder.mkdir(mode=0o700, exist_ok=True)
    options = given(namespace, "tuner", "budget")
    options["trials"] = namespace.trials or (None if namespace.budget else _TRIALS)
    print(_HEADER)
    failed = 0
    for number, job in enumerate(jobs, start=1):
        began = time.monotonic()
        place = f"{number}/{len(jobs)}"
        try:
            result = pb.tune(job.task, records=job.file, resume=True, progress=False, store=store, **options)
        except PegboxError as error:
            failed += 1
            print(f"{place:>9}  {_text(job.task)}: {error}", file=sys.stderr)
            continue
        if result.stopped_because == "interrupted":
            print(f"{place:>9}  stopped; repeat the command to go on")
            return exits.INTERRUPTED
        best, baseline = result.best, result.best and result.best.baseline
        numpy = baseline.numpy if baseline else None
        here = "nothing ran" if best is None else format_cost(best.cost, "s")
        failed += best is None
        beside = "-" if numpy is None else format_cost(numpy, "s")
        there, spent = format_cost(job.record.cost, "s"), time.monotonic() - began
        print(f"{place:>9}{there:>12}{here:>12}{beside:>12}{spent:>6.0f} s  {_text(job.task)}", flush=True)
        job.file.unlink(missing_ok=True)
    if failed == len(jobs):
        raise exits.NothingFound(f"none of {failed} tasks could be tuned here")
    return exits.DONE


def _jobs(
    store: TuningStore, records: Sequence[Record], namespace: argparse.Namespace, folder: Path, left_out: list[Record]
) -> Iterator[Job]:
    """Yield the jobs; name records whose task cannot be made on standard error, and leave them out.

    Raises:
        ArgumentError: a file of templates does not exist.
    """
    for each in namespace.templates:
        if not each.is_file():
            raise ArgumentError(f"--templates: there is no file {str(each)!r}")
    seen: set[str] = set()
    for record in records:
        if record.processor == cpu_model() or record.of_model:
            continue
        try:
            task = _task(record, _target(record, namespace.target), namespace.templates)
        except PegboxError as error:
            left_out.append(record)
            own = f"; name its file: --templates {record.ref.rpartition(':')[0]}" if record.ref else ""
            print(f"left out: {record.described}: {error}{own}", file=sys.stderr)
            continue
        key = f"{task.workload} {task.target} {task.fingerprint}"
        file = folder / f"{sha256(key.encode()).hexdigest()[:24]}.jsonl"
        if key not in seen and (file.exists() or store.best(task) is None):
            seen.add(key)
            yield Job(task, record, file)


def _target(record: Record, wanted: str) -> str:
    """Choose the target: kernels for one core keep one, others get all cores of this machine."""
    if wanted != "here":
        return wanted
    cores = _CORES.search(record.target)
    return "llvm -num-cores 1" if cores and cores[1] == "1" else "llvm"


def _task(record: Record, target: str, files: Sequence[Path]) -> Task:
    """Make the task of a record from a registered template or one in the user's files, without other imports."""
    try:
        return registered_task(record, target=target)
    except UnknownName:
        name, _, space = record.name.partition("@")
        attribute = record.ref.rpartition(":")[2] or name
        if not attribute.isidentifier() or (space and space.partition(":")[0] not in registry.names("space_generator")):
            raise
        options: dict[str, Any] = {"space": space} if space else {}
        for file in files:
            if re.search(rf"^(def +)?{attribute}\b", file.read_text(encoding="utf-8"), flags=re.M):
                place = f"{file}:{attribute}"
                return pb.create_task(place, args=record.args, kwargs=dict(record.kwargs), target=target, **options)
        raise


def _text(task: Task) -> str:
    arguments = ", ".join(f"{name}={value!r}" for name, value in task.workload[1].items())
    return f"{task.name}({arguments}) for {task.target}"
