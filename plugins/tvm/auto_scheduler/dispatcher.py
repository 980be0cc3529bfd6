"""`ApplyHistoryBest`: the best records of files, asked for by workload."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, ClassVar

from pegbox.errors import ArgumentError
from pegbox.plugins.tvm.absence import names
from pegbox.plugins.tvm.auto_scheduler.measure import MeasureResult
from pegbox.plugins.tvm.auto_scheduler.measure_record import RecordedInput, RecordReader, load_best_record
from pegbox.plugins.tvm.notice import means_nothing
from pegbox.plugins.tvm.target import TargetLike
from pegbox.records.history import apply_history_best

if TYPE_CHECKING:
    from typing_extensions import Self

    from pegbox.plugins.tvm.auto_scheduler.state_object import StateObject

__getattr__ = names(__name__)


class DispatchContext:
    """The base of contexts; `current` is that of the innermost `with` block."""

    current: ClassVar[DispatchContext | None] = None

    def query(
        self,
        target: TargetLike,
        workload_key: str,
        has_complex_op: bool = False,
        dag: Any = None,
        func_name: str = "",
    ) -> StateObject | None:
        """The best state of a workload; None where there is none."""
        return None


class ApplyHistoryBest(DispatchContext):
    """The best records of files, in effect for `query` and for `pegbox.build(task)` in a `with` block.

    Args:
        records: a file, or a list of files.

    Raises:
        RecordError: a file cannot be read.
        ArgumentError: not files.
    """

    def __init__(
        self, records: str | Sequence[str], n_lines: int | None = None, include_compatible: bool = False
    ) -> None:
        self.files: list[str] = []
        self._stack = ExitStack()
        self._outer: DispatchContext | None = None
        if n_lines is not None:
            means_nothing("ApplyHistoryBest(n_lines=...)", "all records of the files count")
        if include_compatible:
            means_nothing("include_compatible=True", "the configurations of one shape mean nothing to another one")
        self.load(records)

    def load(self, records: str | Sequence[str], n_lines: int | None = None) -> None:
        """Take the records of more files in. Raises as the class."""
        files = [records] if isinstance(records, str) else list(records)
        for each in files:
            if not isinstance(each, str):
                raise ArgumentError(f"ApplyHistoryBest: {each!r} is no file; save records with save_records(file, ...)")
            RecordReader(each).read_lines()
        self.files += files

    def query(
        self,
        target: TargetLike,
        workload_key: str,
        has_complex_op: bool = False,
        dag: Any = None,
        func_name: str = "",
    ) -> StateObject | None:
        """The best state of a workload on a target; None where there is none."""
        found = [pair for file in self.files if (pair := load_best_record(file, workload_key, target))[0] is not None]
        best = min(found, key=_cost, default=None)
        return None if best is None or best[0] is None else best[0].state

    def __enter__(self) -> Self:
        self._outer, DispatchContext.current = DispatchContext.current, self
        self._stack.enter_context(apply_history_best(self.files))
        return self

    def __exit__(self, *error: object) -> None:
        DispatchContext.current = self._outer
        self._stack.close()


def _cost(pair: tuple[RecordedInput | None, MeasureResult | None]) -> float:
    assert pair[1] is not None
    return pair[1].result.cost


class ApplyHistoryBestOrSample(ApplyHistoryBest):
    """Refused: a state that nobody measured is no answer."""

    def __init__(self, *args: Any, **options: Any) -> None:
        raise ArgumentError("ApplyHistoryBestOrSample: tune the task first, then ApplyHistoryBest(file) answers for it")
