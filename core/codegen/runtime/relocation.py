"""Relocations: how each processor's instructions and words hold addresses.

Sources: "System V ABI, AMD64 Architecture Processor Supplement", "ELF for the Arm 64-bit Architecture (AArch64)",
"RISC-V ELF psABI". Only what LLVM writes for position-independent code without exceptions is here. The letters are
those of these texts: S is the symbol's address, A the addend, P the place that is changed, G the address of a word that
holds S, L that of a jump to S.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import NamedTuple

from pegbox.codegen.runtime import elf


class RelocationSite(NamedTuple):
    """Where something is written: byte `at` of `image`, which will be at address `P`."""

    image: bytearray
    at: int
    P: int

    def word(self) -> int:
        """The 32 bits that are there."""
        return int(struct.unpack_from("<I", self.image, self.at)[0])

    def put(self, mask: int, bits: int) -> None:
        """Replace the masked bits of the 32."""
        struct.pack_into("<I", self.image, self.at, self.word() & ~mask | bits & mask)


Write = Callable[[RelocationSite, int], None]


class RelocationKind(NamedTuple):
    """A kind of relocation: the symbol's address is `via` S itself, a word (G) or a jump (L); the value is relative to
    P (`relative`), to P's page (`paged`), or absolute; `write` puts it there."""

    write: Write
    via: str = "S"
    relative: bool = False
    paged: bool = False

    def value(self, address: int, addend: int, place: int) -> int:
        """Compute the value to write; `address` is that of S, G or L."""
        if self.paged:
            return (address + addend & -0x1000) - (place & -0x1000)
        return address + addend - (place if self.relative else 0)


class Architecture(NamedTuple):
    """A processor's rules by number, and its jump: `stub` bytes that end with the 8 of the address."""

    rules: Mapping[int, RelocationKind]
    stub: bytes
    pcrel_low: frozenset[int] = frozenset()
    """Relocations whose symbol is the place of another one, the value of which they need (RISC-V)."""

    hints: frozenset[int] = frozenset()
    """Leave to write shorter instructions, of which no use is made."""


def _check(value: int, bits: int, step: int = 1) -> int:
    """Raises `ValueError` for what a signed field of so many bits cannot hold."""
    if not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise ValueError(f"something lies {value:#x} bytes away, too far for an instruction of {bits} bits")
    if value % step:
        raise ValueError(f"an address is no multiple of {step}")
    return value


def _word64(place: RelocationSite, value: int) -> None:
    struct.pack_into("<Q", place.image, place.at, value & (1 << 64) - 1)


def _word32(place: RelocationSite, value: int) -> None:
    struct.pack_into("<i", place.image, place.at, _check(value, 32))


def _add64(sign: int) -> Write:
    def write(place: RelocationSite, value: int) -> None:
        (old,) = struct.unpack_from("<Q", place.image, place.at)
        _word64(place, old + sign * value)

    return write


def _add32(sign: int) -> Write:
    def write(place: RelocationSite, value: int) -> None:
        place.put(0xFFFFFFFF, place.word() + sign * value)

    return write


X86_64 = Architecture(
    {
        1: RelocationKind(_word64),  # 64
        2: RelocationKind(_word32, relative=True),  # PC32
        4: RelocationKind(_word32, via="L", relative=True),  # PLT32
        9: RelocationKind(_word32, via="G", relative=True),  # GOTPCREL
        24: RelocationKind(_word64, relative=True),  # PC64
        41: RelocationKind(_word32, via="G", relative=True),  # GOTPCRELX
        42: RelocationKind(_word32, via="G", relative=True),  # REX_GOTPCRELX
    },
    # jmp *[rip + 2]
    b"\xff\x25\x02\x00\x00\x00\x66\x90" + bytes(8),
)


