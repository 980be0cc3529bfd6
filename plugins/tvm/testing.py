"""`tvm.testing`: comparisons of arrays."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def assert_allclose(
    actual: npt.ArrayLike, desired: npt.ArrayLike, rtol: float = 1e-7, atol: float = 1e-7, verbose: bool = True
) -> None:
    """Compare like NumPy's function, but shapes must be equal, and values near zero may differ by `atol`.

    Raises `AssertionError` if they differ.
    """
    got, wanted = np.asanyarray(actual), np.asanyarray(desired)
    np.testing.assert_equal(got.shape, wanted.shape)
    np.testing.assert_allclose(got, wanted, rtol=rtol, atol=atol, verbose=verbose)
