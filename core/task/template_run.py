"""A run of a template: `run_template`, and the checks of its result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pegbox.compute.subscripts import check_subscripts
from pegbox.compute.tensor import Tensor, TensorBuffer
from pegbox.errors import ComputeError, PegboxError, ScheduleError, TemplateError
from pegbox.origin import definition_of, explained, located
from pegbox.schedule.schedule import Schedule
from pegbox.schedule.te.replay import check_arguments
from pegbox.schedule.te.schedule import TESchedule
from pegbox.task.config_view import TemplateConfig
from pegbox.task.template import Template


def run_template(
    template: Template, cfg: TemplateConfig, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[TESchedule | Schedule, tuple[Tensor, ...]]:
    """Run a template, and return its schedule with the arguments of its kernel.

    Raises:
        TemplateError: the template raises an error of Python, or returns something else.
        PegboxError: the template raises an error of pegbox, such as `InvalidConfig`.
    """
    try:
        made = template(cfg, *args, **kwargs)
    except (Exception, SystemExit) as error:  # sys.exit() in a template ends this run, not the search
        if template.remedy and type(cfg).__name__ in str(error):  # such as a shape that contains cfg
            raise template.without_cfg() from error
        if isinstance(error, PegboxError):
            located(error)
            raise
        raised = TemplateError(
            f"template {template.name} with {template.bind(args, kwargs)} raised {explained(error)}{template.remedy}"
        )
        raise located(raised, error) from error
    if isinstance(made, Schedule):
        made = (made, [b.tensor if isinstance(b, TensorBuffer) else b for b in made.func.params])
    if not (
        isinstance(made, tuple)
        and len(made) == 2
        and isinstance(made[0], TESchedule | Schedule)
        and isinstance(made[1], Sequence)
    ):
        raise _malformed(template, f" returned {made!r}; {template.returns}")
    tensors = tuple(made[1])
    for tensor in tensors:
        if not isinstance(tensor, Tensor):
            raise _malformed(template, f": argument {tensor!r} is not a tensor")
    if isinstance(made[0], Schedule) and made[0].func.params != tuple(t.buffer for t in tensors):
        raise _malformed(
            template,
            f" returned the arguments {[t.name for t in tensors]}, but its schedule's are "
            f"{[b.name for b in made[0].func.params]}, in this order; return the schedule alone",
        )
    return made[0], tensors


def check_result(template: Template, made: TESchedule | Schedule, tensors: Sequence[Tensor]) -> None:
    """Check a template's tensors once, instead of in each trial.

    Raises `TemplateError` if a tensor is missing from the arguments, and `ComputeError` if the computation reads beyond
    one.
    """
    try:
        check_subscripts([t.op for t in tensors])
    except ComputeError as error:
        error.source = error.source or definition_of(template.function)
        raise
    if isinstance(made, Schedule):
        return  # a tir.Schedule has its own arguments
    try:
        check_arguments(made, tensors)
    except ScheduleError as error:
        raise _malformed(template, f" returned a schedule with arguments that don't fit it: {error}") from error


def _malformed(template: Template, why: str) -> TemplateError:
    """Return the error for a template's result, with the place of its definition."""
    error = TemplateError(f"template {template.name}{why}")
    error.source = definition_of(template.function)
    return error
