"""Operators that read images between their pixels."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

from pegbox import te
from pegbox.compute import reshaped
from pegbox.plugins.onnx.operator import OperatorNode, operator
from pegbox.plugins.onnx.operators.casts import converted
from pegbox.plugins.onnx.operators.computed import computed
from pegbox.plugins.onnx.operators.shapes import Index, at_axis, axis_of
from pegbox.plugins.onnx.operators.slices import reflected

Weight = Callable[[Any], Any]


@dataclass(frozen=True)
class Coordinates:
    """The exact place in the input of each output along an axis: `slope * i + offset`.

    Attributes:
        extent, count: the numbers of inputs and outputs.
        scale: the number of outputs for each input.
        bounded: True if outputs with a place beyond the input get another value.
    """

    extent: int
    count: int
    slope: Fraction
    offset: Fraction
    scale: Fraction
    bounded: bool = False

    @property
    def changes(self) -> bool:
        """True if the outputs differ from the inputs."""
        return self.slope != 1 or bool(self.offset) or self.count != self.extent

    @property
    def denominator(self) -> int:
        """The denominator of a pixel's fractions in which places are exact."""
        return math.lcm(self.slope.denominator, self.offset.denominator)

    def numerator(self, index: Index, *, times: int = 1) -> Index:
        """Compute the place in parts of the denominator."""
        slope, offset = (int(each * self.denominator) * times for each in (self.slope, self.offset))
        return index * slope + offset

    def nearest(self, index: Index, mode: str) -> Index:
        """Compute the nearest input."""
        d = self.denominator
        match mode:
            case "floor":
                place = te.floordiv(self.numerator(index), d)
            case "ceil":
                place = -te.floordiv(-self.numerator(index), d)
            case "round_prefer_ceil":
                place = te.floordiv(self.numerator(index, times=2) + d, 2 * d)
            case _:
                place = -te.floordiv(d - self.numerator(index, times=2), 2 * d)
        return self.clamped(place, -1, 1)

    def clamped(self, place: Index, before: int, after: int) -> Index:
        """Clamp a place, at most so far from the exact one, to the input."""
        ends = [self.offset, self.slope * (self.count - 1) + self.offset]
        if min(ends) + before <= -1:
            place = te.maximum(place, 0)
        return te.minimum(place, self.extent - 1) if max(ends) + after >= self.extent else place

    def inside(self, index: Index) -> list[Any]:
        """Return the conditions under which an output is read from the input."""
        if not self.bounded:
            return []
        place = self.numerator(index)
        return [place >= 0, place <= (self.extent - 1) * self.denominator]


def _coordinates(mode: str, extent: int, count: int, scale: Fraction, roi: Sequence[float] | None) -> Coordinates:
    width, half = scale * extent, Fraction(1, 2)
    slope, offset = 1 / scale, half / scale - half
    match mode:
        case "asymmetric":
            offset = Fraction(0)
        case "align_corners":
            slope, offset = Fraction(0) if width == 1 else (extent - 1) / (width - 1), Fraction(0)
        case "pytorch_half_pixel" if width == 1:
            slope, offset = Fraction(0), Fraction(0)
        case "half_pixel_symmetric":
            offset += Fraction(extent, 2) * (1 - count / width)
        case "tf_crop_and_resize":
            begin, end = (Fraction(str(each)) for each in roi or (0, 1))
            slope = Fraction(0) if width == 1 else (end - begin) * (extent - 1) / (width - 1)
            offset = begin * (extent - 1) if width != 1 else (end + begin) * (extent - 1) / 2
    return Coordinates(extent, count, slope, offset, scale, mode == "tf_crop_and_resize")


def _linear(distance: Any) -> Any:
    return te.maximum(1 - te.abs(distance), 0.0)


def _cubic(a: float) -> Weight:
    """Make Keys's kernel (Cubic Convolution Interpolation for Digital Image Processing, 1981)."""

    def weight(distance: Any) -> Any:
        x = te.abs(distance)
        near = ((a + 2) * x - (a + 3)) * x * x + 1
        far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
        return te.if_then_else(x <= 1, near, te.if_then_else(x < 2, far, 0.0))

    return weight


