"""The borders and steps of windows in ONNX."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pegbox.plugins.onnx.operator import OperatorNode


@dataclass(frozen=True)
class Windows:
    """The windows over the spatial axes of an input."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]

    @property
    def by_axis(self) -> list[tuple[int, int, int, int, int]]:
        """The size of the window, its stride and dilation, and the borders before and after, for each axis."""
        return list(zip(self.kernel, self.strides, self.dilations, self.before, self.after, strict=True))

    def counts(self, extents: Sequence[int], *, ceil: bool = False) -> tuple[int, ...]:
        """Count the windows along each axis."""
        found = []
        for e, (k, s, d, low, high) in zip(extents, self.by_axis, strict=True):
            room = e + low + high - d * (k - 1) - 1
            count = (-(-room // s) if ceil else room // s) + 1
            if ceil and (count - 1) * s >= e + low:
                count -= 1  # a window that would begin in the trailing border
            found.append(count)
        return tuple(found)


def windows_of(node: OperatorNode, extents: Sequence[int], kernel: Sequence[int]) -> Windows:
    """Read the windows from a node's attributes."""
    rank = len(extents)
    strides, dilations = (tuple(node.get(name) or (1,) * rank) for name in ("strides", "dilations"))
    auto = node.get("auto_pad", "NOTSET")
    pads = tuple(node.get("pads") or (0,) * (2 * rank))
    before, after = pads[:rank], pads[rank:]
    if auto == "VALID":
        before = after = (0,) * rank
    elif auto in ("SAME_UPPER", "SAME_LOWER"):
        totals = []
        for e, k, s, d in zip(extents, kernel, strides, dilations, strict=True):
            totals.append(max((-(-e // s) - 1) * s + d * (k - 1) + 1 - e, 0))
        small, large = tuple(t // 2 for t in totals), tuple(t - t // 2 for t in totals)
        before, after = (small, large) if auto == "SAME_UPPER" else (large, small)
    return Windows(tuple(kernel), strides, dilations, before, after)
