"""`tvm.transform`: `PassContext`, around calls of `tvm.lower` and `tvm.build`."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

from pegbox.plugins.tvm.absence import refuse


def PassContext(opt_level: int = 2, **options: Any) -> nullcontext[None]:
    """Make a context of lowering, which is always the same: `opt_level` has no effect, options are refused.

    Raises `ArgumentError` for these.
    """
    refuse("PassContext", options)
    return nullcontext()
