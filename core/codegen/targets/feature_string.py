"""LLVM's feature strings for x86 processors: `+avx512bw` and `-avx2` also switch other features on and off."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

_BUILT_ON = {
    "sse4.1": "ssse3", "sse4.2": "sse4.1", "avx": "sse4.2", "avx2": "avx", "f16c": "avx", "fma": "avx",
    "avxvnni": "avx2", "avxifma": "avx2", "avx512f": "avx2 f16c fma", "avx512bf16": "avx512bw",
    "avx512bitalg": "avx512bw", "avx512fp16": "avx512bw", "avx512vbmi": "avx512bw", "avx512vbmi2": "avx512bw",
    "amx-bf16": "amx-tile", "amx-int8": "amx-tile",
}  # fmt: skip
"""The features that each feature requires: LLVM switches them on with it, and switches it off without them."""


def is_on(feature: str, items: Iterable[str], *, known: bool = False) -> bool:
    """Decide if a feature is on after the items of a feature string; `known` is its state before.

    Later items win.
    """
    needed_by_it = _with_bases(feature)
    for item in items:
        sign, name = item[:1], item[1:]
        if sign == "-" and name in needed_by_it:
            known = False
        elif sign == "+" and feature in _with_bases(name):
            known = True
    return known


@cache
def _with_bases(feature: str) -> frozenset[str]:
    """Return a feature and those that LLVM switches on with it."""
    bases = _BUILT_ON.get(feature, "avx512f" if feature.startswith("avx512") and feature != "avx512f" else "")
    return frozenset((feature,)).union(*map(_with_bases, bases.split()))
