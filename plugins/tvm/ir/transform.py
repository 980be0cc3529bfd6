"""`tvm.transform`: `PassContext`, whose options are taken where they mean something."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from types import TracebackType
from typing import Any

from pegbox.errors import ArgumentError
from pegbox.loops.nodes import ForKind, Function
from pegbox.loops.visit import with_serial
from pegbox.plugins.tvm.notice import means_nothing
from pegbox.schedule.te.schedule import TESchedule

_entered: ContextVar[tuple[PassContext, ...]] = ContextVar("pegbox_tvm_passes", default=())

_VECTORIZE = "tir.disable_vectorize"


class PassContext:
    """Options of lowering for the `with` block. `tir.disable_vectorize` is obeyed; others say that they mean nothing.

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
            if name != _VECTORIZE:
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
        plain = self.config.get(_VECTORIZE)
        return func.with_body(with_serial(func.body, ForKind.VECTORIZED)) if plain else func

    def schedule(self, schedule: TESchedule) -> TESchedule:
        """The schedule as the options want it."""
        if not self.config.get(_VECTORIZE):
            return schedule
        plain = schedule.copy()
        for stage in plain.stages:
            stage.kinds = {loop: kind for loop, kind in stage.kinds.items() if kind is not ForKind.VECTORIZED}
        return plain

    def __enter__(self) -> PassContext:
        _entered.set((*_entered.get(), self))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _entered.set(_entered.get()[:-1])
