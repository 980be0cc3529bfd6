"""Operators: templates and workloads as functions of arrays.

Names are imported when they are first used, since a call of a kept kernel needs few of the modules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pegbox.exports import on_demand

if TYPE_CHECKING:
    from pegbox.operators.arrays import CopyWarning
    from pegbox.operators.implementation import Implementation
    from pegbox.operators.op import Operator, operator
    from pegbox.operators.packed import PackedOperand

__all__ = ["CopyWarning", "Implementation", "Operator", "PackedOperand", "operator"]

__getattr__ = on_demand(__name__)


def __dir__() -> list[str]:
    return __all__
