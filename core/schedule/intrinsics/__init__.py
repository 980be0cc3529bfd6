"""The built-in tensor intrinsics, made when they are first used by name."""

from pegbox.schedule.intrinsics.dot import dot_product
from pegbox.schedule.intrinsics.intrinsic import MAKERS
from pegbox.schedule.intrinsics.tile import float32_tile

MAKERS.extend([dot_product, float32_tile])
