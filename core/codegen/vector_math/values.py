"""Values that build LLVM text through Python arithmetic, for writing math functions.

A `Body` collects instructions; a `VectorValue` is an SSA name or constant in it, whose operators append instructions.
The text is the same for any number of lanes except for the types, so LLVM chooses the registers.

Only instructions that every target lowers without a library call are used: `llvm.fmuladd` becomes a fused operation
where the hardware has one and two instructions elsewhere, so no algorithm here may rely on fusion; numbers are rounded
to integers by adding a big number, because `roundeven` is a call on old x86.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Final

BITS: Final = {"float": 32, "double": 64, "i16": 16, "i32": 32, "i64": 64, "i1": 1}
INTEGER_OF: Final = {"float": "i32", "double": "i64"}
SUFFIX: Final = {"float": "f32", "double": "f64"}


class Body:
    """The instructions of one function of `lanes`-wide values, and the intrinsics that they call.

    `register_lanes` is the number of float32s in a register from which a permutation picks: 16 with AVX-512 (F and DQ),
    8 with AVX2, both only with fused multiply-add, else 0.
    """

    def __init__(self, lanes: int, *, register_lanes: int = 0) -> None:
        self.lanes = lanes
        self.register_lanes = register_lanes
        self.lines: list[str] = []
        self.declares: set[str] = set()

    def type(self, element: str) -> str:
        return element if self.lanes == 1 else f"<{self.lanes} x {element}>"

    def emit(self, text: str, element: str) -> VectorValue:
        name = f"%v{len(self.lines)}"
        self.lines.append(f"  {name} = {text}")
        return VectorValue(self, name, element)

    def const(self, value: float | int, element: str) -> VectorValue:
        """Make a constant with the same number in every lane; floats are rounded to the element type."""
        text = _constant(value, element)
        if self.lanes > 1:
            text = "<" + ", ".join([f"{element} {text}"] * self.lanes) + ">"
        return VectorValue(self, text, element)

    def intrinsic(self, name: str, *args: VectorValue) -> VectorValue:
        """Call `llvm.<name>` on values of one float type."""
        element = args[0].element
        mangled = SUFFIX[element] if self.lanes == 1 else f"v{self.lanes}{SUFFIX[element]}"
        ty = self.type(element)
        self.declares.add(f"declare {ty} @llvm.{name}.{mangled}({', '.join([ty] * len(args))})")
        return self.emit(f"call {ty} @llvm.{name}.{mangled}({', '.join(f'{ty} {a.text}' for a in args)})", element)


def _constant(value: float | int, element: str) -> str:
    """Write a number, rounded to the type."""
    if element.startswith("i"):
        return str(int(value))
    if element == "float":
        (value,) = struct.unpack("f", struct.pack("f", value))
    # LLVM writes a float constant as the bits of the double that equals it.
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


def _binary(
    of_floats: str, of_integers: str = "", *, gives: str = ""
) -> Callable[[VectorValue, VectorValue | float | int], VectorValue]:
    """Make a method for an instruction, given its names for floats and integers, or one name for both."""

    def method(self: VectorValue, other: VectorValue | float | int) -> VectorValue:
        name = of_floats if self.is_float or not of_integers else of_integers
        text = f"{name} {self.body.type(self.element)} {self.text}, {self.lift(other).text}"
        return self.body.emit(text, gives or self.element)

    return method


class VectorValue:
    """A number per lane. Arithmetic with Python numbers lifts them to constants of the same type.

    Comparisons are methods (`lt`, `eq`, ...): ordered ones, which are false if a side is NaN, except `ne`.
    """

    __slots__ = ("body", "element", "text")

    def __init__(self, body: Body, text: str, element: str) -> None:
        self.body = body
        self.text = text
        self.element = element

    @property
    def is_float(self) -> bool:
        return not self.element.startswith("i")

    def lift(self, other: VectorValue | float | int) -> VectorValue:
        return other if isinstance(other, VectorValue) else self.body.const(other, self.element)

    __add__ = _binary("fadd", "add")
    __sub__ = _binary("fsub", "sub")
    __mul__ = _binary("fmul", "mul")
    __truediv__ = _binary("fdiv")
    __and__ = _binary("and")
    __or__ = _binary("or")
    __xor__ = _binary("xor")
    __lshift__ = _binary("shl")
    __rshift__ = _binary("ashr")  # copies the sign
    shifted_right = _binary("lshr")  # shifts in zeros; every target has it for 64-bit vectors, unlike ashr
    lt = _binary("fcmp olt", "icmp slt", gives="i1")
    gt = _binary("fcmp ogt", "icmp sgt", gives="i1")
    ge = _binary("fcmp oge", "icmp sge", gives="i1")
    eq = _binary("fcmp oeq", "icmp eq", gives="i1")
    _unordered = _binary("fcmp uno", gives="i1")

    def __rsub__(self, other: float | int) -> VectorValue:
        return self.lift(other) - self

    def __rtruediv__(self, other: float | int) -> VectorValue:
        return self.lift(other) / self

    def __invert__(self) -> VectorValue:
        return self ^ (1 if self.element == "i1" else -1)

    def is_nan(self) -> VectorValue:
        return self._unordered(self)

    def where(self, a: VectorValue | float | int, b: VectorValue | float | int) -> VectorValue:
        """Choose `a` in the lanes where this bool holds, `b` elsewhere; at least one must be a VectorValue."""
        model = a if isinstance(a, VectorValue) else b
        if not isinstance(model, VectorValue):
            raise TypeError("where needs a VectorValue to know the type")
        ty = self.body.type(model.element)
        condition = f"{self.body.type('i1')} {self.text}"
        return self.body.emit(
            f"select {condition}, {ty} {model.lift(a).text}, {ty} {model.lift(b).text}", model.element
        )

    def at_least(self, bound: float) -> VectorValue:
        """Clamp from below; NaN stays."""
        return self.lt(bound).where(bound, self)

    def at_most(self, bound: float) -> VectorValue:
        """Clamp from above; NaN stays."""
        return self.gt(bound).where(bound, self)

    def below(self, bound: float) -> VectorValue:
        """Clamp from above, by comparing bits as integers; NaN without a sign becomes the bound."""
        return self.bits().lesser(self.lift(bound).bits()).from_bits(self.element)

    def fma(self, factor: VectorValue | float, addend: VectorValue | float) -> VectorValue:
        """Compute `self * factor + addend`, fused if the target does that in one instruction."""
        return self.body.intrinsic("fmuladd", self, self.lift(factor), self.lift(addend))

    def lesser(self, other: VectorValue) -> VectorValue:
        """Return the lesser of two signed integers."""
        return self.lt(other).where(self, other)

    def abs(self) -> VectorValue:
        return self.body.intrinsic("fabs", self)

    def sqrt(self) -> VectorValue:
        return self.body.intrinsic("sqrt", self)

    @property
    def fills_avx512(self) -> bool:
        """True if `scaled`, `fraction` and `bounded` are instructions: in whole registers of AVX-512."""
        return self.body.register_lanes == 16 and self.body.lanes * BITS[self.element] == 512

    def scaled(self, exponent: VectorValue, *, where: VectorValue | None = None) -> VectorValue:
        """Compute `self * 2^floor(exponent)` by one instruction of AVX-512, for exponents of any size.

        Args:
            where: the lanes to compute, as a bool; the others are zero.
        """
        return self._avx512("scalef", exponent, where=where)

    def fraction(self, bits: int, *, down: bool = False) -> VectorValue:
        """Subtract the nearest multiple of 2^-bits by one instruction of AVX-512; infinities give zero.

        Args:
            down: subtract the next lower multiple instead.
        """
        return self._avx512("reduce", bits << 4 | down)

    def plus_down(self, other: float) -> VectorValue:
        """Add a number and round the sum down, by one instruction of AVX-512."""
        ty, symbol = self.body.type(self.element), "@llvm.x86.avx512.add.ps.512"
        self.body.declares.add(f"declare {ty} {symbol}({ty}, {ty}, i32)")
        return self.body.emit(
            f"call {ty} {symbol}({ty} {self.text}, {ty} {self.lift(other).text}, i32 9)", self.element
        )

    def bounded(self, most: float) -> VectorValue:
        """Clamp to the range from -most to most by one instruction of AVX-512; NaN becomes one of the two."""
        return self._avx512("range", self.lift(most), 2)

    def _avx512(self, name: str, *more: VectorValue | int, where: VectorValue | None = None) -> VectorValue:
        """Call an AVX-512 instruction with further operands, rounding to nearest, in all lanes or those of a mask."""
        ty, mask, kind = self.body.type(self.element), f"i{self.body.lanes}", "ps" if self.element == "float" else "pd"
        lanes, else_ = "-1", "poison"
        if where is not None:
            cast = f"bitcast {self.body.type('i1')} {where.text} to {mask}"
            lanes, else_ = self.body.emit(cast, mask).text, "zeroinitializer"
        symbol = f"@llvm.x86.avx512.mask.{name}.{kind}.512"
        typed = [("i32", str(each)) if isinstance(each, int) else (ty, each.text) for each in more]
        types, operands = (", ".join(parts) for parts in ([each for each, _ in typed], map(" ".join, typed)))
        self.body.declares.add(f"declare {ty} {symbol}({ty}, {types}, {ty}, {mask}, i32)")
        operands = f"{ty} {self.text}, {operands}, {ty} {else_}, {mask} {lanes}, i32 4"
        return self.body.emit(f"call {ty} {symbol}({operands})", self.element)

    def in_whole_register(self, function: Callable[[VectorValue], VectorValue]) -> VectorValue:
        """Apply a function to a whole register that begins with these lanes, and return these lanes of its result."""
        count = self.body.register_lanes
        whole = Body(count, register_lanes=count)
        whole.lines, whole.declares = self.body.lines, self.body.declares
        return self._narrowed(function(VectorValue(whole, self._widened(count).text, self.element)))

    @property
    def can_pick(self) -> bool:
        """True if `picked` is an instruction."""
        return self.element == "float" and self.body.lanes <= self.body.register_lanes

    def picked(self, table: Sequence[float]) -> VectorValue:
        """Pick float32s from a table by the lowest bits of each lane, a 32-bit integer.

        The table has `register_lanes` numbers, or, with AVX-512, up to twice as many.
        """
        count = self.body.register_lanes
        numbers, indices = f"<{count} x float>", f"<{count} x i32> {self._widened(count).text}"
        listed = [f"float {_constant(value, 'float')}" for value in table]
        first, *more = (f"{numbers} <{', '.join(listed[k : k + count])}>" for k in range(0, len(listed), count))
        operands = ", ".join([first, indices, *more])
        name = "avx512.vpermi2var.ps.512" if more else "avx512.permvar.sf.512" if count == 16 else "avx2.permps"
        types = ", ".join([numbers, f"<{count} x i32>", *[numbers] * len(more)])
        self.body.declares.add(f"declare {numbers} @llvm.x86.{name}({types})")
        return self._narrowed(self.body.emit(f"call {numbers} @llvm.x86.{name}({operands})", "float"))

    def _widened(self, count: int) -> VectorValue:
        """Append lanes of arbitrary value until there are `count`."""
        if self.body.lanes == 1:
            ty = f"<{count} x {self.element}>"
            return self.body.emit(f"insertelement {ty} poison, {self.element} {self.text}, i64 0", self.element)
        return self._shuffled(self.body.lanes, count)

    def _narrowed(self, whole: VectorValue) -> VectorValue:
        """Return the first lanes of a whole register, as many as this value has."""
        count, found = self.body.register_lanes, VectorValue(self.body, whole.text, whole.element)
        if self.body.lanes == 1:
            ty = f"<{count} x {whole.element}>"
            return self.body.emit(f"extractelement {ty} {whole.text}, i64 0", whole.element)
        return found._shuffled(count, self.body.lanes)

    def _shuffled(self, lanes: int, count: int) -> VectorValue:
        """Return the first `count` of `lanes` lanes, filled up with poison if there are fewer."""
        if lanes == count:
            return self
        ty = f"<{lanes} x {self.element}>"
        order = ", ".join(f"i32 {lane if lane < lanes else 'poison'}" for lane in range(count))
        return self.body.emit(f"shufflevector {ty} {self.text}, {ty} poison, <{count} x i32> <{order}>", self.element)

    def unless_beyond(self, limit: float, name: str, near: VectorValue) -> VectorValue:
        """Return `near`, or `llvm.<name>` of all lanes if any lane's magnitude is above a limit."""
        ty, test, lanes = self.body.type(self.element), self.body.type("i1"), self.body.lanes
        kind = SUFFIX[self.element] if lanes == 1 else f"v{lanes}{SUFFIX[self.element]}"
        beyond = self.abs().gt(limit)
        symbol = f"@pegbox.far.{name}.{kind}"
        self.body.declares.add(f"declare {ty} @llvm.{name}.{kind}({ty})")
        is_any = "%any = and i1 %beyond, true"
        if lanes > 1:
            self.body.declares.add(f"declare i1 @llvm.vector.reduce.or.v{lanes}i1({test})")
            is_any = f"%any = call i1 @llvm.vector.reduce.or.v{lanes}i1({test} %beyond)"
        self.body.declares.add(
            f"define internal {ty} {symbol}({ty} %x, {test} %beyond, {ty} %near) noinline nounwind {{\n"
            f"  {is_any}\n  br i1 %any, label %far, label %done\n"
            f"far:\n  %called = call {ty} @llvm.{name}.{kind}({ty} %x)\n  ret {ty} %called\n"
            f"done:\n  ret {ty} %near\n}}"
        )
        return self.body.emit(
            f"call {ty} {symbol}({ty} {self.text}, {test} {beyond.text}, {ty} {near.text})", self.element
        )

    def copysign(self, sign: VectorValue) -> VectorValue:
        return self.body.intrinsic("copysign", self, sign)

    def _convert(self, op: str, element: str) -> VectorValue:
        return self.body.emit(f"{op} {self.body.type(self.element)} {self.text} to {self.body.type(element)}", element)

    def bits(self) -> VectorValue:
        """Reinterpret the bits as an integer of the same width."""
        return self._convert("bitcast", INTEGER_OF[self.element])

    def from_bits(self, element: str) -> VectorValue:
        return self._convert("bitcast", element)

    def to_float(self, element: str) -> VectorValue:
        """Convert to another float type, or from a signed integer."""
        if not self.is_float:
            return self._convert("sitofp", element)
        if element == self.element:
            return self
        return self._convert("fpext" if BITS[element] > BITS[self.element] else "fptrunc", element)

    def to_int(self, element: str) -> VectorValue:
        """Convert to an integer with more bits (zeros in front) or fewer."""
        return self._convert("zext" if BITS[element] > BITS[self.element] else "trunc", element)


def polynomial(x: VectorValue, coefficients: Sequence[float | VectorValue]) -> VectorValue:
    """Compute the polynomial c[0] + c[1] x + ..., by Horner's rule in x² for pairs of terms c + c' x.

    The pairs are independent, so this takes little more than half the time. For three terms, Horner's rule in x takes
    as long and needs one operation fewer.
    """
    if len(coefficients) == 3:
        return horner(x, coefficients)
    pairs = [
        x.fma(odd, even) for even, odd in zip(coefficients[::2], coefficients[1::2], strict=False)
    ]  # the terms of lower degree first
    if len(coefficients) % 2:
        pairs.append(x.lift(coefficients[-1]))
    square, result = x * x, pairs.pop()
    for pair in reversed(pairs):
        result = result.fma(square, pair)
    return result


def horner(x: VectorValue, coefficients: Sequence[float | VectorValue]) -> VectorValue:
    """Compute the polynomial c[0] + c[1] x + ... by Horner's rule in x, with the fewest operations."""
    *rest, last = coefficients
    result = x.lift(last)
    for each in reversed(rest):
        result = result.fma(x, each)
    return result
