"""AutoTVM's global scope and its logger."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from pegbox.plugins.tvm.absence import names

__getattr__ = names(__name__)

logger = logging.getLogger("autotvm")


@dataclass
class AutotvmGlobalScope:
    """`silent` leaves out AutoTVM's warnings of fallback configurations; `in_tuning` says whether a search goes on."""

    silent: bool = False
    in_tuning: bool = False


GLOBAL_SCOPE = AutotvmGlobalScope()
