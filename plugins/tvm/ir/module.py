"""`tvm.ir.module`."""

from __future__ import annotations

from pegbox.loops.module import IRModule as IRModule
