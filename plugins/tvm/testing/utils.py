"""`tvm.testing.utils`: the little things that scripts use."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from pegbox.plugins.tvm.runtime.device import Device, cpu, enabled

_Test = TypeVar("_Test", bound=Callable[..., Any])


def assert_allclose(
    actual: npt.ArrayLike, desired: npt.ArrayLike, rtol: float = 1e-7, atol: float = 1e-7, verbose: bool = True
) -> None:
    """As NumPy's, but shapes must be equal, and values near zero may differ by `atol`.

    Raises:
        AssertionError: they differ.
    """
    got, wanted = np.asanyarray(actual), np.asanyarray(desired)
    np.testing.assert_equal(got.shape, wanted.shape)
    np.testing.assert_allclose(got, wanted, rtol=rtol, atol=atol, verbose=verbose)


def device_enabled(target: str) -> bool:
    """Whether a target can be built for and run."""
    return enabled(str(target))


def enabled_targets() -> list[tuple[str, Device]]:
    """The targets that can be built for and run, with their devices."""
    return [("llvm", cpu(0))]


def requires_llvm(test: _Test) -> _Test:
    """A decorator for tests that need the target "llvm": they can always run."""
    return test


def requires_gpu(test: Callable[..., Any]) -> Any:
    """A decorator for tests that need a GPU: they are skipped."""
    import pytest

    return pytest.mark.skip(reason="pegbox generates code for CPUs only")(test)


requires_cuda = requires_gpu


def parameter(*values: Any, ids: Any = None, by_dict: Any = None) -> Any:
    """A fixture of pytest with these values, or those of a mapping from their labels."""
    import pytest

    def chosen(*_of_class: object, request: Any) -> Any:
        return request.param

    given = dict(by_dict) if by_dict else {}
    return pytest.fixture(params=[*values, *given.values()], ids=[*given] if given else ids)(chosen)


def parameters(*value_sets: tuple[Any, ...]) -> list[Any]:
    """Fixtures of pytest whose values go together."""
    return [parameter(*values) for values in zip(*value_sets, strict=True)]


def main() -> None:
    """Run the tests of the script that calls it, and end the process."""
    import pytest

    sys.exit(pytest.main([sys.argv[0], *sys.argv[1:]]))


def install_request_hook(depth: int) -> None:
    """Nothing: the tutorials of TVM call it for its own servers."""