def _interpolated(
    x: te.Tensor, axis: int, along: Coordinates, weight: Weight, reach: int, *, antialias: bool, exclude: bool
) -> te.Tensor:
    """Resize one axis: each output is the sum of nearby inputs, weighted by their distances."""
    shrink = min(along.scale, Fraction(1)) if antialias else Fraction(1)
    first = math.floor(-reach / shrink) + 1
    d = along.denominator

    def element(*at: Index) -> Any:
        place = along.numerator(at[axis])
        base, rest = te.floordiv(place, d), te.cast("float32", te.floormod(place, d)) / d
        terms, weights = [], []
        for k in range(first, 2 - first if antialias else reach + 1):
            w = weight((k - rest) * float(shrink))
            if exclude:
                w = te.if_then_else(te.all(base + k >= 0, base + k < along.extent), w, 0.0)
            value = x(*at_axis(at, axis, along.clamped(base + k, k - 1, k)))
            terms.append(te.cast("float32", value) * w)
            weights.append(w)
        total = sum(terms[1:], terms[0])
        return total / sum(weights[1:], weights[0]) if antialias or exclude else total

    return computed(at_axis(x.shape, axis, along.count), element, name="resized")


def _scales(node: OperatorNode, x: te.Tensor, axes: Sequence[int]) -> list[tuple[int, Fraction]]:
    """Return the extent and the scale of each axis of `axes`."""
    given = node.numbers(2) if node.kind == "Resize" and node.opset >= 11 else node.numbers(1, "scales")
    if given:  # the shortest decimals: 0.6 for the float32 next to it
        scales = [Fraction(str(each)) for each in given]
        return [(math.floor(scale * x.shape[axis]), scale) for scale, axis in zip(scales, axes, strict=True)]
    sizes = node.numbers(3)
    scales = [Fraction(size, x.shape[axis]) for size, axis in zip(sizes, axes, strict=True)]
    policy = node.get("keep_aspect_ratio_policy", "stretch")
    if policy != "stretch":
        scale = min(scales) if policy == "not_larger" else max(scales)
        return [(math.floor(scale * x.shape[axis] + Fraction(1, 2)), scale) for axis in axes]
    return list(zip(sizes, scales, strict=True))


@operator("Resize", "Upsample", constants=(1, 2, 3), empty=True)
def resize(node: OperatorNode, x: te.Tensor) -> Any:
    axes = [axis_of(node, axis, x.ndim) for axis in node.get("axes") or range(x.ndim)]
    newer = node.kind == "Resize" and node.opset >= 11
    transformation = node.get("coordinate_transformation_mode", "half_pixel" if newer else "asymmetric")
    roi = node.numbers(1) if newer else None
    every: list[Coordinates] = [
        Coordinates(extent, extent, Fraction(1), Fraction(0), Fraction(1)) for extent in x.shape
    ]
    for k, (axis, (count, scale)) in enumerate(zip(axes, _scales(node, x, axes), strict=True)):
        if transformation == "align_corners" and (scale * x.shape[axis]).denominator > 1:
            raise node.refuse(
                "align_corners with a scale that gives no whole extent: ONNX's tests and its runtimes compute it "
                "differently; export the model with sizes in place of scales"
            )
        own = (roi[k], roi[k + len(axes)]) if roi else None
        every[axis] = _coordinates(transformation, x.shape[axis], count, scale, own)
    mode = node.get("mode", "nearest")
    if mode == "nearest":
        rounding = node.get("nearest_mode", "round_prefer_floor") if newer else "floor"

        def element(*at: Index) -> Any:
            return x(*(c.nearest(i, rounding) if c.changes else i for i, c in zip(at, every, strict=True)))

        made = computed([c.count for c in every], element, name=node.kind)
    else:
        if mode not in ("linear", "cubic"):
            raise node.refuse(f"mode={mode!r}")
        weight, reach = (_linear, 1) if mode == "linear" else (_cubic(node.get("cubic_coeff_a", -0.75)), 2)
        options = {"antialias": bool(node.get("antialias", 0)), "exclude": bool(node.get("exclude_outside", 0))}
        made = x
        for axis, along in enumerate(every):
            if along.changes:
                made = _interpolated(made, axis, along, weight, reach, **options)
        made = reshaped(x, x.shape) if made is x else converted(made, x.dtype, name="Resize")
    if not any(c.bounded for c in every):
        return made
    outside, read = te.const(node.get("extrapolation_value", 0.0), x.dtype), made

    def bounded(*at: Index) -> Any:
        tests = [test for i, c in zip(at, every, strict=True) for test in c.inside(i)]
        return te.if_then_else(te.all(*tests), read(*at), outside)

    return computed(read.shape, bounded, name="Resize")


