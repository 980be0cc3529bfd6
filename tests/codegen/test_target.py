"""Target strings."""

from __future__ import annotations

import pickle

import pytest

import pegbox as pb
from pegbox import te
from pegbox.codegen import Target
from pegbox.codegen.targets import host
from pegbox.codegen.targets.cores import usable_cores
from pegbox.codegen.targets.cpus import PLAIN_CACHES, X86_CACHES, X86_VECTOR_BITS
from pegbox.errors import TargetError


def test_a_bare_target_is_this_machine_with_the_cores_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PEGBOX_TARGET", raising=False)
    target = Target("llvm")
    assert target.cpu == host.cpu_name()
    assert target.num_cores == len(usable_cores())
    assert target == Target.host()
    assert target == Target()


def test_the_host_with_fewer_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PEGBOX_TARGET", raising=False)
    assert Target.host(num_cores=1) == Target("llvm -num-cores 1")


def test_every_option_is_read() -> None:
    target = Target("llvm -mcpu=znver4 -mattr=+avx512bf16,-avx512fp16 -mtriple=x86_64-unknown-linux-gnu -num-cores 2")
    assert target.cpu == "znver4"
    assert target.attributes == ("+avx512bf16", "-avx512fp16")
    assert target.triple == "x86_64-unknown-linux-gnu"
    assert target.num_cores == 2
    assert target.features == "+avx512bf16,-avx512fp16"


@pytest.mark.parametrize("text", ["llvm -num-cores 3 -mcpu znver4", "llvm  -mcpu=znver4 -num-cores=3"])
def test_spellings_of_one_target_are_equal(text: str) -> None:
    target = Target(text)
    assert target == Target("llvm -mcpu=znver4 -num-cores 3")
    assert hash(target) == hash(Target("llvm -mcpu=znver4 -num-cores 3"))
    assert str(target) == "llvm -mcpu=znver4 -num-cores 3"
    assert target != Target("llvm -mcpu=znver4 -num-cores 2")
    assert target != str(target)


@pytest.mark.parametrize(
    "text",
    [
        "llvm",
        "llvm -mcpu=haswell -mattr=+f16c -num-cores 4",
        "llvm -mtriple=aarch64-linux-gnu -num-cores 1",
        "llvm -mcpu=znver4 -caches=32,1024,4096",
    ],
)
def test_the_string_reads_back_equal(text: str) -> None:
    target = Target(text)
    assert Target(str(target)) == target
    assert pickle.loads(pickle.dumps(target)) == target
    assert eval(repr(target)) == target


def test_another_architecture_does_not_get_this_machines_processor() -> None:
    assert Target("llvm -mtriple=aarch64-linux-gnu").cpu == "generic"
    assert Target("llvm -mtriple=x86_64-linux-gnu").cpu == host.cpu_name()


def test_native_is_this_machines_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PEGBOX_TARGET", "llvm -mcpu=x86-64-v3 -num-cores 2")
    target = Target("llvm -mcpu=native")
    assert (target.cpu, target.num_cores, target.is_host_cpu) == (host.cpu_name(), 2, True)
    assert str(target) == f"llvm -mcpu={host.cpu_name()} -num-cores 2"
    monkeypatch.setenv("PEGBOX_TARGET", "llvm -mcpu=native")
    assert Target("llvm") == Target.host()


