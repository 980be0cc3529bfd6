"""The x86 processors that LLVM knows by name, with the width of their vectors in bits.

The width decides into how many lanes a vectorized loop is cut. The list also lets a target string be checked
before LLVM is loaded: LLVM itself only prints a warning for a name that it does not know.
"""

from __future__ import annotations

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


def vector_bits(cpu: str, attributes: tuple[str, ...]) -> int:
    """Width of the vectors worth using: the processor's own, changed by `+avx512f`, `-avx512f`, `-avx`, ... .

    An x86 processor outside the list (only the host's own name gets here) is taken by its features alone;
    every other architecture counts as 128 bits.
    """
    bits = X86_VECTOR_BITS.get(cpu, 128)
    on = {name[1:] for name in attributes if name.startswith("+")}
    off = {name[1:] for name in attributes if name.startswith("-")}
    if "avx" in on or "avx2" in on:
        bits = max(bits, 256)
    if "avx512f" in on:
        bits = 512
    if "avx512f" in off or "prefer-256-bit" in on:
        bits = min(bits, 256)
    if "avx" in off or "prefer-128-bit" in on:
        bits = min(bits, 128)
    return bits
