"""Which register tiles convolutions have: whole ones, or cut where few registers leave none that fit the columns."""

from __future__ import annotations

import pytest

from pegbox import Target
from pegbox.templates.conv_register_tiles import ChannelTile, channel_tiles, streams_vectors, tile_widths
from pegbox.templates.conv_shape import Conv, Window, conv_shape

AVX512, AVX2 = Target("llvm -mcpu=znver5"), Target("llvm -mcpu=x86-64-v3")


def padded_conv(c: int, size: int, o: int, target: Target) -> Conv:
    return conv_shape((1, c, size, size), (o, 3, 3), Window(padding=1), "NHWC", "packed", "float32", target)


def test_few_registers_cut_seven_columns_into_four_and_three() -> None:
    found = channel_tiles(padded_conv(512, 7, 512, AVX2))
    assert found.are_cut
    assert ChannelTile(1, 4, 3) in found.tiles
    assert ChannelTile(2, 7, 1) not in found.tiles


def test_many_registers_take_seven_columns_whole() -> None:
    found = channel_tiles(padded_conv(512, 7, 512, AVX512))
    assert not found.are_cut
    assert ChannelTile(1, 7, 2) in found.tiles


@pytest.mark.parametrize("size", [7, 9, 13, 14, 15, 28, 56])
@pytest.mark.parametrize("target", [AVX2, AVX512])
def test_tiles_fit_the_registers_with_one_operand_kept(size: int, target: Target) -> None:
    conv = padded_conv(64, size, 96, target)
    for tile in channel_tiles(conv).tiles:
        kept = min(tile.rows, tile.vectors)
        assert tile.rows * tile.vectors + kept + 1 <= target.vector_registers
        assert tile.width in tile_widths(conv)


def test_vectors_are_streamed_where_a_row_of_them_leaves_no_register() -> None:
    assert streams_vectors(AVX2, 3, 4)
    assert not streams_vectors(AVX2, 4, 3)
    assert not streams_vectors(AVX512, 3, 4)


@pytest.mark.parametrize(
    ("size", "k", "stride", "padding", "dilation", "inside"),
    [
        (7, 3, 1, 1, 1, 19 / 21),
        (7, 3, 1, 0, 1, 1.0),
        (8, 3, 2, 1, 1, 11 / 12),
        (5, 3, 1, 2, 2, 11 / 15),
        (1, 1, 1, 1, 1, 1 / 3),
    ],
)
def test_the_share_of_the_filter_inside_of_the_image(
    size: int, k: int, stride: int, padding: int, dilation: int, inside: float
) -> None:
    conv = conv_shape((1, 8, size, size), (8, k, k), Window(stride, padding, dilation), "NCHW", "", "float32", AVX2)
    for axis in range(2):
        assert conv.inside(axis) == pytest.approx(inside)
