"""Machines of a cluster that are of another architecture, or have no llvmlite: what they say, and what runs there."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from pegbox.codegen import Target
from pegbox.codegen.targets import host
from pegbox.codegen.targets.features import missing_features
from pegbox.errors import MeasureError, TargetError
from pegbox.plugins.runners import machine
from pegbox.plugins.runners.machine import ClusterMachine, Kind, one_kind

HERE = Kind("EPYC 9575F", "znver5", ("+avx2",), 16, "0.1.0", "22.1.0", architecture="x86_64")
BOARD = Kind("Neoverse-N1", "", ("asimd", "fp"), 4, "0.1.0", "", architecture="aarch64")
ARM = Target("llvm -mtriple=aarch64-linux-gnu -mcpu=neoverse-n1 -num-cores 1")


@pytest.fixture
def without_llvm(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setitem(sys.modules, "llvmlite", None)
    host.has_llvm.cache_clear()
    host.cpu_name.cache_clear()
    host.llvm_version.cache_clear()
    yield
    monkeypatch.undo()
    host.has_llvm.cache_clear()
    host.llvm_version.cache_clear()


def at(number: int, kind: Kind) -> ClusterMachine:
    return ClusterMachine(f"tcp://board:{number}", f"board-{number}", kind, measures=True)


def test_machines_without_llvm_may_measure() -> None:
    boards = [at(1, BOARD), at(2, BOARD)]
    assert one_kind(boards, here=HERE) == boards
    assert str(boards[0]).endswith("Neoverse-N1, 4 cores (aarch64), pegbox 0.1.0, no LLVM")
    with pytest.raises(MeasureError, match="other versions"):
        one_kind([at(1, replace(BOARD, pegbox="0.0.9"))], here=HERE)


def test_machines_are_chosen_by_their_architecture() -> None:
    mixed = [at(1, BOARD), at(2, HERE)]
    with pytest.raises(MeasureError, match="differ"):
        one_kind(mixed, here=HERE)
    assert one_kind(mixed, here=HERE, chosen="AArch64") == mixed[:1]
    assert one_kind(mixed, here=HERE, target=ARM) == mixed[:1]
    assert one_kind(mixed, here=HERE, target=Target("llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64")) == mixed[1:]


def test_code_goes_to_machines_of_its_architecture_only() -> None:
    BOARD.check_target(ARM)
    with pytest.raises(MeasureError, match=r"\(Neoverse-N1\) is of .* aarch64, not x86_64.*-mtriple=aarch64-linux-gnu"):
        BOARD.check_target(Target("llvm -mtriple=x86_64-linux-gnu -mcpu=haswell"))
    with pytest.raises(MeasureError, match=r"neoverse-n1, but .*\(EPYC 9575F\) is of .*x86_64, not aarch64"):
        HERE.check_target(ARM)


@pytest.mark.skipif(host.architecture() != "x86_64", reason="the features of x86")
def test_what_a_processor_lacks_counts_where_code_may_have_it_here_and_on_a_cluster() -> None:
    rapids = "llvm -mcpu=sapphirerapids -num-cores 1"
    offered = {*Kind.own().features, *missing_features(Target(rapids), ())} - {"+amx-bf16", "+amx-int8", "+amx-tile"}
    able = replace(Kind.own(), cpu="Xeon", llvm_cpu="cascadelake", features=tuple(sorted(offered)))
    unable = replace(able, features=tuple(sorted(offered - {"+avx512fp16"})))
    able.check_target(Target(rapids))
    able.check_target(Target(f"{rapids} -mattr=+prefer-256-bit"))  # no feature that a processor could lack
    with pytest.raises(MeasureError, match=r"cluster's \(Xeon\) lacks .*\(\+amx-tile\)"):
        able.check_target(Target(f"{rapids} -mattr=+amx-tile"))
    with pytest.raises(MeasureError, match=r"this machine's \(Xeon\) lacks .*\(\+avx512fp16\).* -mattr=-avx512fp16"):
        unable.check_target(Target(rapids), whose="this machine's")
    unable.check_target(Target(f"{rapids} -mattr=-avx512fp16"))


def test_a_machine_without_llvm_says_what_the_system_knows(without_llvm: None) -> None:
    kind = Kind.own()
    assert not kind.emulated
    assert replace(kind, cpu="emulated aarch64").emulated
    assert (kind.llvm, kind.llvm_cpu, kind.features) == ("", "", host.cpu_flags())
    assert kind.architecture == host.architecture()
    assert kind.cpu == host.cpu_model()
    with pytest.raises(TargetError, match=r"llvmlite is not installed .*pip install llvmlite"):
        host.cpu_name()


def test_the_workers_side_needs_no_llvm() -> None:
    pytest.importorskip("distributed")
    names = ("llvmlite", "scipy", "xgboost", "rich", "ml_dtypes")
    program = f"import sys; sys.modules.update(dict.fromkeys({names})); import pegbox.plugins.runners.dask_worker"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_targets_are_understood_without_llvm(without_llvm: None) -> None:
    """Targets of candidates come to a worker by name."""
    target = Target("llvm -mcpu=haswell -num-cores 1")
    assert not target.is_host_cpu
    assert target.vector_bits == 256
    assert Target(str(ARM)) == ARM


@pytest.mark.parametrize(
    ("name", "plain"), [("arm64", "aarch64"), ("AMD64", "x86_64"), ("riscv64gc", "riscv64"), ("ppc64le", "ppc64le")]
)
def test_an_architecture_has_one_name(name: str, plain: str) -> None:
    assert Target(f"llvm -mtriple={name}-unknown-linux-gnu -mcpu=generic").architecture == plain


@pytest.mark.parametrize(
    ("text", "model", "flags"),
    [
        ("model name : EPYC\nflags : sse avx2\nmodel name : another", "EPYC", ("avx2", "sse")),
        ("Features : fp asimd\nCPU implementer : 0x41\nCPU part : 0xd0c\n", f"{host.architecture()} 0x41/0xd0c",
         ("asimd", "fp")),
        ("isa : rv64imafdcv\nuarch : sifive,u74-mc\n", "sifive,u74-mc", (*"acdfim", "rv64", "v")),
    ],
)  # fmt: skip
def test_the_processor_is_named_as_the_system_tells(
    text: str, model: str, flags: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [line.split(" : ") for line in text.splitlines()]
    monkeypatch.setattr(host, "_processor_lines", lambda: dict(reversed(lines)))
    assert host.cpu_model.__wrapped__() == model
    assert host.cpu_flags.__wrapped__() == flags


@pytest.mark.parametrize(
    ("key", "older", "newer", "more"),
    [
        ("flags", "sse4_2 avx2 pti", "sse4_2 avx2 pti ibrs md_clear constant_tsc retbleed_x cpuid", "avx512_bf16"),
        ("Features", "fp asimd cpuid", "fp asimd cpuid evtstrm ssbs paca pacg bti", "sve2"),
        ("isa", "rv64imafdcsu", "rv64gc_zicntr_zicsr_zifencei_zihpm_zca_zmmul_sstc_svinval", "zicond"),
    ],
)
def test_equal_boards_of_two_kernels_are_of_one_kind(
    key: str, older: str, newer: str, more: str, monkeypatch: pytest.MonkeyPatch, without_llvm: None
) -> None:
    monkeypatch.setattr(machine, "cpu_flags", host.cpu_flags.__wrapped__)
    monkeypatch.setattr(host, "emulator", lambda: "")

    def kind(words: str) -> Kind:
        monkeypatch.setattr(host, "_processor_lines", lambda: {key: words})
        return Kind.own()

    boards = [at(1, kind(older)), at(2, kind(newer))]
    assert one_kind(boards, here=boards[0].kind) == boards
    for words in (older, newer):
        other = kind(f"{words}{'_' if key == 'isa' else ' '}{more}")
        own: Any = SimpleNamespace(architecture=other.architecture, is_host_cpu=True)
        assert other.lacks(own) == []
        assert boards[0].kind.lacks(own) == [more]


def test_an_emulated_processor_says_so(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    host.cpu_model.cache_clear()
    request.addfinalizer(host.cpu_model.cache_clear)
    monkeypatch.setattr(host, "emulator", lambda: "qemu-aarch64")
    monkeypatch.setattr(host, "architecture", lambda: "aarch64")
    assert host.cpu_model.__wrapped__() == "emulated aarch64"
    assert host.cpu_flags.__wrapped__() == ()
    assert host.describe_host.__wrapped__() == "emulated aarch64 (qemu-aarch64)"
