"""The implementation `sketch` of any operator: a task whose space is generated from the operator's computation."""

from __future__ import annotations

from pegbox.task import Task


def sketch(task: Task) -> Task:
    """Make the task with a space derived from a task's computation, without its template's schedule.

    Raises:
        TemplateError: there are no sketches of the computation.
    """
    return task.with_space("sketch")
