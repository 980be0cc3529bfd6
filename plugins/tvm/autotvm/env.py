"""AutoTVM's global scope, its logger, and warnings of options that mean nothing here."""

from __future__ import annotations

import logging
import warnings
from dataclasses import dataclass

from pegbox.origin import users_level

logger = logging.getLogger("autotvm")

_told: set[str] = set()


class MeaninglessOption(UserWarning):
    """An option of AutoTVM's that means nothing in pegbox. Each is told once."""


def warn_of_option(option: str, why: str) -> None:
    """Say once that an option means nothing here."""
    if option not in _told:
        _told.add(option)
        warnings.warn(f"{option} means nothing in pegbox: {why}", MeaninglessOption, stacklevel=users_level())


@dataclass
class AutotvmGlobalScope:
    """`silent` leaves out AutoTVM's warnings of fallback configurations; `in_tuning` says whether a search goes on."""

    silent: bool = False
    in_tuning: bool = False


GLOBAL_SCOPE = AutotvmGlobalScope()
