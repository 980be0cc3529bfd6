"""Packed forms: templates whose kernels take an input in the layout that they read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import numpy as np

    from pegbox.task.task import Task
    from pegbox.task.template import Template

Pack: TypeAlias = "Callable[[Task, np.ndarray[Any, Any], Mapping[str, Any]], np.ndarray[Any, Any]]"
"""A function that packs an array for the kernels of a task.

It takes the task in its packed form, the array as the template otherwise takes it, and the arguments that the packed
form replaced, such as {"weights": "HWIO"}. The layout depends on the task alone, not on a configuration: the result
fits all of the task's kernels.
"""


@dataclass(frozen=True)
class PackedForm:
    """A form of a template whose kernels take an input packed.

    Attributes:
        template: the template in that form, possibly the same one.
        given: the arguments that choose the form.
        pack: makes the packed array.
    """

    template: Template
    given: Mapping[str, Any]
    pack: Pack
