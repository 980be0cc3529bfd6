"""Filters of convolutions in the layout of `weights="packed"`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pegbox.templates.conv_shape import USUAL_WEIGHTS, WEIGHT_LAYOUTS, Window, check_layout, conv_shape
from pegbox.templates.conv_tiles import packed_shape
from pegbox.templates.weights import check_weights

if TYPE_CHECKING:
    from pegbox.task.task import Task


def pack_weights(task: Task, array: np.ndarray[Any, Any], layout: str = "") -> np.ndarray[Any, Any]:
    """Filters in panels of one vector of output channels, (ceil(O / lanes), KH, KW, C, lanes), zeros beyond the last.

    Raises:
        ArgumentError: another shape or dtype.
        TemplateError: no layout of weights.
    """
    a = task.workload[1]
    layout = layout or USUAL_WEIGHTS[a["layout"]]
    check_layout("layout of the array", layout, WEIGHT_LAYOUTS)
    data, filters = (a["N"], a["C"], a["H"], a["W"]), (a["O"], a["KH"], a["KW"])
    conv = conv_shape(data, filters, Window(a["stride"], a["padding"], a["dilation"]), a["layout"], layout, a["dtype"])
    check_weights(task, array, conv.weight_shape, conv.dtype)
    vectors, *inside, lanes = packed_shape(replace(conv, weights=layout), task.target)
    padded = np.zeros((*inside, vectors * lanes), array.dtype)
    padded[..., : conv.o] = array.transpose(*(layout.index(letter) for letter in "HWIO"))
    return np.ascontiguousarray(np.moveaxis(padded.reshape(*inside, vectors, lanes), -2, 0))
