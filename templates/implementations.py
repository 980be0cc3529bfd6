"""Implementations of operators: other algorithms (Winograd's, im2col, Strassen's), and the spaces of generators."""

from __future__ import annotations

import math
from functools import partial

from pegbox.errors import TemplateError
from pegbox.task import Task, create_task
from pegbox.templates.bilinear_products import BilinearProducts
from pegbox.templates.conv_choices import PIXELS
from pegbox.templates.conv_shape import HALVES_OF_WIDE, PACKED, Conv, conv_of
from pegbox.templates.conv_space import lane_dimensions
from pegbox.templates.cook_toom import error_estimate
from pegbox.templates.matmul_arguments import Product
from pegbox.templates.strassen_shape import Strassen
from pegbox.templates.winograd_shape import WORST, winograd_of

rows = partial(Task.with_space, space="rows")
transposition = partial(Task.with_space, space="transposition")
windows = partial(Task.with_space, space="windows")

_HOPELESS = 1.3
"""The largest ratio of the estimated cycles to those of the direct sum; both estimates may be off by some 10%."""
_HOPELESS_SUMS = 1.2
"""The same for Strassen's algorithm, whose estimate and that of the direct sum have the same errors."""
_FLOP_PER_LANE = 4
"""The operations of a lane in a cycle: two multiply-adds."""
_COPY, _IMAGE, _STORE = 5, 18, 4
"""The measured times of copying a vector, in multiply-adds: of columns; of the image, transposed and with its border;
of results, transposed back."""


def conv2d_winograd(task: Task, *, m: int = 0) -> Task | None:
    """Make the task of a Winograd convolution; with `m`, that of tiles of m × m outputs, for packed weights alone.

    Raises:
        TemplateError: other strides or filters, tiles with large errors, or a direct sum with fewer cycles, as for few
            channels.
    """
    arguments = task.workload[1]
    if task.name != "conv2d" or (m and arguments["weights"] != PACKED):
        return None
    made = create_task("conv2d_winograd", kwargs={**arguments, "m": m}, target=task.target)
    if m and (error := error_estimate(m, arguments["KH"], arguments["dtype"])) > WORST:
        raise TemplateError(f"m={m}: its errors are about {error:.1g} of the outputs; give a smaller m, or float64")
    w = winograd_of(made)
    direct = w.conv.flop / (_FLOP_PER_LANE * w.conv.lanes)
    if w.cycles > _HOPELESS * direct:
        raise TemplateError(f"about {w.cycles:,.0f} cycles, where the direct sum takes {direct:,.0f} at least")
    return made


conv2d_winograd_2 = partial(conv2d_winograd, m=2)
conv2d_winograd_3 = partial(conv2d_winograd, m=3)
conv2d_winograd_4 = partial(conv2d_winograd, m=4)
conv2d_winograd_6 = partial(conv2d_winograd, m=6)


def conv2d_im2col(task: Task) -> Task | None:
    """Make the task of a product with columns, where channels are last and do not fill vectors.

    Raises:
        TemplateError: the direct sum has vectors along pixels, too, or takes no longer with vectors of channels.
    """
    if task.name != "conv2d":
        return None
    made = create_task("conv2d_im2col", kwargs=task.workload[1], target=task.target)
    conv = conv_of(made)
    unused = conv.vectors * conv.lanes - conv.lanes_used
    lanes = conv.lanes_used + (HALVES_OF_WIDE - 1) * unused
    direct = lanes * conv.inside(0) * conv.inside(1)
    if PIXELS in lane_dimensions(conv):
        raise TemplateError("conv2d has vectors along pixels here, too, and copies less; use it")
    copies = _copies(conv)
    if conv.o + copies > direct:
        raise TemplateError(
            f"a vector of pixels takes {conv.o} multiply-adds and copies that are as long as {copies:.0f}, where "
            f"vectors of channels take {direct:.0f}; use conv2d"
        )
    return made


def _copies(conv: Conv) -> float:
    """Estimate the time of the copies for a vector of columns, in multiply-adds.

    An element of the image is copied once for all windows that have it.
    """
    window = math.prod(conv.kernel)
    return _COPY + _IMAGE * math.prod(conv.stride) / window + _STORE * conv.o / (conv.c * window)


def matmul_strassen(task: Task) -> Task | None:
    """Make the task of a product by Strassen's algorithm.

    Raises:
        TemplateError: another type, an accuracy below its errors, or a direct sum with far fewer cycles, as for few
            rows, whose time is that of reading the weights.
    """
    if task.name != "matmul":
        return None
    made = create_task("matmul_strassen", kwargs=task.workload[1], target=task.target)
    m, k, n, dtype, weights = (task.workload[1][name] for name in ("M", "K", "N", "dtype", "weights"))
    p = Product((), m, k, n, dtype, weights == "packed", task.target)
    cycles = Strassen(p).cycles
    whole = BilinearProducts(1, m, k, p.vectors, p.lanes, dtype, p.target)
    direct = max(whole.cycles, whole.weight_cycles)
    if cycles > _HOPELESS_SUMS * direct:
        raise TemplateError(f"about {cycles:,.0f} cycles, where the direct sum takes {direct:,.0f}")
    return made
