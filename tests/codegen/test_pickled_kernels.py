"""Kernels that travel: pickled, loaded by other processes, refused."""

from __future__ import annotations

import multiprocessing
import pickle
import shutil
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from processors import on_this_machine

import pegbox as pb
from pegbox import te, tir
from pegbox.codegen import Target, load_library, write_shared_library
from pegbox.codegen.targets import host
from pegbox.codegen.targets.features import check_processor
from pegbox.errors import ArgumentError, TargetError

Array = np.ndarray[Any, Any]
FLAGS = (
    "avx", "avx2", "avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512_vnni", "avx512_bf16", "avx512_vbmi2",
    "avx512_bitalg", "avx512ifma", "avx512vbmi", "avx512_vpopcntdq", "avx_ifma", "avx_vnni", "f16c",
    "fma", "gfni", "sse4_1", "sse4_2", "sse4a", "ssse3",
)  # fmt: skip
VALUES = np.arange(64, dtype="float32")


def built(target: str = "llvm -num-cores 1", *, parallel: bool = False, apart: bool = False) -> Any:
    """A kernel that adds one and doubles, on several threads or with a workspace."""
    a = te.placeholder((64,), name="A")
    b = te.compute((64,), lambda i: a[i] + 1, name="B")
    c = te.compute((64,), lambda i: b[63 - i] * 2, name="C")
    s = te.create_schedule(c.op)
    if not apart:
        s[b].compute_inline()
    if parallel:
        s[c].parallel(c.op.axis[0])
    return pb.build(s, [a, c], target=target)


def again(kernel: Any) -> Any:
    return pickle.loads(pickle.dumps(kernel))


def check(kernel: Any) -> None:
    np.testing.assert_array_equal(kernel(VALUES, out=np.empty_like(VALUES)), (VALUES[::-1] + 1) * 2)


@pytest.mark.parametrize("options", [{}, {"apart": True}, {"parallel": True, "target": "llvm -num-cores 2"}])
def test_a_kernel_is_the_same_after_a_pickle(options: dict[str, Any]) -> None:
    kernel = built(**options)
    kernel.origin = "predicted, not tuned"
    loaded = again(kernel)
    check(loaded)
    assert loaded.origin == kernel.origin
    assert loaded.source() == kernel.source()


@on_this_machine
def test_a_spawned_process_calls_kernels() -> None:
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn) as pool:
        for kernel in (built(), built(parallel=True, target="llvm -num-cores 2")):
            found = pool.submit(kernel, VALUES, out=np.empty_like(VALUES)).result(timeout=100)
            np.testing.assert_array_equal(found, (VALUES[::-1] + 1) * 2)


