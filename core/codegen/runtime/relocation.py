"""Relocations: the encodings of addresses in each processor's instructions and words.

Sources: "System V ABI, AMD64 Architecture Processor Supplement", "ELF for the Arm 64-bit Architecture (AArch64)",
"RISC-V ELF psABI". The kinds are those that LLVM writes for position-independent code without exceptions. The letters
are taken from these texts: S is the symbol's address, A the addend, P the place that is changed, G the address of a
word that holds S, L the address of a jump to S.
"""

import struct
from collections.abc import Callable, Mapping
from typing import NamedTuple

from pegbox.codegen.runtime import elf

Write = Callable[[bytearray, int, int], None]
"""A function that writes a value into the instruction or word at a place of an image."""


def _put(image: bytearray, at: int, mask: int, bits: int) -> None:
    """Replace the masked bits of a 32-bit word."""
    (word,) = struct.unpack_from("<I", image, at)
    struct.pack_into("<I", image, at, word & ~mask | bits & mask)


class RelocationKind(NamedTuple):
    """A kind of relocation: the symbol is reached `via` its address (S), a word (G) or a jump (L).

    The value is relative to P (`relative`), to P's page (`paged`), or absolute; `write` stores it.
    """

    write: Write
    via: str = "S"
    relative: bool = False
    paged: bool = False

    def value(self, address: int, addend: int, place: int) -> int:
        """Compute the value to write; `address` is S, G or L."""
        if self.paged:
            return (address + addend & -0x1000) - (place & -0x1000)
        return address + addend - (place if self.relative else 0)


class Architecture(NamedTuple):
    """A processor's rules by number, and its jump: `stub` is the bytes, of which the last 8 are the address."""

    rules: Mapping[int, RelocationKind]
    stub: bytes
    pcrel_low: frozenset[int] = frozenset()
    """The relocations whose symbol names the place of another relocation, whose value they need (RISC-V)."""

    hints: frozenset[int] = frozenset()
    """The relocations that permit shorter instructions, which are not used here."""


def _check(value: int, bits: int, step: int = 1) -> int:
    """Return the value if a signed field of `bits` bits can hold it, else raise `ValueError`."""
    if not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise ValueError(f"a symbol lies {value:#x} bytes away, too far for a field of {bits} bits")
    if value % step:
        raise ValueError(f"an address is not a multiple of {step}")
    return value


def _word64(image: bytearray, at: int, value: int) -> None:
    struct.pack_into("<Q", image, at, value & (1 << 64) - 1)


def _word32(image: bytearray, at: int, value: int) -> None:
    struct.pack_into("<i", image, at, _check(value, 32))


