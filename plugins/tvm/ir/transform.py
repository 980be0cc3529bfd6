"""`tvm.transform`: `PassContext`, whose options are taken where they mean something."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import replace
from types import TracebackType
from typing import Any

from pegbox.errors import ArgumentError
from pegbox.loops.nodes import For, ForKind, Function, Seq, Stmt, seq
from pegbox.loops.visit import with_serial
from pegbox.plugins.tvm.absence import names
from pegbox.plugins.tvm.notice import means_nothing
from pegbox.schedule.te.schedule import TESchedule
from pegbox.schedule.te.stage import Root

__getattr__ = names(__name__)
_entered: ContextVar[tuple[PassContext, ...]] = ContextVar("pegbox_tvm_passes", default=())

_VECTORIZE = "tir.disable_vectorize"
_UNROLL = "tir.UnrollLoop"


class PassContext:
    """Options of lowering for the `with` block.

    `tir.disable_vectorize` is obeyed, and `auto_max_step` of `tir.UnrollLoop`; others say that they mean nothing.

    Raises:
        ArgumentError: `tir.add_lower_pass`: passes of a user's own are not run.
    """

    def __init__(
        self,
        opt_level: int = 2,
        required_pass: Sequence[str] | None = None,
        disabled_pass: Sequence[str] | None = None,
        instruments: Sequence[object] | None = None,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        self.opt_level = opt_level
        self.config = dict(config or {})
        if self.config.get("tir.add_lower_pass"):
            raise ArgumentError(
                "PassContext: tir.add_lower_pass: lowering runs no passes of others; change the program before, with "
                "tir.Schedule"
            )
        for name in self.config:
            if name not in (_VECTORIZE, _UNROLL):
                means_nothing(f"the option {name!r} of PassContext", "lowering has no such pass")
        for name, given in (
            ("required_pass", required_pass),
            ("disabled_pass", disabled_pass),
            ("instruments", instruments),
        ):
            if given:
                means_nothing(f"{name} of PassContext", "lowering is always the same")

    @staticmethod
    def current() -> PassContext:
        """That of the innermost `with` block around the caller, else one without options."""
        entered = _entered.get()
        return entered[-1] if entered else PassContext()

    def function(self, func: Function) -> Function:
        """The program as the options want it."""
        body = func.body
        if self.config.get(_VECTORIZE):
            body = with_serial(body, ForKind.VECTORIZED)
        if self._unroll_steps:
            body = seq(
                *(_unrolled(part, self._unroll_steps) for part in (body.stmts if isinstance(body, Seq) else [body]))
            )
        return func.with_body(body)

    def schedule(self, schedule: TESchedule) -> TESchedule:
        """The schedule as the options want it."""
        plain = schedule.copy() if self.config else schedule
        for stage in plain.stages if self.config else ():
            if self.config.get(_VECTORIZE):
                stage.kinds = {loop: kind for loop, kind in stage.kinds.items() if kind is not ForKind.VECTORIZED}
            if self._unroll_steps and isinstance(stage.attach, Root) and stage.leaf_iter_vars:
                stage.pragma(stage.leaf_iter_vars[0], "auto_unroll_max_step", self._unroll_steps)
        return plain

    @property
    def _unroll_steps(self) -> int:
        return int(self.config.get(_UNROLL, {}).get("auto_max_step", 0))

    def __enter__(self) -> PassContext:
        _entered.set((*_entered.get(), self))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _entered.set(_entered.get()[:-1])


def _unrolled(stmt: Stmt, steps: int) -> Stmt:
    """A loop with the hint to unroll what is inside; other statements stay."""
    hint = ("pragma_auto_unroll_max_step", steps)
    return replace(stmt, annotations=(*stmt.annotations, hint)) if isinstance(stmt, For) else stmt