def _branch(bits: int, shift: int) -> Write:
    """A jump of AArch64 to a place that is a multiple of 4 bytes away."""

    def write(place: RelocationSite, value: int) -> None:
        place.put((1 << bits) - 1 << shift, _check(value, bits + 2, 4) // 4 << shift)

    return write


def _address(place: RelocationSite, pages: int) -> None:
    """The immediate of ADR and ADRP: its two lowest bits stand apart."""
    place.put(0x60FFFFE0, (pages & 3) << 29 | (_check(pages, 21) >> 2 & 0x7FFFF) << 5)


def _low12(scale: int) -> Write:
    """The lowest 12 bits of an address, for an access of `scale` bytes."""

    def write(place: RelocationSite, value: int) -> None:
        low = value & 0xFFF
        if low % scale:
            raise ValueError(f"an address is no multiple of {scale}")
        place.put(0xFFF << 10, low // scale << 10)

    return write


AARCH64 = Architecture(
    {
        257: RelocationKind(_word64),  # ABS64
        260: RelocationKind(_word64, relative=True),  # PREL64
        261: RelocationKind(_word32, relative=True),  # PREL32
        273: RelocationKind(_branch(19, 5), relative=True),  # LD_PREL_LO19
        274: RelocationKind(_address, relative=True),  # ADR_PREL_LO21
        275: RelocationKind(lambda place, value: _address(place, value >> 12), paged=True),  # ADR_PREL_PG_HI21
        277: RelocationKind(_low12(1)),  # ADD_ABS_LO12_NC
        278: RelocationKind(_low12(1)),  # LDST8_ABS_LO12_NC
        279: RelocationKind(_branch(14, 5), relative=True),  # TSTBR14
        280: RelocationKind(_branch(19, 5), relative=True),  # CONDBR19
        282: RelocationKind(_branch(26, 0), via="L", relative=True),  # JUMP26
        283: RelocationKind(_branch(26, 0), via="L", relative=True),  # CALL26
        284: RelocationKind(_low12(2)),  # LDST16_ABS_LO12_NC
        285: RelocationKind(_low12(4)),  # LDST32_ABS_LO12_NC
        286: RelocationKind(_low12(8)),  # LDST64_ABS_LO12_NC
        299: RelocationKind(_low12(16)),  # LDST128_ABS_LO12_NC
        311: RelocationKind(lambda place, value: _address(place, value >> 12), via="G", paged=True),  # ADR_GOT_PAGE
        312: RelocationKind(_low12(8), via="G"),  # LD64_GOT_LO12_NC
    },
    # ldr x16, 8; br x16
    struct.pack("<II", 0x58000050, 0xD61F0200) + bytes(8),
)


def _upper20(place: RelocationSite, value: int) -> None:
    """AUIPC: the lowest 12 bits, which another instruction adds, have a sign."""
    place.put(0xFFFFF000, _check(value + 0x800, 32) & 0xFFFFF000)


def _lower12_load(place: RelocationSite, value: int) -> None:
    place.put(0xFFF00000, (value & 0xFFF) << 20)


def _lower12_store(place: RelocationSite, value: int) -> None:
    place.put(0xFE000F80, (value >> 5 & 0x7F) << 25 | (value & 0x1F) << 7)


def _call(place: RelocationSite, value: int) -> None:
    """AUIPC and JALR."""
    _upper20(place, value)
    _lower12_load(place._replace(at=place.at + 4), value)


def _riscv_branch(place: RelocationSite, value: int) -> None:
    v = _check(value, 13, 2)
    place.put(0xFE000F80, (v >> 12 & 1) << 31 | (v >> 5 & 0x3F) << 25 | (v >> 1 & 0xF) << 8 | (v >> 11 & 1) << 7)


def _riscv_jump(place: RelocationSite, value: int) -> None:
    v = _check(value, 21, 2)
    place.put(0xFFFFF000, (v >> 20 & 1) << 31 | (v >> 1 & 0x3FF) << 21 | (v >> 11 & 1) << 20 | (v >> 12 & 0xFF) << 12)


RISCV64 = Architecture(
    {
        2: RelocationKind(_word64),  # 64
        16: RelocationKind(_riscv_branch, relative=True),  # BRANCH
        17: RelocationKind(_riscv_jump, via="L", relative=True),  # JAL
        18: RelocationKind(_call, via="L", relative=True),  # CALL
        19: RelocationKind(_call, via="L", relative=True),  # CALL_PLT
        20: RelocationKind(_upper20, via="G", relative=True),  # GOT_HI20
        23: RelocationKind(_upper20, relative=True),  # PCREL_HI20
        24: RelocationKind(_lower12_load),  # PCREL_LO12_I
        25: RelocationKind(_lower12_store),  # PCREL_LO12_S
        35: RelocationKind(_add32(1)),  # ADD32
        36: RelocationKind(_add64(1)),  # ADD64
        39: RelocationKind(_add32(-1)),  # SUB32
        40: RelocationKind(_add64(-1)),  # SUB64
        57: RelocationKind(_word32, relative=True),  # 32_PCREL
    },
    # auipc t1, 0; ld t1, 16(t1); jr t1; nop
    struct.pack("<IIII", 0x00000317, 0x01033303, 0x00030067, 0x00000013) + bytes(8),
    pcrel_low=frozenset({24, 25}),
    hints=frozenset({51}),  # RELAX
)

ARCHITECTURES: Mapping[int, Architecture] = {elf.X86_64: X86_64, elf.AARCH64: AARCH64, elf.RISCV64: RISCV64}
"""By the number that the machine has in ELF files."""
