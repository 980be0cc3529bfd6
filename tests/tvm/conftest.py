"""The state that scripts leave behind in the process is taken back after each test."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from pegbox.plugins.tvm.autotvm.task.task import TASK_TABLE


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    """AutoTVM's logger and table of templates."""
    logger, templates = logging.getLogger("autotvm"), dict(TASK_TABLE)
    level, handlers = logger.level, [*logger.handlers]
    yield
    logger.setLevel(level)
    logger.handlers[:] = handlers
    TASK_TABLE.clear()
    TASK_TABLE.update(templates)
