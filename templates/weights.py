"""`pack_weights`: packs weights for the kernels of a task that takes them packed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pegbox.checks import check_array
from pegbox.errors import ArgumentError
from pegbox.task import GeneratedTemplate

if TYPE_CHECKING:
    import numpy as np

    from pegbox.task import Task
    from pegbox.templates.matmul_arguments import Product

_CONVOLUTIONS = ("conv2d", "conv2d_im2col", "conv2d_winograd", "group_conv2d", "separable_conv2d")
_TEMPLATES = ("batch_matmul", "matmul", "matmul_strassen", *_CONVOLUTIONS)


def pack_weights(task: Task, array: np.ndarray[Any, Any], layout: str = "", *, name: str = "") -> np.ndarray[Any, Any]:
    """Return a copy of the weights in the layout of `task`'s kernels. It begins at a cache line.

    Weights that stay the same over many calls are packed once, not at each call. The layout depends on the template,
    the shape and the target's vectors, not on the configuration: weights packed for a task fit all of its kernels.

    Args:
        task: a task of a built-in template with `weights="packed"`, or of sketches with an input whose layout is free.
        array: the unpacked weights: (K, N) for a matmul, (batch, K, N) for a batch, the filters of a convolution.
        layout: the layout of the filters, "OIHW", "OHWI" or "HWIO"; by default it follows the template's `layout`, or
            is "HWIO" for filters in groups.
        name: the name of the input, if sketches have several with a free layout.

    Raises:
        ArgumentError: the task takes unpacked weights, or the array has the wrong shape or dtype.
        TemplateError: the layout is not one of filters.
    """
    from pegbox.codegen import aligned_copy  # imports NumPy, which is slow to import

    # NumPy's large arrays begin inside a line, so that each vector of 64 bytes would span two.
    return aligned_copy(_packed(task.base, array, layout, name))


def _packed(task: Task, array: np.ndarray[Any, Any], layout: str, name: str) -> np.ndarray[Any, Any]:
    """Arrange weights as `pack_weights` says, in memory of any order."""
    if isinstance(task.template, GeneratedTemplate):
        if layout:
            raise ArgumentError(f"pack_weights: layout={layout!r} is of convolutions; {task!r} has its own")
        return task.template.pack_weights(task.target, task.args, task.kwargs, array, name)
    if name:
        raise ArgumentError(
            f"pack_weights: name={name!r} is an option of sketches; {task!r} has one operand to pack: leave it out"
        )
    if task.name not in _TEMPLATES or task.workload[1].get("weights") != "packed":
        raise ArgumentError(
            f"{task!r} takes its weights as they are; make it with kwargs={{'weights': 'packed'}} "
            f"(templates: {', '.join(_TEMPLATES)}) to pack them ahead"
        )
    if task.name in _CONVOLUTIONS:
        panels = _filters(task, array, layout)
        return _transformed(task, panels) if task.name == "conv2d_winograd" else panels
    if layout:
        raise ArgumentError(f"pack_weights: layout={layout!r}: {task!r} has no filters; leave it out")
    return _sums(task, array) if task.name == "matmul_strassen" else _matrices(task, array)


def packed(task: Task, array: np.ndarray[Any, Any], replaced: Mapping[str, Any]) -> np.ndarray[Any, Any]:
    """Pack weights for operators, of filters in the layout that the task would have them in otherwise."""
    layout = replaced.get("weights", "")
    return pack_weights(task, array, layout if task.base.name in _CONVOLUTIONS else "")


def _matrices(task: Task, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Pack (..., K, N) in panels of one vector, (..., ceil(N / lanes), K, lanes); for a narrow product (..., N, K)."""
    import numpy as np  # slow to import, like `product`: this module comes with the package

    p = _product(task, array)
    if p.is_narrow:
        return np.swapaxes(array, -1, -2)
    padded = np.zeros((*p.lead, p.k, p.vectors * p.lanes), array.dtype)
    padded[..., : p.n] = array
    panels = padded.reshape(*p.lead, p.k, p.vectors, p.lanes)
    return np.swapaxes(panels, -2, -3)


