"""Search for an OpenMP runtime on the machine, for parallel loops."""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import os
from collections.abc import Iterator
from functools import cache

from pegbox.codegen.runtime.symbols import address_of
from pegbox.errors import TargetError

SYMBOLS = ("GOMP_parallel", "omp_get_thread_num", "omp_get_num_threads")
_SPINS = "1000"
"""The number of times that a waiting thread of libgomp checks before it sleeps, some tens of microseconds in all.

The default, 300,000, occupies a core for ten milliseconds in each parallel loop, or, if other programs run, until the
scheduler takes the core away. With no checks, threads would sleep and wake between two calls in immediate succession.
"""

_WAITING = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")


@cache
def addresses() -> dict[str, int]:
    """Find the addresses of the runtime's functions in this process, by name.

    Its threads wait for each other as the user's environment says, or else sleep after a short spin. A runtime that
    another library loaded earlier keeps its settings.

    Raises:
        TargetError: there is no usable runtime.
    """
    tried = []
    for path in candidates():
        try:
            with _short_spins():
                library = ctypes.CDLL(path)
            return {name: address_of(library, name) for name in SYMBOLS}
        except (OSError, AttributeError) as error:
            tried.append(f"{path} ({error})")
    raise TargetError(
        f"no OpenMP runtime was found for a parallel kernel; tried {'; '.join(tried)}. "
        "Install libgomp (Debian and Ubuntu: apt install libgomp1) or the xgboost wheel, which brings one, "
        "or tune for one core with -num-cores 1"
    )


def has_openmp() -> bool:
    """Decide if there is a usable runtime, and load it."""
    try:
        return bool(addresses())
    except TargetError:
        return False


def candidates() -> Iterator[str]:
    """Yield the system's libgomp, then the copy that XGBoost's wheel brings (found without importing XGBoost)."""
    yield "libgomp.so.1"
    import glob

    spec = importlib.util.find_spec("xgboost")
    for location in (spec.submodule_search_locations or ()) if spec is not None else ():
        yield from sorted(glob.glob(os.path.join(os.path.dirname(location), "xgboost.libs", "libgomp*.so*")))


@contextlib.contextmanager
def _short_spins() -> Iterator[None]:
    """Make a runtime that is loaded in this context spin only briefly; it reads its environment once, while loading.

    The environment is restored, so other libraries and later processes wait as they would without pegbox.
    """
    if any(name in os.environ for name in _WAITING):
        yield
        return
    os.environ["GOMP_SPINCOUNT"] = _SPINS
    try:
        yield
    finally:
        del os.environ["GOMP_SPINCOUNT"]
