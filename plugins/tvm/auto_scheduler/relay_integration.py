"""Tasks of whole models: there is no relay here, so that these names say where to go."""

from __future__ import annotations

from typing import Any, NoReturn

from pegbox.errors import ArgumentError
from pegbox.plugins.tvm.absence import names

__getattr__ = names(__name__)


def extract_tasks(*args: Any, **options: Any) -> NoReturn:
    """Refused: pegbox reads no models of relay."""
    raise ArgumentError(
        "extract_tasks: pegbox reads no models of relay; write a workload for each operator "
        "(@auto_scheduler.register_workload), and give the SearchTasks with their weights to TaskScheduler"
    )


def is_auto_scheduler_enabled() -> bool:
    """No pass of relay asks for schedules."""
    return False


def remove_index_check(*args: Any, **options: Any) -> NoReturn:
    """Refused: only relay's rewriting of layouts has a use for it."""
    _layout("remove_index_check")


def rewrite_compute_body(*args: Any, **options: Any) -> NoReturn:
    """Refused: only relay's rewriting of layouts has a use for it."""
    _layout("rewrite_compute_body")


def rewrite_tensor_shape(*args: Any, **options: Any) -> NoReturn:
    """Refused: only relay's rewriting of layouts has a use for it."""
    _layout("rewrite_tensor_shape")


def _layout(name: str) -> NoReturn:
    raise ArgumentError(
        f"{name}: relay's rewriting of layouts is not here; list inputs that are packed ahead in the attribute "
        "layout_free_placeholders, and pack them by pegbox.templates.pack_weights"
    )
