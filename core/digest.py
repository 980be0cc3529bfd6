"""SHA-256 without OpenSSL, which takes longer to load than the rest of a kernel that another process compiled.

Python has its own implementation for builds without OpenSSL; its `random` module uses it for the same reason.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any


def _plain() -> Callable[[bytes], Any]:
    for module in ("_sha256" if sys.version_info < (3, 12) else "_sha2", "hashlib"):
        try:
            found: Callable[[bytes], Any] = importlib.import_module(module).sha256
        except ImportError:
            continue
        return found
    raise ImportError("this Python has no SHA-256")


sha256 = _plain()
"""A function like `hashlib.sha256`, for a few kilobytes: it does not use the processor's SHA instructions."""