@on_this_machine
def test_a_pickled_kernel_is_loaded_without_llvm(tmp_path: Path) -> None:
    (tmp_path / "kernel").write_bytes(pickle.dumps(built(apart=True)))
    code = """
import pickle, sys
import numpy as np
kernel = pickle.load(open(sys.argv[1], "rb"))
print(kernel(np.zeros(64, "float32"), out=np.empty(64, "float32")).sum(), "llvmlite" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code, tmp_path / "kernel"], capture_output=True, text=True, check=True)
    assert done.stdout == "128.0 False\n"


@on_this_machine
@pytest.mark.skipif(host.architecture() != "x86_64" or not host.cpu_flags(), reason="needs an x86 processor's flags")
def test_a_processor_of_the_same_name_with_fewer_instructions_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    data = pickle.dumps(built(apart=True))
    monkeypatch.setattr(host, "cpu_flags", lambda: ("sse2",))
    with pytest.raises(TargetError, match=r"this machine's processor .* lacks some of its instructions"):
        pickle.loads(data)


def test_another_processor_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    a = te.placeholder((64,), name="A")
    c = te.compute((64,), lambda i: a[i] * 2, name="C")
    target = "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=skylake-avx512 -num-cores 1"
    n = te.var("n")
    x = te.placeholder((n,), name="X")
    y = te.compute((n,), lambda i: x[i] * 2, name="Y")
    if host.architecture() != "x86_64":
        pytest.skip("builds for x86")
    data = pickle.dumps(pb.build(te.create_schedule(c.op), [a, c], target=target))
    sized = again(pb.build(te.create_schedule(y.op), [x, y], target=target))
    monkeypatch.setattr(host, "cpu_flags", lambda: ("avx", "avx2", "f16c", "sse4_1", "sse4_2", "ssse3"))
    monkeypatch.setattr(host, "cpu_name", lambda: "haswell")
    with pytest.raises(TargetError, match=r"pickled kernel main was built for skylake-avx512, and .* lacks .*avx512"):
        pickle.loads(data)
    with pytest.raises(TargetError, match="main was built for skylake-avx512"):
        sized(VALUES, np.empty_like(VALUES))


@pytest.mark.parametrize(
    ("cpu", "flag"),
    [
        ("znver4", "sse4a"),
        ("icelake-server", "gfni"),
        ("icelake-server", "avx512_vbmi2"),
        ("alderlake", "avx_vnni"),
        ("sierraforest", "avx_ifma"),
        ("cannonlake", "avx512ifma"),
        ("cannonlake", "avx512vbmi"),
        ("knm", "avx512_vpopcntdq"),
        ("znver4", "avx512_bitalg"),
    ],
)
def test_instructions_that_llvm_chooses_by_itself_are_missed(
    cpu: str, flag: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LLVM makes SSE4A's EXTRQ of a shuffle for any processor of AMD's: one of Intel's would end the process."""
    target = Target(f"llvm -mtriple=x86_64-unknown-linux-gnu -mcpu={cpu}")
    monkeypatch.setattr(host, "cpu_name", lambda: "haswell")
    monkeypatch.setattr(host, "architecture", lambda: "x86_64")
    monkeypatch.setattr(host, "cpu_flags", lambda: FLAGS)
    check_processor(target, "it")
    monkeypatch.setattr(host, "cpu_flags", lambda: tuple({*FLAGS} - {flag}))
    with pytest.raises(TargetError, match=f"it was built for {cpu}, .*{flag.replace('_', '')}"):
        check_processor(target, "it")


def test_options_of_mattr_are_not_missing_instructions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "cpu_name", lambda: "haswell")
    monkeypatch.setattr(host, "architecture", lambda: "x86_64")
    monkeypatch.setattr(host, "cpu_flags", lambda: (*FLAGS, "bmi2", "pni"))
    check_processor(Target("llvm -mcpu=x86-64 -mattr=+bmi2,+sse3,+prefer-256-bit,+sse-unaligned-mem"), "it")
    with pytest.raises(TargetError, match=r"lacks some of its instructions \(bmi\)"):
        check_processor(Target("llvm -mcpu=x86-64 -mattr=+bmi,+bmi2"), "it")


