"""Kept kernels: compiled code of earlier processes, found by the shapes of a call.

A kernel is used as long as its sources have not changed: pegbox and its compiler, the files of the template, the
processor, and the best configuration of its task. Finding a kernel imports neither templates nor LLVM.
"""

from __future__ import annotations

import ast
import os
import sys
import time
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import pegbox
from pegbox.codegen.targets.host import cpu_flags, cpu_model, describe_host, processor_of
from pegbox.digest import sha256
from pegbox.errors import PegboxError, RecordError, SpaceError
from pegbox.records.in_effect import in_effect

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pegbox.codegen.compiled import CompiledProgram
    from pegbox.codegen.runtime.kernel import Kernel
    from pegbox.operators.call_key import CallKey
    from pegbox.operators.implementation import Implementation
    from pegbox.space import Config
    from pegbox.store import TuningStore
    from pegbox.store.kernels import KeptCode
    from pegbox.task.task import Task

_ROOMS = "codegen compute expr graph loops operators schedule space task te templates tir plugins.sketch"
_PACKAGES = tuple(f"pegbox.{room}" for room in _ROOMS.split())
"""The packages, and a module, whose code determines a kernel's code once its configuration is chosen."""
_File = list[str]
"""The path of a source file, and the hash of its content, since reproducible images have equal times of change."""


def kept_kernel(key: CallKey) -> Kernel | None:
    """Load the kernel that an earlier process kept under a key; None if there is none, or it is stale."""
    kept = kept_program(key)
    if kept is None:
        return None
    from pegbox.codegen.runtime.kernel import load

    try:
        return load(kept.program)
    except PegboxError:  # it is compiled again, which repeats any error of the compiler
        return None


class KeptProgram(NamedTuple):
    """Compiled code of an earlier process, and its configuration as JSON."""

    program: CompiledProgram
    config: Mapping[str, Any]


def kept_program(key: CallKey, store: TuningStore | None = None) -> KeptProgram | None:
    """Find the code that an earlier process kept under a key; None if there is none, or it is stale.

    Args:
        store: another store than the user's.
    """
    found = _found(key, store)
    if found is None:
        return None
    described = ast.literal_eval(found.described)
    if not all(map(_is_unchanged, described["files"])):
        return None
    from pegbox.codegen.compiled import compiled_of

    try:
        return KeptProgram(compiled_of(described["program"], found.object_code), described["config"])
    except PegboxError:
        return None


def kept_config(key: CallKey, task: Task) -> Config | None:
    """Find the configuration of the kernel that is kept under a key; None if there is none, or it does not fit."""
    found = _found(key)
    try:
        return None if found is None else task.space.from_json(ast.literal_eval(found.described)["config"])
    except SpaceError:
        return None


def keep_kernel(key: CallKey, implementation: Implementation) -> None:
    """Keep the kernel of an implementation under a key, for later processes.

    Code that calls functions of C or Python is not kept, nor are kernels from the records in effect.
    """
    task, config = implementation.task, implementation.config
    if task is not None and config is not None:
        tuned = implementation.origin == "tuned"
        keep_program(key, implementation.kernel.compiled, task, config, tuned=tuned)


def keep_program(
    key: CallKey,
    compiled: CompiledProgram,
    task: Task,
    config: Config,
    *,
    tuned: bool,
    store: TuningStore | None = None,
) -> None:
    """Keep the code of a configuration under a key, as `keep_kernel` does.

    Args:
        tuned: True if the configuration is the best measured one.
        store: another store than the user's.
    """
    store = _store_for(key, store)
    if store is None or compiled.externs or compiled.foreign:
        return
    paths = task.template.source_files
    files = None if paths is None else _described(paths)
    if files is None:
        return
    from pegbox.codegen.compiled import description_of
    from pegbox.records.record import Record, plain
    from pegbox.store.kernels import KeptCode
    from pegbox.task.code_fingerprint import differ

    def fits(line: str | None) -> bool:
        if line is None:
            return not tuned
        try:
            record = Record.from_line(line)
        except RecordError:  # damaged: the store would not find the record either
            return not tuned
        return plain(config.to_json()) == plain(record.config) or differ(record.code, task.code)

    sources = {"files": files, "config": plain(config.to_json())}
    # The text can be read without `json`, which is slow to import.
    described = repr({"program": description_of(compiled), **sources})
    name = store.key_of(task, processor_of(describe_host()))
    store.kernels.keep(_row_key(key), name, KeptCode(described, compiled.object_code), fits=fits)