def test_naming_this_machines_processor_keeps_its_features(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PEGBOX_TARGET", raising=False)
    assert Target(f"llvm -mcpu={host.cpu_name()}").features == Target("llvm").features != ""


@pytest.mark.parametrize(
    ("variable", "text", "meant"),
    [
        ("llvm -mcpu=haswell -num-cores 3", "llvm", "llvm -mcpu=haswell -num-cores 3"),
        ("llvm -mcpu=haswell -num-cores 3", "llvm -num-cores 1", "llvm -mcpu=haswell -num-cores 1"),
        ("llvm -mcpu=haswell -num-cores 3", "llvm -mcpu=znver4", "llvm -mcpu=znver4 -num-cores 3"),
        ("llvm -mcpu=haswell -num-cores 3", "llvm -mcpu=znver4 -num-cores 1", "llvm -mcpu=znver4 -num-cores 1"),
        ("llvm -mtriple=aarch64-linux-gnu -num-cores 1", "llvm", "llvm -mtriple=aarch64-linux-gnu -num-cores 1"),
        ("llvm -mtriple=aarch64-linux-gnu", "llvm -mcpu=haswell -num-cores 1", "llvm -mcpu=haswell -num-cores 1"),
        ("llvm -mcpu=haswell -mattr=-avx", "llvm -mcpu=znver4 -num-cores 1", "llvm -mcpu=znver4 -num-cores 1"),
        (
            "llvm -mcpu=haswell -caches=32,512,0",
            "llvm -caches=48,512,0 -num-cores 1",
            "llvm -mcpu=haswell -caches=48,512,0 -num-cores 1",
        ),
        (" ", "llvm -mcpu=haswell -num-cores 1", "llvm -mcpu=haswell -num-cores 1"),
    ],
)
def test_the_environment_says_what_a_target_leaves_open(
    variable: str, text: str, meant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The processor as a whole, where the string does not name one, and the cores."""
    monkeypatch.setenv("PEGBOX_TARGET", variable)
    target = Target(text)
    assert pickle.loads(pickle.dumps(target)) == target
    monkeypatch.delenv("PEGBOX_TARGET")
    assert target == Target(meant)
    assert str(target) == str(Target(meant))


def test_this_processor_with_other_features_is_no_open_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PEGBOX_TARGET", "llvm -mcpu=nehalem")
    assert Target("llvm -mattr=-avx").cpu == host.cpu_name()
    assert Target.host().cpu == host.cpu_name()


@pytest.mark.parametrize("value", ["haswell", "llvm -mcpu=has-well", "llvm -num-cores 0", "llvm -mattr=avx"])
def test_an_error_in_the_environment_names_the_variable(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PEGBOX_TARGET", value)
    with pytest.raises(TargetError, match=f"variable PEGBOX_TARGET .*target '{value}'"):
        Target("llvm")


def test_tasks_carry_the_target_that_the_environment_meant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PEGBOX_TARGET", "llvm -mcpu=nehalem -num-cores 1")
    task = pb.create_task("matmul", args=(8, 8, 8))
    monkeypatch.delenv("PEGBOX_TARGET")
    assert str(pickle.loads(pickle.dumps(task)).target) == "llvm -mcpu=nehalem -num-cores 1"


@pytest.mark.parametrize(
    ("text", "bits"),
    [
        ("llvm -mcpu=znver5", 512),
        ("llvm -mcpu=x86-64-v4", 512),
        ("llvm -mcpu=haswell", 256),
        ("llvm -mcpu=x86-64-v2", 128),
        ("llvm -mcpu=haswell -mattr=+avx512f", 512),
        ("llvm -mcpu=x86-64 -mattr=+avx2", 256),
        ("llvm -mcpu=znver5 -mattr=-avx512f", 256),
        ("llvm -mcpu=znver5 -mattr=-avx2", 256),
        ("llvm -mcpu=znver5 -mattr=-sse4.2", 128),
        ("llvm -mcpu=znver5 -mattr=-avx512f,+avx512vbmi", 512),
        ("llvm -mcpu=haswell -mattr=+avx512f,-fma", 256),
        ("llvm -mcpu=x86-64 -mattr=+fma", 256),
        ("llvm -mcpu=skylake-avx512 -mattr=+prefer-256-bit", 256),
        ("llvm -mcpu=haswell -mattr=-avx", 128),
        ("llvm -mtriple=aarch64-linux-gnu -mcpu=neoverse-v2", 128),
    ],
)
def test_vectors_are_as_wide_as_the_processors(text: str, bits: int) -> None:
    assert Target(text).vector_bits == bits


@pytest.mark.parametrize(
    ("text", "registers"),
    [
        ("llvm -mcpu=znver5", 32),
        ("llvm -mcpu=x86-64-v3", 16),
        ("llvm -mcpu=x86-64", 16),
        ("llvm -mcpu=znver5 -mattr=-avx512f", 16),
        ("llvm -mcpu=znver5 -mattr=-avx2", 16),
        ("llvm -mcpu=haswell -mattr=+avx512bw", 32),
        ("llvm -mcpu=skylake-avx512 -mattr=+prefer-256-bit", 32),
        ("llvm -mcpu=haswell -mattr=+avx512f", 32),
        ("llvm -mtriple=aarch64-linux-gnu", 32),
        ("llvm -mtriple=riscv64-linux-gnu", 32),
        ("llvm -mtriple=armv7a-linux-gnueabihf", 16),
    ],
)
def test_vector_registers_are_those_of_the_architecture(text: str, registers: int) -> None:
    assert Target(text).vector_registers == registers


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("llvm -mcpu=znver4", 1),
        ("llvm -mcpu=znver4 -mattr=-avx512f", 2),
        ("llvm -mcpu=znver5", 2),
        ("llvm -mcpu=emeraldrapids", 2),
        ("llvm -mcpu=tigerlake", 1),
        ("llvm -mcpu=x86-64-v3", 2),
        ("llvm -mtriple=aarch64-linux-gnu", 2),
    ],
)
def test_a_core_multiplies_one_vector_a_cycle_where_it_computes_halves(text: str, count: int) -> None:
    assert Target(text).multiply_adds == count


def test_caches_come_with_the_processors_name_or_are_given() -> None:
    assert Target("llvm -mcpu=znver3").caches == (32 << 10, 512 << 10, 4 << 20)
    assert Target("llvm -mtriple=aarch64-linux-gnu").caches == PLAIN_CACHES
    given = Target("llvm -mcpu=znver3 -num-cores 1 -caches=64,2048,0")
    assert given.caches == (64 << 10, 2 << 20, 0)
    assert str(given) == "llvm -mcpu=znver3 -num-cores 1 -caches=64,2048,0"
    assert given != Target("llvm -mcpu=znver3 -num-cores 1")


def test_the_table_of_caches_names_processors_that_there_are() -> None:
    assert X86_CACHES.keys() <= X86_VECTOR_BITS.keys()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("llvm -caches=32,1024", "-caches must be the KiB of L1, L2 and a core's share of L3, .* got '32,1024'"),
        ("llvm -caches=0,1024,0", "-caches must be the KiB"),
        ("llvm -caches=32K,1M,4M", "-caches must be the KiB"),
        (f"llvm -caches=32,1024,{'9' * 5000}", "-caches must be the KiB"),
        ("", "a target is a string such as 'llvm -mcpu=znver4"),
        (None, "target=None is not text; give a string"),
        ("cuda -arch=sm_80", "unknown kind 'cuda'; the only kind is 'llvm'"),
        ("llvm -mpcu=znver4", "unknown option '-mpcu=znver4'; did you mean -mcpu"),
        ("llvm fast", "unknown option 'fast'; use -mcpu"),
        ("llvm -mcpu=znver44", r"unknown processor 'znver44' in -mcpu; did you mean 'znver4' or"),
        ("llvm -mcpu=qqqq", "unknown processor 'qqqq' in -mcpu; see"),
        (
            "llvm -mcpu=native -mtriple=aarch64-linux-gnu",
            "native is the processor of this machine",
        ),
        ("llvm -mcpu=", "option -mcpu needs a value"),
        ("llvm -mcpu -num-cores 2", "option -mcpu needs a value"),
        ("llvm -num-cores", "option -num-cores needs a value"),
        ("llvm -num-cores 0", "-num-cores must be a positive number, got '0'"),
        ("llvm -num-cores two", "-num-cores must be a positive number, got 'two'"),
        ("llvm -num-cores 2049", "-num-cores must be at most 2048, got '2049'"),
        ("llvm -num-cores 2147483648", "-num-cores must be at most 2048"),
        pytest.param(f"llvm -num-cores {'9' * 5000}", "-num-cores must be at most 2048", id="5000 digits"),
        ("llvm -num-cores 1 -num-cores 2", "option -num-cores is given twice"),
        ("llvm -mattr=avx2", r"feature 'avx2' in -mattr must start with \+"),
    ],
)
def test_a_malformed_string_is_refused_with_the_part_that_is_wrong(text: str, message: str) -> None:
    with pytest.raises(TargetError, match=message):
        Target(text)


def test_the_list_of_processors_is_what_llvm_knows() -> None:
    # LLVM prints a warning for names that it does not know; a typo in our list would show here.
    import subprocess
    import sys

    code = """
from llvmlite import binding as llvm
from pegbox.codegen.targets.cpus import X86_VECTOR_BITS
llvm.initialize_all_targets(); llvm.initialize_all_asmprinters()
triple = llvm.Target.from_triple("x86_64-unknown-linux-gnu")
for cpu in X86_VECTOR_BITS:
    print(cpu, flush=True)
    machine = triple.create_target_machine(cpu=cpu)
    machine.emit_assembly(llvm.parse_assembly("define void @f() {\\n ret void\\n}"))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "not a recognized processor" not in done.stderr


def test_a_with_block_gives_tasks_and_programs_their_target() -> None:
    outer, inner = Target("llvm -num-cores 3"), Target("llvm -num-cores 2")
    with outer as given:
        assert given is outer
        assert pb.create_task("matmul", args=(4, 4, 4)).target == outer
        with inner, inner:
            assert pb.create_task("matmul", args=(4, 4, 4)).target == inner
        assert pb.create_task("matmul", args=(4, 4, 4), target="llvm -num-cores 1").target.num_cores == 1
        assert Target.default() is outer
    assert Target.default() == Target("llvm")


def test_a_with_block_ends_with_an_error_too() -> None:
    with pytest.raises(ZeroDivisionError), Target("llvm -num-cores 3"):
        raise ZeroDivisionError
    assert Target.default() == Target("llvm")


def test_a_with_block_says_what_build_makes_code_for() -> None:
    a = te.placeholder((4,), name="A")
    b = te.compute((4,), lambda i: a[i] * 2, "B")
    with Target("llvm -num-cores 3"):
        assert "-num-cores 3" in repr(pb.build(te.create_schedule(b), [a, b]))