def _sums(task: Task, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Compute sums of quarters of (K, N), (7, ceil(N / 2 lanes), ceil(K / 2) + 1, lanes), in float64.

    Columns are divided by powers of two near their magnitudes. The first two sums have these powers behind the last k.
    """
    import numpy as np

    from pegbox.templates.strassen_shape import RIGHT, Strassen

    p = _product(task, array)
    h = Strassen(p)
    _, exponents = np.frexp(np.abs(array).max(axis=0))
    scales = np.ldexp(1.0, exponents - 1)
    padded = np.zeros((2 * h.k, 2 * h.vectors * p.lanes))
    padded[: p.k, : p.n] = array / scales
    quarters = padded.reshape(2, h.k, h.vectors, 2, p.lanes).transpose(0, 3, 2, 1, 4)  # [half of k][second][v][k][lane]
    out = np.zeros(h.weight_shape, array.dtype)
    out[:, :, :-1] = np.tensordot(np.array(RIGHT, np.float64), quarters.reshape(4, *quarters.shape[2:]), axes=1)
    behind = np.zeros(2 * h.vectors * p.lanes)
    behind[: p.n] = np.where(array.any(axis=0), scales, 0)
    out[:2, :, -1] = behind.reshape(h.vectors, 2, p.lanes).swapaxes(0, 1)
    return out


def _product(task: Task, array: np.ndarray[Any, Any]) -> Product:
    """Return the product that a task computes, if the array is its second operand."""
    from pegbox.templates.matmul_arguments import Product

    sizes = task.workload[1]
    lead = (sizes["batch"],) if "batch" in sizes else ()
    p = Product(lead, sizes["M"], sizes["K"], sizes["N"], sizes["dtype"], True, task.target)
    check_array(_wanted(task), array, (*lead, p.k, p.n), p.dtype)
    return p


def _filters(task: Task, array: np.ndarray[Any, Any], layout: str) -> np.ndarray[Any, Any]:
    """Filters in panels of one vector of output channels, (ceil(O / lanes), KH, KW, C, lanes), the last with zeros.

    C are the channels that an output is a sum over, those of a group.
    """
    import numpy as np

    from pegbox.templates.conv_shape import USUAL_WEIGHTS, WEIGHT_LAYOUTS, check_layout, conv_of, group_outputs

    conv, groups = conv_of(task), task.workload[1].get("groups", 0)
    if task.name == "separable_conv2d":
        conv = replace(conv, kernel=(1, 1))  # its other filters are used unpacked
    outputs = group_outputs(conv, groups) if groups else conv.o
    conv = replace(conv, c=conv.c // max(groups, 1))
    vectors, *inside, lanes = replace(conv, o=max(groups, 1) * outputs).weight_shape
    layout = layout or ("HWIO" if groups else USUAL_WEIGHTS[conv.layout])
    check_layout("layout of the array", layout, WEIGHT_LAYOUTS)
    check_array(_wanted(task), array, replace(conv, weights=layout).weight_shape, conv.dtype)
    padded = np.zeros((*inside, vectors * lanes), array.dtype)
    of_groups = padded[..., : max(groups, 1) * outputs].reshape(*inside, -1, outputs)
    filters = array.transpose(*(layout.index(letter) for letter in "HWIO"))
    of_groups[..., : conv.o // max(groups, 1)] = filters.reshape(*inside, of_groups.shape[-2], -1)
    return np.moveaxis(padded.reshape(*inside, vectors, lanes), -2, 0)


def _transformed(task: Task, panels: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Transform packed filters for tiles of the task's m, (n, n, ceil(O / lanes), C, lanes), computed in float64."""
    import numpy as np

    from pegbox.templates.winograd_shape import winograd_of

    matrix = np.array(winograd_of(task).transforms.filters, np.float64)
    half = np.tensordot(matrix, panels.astype(np.float64), axes=(1, 1))  # [row of the tile][vector][column][c][lane]
    whole = np.tensordot(matrix, half, axes=(1, 2))
    return np.swapaxes(whole, 0, 1).astype(panels.dtype)


def _wanted(task: Task) -> str:
    return f"pack_weights({task.name}): the weights are"