@pytest.mark.parametrize(
    "text",
    [
        "-mcpu=x86-64-v4 -mattr=-avx512f",
        "-mcpu=icelake-server -mattr=-avx512f,-gfni",
        "-mcpu=znver4 -mattr=-avx512f,-sse4a,-gfni",
        "-mcpu=sapphirerapids -mattr=-avx2,-gfni",
    ],
)
def test_features_that_mattr_switches_off_with_others_are_not_missed(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LLVM switches off all of AVX-512 with avx512f."""
    monkeypatch.setattr(host, "cpu_name", lambda: "haswell")
    monkeypatch.setattr(host, "architecture", lambda: "x86_64")
    monkeypatch.setattr(host, "cpu_flags", lambda: ("avx", "avx2", "f16c", "fma", "sse4_1", "sse4_2", "ssse3"))
    check_processor(Target(f"llvm {text}"), "it")


def test_features_that_linux_does_not_list_are_asked_of_llvm(monkeypatch: pytest.MonkeyPatch) -> None:
    """A measuring process gets all features of the processor in -mattr, AVX10 of a Granite Rapids among them."""
    monkeypatch.setattr(host, "cpu_name", lambda: "haswell")
    monkeypatch.setattr(host, "architecture", lambda: "x86_64")
    monkeypatch.setattr(host, "cpu_flags", lambda: FLAGS)
    monkeypatch.setattr(host, "has_llvm", lambda: True)
    monkeypatch.setattr(host, "cpu_features", lambda: ("+avx2", "+avx10.1", "+avxvnniint8", "-avxneconvert"))
    check_processor(Target("llvm -mcpu=haswell -mattr=+avx10.1,+avxvnniint8"), "it")
    for name in ("avxneconvert", "xop", "tbm"):
        with pytest.raises(TargetError, match=rf"lacks some of its instructions \({name}\)"):
            check_processor(Target(f"llvm -mcpu=haswell -mattr=+avxvnniint8,+{name}"), "it")


def test_all_features_of_this_machine_are_there() -> None:
    check_processor(Target("llvm -num-cores 1"), "it")
    check_processor(Target("llvm -num-cores 1").explicit, "it")


def test_another_processor_is_refused_in_the_process_that_built_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The instruction that this processor lacks would end the process; the code can be read and exported."""
    if host.architecture() != "x86_64":
        pytest.skip("builds for x86")
    target = "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=skylake-avx512 -num-cores 1"
    monkeypatch.setattr(host, "cpu_flags", lambda: ("avx", "avx2", "f16c", "fma", "sse4_1", "sse4_2", "ssse3"))
    monkeypatch.setattr(host, "cpu_name", lambda: "haswell")
    check(built("llvm -mcpu=haswell -num-cores 1"))
    kernel = built(target)
    assert "zmm" in kernel.source("asm")
    kernels = [kernel]
    if shutil.which("cc"):
        write_shared_library(kernel.programs, tmp_path / "wide.so")
        kernels.append(load_library(tmp_path / "wide.so")["main"])
    for refused in kernels:
        for call in (
            lambda k: k(VALUES, np.empty_like(VALUES)),
            lambda k: k(VALUES, out=np.empty_like(VALUES)),
            lambda k: k.time_ns([VALUES, np.empty_like(VALUES)]),
        ):
            with pytest.raises(TargetError, match=r"main was built for skylake-avx512, and .* lacks .*avx512"):
                call(refused)


def test_kernels_of_other_forms_travel() -> None:
    n = te.var("n")
    x = te.placeholder((n,), name="X")
    y = te.compute((n,), lambda i: x[i] * 2, name="Y")
    sized = again(pb.build(te.create_schedule(y.op), [x, y]))
    module = again(
        pb.build(
            tir.IRModule(
                {
                    "double": te.create_prim_func(
                        [a := te.placeholder((64,), name="A"), te.compute((64,), lambda i: a[i] * 2, "B")]
                    )
                }
            )
        )
    )
    for kernel in (sized, module["double"]):
        out = np.empty_like(VALUES)
        kernel(VALUES, out)
        np.testing.assert_array_equal(out, VALUES * 2)


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_c_functions_go_with_their_kernel() -> None:
    a = te.placeholder((64,), name="A")
    code = "void thrice(const float *a, float *b) { for (int i = 0; i < 64; i++) b[i] = a[i] * 3; }"
    called = lambda ins, outs: te.call_extern("int32", "thrice", ins[0].data, outs[0].data)  # noqa: E731
    b = te.extern((64,), [a], called, name="B", code=tir.c_source(code))
    kernel = again(pb.build(te.create_schedule(b.op), [a, b]))
    np.testing.assert_array_equal(kernel(VALUES, out=np.empty_like(VALUES)), VALUES * 3)


@on_this_machine
def test_python_functions_stay_in_their_process() -> None:
    a = te.placeholder((64,), name="A")
    b = te.extern((64,), [a], lambda ins, outs: te.call_python(np.copyto, outs[0], ins[0]), name="B")
    with pytest.raises(ArgumentError, match="cannot be pickled: it calls Python functions"):
        pickle.dumps(pb.build(te.create_schedule(b.op), [a, b]))


def test_several_outputs_are_given_by_out() -> None:
    a = te.placeholder((64,), name="A")
    total, double = te.compute((64,), lambda i: (a[i] + 1, a[i] * 2), name="both")
    kernel = pb.build(te.create_schedule(total.op), [a, total, double])
    made = kernel(VALUES, out=(np.empty_like(VALUES), np.empty_like(VALUES)))
    np.testing.assert_array_equal(made[1], VALUES * 2)
    with pytest.raises(ArgumentError):
        kernel(VALUES, out=np.empty_like(VALUES))
    with pytest.raises(ArgumentError):
        kernel(VALUES, VALUES, out=made)
