"""Convolutions of two dimensions, by the layouts of their data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from pegbox import te
from pegbox.errors import ComputeError
from pegbox.plugins.tvm.topi.nn.border import dilate, get_pad_tuple, pad, pair
from pegbox.plugins.tvm.topi.transform import flip, transpose

Pair: TypeAlias = "int | Sequence[int]"
Padding: TypeAlias = "int | str | Sequence[int]"


def conv2d(
    input: te.Tensor,
    filter: te.Tensor,
    strides: Pair,
    padding: Padding,
    dilation: Pair,
    data_layout: str = "NCHW",
    kernel_layout: str = "",
    out_dtype: str | None = None,
) -> te.Tensor:
    """A convolution by the name of its layout: NCHW with filters OIHW, NHWC and HWCN with HWIO."""
    known = {"NCHW": (conv2d_nchw, "OIHW"), "NHWC": (conv2d_nhwc, "HWIO"), "HWCN": (conv2d_hwcn, "HWIO")}
    if data_layout not in known or kernel_layout not in ("", known[data_layout][1]):
        raise ComputeError(f"conv2d of {data_layout}, {kernel_layout}: there are {', '.join(known)}")
    return known[data_layout][0](input, filter, strides, padding, dilation, out_dtype)


def conv2d_nchw(
    Input: te.Tensor, Filter: te.Tensor, stride: Pair, padding: Padding, dilation: Pair, out_dtype: str | None = None
) -> te.Tensor:
    """Input[n, c, y, x] with Filter[o, c, ky, kx]"""
    return _convolution(Input, Filter, "NCHW", "OIHW", stride, padding, dilation, out_dtype)


def conv2d_nhwc(
    Input: te.Tensor, Filter: te.Tensor, stride: Pair, padding: Padding, dilation: Pair, out_dtype: str | None = None
) -> te.Tensor:
    """Input[n, y, x, c] with Filter[ky, kx, c, o]"""
    return _convolution(Input, Filter, "NHWC", "HWIO", stride, padding, dilation, out_dtype)


def conv2d_hwcn(
    Input: te.Tensor, Filter: te.Tensor, stride: Pair, padding: Padding, dilation: Pair, out_dtype: str | None = None
) -> te.Tensor:
    """Input[y, x, c, n] with Filter[ky, kx, c, o]"""
    return _convolution(Input, Filter, "HWCN", "HWIO", stride, padding, dilation, out_dtype)


def group_conv2d_nchw(
    Input: te.Tensor, Filter: te.Tensor, stride: Pair, padding: Padding, dilation: Pair, groups: int,
    out_dtype: str | None = None,
) -> te.Tensor:  # fmt: skip
    """Input[n, c, y, x] with Filter[o, c / groups, ky, kx]"""
    return _convolution(Input, Filter, "NCHW", "OIHW", stride, padding, dilation, out_dtype, groups)


def conv2d_transpose_nchw(
    Input: te.Tensor, Filter: te.Tensor, strides: Pair, padding: Padding, out_dtype: str | None = None,
    output_padding: Pair = 0,
) -> te.Tensor:  # fmt: skip
    """The gradient of a convolution: Input[n, c, y, x] with Filter[c, o, ky, kx]"""
    rows, columns = Filter.shape[2:]
    top, left, bottom, right = get_pad_tuple(padding, (rows, columns))
    more_rows, more_columns = pair(output_padding)
    apart = dilate(Input, (1, 1, *pair(strides)))
    border = (rows - 1 - top, columns - 1 - left, rows - 1 - bottom + more_rows, columns - 1 - right + more_columns)
    turned = transpose(flip(flip(Filter, 2), 3), (1, 0, 2, 3))
    return conv2d_nchw(apart, turned, 1, border, 1, out_dtype)


def depthwise_conv2d_nchw(
    Input: te.Tensor, Filter: te.Tensor, stride: Pair, padding: Padding, dilation: Pair, out_dtype: str | None = None
) -> te.Tensor:
    """Input[n, c, y, x] with Filter[c, multiplier, ky, kx]: each channel has filters of its own"""
    return _depthwise(Input, Filter, "NCHW", "CMHW", stride, padding, dilation, out_dtype)


def depthwise_conv2d_nhwc(
    Input: te.Tensor, Filter: te.Tensor, stride: Pair, padding: Padding, dilation: Pair, out_dtype: str | None = None
) -> te.Tensor:
    """Input[n, y, x, c] with Filter[ky, kx, c, multiplier]: each channel has filters of its own"""
    return _depthwise(Input, Filter, "NHWC", "HWCM", stride, padding, dilation, out_dtype)


Place: TypeAlias = "Mapping[str, te.Expr]"
"""Indices by the letters of their axes."""


def _convolution(
    data: te.Tensor, filters: te.Tensor, layout: str, filter_layout: str, stride: Pair, padding: Padding,
    dilation: Pair, out_dtype: str | None, groups: int = 1,
) -> te.Tensor:  # fmt: skip
    size = dict(zip(filter_layout, filters.shape, strict=True))
    channels = data.shape[layout.index("C")]
    if channels != size["I"] * groups or size["O"] % groups:
        raise ComputeError(
            f"conv2d: {data!r} has {channels} channels, {filters!r} takes {size['I']} in each of {groups} group(s)"
        )
    rc = te.reduce_axis((0, size["I"]), name="rc")

    def channel(out: te.Expr) -> te.Expr:
        return rc if groups == 1 else out // (size["O"] // groups) * size["I"] + rc

    def weight(out: te.Expr) -> Place:
        return {"O": out, "I": rc}

    window = _Window(data, filters, layout, filter_layout, stride, padding, dilation)
    return window.sum(size["O"], [rc], channel, weight, out_dtype, f"conv2d_{layout.lower()}")


def _depthwise(
    data: te.Tensor, filters: te.Tensor, layout: str, filter_layout: str, stride: Pair, padding: Padding,
    dilation: Pair, out_dtype: str | None,
) -> te.Tensor:  # fmt: skip
    size = dict(zip(filter_layout, filters.shape, strict=True))
    if data.shape[layout.index("C")] != size["C"]:
        raise ComputeError(f"depthwise_conv2d: {data!r} and {filters!r} have different channels")
    many = size["M"]

    def weight(out: te.Expr) -> Place:
        return {"C": out // many, "M": out % many}

    window = _Window(data, filters, layout, filter_layout, stride, padding, dilation)
    name = f"depthwise_conv2d_{layout.lower()}"
    return window.sum(size["C"] * many, [], lambda out: out // many, weight, out_dtype, name)


class _Window:
    """A filter that moves over padded data; axes go by the letters of the layouts."""

    def __init__(
        self, data: te.Tensor, filters: te.Tensor, layout: str, filter_layout: str, stride: Pair, padding: Padding,
        dilation: Pair,
    ) -> None:  # fmt: skip
        self.filters, self.layout, self.filter_layout = filters, layout, filter_layout
        self.stride, self.dilation = pair(stride), pair(dilation)
        self.kernel = [filters.shape[filter_layout.index(letter)] for letter in "HW"]
        reach = [(k - 1) * d + 1 for k, d in zip(self.kernel, self.dilation, strict=True)]
        top, left, bottom, right = get_pad_tuple(padding, reach)
        before, after = ([{"H": y, "W": x}.get(c, 0) for c in layout] for y, x in ((top, left), (bottom, right)))
        self.padded = pad(data, before, after, name="pad_temp") if any([*before, *after]) else data
        self.extents = dict(zip(layout, self.padded.shape, strict=True))
        for letter, span, step in zip("HW", reach, self.stride, strict=True):
            self.extents[letter] = (self.extents[letter] - span) // step + 1

    def sum(
        self, channels: int, axes: Sequence[te.IterVar], channel: Callable[[te.Expr], te.Expr],
        weight: Callable[[te.Expr], Place], out_dtype: str | None, name: str,
    ) -> te.Tensor:  # fmt: skip
        """The sum over the window and `axes`.

        Args:
            channel: the channel of the data that goes with an output channel.
            weight: the place in the filter that does, but for rows and columns.
        """
        ry, rx = (te.reduce_axis((0, k), name=n) for k, n in zip(self.kernel, ("ry", "rx"), strict=True))
        dtype = out_dtype or self.padded.dtype

        def element(*indices: te.Expr) -> te.Expr:
            at = dict(zip(self.layout, indices, strict=True))
            inside = {**at, "C": channel(at["C"])}
            for letter, s, r, d in zip("HW", self.stride, (ry, rx), self.dilation, strict=True):
                inside[letter] = at[letter] * s + r * d
            there = {**weight(at["C"]), "H": ry, "W": rx}
            value = self.padded(*(inside[letter] for letter in self.layout))
            factor = self.filters(*(there[letter] for letter in self.filter_layout))
            return te.sum(te.cast(dtype, value) * te.cast(dtype, factor), axis=[*axes, ry, rx])

        extents = {**self.extents, "C": channels}
        made = te.compute(tuple(extents[letter] for letter in self.layout), element, name=name, tag=name)
        return made
