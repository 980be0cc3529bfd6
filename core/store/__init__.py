"""The user's store: the best records of each task, and compiled kernels, kept for every later program of this user.

Names are imported when they are first used, so that finding a kernel does not load records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pegbox.exports import on_demand

if TYPE_CHECKING:
    from pegbox.store.database import StoreWarning
    from pegbox.store.store import TuningStore, best_config, user_store

__all__ = ["StoreWarning", "TuningStore", "best_config", "user_store"]

__getattr__ = on_demand(__name__)


def __dir__() -> list[str]:
    return __all__
