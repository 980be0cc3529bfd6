"""`tvm.te.autodiff`, which is not here."""

from __future__ import annotations

from typing import NoReturn

from pegbox.errors import ComputeError


def gradient(*_arguments: object, **_options: object) -> NoReturn:
    """Refused: TVM removed it too.

    Raises:
        ComputeError: always.
    """
    raise ComputeError("te.gradient: pegbox derives no gradients; write the gradient with te.compute")
