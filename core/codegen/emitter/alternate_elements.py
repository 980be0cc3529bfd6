"""Every second element of two neighbouring vectors, by shuffles that run in parallel with multiply-adds.

LLVM makes one permutation of two sources, which a Zen 4 computes in its multipliers: three multiply-adds and one such
permutation take four cycles. A shuffle within 128 bits and a permutation of one source do not delay multiply-adds.
"""

from __future__ import annotations

from pegbox.codegen.emitter.frame import Frame
from pegbox.codegen.emitter.lltypes import int_vector, register, suffix
from pegbox.expr import dtypes

_PROCESSORS = ("znver4",)
"""The processors on which this was measured to be faster."""

_BLOCK = 128
"""The bits within which a shuffle of two sources is cheap."""


def alternate_elements(frame: Frame, dtype: str, first: str, second: str, start: int, count: int) -> str | None:
    """Pick the elements `start` (0 or 1), `start` + 2, ... of two vectors of `count`: inside blocks, then across
    blocks.

    Returns None if LLVM's own code is as good.
    """
    block = _BLOCK // dtypes.BITS[dtype]
    if frame.module.target.cpu not in _PROCESSORS or dtype not in ("float32", "float64") or count <= block:
        return None
    half = block // 2
    inside = [
        source + at + start + 2 * k for at in range(0, count, block) for source in (0, count) for k in range(half)
    ]
    order = [at + k for source in (0, half) for at in range(source, count, block) for k in range(half)]
    blocks = _fence(frame, dtype, _shuffle(frame, dtype, first, second, inside), count)
    return _fence(frame, dtype, _shuffle(frame, dtype, blocks, "poison", order), count)


def _shuffle(frame: Frame, dtype: str, first: str, second: str, picks: list[int]) -> str:
    count = len(picks)
    ty = register(dtype, count)
    return frame.op(f"shufflevector {ty} {first}, {ty} {second}, <{count} x i32> {int_vector(tuple(picks), 32)}")


def _fence(frame: Frame, dtype: str, value: str, count: int) -> str:
    """Keep LLVM from joining shuffles."""
    ty = register(dtype, count)
    return frame.op(frame.module.call(f"@llvm.arithmetic.fence.{suffix(dtype, count)}", ty, (ty, value)))
