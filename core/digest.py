"""SHA-256 without OpenSSL, which takes longer to load than the rest of a kernel that another process compiled.

Python has its own implementation for builds without OpenSSL; its `random` module uses that in the same way.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any


def _plain() -> Callable[[bytes], Any]:
    for module in ("_sha2", "_sha256", "hashlib"):  # from Python 3.12, before, and where there are neither
        try:
            found: Callable[[bytes], Any] = importlib.import_module(module).sha256
        except ImportError:
            continue
        return found
    raise ImportError("this Python has no SHA-256")


sha256 = _plain()
"""A function like `hashlib.sha256`, for some kilobytes: it takes no advantage of the processor's instructions."""
