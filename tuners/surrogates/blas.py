"""Linear algebra limited to one thread.

A Gaussian process of a few hundred trials makes thousands of calls that take microseconds. OpenBLAS spreads each over
all cores, and where these have other work its threads wait for one another, turning: on two cores at work a search took
four times as much of the processor's time.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

from pegbox.measure import blas_threads


def one_thread() -> AbstractContextManager[None]:
    """Run the body with one thread in every OpenBLAS of this process. Other libraries stay as they are."""
    import scipy.linalg  # noqa: F401  (slow to import; what the body would load is among them)

    return blas_threads(1)
