"""The implementation `sketch` of any operator: a task whose space is generated from the operator's computation."""

from __future__ import annotations

from pegbox.task import GeneratedTemplate, Task, create_task


def sketch(task: Task) -> Task:
    """Make the task whose space is derived from what a task computes, without the schedule of its template.

    Raises:
        TemplateError: there are no sketches of the computation.
    """
    if isinstance(task.template, GeneratedTemplate):
        return create_task(task.template.workload, task.args, task.kwargs, space="sketch", target=task.target)
    return create_task(task.plain_tensors, space="sketch", target=task.target)
