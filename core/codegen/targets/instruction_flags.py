"""Which words of /proc/cpuinfo mean instructions that a compiler may use.

The others say what the kernel does or knows, so that equal processors differ in them where their kernels do.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

_X86 = """
    3dnow 3dnowext 3dnowprefetch abm adx aes apx bmi1 bmi2 clflushopt clwb clzero cmov cmpccxadd cx16 cx8 f16c fma fma4
    fxsr gfni lahf_lm lwp mmx mmxext movbe movdir64b movdiri pclmulqdq pni popcnt prefetchi raoint rdpid rdrand rdseed
    sha512 sha_ni sm3 sm4 ssse3 tbm vaes vpclmulqdq xop xsave xsavec xsaveopt
"""
"""Of x86, what LLVM has features for, but for what the kernel may turn off; in the words of its cpufeatures.h."""

_X86_FAMILIES = ("amx", "avx", "sse")
"""Of these families all are instructions, those of later processors too."""

_NOT_AARCH64 = "bti cpuid evtstrm gcs mte mte3 mtefar mtestoreonly paca pacg poe ssbs"
"""Of AArch64, what the kernel counts, emulates or turns on: events, identity registers, and the protection of memory
and of returns, which candidates don't use. All else are instructions."""

_NOT_RISCV = ("s", "h", "zaamo", "zalrsc", "zca", "zcd", "zicb", "zicc", "zicn", "zics", "zif", "zih", "zmmul", "zve")
"""How the extensions of RISC-V begin that only the kernel uses, that are parts of a, c, i, m or v, or that are about
caches and hints: kernels list more of them from version to version."""

_NOT_LETTERS = "shu"
"""What old kernels append for the modes of the processor."""


def _x86(words: str) -> Iterator[str]:
    return (word for word in words.split() if word in _X86.split() or word.startswith(_X86_FAMILIES))


def _aarch64(words: str) -> Iterator[str]:
    return (word for word in words.split() if word not in _NOT_AARCH64.split())


def _riscv(words: str) -> Iterator[str]:
    """Extensions of "rv64imafdcv_zba_zbb", one by one; "g" stands for "imafd"."""
    first, *others = words.lower().split("_")
    base = re.match(r"rv\d+", first)
    if base is not None:
        yield base[0]
        letters = first[base.end() :].replace("g", "imafd")
        yield from (letter for letter in letters if letter not in _NOT_LETTERS)
    yield from (word for word in others if not word.startswith(_NOT_RISCV))


FLAGS: Mapping[str, Callable[[str], Iterator[str]]] = {"flags": _x86, "Features": _aarch64, "isa": _riscv}
"""What gives the instructions, by the key of the line: x86, AArch64, RISC-V."""
