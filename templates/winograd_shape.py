"""`Winograd`: a convolution by F(m × m, r × r), with its outputs cut into tiles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pegbox.errors import TemplateError
from pegbox.templates.bilinear_products import BilinearProducts
from pegbox.templates.conv_shape import PACKED, Conv, conv_of
from pegbox.templates.cook_toom import Transforms, error_estimate, transforms

if TYPE_CHECKING:
    from pegbox.task import Task

M = (2, 3, 4, 6)
R = (3, 5)

WORST = 1e-6
"""The largest estimated error of an m for weights that are packed ahead, relative to the outputs."""
_RUN = 4
"""The largest number of vectors in a row of pixels stored at a time."""
_TRANSFORM = 6.0
"""The cycles of a vector's transforms: loads, sums and stores of two passes in each direction."""


@dataclass(frozen=True)
class Winograd:
    """A convolution with tiles of m × m outputs."""

    conv: Conv
    m: int

    @property
    def transforms(self) -> Transforms:
        """The matrices along rows, and along columns."""
        return transforms(self.m, self.conv.kernel[0])

    @property
    def size(self) -> int:
        """Rows and columns of a tile of the input."""
        return self.m + self.conv.kernel[0] - 1

    @property
    def tiles(self) -> tuple[int, int]:
        """Rows and columns of tiles in an image; the last ones may stick out of the result."""
        y, x = (-(-extent // self.m) for extent in self.conv.out)
        return y, x

    @property
    def count(self) -> int:
        """Tiles of all images."""
        return self.conv.n * self.tiles[0] * self.tiles[1]

    @property
    def run(self) -> int:
        """The number of tiles of a row stored together: enough to fill vectors if rows of pixels are stored."""
        if self.conv.layout == "NHWC":
            return 1
        columns, lanes = self.tiles[1], self.conv.lanes
        runs = [q for q in range(1, columns + 1) if columns % q == 0 and q * self.m <= _RUN * lanes]
        whole = [q for q in runs if q * self.m % lanes == 0]
        return min(whole) if whole else max(runs, default=1)

    @property
    def channels(self) -> int:
        """Input channels in whole vectors."""
        return -(-self.conv.c // self.conv.lanes) * self.conv.lanes

    @property
    def image(self) -> tuple[int, int]:
        """Rows and columns of the input that all tiles read."""
        y, x = ((count - 1) * self.m + self.size for count in self.tiles)
        return y, x

    @property
    def weight_shape(self) -> tuple[int, ...]:
        """The shape of transformed filters: [row][column][vector of output channels][c][channel of the vector]."""
        return self.size, self.size, self.conv.vectors, self.conv.c, self.conv.lanes

    @property
    def products(self) -> BilinearProducts:
        """The products of transformed tiles and filters."""
        conv = self.conv
        return BilinearProducts(
            self.size**2, self.count, conv.c, conv.vectors, conv.lanes, conv.dtype, conv.target, self.run
        )

    @property
    def cycles(self) -> float:
        """Estimate the cycles of a call after others: products beside their weights, and transforms."""
        vectors = self.count * (self.conv.c + self.conv.o) / self.conv.lanes
        return self.products.warm_cycles + self.size**2 * vectors * _TRANSFORM


def tile_sizes(conv: Conv, m: int, accuracy: float | None = None) -> list[int]:
    """Return the sizes m that are in the space of a convolution: the given one, or those that are accurate enough.

    Weights packed ahead are transformed for one m: the one expected to be fastest among those with small errors.

    Args:
        accuracy: the largest error that the user allows; None for the default, which allows all sizes.

    Raises:
        TemplateError: the convolution or `m` is not supported, or no size is accurate enough.
    """
    _check(conv)
    if m not in (0, *M):
        raise TemplateError(f"conv2d_winograd: m={m!r}; give 2, 3, 4 or 6, or 0 to leave it open")
    sizes = [int(m)] if m else list(M)
    errors = {each: error_estimate(each, conv.kernel[0], conv.dtype) for each in sizes}
    if accuracy is not None:
        sizes = [each for each in sizes if errors[each] <= accuracy]
        if not sizes:
            least = min(errors, key=lambda each: errors[each])
            raise TemplateError(
                f"conv2d_winograd: accuracy={accuracy:g}: the errors of m={least} are about {errors[least]:.1g}; "
                "give a larger accuracy, use float64, or use the template conv2d, which is more accurate"
            )
    if m or conv.weights != PACKED:
        return sizes
    small = [each for each in sizes if accuracy is not None or errors[each] <= WORST]
    return [min(small, key=lambda each: Winograd(conv, each).cycles)]


def winograd_of(task: Task) -> Winograd:
    """Return the convolution of a task, with the tiles of its packed weights, or the first ones."""
    conv = conv_of(task)
    return Winograd(conv, tile_sizes(conv, task.workload[1]["m"], task.given_accuracy)[0])


def _check(conv: Conv) -> None:
    reasons = {
        f"dtype={conv.dtype!r}: its sums of products need float32 or float64": conv.dtype in ("float32", "float64"),
        f"stride={list(conv.stride)}: neighbouring outputs share no products unless it is 1": conv.stride == (1, 1),
        f"dilation={list(conv.dilation)} has to be 1": conv.dilation == (1, 1),
        f"KH={conv.kernel[0]}, KW={conv.kernel[1]}: filters are 3 × 3 or 5 × 5": conv.kernel in [(r, r) for r in R],
    }
    for reason, holds in reasons.items():
        if not holds:
            raise TemplateError(f"conv2d_winograd: {reason}; the template conv2d computes it")
