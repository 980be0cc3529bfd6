"""A table of the x86 processors that LLVM knows: vector width in bits, multiply-adds per cycle, and caches.

The width decides the number of lanes of vectorized loops; the caches decide the block sizes that are worth trying. The
list makes it possible to check a target string before LLVM is loaded; LLVM itself only prints a warning for an unknown
name.
"""

from functools import lru_cache
from typing import NamedTuple

from pegbox.codegen.targets.feature_string import is_on

_AVX512 = """
    skylake-avx512 skx cascadelake cooperlake cannonlake icelake-client icelake-server rocketlake tigerlake
    sapphirerapids emeraldrapids graniterapids graniterapids-d diamondrapids novalake knl knm
    znver4 znver5 x86-64-v4
"""
_AVX = """
    sandybridge corei7-avx ivybridge core-avx-i haswell core-avx2 broadwell skylake alderlake raptorlake meteorlake
    gracemont sierraforest grandridge clearwaterforest arrowlake arrowlake-s lunarlake pantherlake wildcatlake
    bdver1 bdver2 bdver3 bdver4 btver2 znver1 znver2 znver3 x86-64-v3
"""
_SSE = """
    generic x86-64 x86-64-v2 nocona core2 penryn bonnell atom silvermont slm goldmont goldmont-plus tremont
    nehalem corei7 westmere k8 opteron athlon64 athlon-fx k8-sse3 opteron-sse3 athlon64-sse3 amdfam10 barcelona btver1
"""

X86_VECTOR_BITS: dict[str, int] = {
    **dict.fromkeys(_SSE.split(), 128), **dict.fromkeys(_AVX.split(), 256), **dict.fromkeys(_AVX512.split(), 512),
}  # fmt: skip


class Caches(NamedTuple):
    """The caches of one core, in bytes: L1 for data, L2, and its share of the last level (0 if there is none)."""

    l1: int
    l2: int
    l3: int

    def hold(self, size: int) -> bool:
        """Decide if a cache may hold `size` bytes; larger results should bypass the caches.

        One core may use all of the last level, which eight cores share on common processors.
        """
        return size <= max(self.l2, 8 * self.l3)


LINE = 64
"""The bytes of a cache line, on all processors here."""

PLAIN_CACHES = Caches(32 << 10, 512 << 10, 2 << 20)
"""The caches of an unknown processor."""

# KiB of L1, L2 and of a core's share of L3, from the vendors' manuals; virtual machines often report other sizes.
_CACHES = {
    (48, 1024, 4096): "znver5",
    (32, 1024, 4096): "znver4",
    (32, 512, 4096): "znver2 znver3",
    (32, 512, 2048): "znver1",
    (32, 1024, 1408): "skylake-avx512 skx cascadelake cooperlake",
    (48, 1280, 1536): "icelake-server",
    (48, 2048, 1920): "sapphirerapids graniterapids graniterapids-d diamondrapids x86-64-v4",
    (48, 2048, 5120): "emeraldrapids",
    (48, 512, 2048): "icelake-client rocketlake",
    (48, 1280, 3072): "tigerlake alderlake",
    (48, 2048, 3072): "raptorlake meteorlake arrowlake arrowlake-s lunarlake pantherlake wildcatlake novalake",
    (32, 256, 2048): "sandybridge corei7-avx ivybridge core-avx-i haswell core-avx2 broadwell skylake cannonlake "
    "nehalem corei7 westmere",
    (32, 512, 0): "knl knm",
}
X86_CACHES: dict[str, Caches] = {
    cpu: Caches(*(size << 10 for size in sizes)) for sizes, cpus in _CACHES.items() for cpu in cpus.split()
}

_UNIT_BITS = {
    "znver1": 128, "znver4": 256, "cannonlake": 256, "icelake-client": 256, "rocketlake": 256, "tigerlake": 256,
}  # fmt: skip
"""The width in bits of a core's two multiply-add units, if its registers are wider."""


def multiply_adds(cpu: str, bits: int) -> int:
    """Return the number of vectors of `bits` that a core multiplies and adds per cycle: 2, or 1 if it halves them."""
    return 1 if bits > _UNIT_BITS.get(cpu, bits) else 2


@lru_cache(64)  # templates call this for each candidate
def vector_bits(cpu: str, attributes: tuple[str, ...]) -> int:
    """Return the width of vectors worth using: the processor's own, changed by `+avx512f`, `-avx2`, `-avx`, ...

    The width of an x86 processor outside the list (which only the host's can be) follows from its features; other
    architectures have 128 bits.
    """
    own = X86_VECTOR_BITS.get(cpu, 128)
    if is_on("prefer-128-bit", attributes) or not is_on("avx", attributes, known=own >= 256):
        return 128
    if is_on("prefer-256-bit", attributes) or not _has_avx512(cpu, attributes):
        return 256
    return 512


@lru_cache(64)
def x86_vector_registers(cpu: str, attributes: tuple[str, ...]) -> int:
    """Return 32 with AVX-512 (AVX512VL extends that to narrower vectors), else 16."""
    return 32 if _has_avx512(cpu, attributes) else 16


def _has_avx512(cpu: str, attributes: tuple[str, ...]) -> bool:
    return is_on("avx512f", attributes, known=X86_VECTOR_BITS.get(cpu) == 512)