def _added(word: str, sign: int) -> Write:
    """Make a function that adds to a word, or subtracts from it, modulo the word's size."""

    def write(image: bytearray, at: int, value: int) -> None:
        (old,) = struct.unpack_from(word, image, at)
        struct.pack_into(word, image, at, old + sign * value & (1 << 8 * struct.calcsize(word)) - 1)

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
    """Make a function that writes an AArch64 jump to a place that is a multiple of 4 bytes away."""
    return lambda image, at, value: _put(image, at, (1 << bits) - 1 << shift, _check(value, bits + 2, 4) // 4 << shift)


def _adr(image: bytearray, at: int, pages: int) -> None:
    """Write the immediate of ADR and ADRP, whose two lowest bits are stored apart from the others."""
    _put(image, at, 0x60FFFFE0, (pages & 3) << 29 | (_check(pages, 21) >> 2 & 0x7FFFF) << 5)


def _adrp(image: bytearray, at: int, value: int) -> None:
    _adr(image, at, value >> 12)


def _low12(scale: int) -> Write:
    """Make a function that writes the lowest 12 bits of an address, for an access of `scale` bytes."""

    def write(image: bytearray, at: int, value: int) -> None:
        low = value & 0xFFF
        if low % scale:
            raise ValueError(f"an address is not a multiple of {scale}")
        _put(image, at, 0xFFF << 10, low // scale << 10)

    return write


AARCH64 = Architecture(
    {
        257: RelocationKind(_word64),  # ABS64
        260: RelocationKind(_word64, relative=True),  # PREL64
        261: RelocationKind(_word32, relative=True),  # PREL32
        273: RelocationKind(_branch(19, 5), relative=True),  # LD_PREL_LO19
        274: RelocationKind(_adr, relative=True),  # ADR_PREL_LO21
        275: RelocationKind(_adrp, paged=True),  # ADR_PREL_PG_HI21
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
        311: RelocationKind(_adrp, via="G", paged=True),  # ADR_GOT_PAGE
        312: RelocationKind(_low12(8), via="G"),  # LD64_GOT_LO12_NC
    },
    # ldr x16, 8; br x16
    struct.pack("<II", 0x58000050, 0xD61F0200) + bytes(8),
)


def _upper20(image: bytearray, at: int, value: int) -> None:
    """Write AUIPC's part of a value: another instruction adds the lowest 12 bits, which are signed."""
    _put(image, at, 0xFFFFF000, _check(value + 0x800, 32) & 0xFFFFF000)


def _lower12_load(image: bytearray, at: int, value: int) -> None:
    _put(image, at, 0xFFF00000, (value & 0xFFF) << 20)


def _lower12_store(image: bytearray, at: int, value: int) -> None:
    _put(image, at, 0xFE000F80, (value >> 5 & 0x7F) << 25 | (value & 0x1F) << 7)


def _auipc_jalr(image: bytearray, at: int, value: int) -> None:
    _upper20(image, at, value)
    _lower12_load(image, at + 4, value)


def _riscv_branch(image: bytearray, at: int, value: int) -> None:
    v = _check(value, 13, 2)
    bits = (v >> 12 & 1) << 31 | (v >> 5 & 0x3F) << 25 | (v >> 1 & 0xF) << 8 | (v >> 11 & 1) << 7
    _put(image, at, 0xFE000F80, bits)


def _riscv_jump(image: bytearray, at: int, value: int) -> None:
    v = _check(value, 21, 2)
    bits = (v >> 20 & 1) << 31 | (v >> 1 & 0x3FF) << 21 | (v >> 11 & 1) << 20 | (v >> 12 & 0xFF) << 12
    _put(image, at, 0xFFFFF000, bits)


RISCV64 = Architecture(
    {
        2: RelocationKind(_word64),  # 64
        16: RelocationKind(_riscv_branch, relative=True),  # BRANCH
        17: RelocationKind(_riscv_jump, via="L", relative=True),  # JAL
        18: RelocationKind(_auipc_jalr, via="L", relative=True),  # CALL
        19: RelocationKind(_auipc_jalr, via="L", relative=True),  # CALL_PLT
        20: RelocationKind(_upper20, via="G", relative=True),  # GOT_HI20
        23: RelocationKind(_upper20, relative=True),  # PCREL_HI20
        24: RelocationKind(_lower12_load),  # PCREL_LO12_I
        25: RelocationKind(_lower12_store),  # PCREL_LO12_S
        35: RelocationKind(_added("<I", 1)),  # ADD32
        36: RelocationKind(_added("<Q", 1)),  # ADD64
        39: RelocationKind(_added("<I", -1)),  # SUB32
        40: RelocationKind(_added("<Q", -1)),  # SUB64
        57: RelocationKind(_word32, relative=True),  # 32_PCREL
    },
    # auipc t1, 0; ld t1, 16(t1); jr t1; nop
    struct.pack("<IIII", 0x00000317, 0x01033303, 0x00030067, 0x00000013) + bytes(8),
    pcrel_low=frozenset({24, 25}),
    hints=frozenset({51}),  # RELAX
)

ARCHITECTURES: Mapping[int, Architecture] = {elf.X86_64: X86_64, elf.AARCH64: AARCH64, elf.RISCV64: RISCV64}
"""The architectures, by their numbers in ELF files."""
