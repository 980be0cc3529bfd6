"""`tvm.autotvm.task.dispatcher`: contexts that say which configuration a template runs with."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeAlias

from pegbox.codegen.targets.target import Target, target_of
from pegbox.plugins.tvm.absence import names
from pegbox.plugins.tvm.autotvm.env import GLOBAL_SCOPE, logger
from pegbox.plugins.tvm.autotvm.task.fallback import FallbackConfigEntity

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

__getattr__ = names(__name__, {"ApplyHistoryBest": "pegbox.plugins.tvm.autotvm.history"})

Workload: TypeAlias = "tuple[Any, ...] | None"
"""The name of a template and its arguments; None where the template itself asks."""

_current: ContextVar[DispatchContext | None] = ContextVar("pegbox_tvm_dispatch", default=None)


class _Current(type):
    """Gives the class the attribute `current`: the innermost context around the caller, in its thread or task."""

    @property
    def current(cls) -> DispatchContext:
        return _current.get() or ROOT


class DispatchContext(metaclass=_Current):
    """Base of the contexts: `with context:`; `query` asks it, then those around it."""

    def __init__(self) -> None:
        self._outer: DispatchContext | None = None

    def query(self, target: Target | None, workload: Workload) -> Any:
        """The configuration that a template runs with."""
        found = self._query_inside(target, workload)
        return found if found is not None else (self._outer or ROOT).query(target, workload)

    def update(self, target: Target | None, workload: Workload, cfg: Any) -> None:
        """Choose the configuration of a workload."""
        raise NotImplementedError

    def _query_inside(self, target: Target | None, workload: Workload) -> Any:
        """What this context says, None where it says nothing."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        self._outer = _current.get()
        _current.set(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _current.set(self._outer)


class ApplyConfig(DispatchContext):
    """One configuration for all that ask."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self._config = config
        self.workload: Workload = None

    def _query_inside(self, target: Target | None, workload: Workload) -> Any:
        self.workload = workload
        return self._config

    def update(self, target: Target | None, workload: Workload, cfg: Any) -> None:
        self.workload = workload
        self._config = cfg


class Chosen(DispatchContext):
    """Remembers the configurations that `update` chose, by target and workload."""

    def __init__(self) -> None:
        super().__init__()
        self._chosen: dict[tuple[str, Workload], Any] = {}

    def update(self, target: Target | None, workload: Workload, cfg: Any) -> None:
        self._chosen[str(target_of(target)), workload] = cfg

    def _query_inside(self, target: Target | None, workload: Workload) -> Any:
        return self._chosen.get((str(target_of(target)), workload))


class FallbackContext(Chosen):
    """The outermost context: any template can be called, with what it says itself or the first value of each knob."""

    def query(self, target: Target | None, workload: Workload) -> Any:
        chosen = self._query_inside(target, workload)
        if chosen is not None:
            return chosen
        message = f"no configuration for target={target_of(target)}, workload={workload}: a fallback is used"
        if workload is not None and not GLOBAL_SCOPE.silent and message not in _warned:
            _warned.add(message)
            logger.warning("%s, which may be far from the best; tune it first", message)
        return FallbackConfigEntity()

    def clear_cache(self, target: Target | None, workload: Workload) -> None:
        """Forget what was chosen for a workload."""
        self._chosen.pop((str(target_of(target)), workload), None)


_warned: set[str] = set()
ROOT = FallbackContext()


def clear_fallback_cache(target: Target | None, workload: Workload) -> None:
    """Forget what was chosen for a workload outside of all contexts."""
    ROOT.clear_cache(target, workload)
