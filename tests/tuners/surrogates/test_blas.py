"""OpenBLAS is kept to one thread where many would only wait for each other."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import scipy.linalg  # noqa: F401  (brings a copy of OpenBLAS of its own)

from pegbox.measure.machine.blas import _loaded
from pegbox.tuners.surrogates.gaussian_process import one_thread


def threads() -> list[int]:
    return [library.get_threads() for library in _loaded()]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux lists what a process has loaded")
def test_every_copy_has_one_thread_inside_and_its_own_number_afterwards() -> None:
    if not _loaded():
        pytest.skip("NumPy here is built without OpenBLAS")
    for library in _loaded():
        library.set_threads(2)
    before = threads()
    with one_thread():
        assert set(threads()) == {1}
        assert np.isclose((np.ones((300, 300)) @ np.ones((300, 300))).sum(), 300.0**3)
    assert threads() == before
    with pytest.raises(KeyError):
        broken_off()
    assert threads() == before


def broken_off() -> None:
    with one_thread():
        raise KeyError


def test_what_cannot_be_listed_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("builtins.open", lambda *_: (_ for _ in ()).throw(OSError("no /proc here")))
    with one_thread():
        assert _loaded() == []
