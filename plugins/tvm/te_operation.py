"""What `tvm.te` has beyond pegbox's names: refused with the way that there is, or without a meaning here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from pegbox import te
from pegbox.errors import ComputeError
from pegbox.loops.nodes import Function
from pegbox.plugins.tvm.notice import means_nothing

__all__ = [
    "SpecializedCondition", "extern_primfunc", "gradient", "hybrid", "scan", "trace",
]  # fmt: skip


def scan(*_arguments: object, name: str = "scan", **_options: object) -> NoReturn:
    """Refused: a tensor whose elements need each other.

    Raises:
        ComputeError: always.
    """
    raise ComputeError(
        f"te.scan ({name}): stages of pegbox compute elements that do not need each other; write the loop over time "
        "with tir.ir_builder in te.extern (docs/compute.md), or the whole program with @T.prim_func"
    )


def extern_primfunc(input_tensors: Sequence[te.Tensor], primfunc: Function, **_options: object) -> NoReturn:
    """Refused: a program as a stage.

    Raises:
        ComputeError: always.
    """
    raise ComputeError(
        "te.extern_primfunc: a program is not a stage here; write its computation with te.compute, or schedule the "
        "program itself with tir.Schedule"
    )


def gradient(*_arguments: object, **_options: object) -> NoReturn:
    """Refused: TVM removed it too.

    Raises:
        ComputeError: always.
    """
    raise ComputeError("te.gradient: pegbox derives no gradients; write the gradient with te.compute")


def trace(*_arguments: object, **_options: object) -> NoReturn:
    """Refused: printing while a kernel runs.

    Raises:
        ComputeError: always.
    """
    raise ComputeError("te.trace: kernels print nothing; make the stage an output, and look at its array")


class _Hybrid:
    """`te.hybrid`, which is refused when it is used."""

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise ComputeError(
            f"te.hybrid.{name}: hybrid scripts are not here; write the loops with @T.prim_func (tvm.script), or with "
            "tir.ir_builder in te.extern"
        )


hybrid: Any = _Hybrid()


class SpecializedCondition:
    """Conditions on sizes: kernels are compiled for each set of sizes anyway, so they change nothing."""

    def __init__(self, conditions: Any) -> None:
        self.clauses = list(conditions) if isinstance(conditions, list | tuple) else [conditions]

    @staticmethod
    def current() -> None:
        """None: nothing asks for them."""

    def __enter__(self) -> SpecializedCondition:
        means_nothing("te.SpecializedCondition", "a kernel is compiled for each set of sizes that it is called with")
        return self

    def __exit__(self, *error: object) -> None:
        pass
