"""Targets by TVM's strings."""

from __future__ import annotations

import pickle

import pytest

import pegbox
from pegbox.errors import TargetError
from pegbox.plugins import tvm
from pegbox.plugins.tvm.target import Target


def test_a_string_is_understood() -> None:
    target = Target("llvm -mcpu=core-avx2 -num-cores 3", host="llvm")
    assert target.kind.name == "llvm"
    assert target.mcpu == "core-avx2"
    assert target.max_num_threads == 3
    assert target.host is not None
    assert target == pegbox.Target("llvm -mcpu=core-avx2 -num-cores 3")
    assert "-mtriple=aarch64-linux-gnu" in str(tvm.target.create("llvm -mtriple=aarch64-linux-gnu"))
    assert tvm.target.llvm("-mattr=+avx2").mattr == ["+avx2"]


def test_forms_of_one_target_are_equal() -> None:
    target = Target("llvm -mcpu=haswell -num-cores=2")
    assert target == Target({"kind": "llvm", "mcpu": "haswell", "num-cores": 2})
    assert target == Target('{"kind": "llvm", "mcpu": "haswell", "num-cores": 2}')
    assert target == Target("llvm --mcpu haswell -keys=cpu -num-cores 2") == Target(target)
    assert target == pickle.loads(pickle.dumps(target))


def test_an_option_without_a_meaning_is_refused() -> None:
    with pytest.raises(TargetError, match="libs"):
        Target("llvm -libs=mkl -mcpu=haswell")


@pytest.mark.parametrize("text", ["cuda", "opencl -device=mali", "nvidia/nvidia-a100", "c"])
def test_what_is_no_cpu_is_refused_with_the_remedy(text: str) -> None:
    with pytest.raises(TargetError, match=r"for CPUs only; use 'llvm', and test tvm\.cuda\(0\)\.exist"):
        Target(text)


def test_malformed_targets_are_refused() -> None:
    with pytest.raises(TargetError, match=r"did you mean .haswell."):
        Target("llvm -mcpu=haswel")
    with pytest.raises(TargetError, match="give a string such as"):
        Target("")
    with pytest.raises(AttributeError, match=r"target\.arm_cpu is not here: name the processor"):
        tvm.target.arm_cpu("rk3399")


def test_the_current_target_is_that_of_the_block() -> None:
    assert Target.current() is None
    with pytest.raises(TargetError, match="there is no current target"):
        Target.current(allow_none=False)
    with Target("llvm -num-cores 1") as target:
        assert Target.current() is target
        assert pegbox.Target.default() is target
        with pegbox.Target("llvm -num-cores 2"):
            inner = Target.current()
            assert inner is not None
            assert inner.max_num_threads == 2
