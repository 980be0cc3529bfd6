"""`PredictionPool`: processes that predict and compile the kernels of a model's tasks, one for each core."""

from __future__ import annotations

import pickle
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from types import TracebackType

from pegbox.codegen.compiled import COMPILE_SECONDS, CompiledProgram
from pegbox.codegen.targets.cores import usable_cores
from pegbox.errors import MeasureError
from pegbox.measure.jobs.packed_task import pack_task
from pegbox.space import Config
from pegbox.task.task import Task
from pegbox.workers.pool import Pool
from pegbox.workers.process import Worker

FEW = 6
"""The largest number of tasks whose prediction takes less time than starting processes."""

_JOBS = "pegbox.model.prediction_job"
_SECONDS = 2 * COMPILE_SECONDS
_MOST_REPLY = 1 << 30

Predicted = tuple[Config, CompiledProgram]


class PredictionPool:
    """A pool of processes, which end with the `with` block.

    Args:
        tasks: the expected number of tasks. For a few, or on one core, there are no processes.
    """

    def __init__(self, tasks: int) -> None:
        self._cores = usable_cores()
        self.size = 0 if tasks <= FEW or len(self._cores) == 1 else min(len(self._cores), tasks)

    def __enter__(self) -> PredictionPool:
        with ExitStack() as stack:
            if self.size:
                self._pool = Pool(self._start, self.size)
                stack.callback(self._pool.close)
                self._threads = stack.enter_context(ThreadPoolExecutor(self.size, "pegbox-prediction"))
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and self.size:
            self._threads.shutdown(wait=False, cancel_futures=True)
            self._pool.interrupt()
        self._stack.close()

    def submit(self, task: Task) -> Future[Predicted | None] | None:
        """Let a process make the predicted kernel of a task; None if this process has to.

        The result is None if the process made none: LLVM has ended it, it did not find the task's modules, or no
        prediction can be compiled.
        """
        if not self.size or (packed := pack_task(task)) is None:
            return None
        return self._threads.submit(self._predicted, task, packed)

    def _predicted(self, task: Task, packed: bytes) -> Predicted | None:
        try:
            with self._pool.worker() as worker:
                reply = worker.call("predicted_kernel", packed, timeout=_SECONDS)
        except MeasureError:
            return None
        if not isinstance(reply, bytes) or not reply:
            return None
        digits, program = pickle.loads(reply)
        # The returned target has all its features written out.
        return task.space.config(digits), program._replace(target=task.target)

    def _start(self, place: int) -> Worker:
        return Worker(_JOBS, warm=_JOBS, cores=self._cores, most_reply=_MOST_REPLY)