def _found(key: CallKey, store: TuningStore | None = None) -> KeptCode | None:
    store = _store_for(key, store)
    return None if store is None else store.kernels.find(_row_key(key))


def _store_for(key: CallKey, store: TuningStore | None) -> TuningStore | None:
    """Return the store for a kernel; None if no kernel may be kept or found."""
    if not key.can_be_kept or in_effect.get() is not None:
        return None
    if store is not None:
        return store
    from pegbox.store.store import user_store  # imported here so that only the first call loads SQLite

    return user_store()


def _row_key(key: CallKey) -> str:
    from pegbox.store.kernels import row_key

    processor = (cpu_model(), *cpu_flags())
    return row_key(*key, processor, *_versions())


@cache
def _versions() -> tuple[str, ...]:
    """Identify the software that makes kernels, without importing it."""
    python = sys.implementation.cache_tag or sys.version
    return python, np.__version__, pegbox.__version__, _state_of_pegbox(), _state_of_llvmlite()


def _state_of_pegbox() -> str:
    """Compute a fingerprint of the sources of pegbox: their names, sizes and times of change.

    Hashing their content takes seven times as long, nearly as long as the rest of a first call.
    """
    lines: list[str] = []
    for package in _PACKAGES:
        spec = find_spec(package)
        pending = list((spec and spec.submodule_search_locations) or ())
        if spec is not None and not pending and spec.origin is not None and os.path.isfile(spec.origin):
            info = os.stat(spec.origin)
            lines.append(f"{spec.origin} {info.st_size} {info.st_mtime_ns}")
        while pending:
            try:
                with os.scandir(pending.pop()) as entries:
                    for entry in entries:
                        if entry.name.endswith(".py"):
                            info = entry.stat()
                            lines.append(f"{entry.path} {info.st_size} {info.st_mtime_ns}")
                        elif entry.name != "__pycache__" and entry.is_dir():
                            pending.append(entry.path)
            except OSError:  # in an archive, whose modification time counts
                pass
    return str(sha256("\n".join(sorted(lines)).encode()).hexdigest())


def _state_of_llvmlite() -> str:
    """Identify the installed llvmlite; empty if there is none."""
    spec = find_spec("llvmlite")
    folder = os.path.dirname((spec and spec.origin) or "")
    try:
        states = [os.stat(os.path.join(folder, name)) for name in ("_version.py", "binding")]
    except OSError:
        return folder
    return " ".join([folder, *(f"{info.st_size} {info.st_mtime_ns}" for info in states)])


def _described(paths: list[str]) -> list[_File] | None:
    """Describe source files; None if one has changed since this process began, which may have read it before."""
    began = _process_began()
    files: list[_File] = []
    for path in paths:
        try:
            info = os.stat(path)
            if max(info.st_mtime, info.st_ctime) > began:  # ctime, too, because an older file may have replaced it
                return None
            files.append([path, _hash(path)])
        except OSError:
            return None
    return files


def _process_began() -> float:
    """Return the time at which this process began; 0 if the system does not tell."""
    try:
        with open("/proc/self/stat", "rb") as file:
            ticks = int(file.read().rpartition(b")")[2].split()[19])
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return 0.0
    return time.time() - age


def _is_unchanged(file: _File) -> bool:
    path, content = file
    try:
        return _hash(path) == content
    except OSError:
        return False


def _hash(path: str) -> str:
    with open(path, "rb") as file:
        return str(sha256(file.read()).hexdigest())
