"""Addresses of functions in the libraries that this process has loaded."""

from __future__ import annotations

import ctypes
from functools import cache


@cache
def process() -> ctypes.CDLL:
    """Open the libraries that this process has loaded: the C library, and usually the mathematical functions, too."""
    return ctypes.CDLL(None)


def has_function(library: ctypes.CDLL, name: str) -> bool:
    """Decide if a library has a function."""
    try:
        return address_of(library, name) != 0
    except AttributeError:
        return False


def address_of(library: ctypes.CDLL, name: str) -> int:
    """Find the address of a function. Raises `AttributeError` if the library does not have it."""
    return ctypes.cast(library[name], ctypes.c_void_p).value or 0  # as attributes, ctypes has other names, too
