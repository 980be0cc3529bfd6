"""The number of threads of NumPy's linear algebra."""

from __future__ import annotations

import contextlib
import ctypes
import re
import sys
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import NamedTuple

_NAMES = [(f"{prefix}openblas_", suffix) for prefix in ("", "scipy_") for suffix in ("", "64_")]
"""The prefixes and suffixes of OpenBLAS's functions: NumPy's and SciPy's wheels bring copies with different names."""


class _Library(NamedTuple):
    get_threads: Callable[[], int]
    set_threads: Callable[[int], None]


@contextlib.contextmanager
def blas_threads(count: int) -> Iterator[None]:
    """Run the body with so many threads in every OpenBLAS of this process. Other libraries are unaffected."""
    libraries = _loaded_with(len(sys.modules))
    before = [library.get_threads() for library in libraries]
    try:
        for library in libraries:
            library.set_threads(count)
        yield
    finally:
        for library, threads in zip(libraries, before, strict=True):
            library.set_threads(threads)


@lru_cache(maxsize=1)
def _loaded_with(modules: int) -> list[_Library]:
    """Cache `_loaded`, which takes milliseconds, until the number of modules changes, since modules load libraries."""
    return _loaded()


def _loaded() -> list[_Library]:
    """Find the copies of OpenBLAS in this process; only Linux lists the libraries."""
    try:
        with open("/proc/self/maps") as file:
            paths = dict.fromkeys(re.findall(r"/\S*openblas\S*\.so\S*", file.read()))
    except OSError:
        return []
    return [found for path in paths if (found := _library(path)) is not None]


def _library(path: str) -> _Library | None:
    try:
        handle = ctypes.CDLL(path)
    except OSError:  # the file was replaced after loading
        return None
    for prefix, suffix in _NAMES:
        with contextlib.suppress(AttributeError):
            return _Library(
                getattr(handle, f"{prefix}get_num_threads{suffix}"), getattr(handle, f"{prefix}set_num_threads{suffix}")
            )
    return None
