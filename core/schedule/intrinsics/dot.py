"""Intrinsics for dot products of narrow numbers: AVX512-VNNI and AVX512-BF16.

One instruction reads sixteen groups from `B`, one group from `A` (the same for all), and adds a sum of products to each
of the sixteen elements of `C`. Lay `B` out as [..., 16, group], so that the groups follow each other in memory.
"""

from __future__ import annotations

from dataclasses import dataclass

from pegbox.compute.ops import compute, placeholder, reduce_axis
from pegbox.compute.ops import sum as sum_over
from pegbox.expr.build import cast, index
from pegbox.expr.low_level import broadcast, call_llvm, reinterpret
from pegbox.expr.nodes import Buffer
from pegbox.loops.nodes import Store
from pegbox.schedule.intrinsics.build import described_update, vector
from pegbox.schedule.intrinsics.intrinsic import TensorIntrin

LANES = 16


@dataclass(frozen=True)
class _Dot:
    """An instruction that multiplies `group` numbers of types `a` and `b` and adds them to one of type `c`."""

    llvm: str
    group: int
    a: str
    b: str
    c: str


_INSTRUCTIONS = {
    "vpdpbusd": _Dot("llvm.x86.avx512.vpdpbusd.512", 4, "uint8", "int8", "int32"),
    "dpbf16ps": _Dot("llvm.x86.avx512bf16.dpbf16ps.512", 2, "bfloat16", "bfloat16", "float32"),
}
# TVM's name for it.
_INSTRUCTIONS["dot_16x4_vnni"] = _INSTRUCTIONS["vpdpbusd"]


def dot_product(name: str) -> TensorIntrin | None:
    """Return the intrinsic C[i] += sum over k of A[k] * B[i, k], for 16 i and a group of k."""
    dot = _INSTRUCTIONS.get(name)
    if dot is None:
        return None
    a, b = placeholder((dot.group,), name="A", dtype=dot.a), placeholder((LANES, dot.group), name="B", dtype=dot.b)
    k = reduce_axis((0, dot.group), name="k")
    c = compute((LANES,), lambda i: sum_over(cast(dot.c, a[k]) * cast(dot.c, b[i, k]), axis=k), name="C")
    return TensorIntrin(name, described_update(name, a, b, c), _step(dot, a.buffer, b.buffer, c.buffer))


def _step(dot: _Dot, a: Buffer, b: Buffer, c: Buffer) -> Store:
    # A group has 32 bits, so it is broadcast to every lane as one number.
    same = broadcast(reinterpret("int32", vector(a, 0, lanes=dot.group)), LANES)
    groups = reinterpret(f"{dot.a}x{LANES * dot.group}", same)
    total = call_llvm(
        f"{dot.c}x{LANES}", dot.llvm, vector(c, 0, lanes=LANES), groups, vector(b, 0, 0, lanes=LANES * dot.group)
    )
    return Store(c, (index(0),), total)
