"""Stages that all convolutions share: the padded input, and the loops of the reduction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import pegbox as pb
from pegbox import te
from pegbox.compute import AHEAD
from pegbox.compute import padded as with_border
from pegbox.templates import threads
from pegbox.templates.conv_choices import BLOCK, FILTER_INSIDE, KH_KW, KW, NO_LOOP
from pegbox.templates.conv_shape import PACKED, Conv

Place: TypeAlias = tuple[te.Stage, te.IterVar]
"""A stage, and one of its loops, at which another stage is computed."""


@dataclass(frozen=True)
class ConvStages:
    """The result, the sums that it is stored from, and the copies of the input and of the weights, if any.

    Attributes:
        turned: the input with its channels before its pixels, from which the copy is made; None if it has this order.
        ahead: weights that were packed ahead.
    """

    out: te.Tensor
    sums: te.Tensor
    copied: te.Tensor | None
    packed: te.Tensor | None
    turned: te.Tensor | None = None
    ahead: te.Tensor | None = None


def plain(conv: Conv, data: te.Tensor, weight: te.Tensor) -> te.Tensor:
    """Return the result without the layouts of a schedule."""
    if conv.weights == PACKED:
        return plain(replace(conv, weights="OIHW"), data, unpacked(conv, weight))
    border = with_border(data, conv.at(0, 0, *conv.padding), conv.at(0, 0, *conv.padding_after))
    _, kh, kw, c = reduction_axes(conv, conv.c)

    def element(*index: te.Expr) -> te.Expr:
        n, o, y, x = conv.named(index)
        (sy, sx), (dy, dx) = conv.stride, conv.dilation
        pixel = border(*conv.at(n, c, y * sy + kh * dy, x * sx + kw * dx))
        return te.sum(pixel * weight(*conv.weight_at(o, c, kh, kw)), axis=[c, kh, kw])

    return te.compute(conv.out_shape, element, name="C")


def unpacked(conv: Conv, weight: te.Tensor) -> te.Tensor:
    """Return packed filters as OIHW, made ahead of time."""
    lanes, inner, ahead = conv.lanes, weight.shape[3], {AHEAD: True}
    whole = te.compute(
        (conv.vectors * lanes, inner, *conv.kernel),
        lambda o, c, y, x: weight(o // lanes, y, x, c, o % lanes),
        name="weight_padded",
        attrs=ahead,
    )
    return te.compute((conv.o, inner, *conv.kernel), lambda *at: whole(*at), name="weight", attrs=ahead)


def plain_depthwise(conv: Conv, data: te.Tensor, weight: te.Tensor) -> te.Tensor:
    """Return the result of a depthwise convolution, without the layouts of a schedule."""
    border = with_border(data, conv.at(0, 0, *conv.padding), conv.at(0, 0, *conv.padding_after))
    kh, kw = (te.reduce_axis((0, size), name=name) for size, name in zip(conv.kernel, ("kh", "kw"), strict=True))
    (sy, sx), (dy, dx) = conv.stride, conv.dilation

    def element(*index: te.Expr) -> te.Expr:
        n, c, y, x = conv.named(index)
        pixel = border(*conv.at(n, c, y * sy + kh * dy, x * sx + kw * dx))
        return te.sum(pixel * weight(*conv.weight_at(c, te.const(0, "int64"), kh, kw)), axis=[kh, kw])

    return te.compute(conv.out_shape, element, name="C")


def padded(conv: Conv, data: te.Tensor, last: Sequence[int], n: te.Expr, c: te.Expr, y: te.Expr, x: te.Expr) -> te.Expr:
    """Return an element of the input by its place in the padded one, up to the row and column `last`."""
    tests: list[te.Expr] = []
    for at, pad, size, end in zip((y, x), conv.padding, conv.size, last, strict=True):
        tests += [at >= pad] if pad else []
        tests += [at < pad + size] if end >= pad + size else []
    value = data(*conv.at(n, c, y - conv.padding[0], x - conv.padding[1]))
    return te.if_then_else(te.all(*tests), value, te.const(0, conv.dtype)) if tests else value


def inside(conv: Conv, axis: int, at: te.Expr) -> list[te.Expr]:
    """Return the tests that a row (axis 0) or column (1) needs to be one of the image."""
    before, after = conv.padding[axis], conv.padding_after[axis]
    return [at >= 0] * (before > 0) + [at < conv.size[axis]] * (after > 0)


def reduction_axes(conv: Conv, block: int) -> tuple[te.IterVar, ...]:
    """Make the axes over blocks of input channels, rows and columns of the filter, and the channels of a block."""
    kh, kw = conv.kernel
    extents = {"co": conv.c // block, "ci": block, "kh": kh, "kw": kw}
    co, ci, y, x = (te.reduce_axis((0, extent), name=name) for name, extent in extents.items())
    return co, y, x, ci


def reduction_loops(cfg: pb.TemplateConfig, stage: te.Stage) -> tuple[list[te.IterVar], list[te.IterVar]]:
    """Return the loops of a stage's reduction in their order, and the loops that are unrolled."""
    co, kh, kw, ci = stage.op.reduce_axis
    if cfg["inner"].val == FILTER_INSIDE:
        unrolled: dict[str, list[te.IterVar]] = {NO_LOOP: [], KW: [kw], KH_KW: [kh, kw]}
        return [co, ci, kh, kw], unrolled[cfg["unroll_k"].val]
    outer, inner = stage.split(ci, factor=cfg["unroll_c"].val)
    return [co, kh, kw, outer, inner], [inner]


def place_copy(cfg: pb.TemplateConfig, stage: te.Stage, where: str, block: Place, shared: Sequence[te.IterVar]) -> None:
    """Make the copy that each block needs at its loop, or the whole copy beforehand, in loops that threads share."""
    if where == BLOCK:
        stage.compute_at(*block)
    else:
        threads.share(cfg, stage, stage.fuse(*shared) if len(shared) > 1 else shared[0])
