"""The job of processes that make a model's kernels: from a task to the predicted configuration and its code."""

from __future__ import annotations

import pickle
from itertools import islice

from pegbox.codegen.runtime.machine import compile_program, warm_up
from pegbox.errors import REFUSED, SpaceError
from pegbox.measure.jobs.packed_task import unpack_task
from pegbox.search.models.prediction import TRIED, lowered_predictions

__all__ = ["predicted_kernel", "warm_up"]


def predicted_kernel(packed: bytes) -> bytes:
    """Compile the best predicted configuration that can be compiled.

    Returns:
        The pickled digits and program; empty if none can be compiled, and then the parent tries again, for the error.
        LLVM may end this process.
    """
    task = unpack_task(packed)
    try:
        for config, program in islice(lowered_predictions(task), TRIED):
            try:
                made = compile_program(program or task.lower(config), apart=False)
            except REFUSED:
                continue
            return pickle.dumps((config.digits, made))
    except SpaceError:  # the template has no valid configuration
        pass
    return b""