@operator("GridSample")
def grid_sample(node: OperatorNode, x: te.Tensor, grid: te.Tensor) -> te.Tensor:
    mode, padding = node.get("mode", "linear"), node.get("padding_mode", "zeros")
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode)
    aligned, extents = bool(node.get("align_corners", 0)), x.shape[2:]
    weight = _cubic(-0.75) if mode == "cubic" else _linear
    taps = {"nearest": [0], "linear": [0, 1], "cubic": [-1, 0, 1, 2]}[mode]

    def coordinate(g: Any, extent: int) -> Any:
        place = (g + 1) / 2 * (extent - 1) if aligned else ((g + 1) * extent - 1) / 2
        if mode == "nearest":
            place = te.round(place)
        low, high = (0.0, extent - 1.0) if aligned else (-0.5, extent - 0.5)
        beyond = te.any(place < low, place > high)
        if padding == "border" and mode != "cubic":  # as ONNX Runtime and torch, which bound each input's index instead
            return te.if_then_else(beyond, te.maximum(te.minimum(place, extent - 1.0), 0.0), place)
        if padding == "reflection" and high > low:
            period = 2 * (high - low)
            there = place - low - te.floor((place - low) / period) * period
            return te.if_then_else(beyond, low + te.minimum(there, period - there), place)
        return place

    def tap(base: Any, rest: Any, k: int, extent: int) -> tuple[Index, list[Any], Any]:
        """Return the index of an input, the conditions under which it exists, and its weight."""
        place = base + k
        tests = [place >= 0, place < extent] if padding == "zeros" else []
        if padding == "reflection":
            place = reflected(place, extent, borders=not aligned)
        return te.maximum(te.minimum(place, extent - 1), 0), tests, 1.0 if mode == "nearest" else weight(k - rest)

    def element(n: Index, c: Index, *at: Index) -> Any:
        axes = []
        for d, extent in enumerate(extents):
            place = coordinate(te.cast("float32", grid(n, *at, len(extents) - 1 - d)), extent)
            base = te.floor(place)
            axes.append([tap(te.cast("int64", base), place - base, k, extent) for k in taps])
        total: Any = None
        for chosen in product(*axes):
            tests = [test for _, own, _ in chosen for test in own]
            value = te.cast("float32", x(n, c, *(index for index, _, _ in chosen)))
            term = te.if_then_else(te.all(*tests), value, 0.0) if tests else value
            for _, _, w in chosen:
                term = term * w
            total = term if total is None else total + term
        return te.cast(x.dtype, total)

    return computed((*x.shape[:2], *grid.shape[1:-1]), element, name="GridSample")


@operator("AffineGrid", constants=(1,))
def affine_grid(node: OperatorNode, theta: te.Tensor) -> te.Tensor:
    n, _, *extents = node.numbers(1)
    aligned = bool(node.get("align_corners", 0))

    def coordinate(i: Index, extent: int) -> Any:
        i = te.cast(theta.dtype, i)
        if aligned:
            return i * (2 / (extent - 1)) - 1 if extent > 1 else te.const(-1.0, theta.dtype)
        return (2 * i + 1) / extent - 1

    def element(b: Index, *at: Index) -> Any:
        *pixel, row = at
        total = theta(b, row, len(extents))
        for d, (i, extent) in enumerate(zip(reversed(pixel), reversed(extents), strict=True)):
            total = total + theta(b, row, d) * coordinate(i, extent)
        return total

    return computed((n, *extents, len(extents)), element, name="AffineGrid")
