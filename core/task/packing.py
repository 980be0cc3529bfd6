"""Packed forms: templates whose kernels take an input in the layout in which they read it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import numpy as np

    from pegbox.task.task import Task
    from pegbox.task.template import Template

Pack: TypeAlias = "Callable[[Task, np.ndarray[Any, Any], Mapping[str, Any]], np.ndarray[Any, Any]]"
"""Packs an array for the kernels of a task.

It gets the task, which is of the packed form; the array as the template takes it otherwise; and the arguments that the
packed form replaced, such as {"weights": "HWIO"}. The layout follows from the task alone, not from a configuration: the
result fits all of the task's kernels.
"""


@dataclass(frozen=True)
class PackedForm:
    """A form of a template whose kernels take an input packed.

    Attributes:
        template: the template of that form, which may be the same.
        given: the arguments that choose the form.
        pack: makes the packed array.
    """

    template: Template
    given: Mapping[str, Any]
    pack: Pack
