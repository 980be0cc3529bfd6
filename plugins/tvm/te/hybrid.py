"""`tvm.te.hybrid`, which is refused when it is used."""

from __future__ import annotations

from typing import NoReturn

from pegbox.errors import ComputeError


def __getattr__(name: str) -> NoReturn:
    if name.startswith("__"):
        raise AttributeError(name)
    raise ComputeError(
        f"te.hybrid.{name}: hybrid scripts are not here; write the loops with @T.prim_func (tvm.script), or with "
        "tir.ir_builder in te.extern"
    )
