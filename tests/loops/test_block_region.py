"""Do the regions that a block states hold what it touches?"""

from __future__ import annotations

import pytest

from pegbox.expr.build import ZERO
from pegbox.expr.nodes import Buffer, Load, Var
from pegbox.loops.access import block_region
from pegbox.loops.access.block_region import uncovered
from pegbox.loops.nodes import BlockIter, For, IterKind, Region, Store


def _reads(width: int) -> object:
    """`B[0] = A[(vi * 3 + j) // 2]` for three j, in a block that states `width` elements of A from `vi * 3 // 2` on."""
    vi, j = Var("vi"), Var("j")
    a, b = Buffer("A", (3,), "float32"), Buffer("B", (1,), "float32")
    body = For(j, 3, Store(b, (ZERO,), Load(a, ((vi * 3 + j) // 2,))))
    iters = (BlockIter(vi, 2, IterKind.SPATIAL),)
    return uncovered(iters, body, None, (Region(a, ((vi * 3 // 2, width),)),), (Region(b, ((ZERO, 1),)),))


def test_an_index_that_is_divided_lies_in_the_box_around_it() -> None:
    assert _reads(2) is None


def test_a_box_that_is_too_small_does_not_hold_it() -> None:
    assert _reads(1) is not None


def test_a_divided_sum_is_the_same_in_another_order() -> None:
    vi, vj = Var("vi"), Var("vj")
    a = Buffer("A", (7,), "float32")
    body = Store(a, ((vj % 7 * 4 + vi) // 7,), Load(a, (ZERO,)))
    iters = (BlockIter(vi, 3, IterKind.SPATIAL), BlockIter(vj, 17, IterKind.SPATIAL))
    stated = Region(a, (((vi + vj % 7 * 4) // 7, 1),))
    other = Region(a, (((vi + vj % 7 * 5) // 7, 1),))
    reads = (Region(a, ((ZERO, 1),)),)
    assert uncovered(iters, body, None, reads, (stated,)) is None
    assert uncovered(iters, body, None, reads, (other,)) is not None


def test_nothing_is_simplified_for_accesses_that_are_stated_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Long indices, each a part of the next one, take seconds to simplify for every pair of them."""
    monkeypatch.setattr(block_region, "simplified_linear", None)
    vi = Var("vi")
    a, b = Buffer("A", (9,), "int64"), Buffer("B", (1,), "int64")
    loads = [Load(a, (vi,))]
    for _ in range(5):
        loads.append(Load(a, (loads[-1] % 9,)))
    body = Store(b, (ZERO,), loads[-1])
    reads, writes = [Region(a, ((load.indices[0], 1),)) for load in loads], [Region(b, ((ZERO, 1),))]
    assert uncovered((BlockIter(vi, 9, IterKind.SPATIAL),), body, None, reads, writes) is None
