"""`pegbox store`: the user's best records and compiled kernels."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pegbox.errors import ArgumentError, PegboxError, UnknownName
from pegbox.plugins.cli import exits
from pegbox.plugins.cli.arguments import duration, positive

if TYPE_CHECKING:
    from pegbox.records import Record
    from pegbox.store import TuningStore

_EPILOG = f"""\
actions:
  list     print one line for each record: the best of a task on a processor
  show     print the folder, its size, and each record with its configuration
  export   write all records to FILE.jsonl, without compiled code
  import   add the best record of each task from files of records; those of other processors serve predictions only
  prune    remove the records that no template here can use, and compiled code, of the named templates or of all
  retune   tune here the tasks that have records of other processors only; repeat the command to continue it

examples:
  pegbox store list matmul
  pegbox store export mine.jsonl
  pegbox store import mine.jsonl ../team/*.jsonl
  pegbox store retune --target here --trials 128
  pegbox store retune --templates my_ops.py
  pegbox store prune --elsewhere                  the records of other processors, too

The store is a folder of this user; PEGBOX_STORE=FOLDER names another one, PEGBOX_STORE=off turns it off.
{exits.EXPLAINED}
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """List, move and renew the results that are kept for all programs of this user"""
    parser.epilog = _EPILOG
    parser.add_argument("action", choices=list(_ACTIONS), metavar="ACTION", help=", ".join(_ACTIONS))
    parser.add_argument(
        "names",
        nargs="*",
        default=[],  # without it, a missing action's error would name this argument, too
        metavar="NAME|FILE",
        help="names of templates, to leave the others out; files of records for export and import",
    )
    parser.add_argument("--json", action="store_true", help="list, show: print a JSON list")
    parser.add_argument("--elsewhere", action="store_true", help="prune: remove the records of other processors, too")
    search = parser.add_argument_group("retune")
    search.add_argument(
        "--target", default="here", metavar="TARGET", help="here (the default), or a target of this machine"
    )
    search.add_argument(
        "--trials", type=positive, metavar="N", help="configurations to try for each task (default: 64)"
    )
    search.add_argument("--budget", type=duration, metavar="TIME", help="stop each search after this time: 60s, 5m")
    search.add_argument("--tuner", metavar="NAME[:OPTION=VALUE,...]", help="default: bayes")
    search.add_argument(
        "--templates", type=Path, action="append", metavar="FILE.py", default=[], help="a file with your own templates"
    )
    parser.set_defaults(run=run, usage_error=parser.error)


def run(namespace: argparse.Namespace) -> int:
    """Perform the action; return the exit code 1 if the store has nothing for it."""
    from pegbox.store import user_store  # loads NumPy, which 'pegbox --help' should not wait for

    store = user_store()
    if store is None:
        raise ArgumentError("the store is turned off: PEGBOX_STORE=off; leave it unset, or name a folder")
    return _ACTIONS[namespace.action](store, namespace)


def _is_named(name: str, namespace: argparse.Namespace) -> bool:
    """Decide if a template is among the named ones, or none is named."""
    return not namespace.names or bool({name, name.partition("@")[0]} & set(namespace.names))


def _records(store: TuningStore, namespace: argparse.Namespace, *, optional: bool = False) -> list[Record]:
    """Read the records of the named templates, or all; raise NothingFound if there are none.

    Args:
        optional: return an empty list instead.
    """
    found = store.records()
    names = namespace.names
    chosen = [each for each in found if _is_named(each.name, namespace)]
    if not chosen and not optional:
        known = sorted({each.name for each in found})
        what = f"nothing of {' and '.join(names)}; it knows {', '.join(known)}" if known else "no records yet"
        raise exits.NothingFound(f"the store {str(store.folder)!r} has {what}")
    return chosen


def _code(store: TuningStore, namespace: argparse.Namespace) -> list[tuple[str, int]]:
    """List the task and the bytes of each kernel of the named templates, or of all."""
    return [(task, size) for task, name, size in store.kernels.sizes() if _is_named(name, namespace)]


def _list(store: TuningStore, namespace: argparse.Namespace) -> int:
    records = _records(store, namespace)
    if namespace.json:
        print(json.dumps([_described(each) for each in records], indent=2))
    else:
        print_table([("cost", "task", "target", "processor", "measured"), *map(_row, records)])
    return exits.DONE


def _show(store: TuningStore, namespace: argparse.Namespace) -> int:
    from pegbox.plugins.cli.history import HistorySummary

    records = _records(store, namespace, optional=bool(_code(store, namespace)))
    if namespace.json:
        print(json.dumps([HistorySummary([each]).to_json() for each in records], indent=2))
        return exits.DONE
    code = [size for _, _, size in store.kernels.sizes()]
    print(f"{store.folder}: {len(store.records())} records, {len(code)} compiled kernels of {sum(code) / 1e6:.2f} MB")
    for each in records:
        print(HistorySummary([each]))
    return exits.DONE


def _export(store: TuningStore, namespace: argparse.Namespace) -> int:
    if len(namespace.names) != 1:
        namespace.usage_error("export: name one file, such as mine.jsonl")
    (file,) = namespace.names
    if os.path.exists(file) and os.path.getsize(file):
        raise ArgumentError(f"export: {file!r} is there already; name another file, or remove it")
    print(f"wrote {file} ({_count(store.export(file))})")
    return exits.DONE


def _import(store: TuningStore, namespace: argparse.Namespace) -> int:
    from pegbox.records import Journal

    if not namespace.names:
        namespace.usage_error("import: name files of records, such as mine.jsonl")
    records = [record for file in namespace.names for record in Journal(file).read()]
    kept = store.merge(records)
    here = _processor()
    others = len({record.processor for record in records} - {here, ""})
    print(f"{_count(len(records))} read, {kept} of them are now the best of their task and processor")
    if others:
        print(f"{others} other processors are among them; 'pegbox store retune' tunes their tasks here")
    return exits.DONE


def _prune(store: TuningStore, namespace: argparse.Namespace) -> int:
    code = _code(store, namespace)
    removed = []
    for record in _records(store, namespace, optional=bool(code)):
        if why := _useless(record, elsewhere=namespace.elsewhere):
            store.remove(record)
            removed.append((*_row(record)[1:4], why))
    if removed:
        print_table([("task", "target", "processor", "removed because"), *removed])
    store.kernels.clear({task for task, _ in code})
    freed = sum(size for _, size in code)
    print(f"{_count(len(removed))} removed, and {freed / 1e6:.2f} MB of compiled code")
    return exits.DONE


def _useless(record: Record, *, elsewhere: bool) -> str:
    """Explain why nothing here can use a record; empty if something may, such as templates in a user's files."""
    from pegbox.records import registered_task

    if elsewhere and record.processor != _processor():
        return "it is of another processor"
    try:
        task = registered_task(record)
    except UnknownName:
        return ""
    except PegboxError as error:
        return f"its task cannot be made: {error}"
    return "" if task.fingerprint == record.space else "its space has changed"


def _retune(store: TuningStore, namespace: argparse.Namespace) -> int:
    from pegbox.plugins.cli.retune import retune

    return retune(store, _records(store, namespace), namespace)


def _row(record: Record) -> tuple[str, ...]:
    from pegbox.task import format_cost

    when = datetime.fromtimestamp(record.result.timestamp).strftime("%Y-%m-%d")
    here = " (here)" if record.processor == _processor() else ""
    return format_cost(record.cost, "s"), task_text(record), record.target, f"{record.processor}{here}", when


def task_text(record: Record) -> str:
    """Write the task of a record as a call."""
    from pegbox.records import call

    return call(record.name, record.kwargs, record.args)


def _described(record: Record) -> dict[str, Any]:
    numpy = None if record.baseline is None else record.baseline.numpy
    return {
        "task": record.name,
        "args": record.args,
        "kwargs": dict(record.kwargs),
        "target": record.target,
        "processor": record.processor,
        "here": record.processor == _processor(),
        "cost": record.cost,
        "numpy": numpy,
        "measured": record.result.timestamp,
        "config": record.config,
    }


def print_table(rows: Sequence[Sequence[str]]) -> None:
    """Print rows in columns, the first of them a header."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip())


def _processor() -> str:
    from pegbox.codegen import cpu_model

    return cpu_model()


def _count(number: int) -> str:
    return f"{number:,} record{'s' if number != 1 else ''}"


_ACTIONS: dict[str, Callable[[TuningStore, argparse.Namespace], int]] = {
    "list": _list,
    "show": _show,
    "export": _export,
    "import": _import,
    "prune": _prune,
    "retune": _retune,
}
