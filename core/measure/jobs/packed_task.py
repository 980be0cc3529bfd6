"""A task as bytes, for the processes that lower it."""

from __future__ import annotations

import functools
import io
import marshal
import pickle
from types import CodeType
from typing import Any

import cloudpickle

from pegbox.errors import MeasureError
from pegbox.hooks.sources import Sources
from pegbox.space.constraint import Constraint
from pegbox.task.function import NamedFunction
from pegbox.task.task import Task


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """A pickler that includes the code of templates and constraints if it is in no importable module."""

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, NamedFunction) and _is_local(value.function):
            return type(value), (value.name, value.function)
        if isinstance(value, CodeType):  # cloudpickle leaves out the name of its file, which errors show
            return marshal.loads, (marshal.dumps(value),)
        if isinstance(value, Constraint):
            return Constraint, (value.predicate, value.reads, value.message)
        return super().reducer_override(value)


def _is_local(function: Any) -> bool:
    return function.__module__ == "__main__" or "<" in getattr(function, "__qualname__", "")


def dumps(value: object) -> bytes:
    """Pickle a value, with the code that no other process can import."""
    file = io.BytesIO()
    _Pickler(file, protocol=pickle.HIGHEST_PROTOCOL).dump(value)
    return file.getvalue()


def pack_task(task: Task) -> bytes | None:
    """Pickle a task with the user's modules; None if it cannot leave this process."""
    if not isinstance(task, Task):  # such as a test's own class
        return None
    try:
        made = dumps((task.template, task.args, task.kwargs, task.target.explicit, task.given_accuracy))
        return pickle.dumps((Sources.own(), made, task.space.fingerprint))
    except Exception:
        return None


@functools.lru_cache(maxsize=2)
def unpack_task(packed: bytes) -> Task:
    """Unpack the task of `pack_task` in this process. Raises any error of its modules."""
    sources, made, fingerprint = pickle.loads(packed)
    sources.install()
    template, args, kwargs, target, accuracy = pickle.loads(made)
    task = Task(template, args, kwargs, target, accuracy=accuracy)
    if task.space.fingerprint != fingerprint:
        raise MeasureError(f"{task!r} has another space in the process that compiles")
    return task
