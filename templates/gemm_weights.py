"""Matrices B in the layout of `weights="packed"`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pegbox.templates.product import Product
from pegbox.templates.weights import check_weights

if TYPE_CHECKING:
    from pegbox.task.task import Task


def pack_weights(task: Task, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """(..., K, N) in panels of one vector, (..., ceil(N / lanes), K, lanes); of a narrow product (..., N, K).

    Raises:
        ArgumentError: another shape or dtype.
    """
    sizes = task.workload[1]
    lead = (sizes["batch"],) if "batch" in sizes else ()
    p = Product(lead, sizes["M"], sizes["K"], sizes["N"], sizes["dtype"], True, task.target)
    check_weights(task, array, (*lead, p.k, p.n), p.dtype)
    if p.is_narrow:
        return np.ascontiguousarray(np.swapaxes(array, -1, -2))
    padded = np.zeros((*lead, p.k, p.vectors * p.lanes), array.dtype)
    padded[..., : p.n] = array
    panels = padded.reshape(*lead, p.k, p.vectors, p.lanes)
    return np.ascontiguousarray(np.swapaxes(panels, -2, -3))
