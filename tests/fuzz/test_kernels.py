"""The limit of LLVM's time in random cases."""

import itertools
from types import SimpleNamespace

import pytest
from fuzz import kernels


@pytest.mark.parametrize(("seconds", "fails"), [([30, 1], False), ([30, 40], True)])
def test_fails_if_two_translations_are_slow(monkeypatch, seconds, fails):
    clock = itertools.accumulate(itertools.chain(*((0, s) for s in seconds)))
    monkeypatch.setattr(kernels, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    monkeypatch.setattr(kernels, "_translate", lambda program, effort: "code")
    program = SimpleNamespace(target="llvm", ll="define void @main()")
    if fails:
        with pytest.raises(kernels.Broken, match="LLVM took 40 s"):
            kernels.compiled(program, kernels.Effort.PLAIN)
    else:
        assert kernels.compiled(program, kernels.Effort.PLAIN) == "code"
