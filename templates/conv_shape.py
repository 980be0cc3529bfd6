"""`Conv`: the sizes, layouts and indices of a convolution's arguments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar

from pegbox.codegen import Target, lanes_of
from pegbox.errors import TemplateError
from pegbox.templates.array_size import check_array_sizes
from pegbox.templates.register_tile import computed_extent

if TYPE_CHECKING:
    from pegbox.task import Task

T = TypeVar("T")

DATA_LAYOUTS = ("NCHW", "NHWC")
WEIGHT_LAYOUTS = ("OIHW", "OHWI", "HWIO")
PACKED = "packed"
USUAL_WEIGHTS = {"NCHW": "OIHW", "NHWC": "OHWI"}


HALVES_OF_WIDE = 1.08
"""The time for both halves of a wide vector, relative to the whole.

Half of a narrower one takes as long as the whole.
"""

Steps: TypeAlias = int | Sequence[int]
"""A number, or a pair (rows, columns); for zeros around the input, also (top, left, bottom, right)."""


class Window(NamedTuple):
    """The steps of the filter over the input, as the template's arguments give them."""

    stride: Steps = 1
    padding: Steps = 0
    dilation: Steps = 1


@dataclass(frozen=True)
class Conv:
    """A convolution and its target; pairs are (rows, columns).

    Attributes:
        padding, padding_after: the numbers of zeros before and after the rows and columns of the input.
        are_columns: True if the input consists of the columns of another convolution, pixel by pixel.
    """

    n: int
    c: int
    size: tuple[int, int]
    o: int
    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]
    padding_after: tuple[int, int]
    dilation: tuple[int, int]
    layout: str
    weights: str
    dtype: str
    target: Target
    are_columns: bool = False

    @property
    def lanes(self) -> int:
        """The number of elements in a vector."""
        return lanes_of(self.target, self.dtype)

    @property
    def vectors(self) -> int:
        """The number of vectors of output channels; the last one may not be full."""
        return -(-self.o // self.lanes)

    @property
    def lanes_used(self) -> int:
        """The number of lanes of these vectors that are computed: the last vector may be half of a wide one."""
        return computed_extent(self.target, self.lanes, self.o)

    @property
    def padded(self) -> tuple[int, int]:
        """The rows and columns of the input with its border of zeros."""
        y, x = map(sum, zip(self.padding, self.size, self.padding_after, strict=True))
        return y, x

    @property
    def is_padded(self) -> bool:
        """True if there are zeros around the input."""
        return self.padded != self.size

    @property
    def reach(self) -> tuple[int, int]:
        """The distance from the first element of a window to its last."""
        return (self.kernel[0] - 1) * self.dilation[0], (self.kernel[1] - 1) * self.dilation[1]

    @property
    def out(self) -> tuple[int, int]:
        """The rows and columns of the result."""
        y, x = ((p - r - 1) // s + 1 for p, r, s in zip(self.padded, self.reach, self.stride, strict=True))
        return y, x

    @property
    def flat(self) -> bool:
        """True for a matrix product on the image as one line of pixels, regardless of rows."""
        return self.kernel == (1, 1) and self.stride == (1, 1) and not self.is_padded

    @property
    def pixels(self) -> tuple[int, int]:
        """The rows and columns of the result for tiles: all pixels are in one row if it is `flat`."""
        return (1, self.out[0] * self.out[1]) if self.flat else self.out

    @property
    def steps(self) -> tuple[int, int]:
        """The distance between elements for neighbouring results, in a copy of the input without unused elements."""
        y, x = (1 if k == 1 else s for k, s in zip(self.kernel, self.stride, strict=True))
        return y, x

    @property
    def flop(self) -> float:
        return 2.0 * self.n * self.o * self.out[0] * self.out[1] * self.c * self.kernel[0] * self.kernel[1]

    def pixels_inside(self, axis: int, tap: int) -> range:
        """Return the rows (axis 0) or columns (1), also beyond the result, for which the filter's is in the image."""
        offset = tap * self.dilation[axis] - self.padding[axis]
        return range(max(0, -(offset // self.stride[axis])), (self.size[axis] - 1 - offset) // self.stride[axis] + 1)

    def inside(self, axis: int) -> float:
        """Return the share of the filter's rows (axis 0) or columns (1) in the image, over the whole result."""
        taps, pixels = range(self.kernel[axis]), range(self.out[axis])
        return sum(overlap(self.pixels_inside(axis, tap), pixels) for tap in taps) / (len(pixels) * len(taps))

    @property
    def data_shape(self) -> tuple[int, ...]:
        return self.at(self.n, self.c, *self.size)

    @property
    def out_shape(self) -> tuple[int, ...]:
        return self.at(self.n, self.o, *self.out)

    @property
    def weight_shape(self) -> tuple[int, ...]:
        """The shape of the kernel's weights; if packed, [vector of channels][kh][kw][c][channel of the vector]."""
        if self.weights == PACKED:
            return self.vectors, *self.kernel, self.c, self.lanes
        return self.weight_at(self.o, self.c, *self.kernel)

    def at(self, n: T, c: T, y: T, x: T) -> tuple[T, T, T, T]:
        """Return an index of the input or the result, in the order of its layout."""
        return (n, c, y, x) if self.layout == "NCHW" else (n, y, x, c)

    def named(self, index: Sequence[T]) -> tuple[T, T, T, T]:
        """Return (n, c, y, x) for an index in the order of the layout."""
        n, a, b, c = index
        return (n, a, b, c) if self.layout == "NCHW" else (n, c, a, b)

    def weight_at(self, o: T, c: T, kh: T, kw: T) -> tuple[T, ...]:
        """Return an index of the weights, in the order of their layout."""
        by_name = {"O": o, "I": c, "H": kh, "W": kw}
        return tuple(by_name[letter] for letter in self.weights)


def overlap(one: range, other: range) -> int:
    """Count the numbers that two ranges with a step of one share."""
    return max(0, min(one.stop, other.stop) - max(one.start, other.start))


def conv_shape(
    data: tuple[int, int, int, int],
    filters: tuple[int, int, int],
    window: Window,
    layout: str,
    weights: str,
    dtype: str,
    target: Target,
    *,
    name: str = "conv2d",
    may_be_packed: bool = True,
) -> Conv:
    """Return the convolution of data (N, C, H, W) with filters (O, KH, KW).

    Args:
        name: the name of the template, for messages.

    Raises:
        TemplateError: an argument is not in its domain, or the image has no room for a window.
    """
    for letter, value in zip(("N", "C", "H", "W", "O", "KH", "KW"), (*data, *filters), strict=True):
        if not _is_whole(value, 1):
            raise TemplateError(f"{name}: {letter}={value!r} is not a size; give a whole number from 1 on")
    check_layout("layout", layout, DATA_LAYOUTS, name)
    weights = weights or USUAL_WEIGHTS[layout]
    check_layout("weights", weights, (*WEIGHT_LAYOUTS, PACKED) if may_be_packed else WEIGHT_LAYOUTS, name)
    n, c, h, w = map(int, data)
    o, kh, kw = map(int, filters)
    conv = Conv(
        n, c, (h, w), o, (kh, kw), _pair(name, "stride", window.stride, 1), *_padding(name, window.padding),
        _pair(name, "dilation", window.dilation, 1), layout, weights, dtype, target,
    )  # fmt: skip
    for axis, extent, padded, reach in zip("HW", (h, w), conv.padded, conv.reach, strict=True):
        if padded <= reach:
            raise TemplateError(
                f"{name}: the filter spans {reach + 1} along {axis} (K{axis} and dilation), the input with its padding "
                f"only {padded} ({axis}={extent}); give more padding or a smaller filter"
            )
    shapes = conv.data_shape, conv.out_shape, (o, c, kh, kw)
    check_array_sizes(name, shapes, dtype)
    return conv


def conv_of(task: Task) -> Conv:
    """Return the convolution of a task."""
    a = task.workload[1]
    data, filters = (a["N"], a["C"], a["H"], a["W"]), (a["O"], a["KH"], a["KW"])
    window = Window(a["stride"], a["padding"], a["dilation"])
    return conv_shape(data, filters, window, a["layout"], a["weights"], a["dtype"], task.target)


def group_outputs(conv: Conv, groups: int) -> int:
    """Return the number of output channels of a group, including those added to fill vectors of weights.

    None are added to plain weights, nor to groups of at most half a vector, several of which may share a vector.
    """
    outputs = conv.o // groups
    return outputs if conv.weights != PACKED or 2 * outputs <= conv.lanes else -(-outputs // conv.lanes) * conv.lanes


def _is_whole(value: object, least: int) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= least


def check_layout(name: str, value: object, known: Sequence[str], template: str = "conv2d") -> None:
    """Raise TemplateError for an unknown layout."""
    if value not in known:
        raise TemplateError(f"{template}: {name}={value!r} is not a layout here; give one of {', '.join(known)}")


def _padding(template: str, value: object) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return (rows, columns) of zeros before and after the input, from one, two or four numbers."""
    if isinstance(value, list | tuple) and len(value) == 4:
        return _pair(template, "padding", value[:2], 0), _pair(template, "padding", value[2:], 0)
    both = _pair(template, "padding", value, 0)
    return both, both


def _pair(template: str, name: str, value: object, least: int) -> tuple[int, int]:
    """Return (rows, columns) from a number or a pair."""
    both = tuple(value) if isinstance(value, list | tuple) else (value, value)
    if len(both) != 2 or not all(_is_whole(v, least) for v in both):
        raise TemplateError(
            f"{template}: {name}={value!r} is neither a whole number from {least} on nor a pair of them (rows, columns)"
        )
    return int(both[0]), int(both[1])
