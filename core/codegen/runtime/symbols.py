"""Addresses of functions in the libraries that this process has loaded."""

from __future__ import annotations

import ctypes
from functools import cache


@cache
def process() -> ctypes.CDLL:
    """Open the libraries that this process has anyway: the C library, mostly the mathematical functions too."""
    return ctypes.CDLL(None)


def address_of(library: ctypes.CDLL, name: str) -> int:
    """Find the address of a function. Raises `AttributeError` if the library does not have it."""
    return ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0
