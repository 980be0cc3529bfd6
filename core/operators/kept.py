"""Kept kernels: compiled code of earlier processes, found by the shapes of a call."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pegbox.codegen.runtime.kernel import Kernel
    from pegbox.operators.call_key import CallKey
    from pegbox.operators.implementation import Implementation


def kept_kernel(key: CallKey) -> Kernel | None:
    """Load the kernel that an earlier process kept under a key; None where there is none."""
    return None


def keep_kernel(key: CallKey, implementation: Implementation) -> None:
    """Keep the kernel of an implementation under a key, for later processes."""
