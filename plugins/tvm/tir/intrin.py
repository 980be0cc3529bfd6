"""`tvm.tir`: calls of C functions and of intrinsics in expressions."""

from __future__ import annotations

from enum import IntEnum

from pegbox.plugins.tvm.ir.op import call_intrin as call_intrin
from pegbox.te import call_extern

call_pure_extern = call_extern


class CallEffectKind(IntEnum):
    """What a call does beside giving its value. Calls in expressions are pure here."""

    ExprAnnotation = 0
    Pure = 1
    ReadState = 2
    UpdateState = 3
    SpecialCallArg = 4
    EmbedInfo = 5
    ControlJump = 6
    Opaque = 6
