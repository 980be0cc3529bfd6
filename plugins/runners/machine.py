"""The kind of a machine, and the machines of a cluster: `Kind`, `ClusterMachine`."""

from __future__ import annotations

import platform
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from typing import TYPE_CHECKING

from pegbox.codegen import (
    EMULATED,
    architecture,
    cpu_features,
    cpu_flags,
    cpu_model,
    cpu_name,
    has_llvm,
    has_openmp,
    llvm_version,
    missing_features,
    usable_cores,
)
from pegbox.errors import MeasureError

if TYPE_CHECKING:
    from pegbox.codegen import Target

_FEW = 4
"""The largest number of missing features to leave out by a message's advice; for more, another processor."""

RESOURCE = "pegbox"
"""The resource of measuring workers; each has one."""


@dataclass(frozen=True)
class Kind:
    """The properties that must be equal for costs to be comparable.

    Attributes:
        cpu, llvm_cpu: the processor's name, and LLVM's.
        features: the processor's features; on a machine without llvmlite, which runs programs compiled elsewhere,
            `cpu_flags`.
        cores: the number of usable cores.
        pegbox, llvm: versions; `llvm` and `llvm_cpu` are empty without llvmlite.
        openmp: True if there is an OpenMP runtime, which kernels of several threads need.
    """

    cpu: str
    llvm_cpu: str
    features: tuple[str, ...]
    cores: int
    pegbox: str
    llvm: str
    architecture: str = field(default_factory=architecture)
    openmp: bool = True

    @classmethod
    def own(cls) -> Kind:
        """Describe this machine and this process."""
        name, features = "", cpu_flags()
        if has_llvm():
            name, features = cpu_name(), tuple(name for name in cpu_features() if name.startswith("+"))
        cores = len(usable_cores())
        return cls(cpu_model(), name, features, cores, version("pegbox"), llvm_version())

    @property
    def name(self) -> str:
        """The processor and the cores, for records."""
        return f"{self.cpu}, {self.cores} core{'s' if self.cores != 1 else ''}"

    @property
    def emulated(self) -> bool:
        """True if it is an emulator, whose times are meaningless."""
        return self.cpu.startswith(EMULATED)

    def __str__(self) -> str:
        llvm = f"LLVM {self.llvm}" if self.llvm else "no LLVM"
        openmp = "" if self.openmp else ", no OpenMP runtime"
        return f"{self.name} ({self.llvm_cpu or self.architecture}), pegbox {self.pegbox}, {llvm}{openmp}"

    def lacks(self, target: Target) -> list[str]:
        """List the known features that code for the target may use and the processor lacks."""
        if target.architecture != self.architecture:
            return [target.architecture]
        if self.llvm:
            return missing_features(target, self.features)
        return sorted(set(cpu_flags()) - set(self.features)) if target.is_host_cpu else []

    def check_target(self, target: Target, *, whose: str = "the cluster's") -> None:
        """Raise `MeasureError` if the processor cannot run code for the target; `whose` names it."""
        lacks = self.lacks(target)
        if not lacks:
            return
        why = f"lacks some of its instructions ({', '.join(lacks[:3])}{', ...' if len(lacks) > 3 else ''})"
        remedy = ""
        if target.architecture != self.architecture:
            why = f"is of the architecture {self.architecture}, not {target.architecture}"
            remedy = "measure on such machines with --runner dask:scheduler=ADDRESS (runner=...), or "
        elif self.llvm and len(lacks) <= _FEW:
            remedy = f"leave them out with -mattr={','.join(f'-{name[1:]}' for name in lacks)}, or "
        own = "this machine's processor" if target.is_host_cpu else "the processor"
        triple = f" -mtriple={self.architecture}-linux-gnu" if self.architecture != architecture() else ""
        cores = min(target.num_cores, self.cores)
        raise MeasureError(
            f"candidates are for {own} {target.cpu}, but {whose} ({self.cpu}) {why}; {remedy}tune with --target "
            f"'llvm{triple} -mcpu={self.llvm_cpu or 'NAME'} -num-cores {cores}' (target=...)"
        )

    def check_threads(self, threads: int) -> None:
        """Raise `MeasureError` if kernels of so many threads cannot run."""
        if threads > 1 and not self.openmp:
            raise MeasureError(
                f"candidates have {threads} threads, but the cluster's machines ({self.name}) have no OpenMP runtime; "
                "install libgomp there (Debian and Ubuntu: apt install libgomp1) or the xgboost wheel, which brings "
                "one, or tune for one core with -num-cores 1"
            )


@dataclass(frozen=True)
class ClusterMachine:
    """A Dask worker at `address` on the host `node`; `measures` is True if it has the resource to measure."""

    address: str
    node: str
    kind: Kind
    measures: bool

    @classmethod
    def own(cls, address: str, *, measures: bool) -> ClusterMachine:
        return cls(address, platform.node(), replace(Kind.own(), openmp=has_openmp()), measures)

    def is_named(self, part: str | None) -> bool:
        """Decide if the machine's name or its processor's contains the part; None matches all."""
        names = (self.node, self.kind.cpu, self.kind.llvm_cpu, self.kind.architecture)
        return not part or part.lower() in " ".join(names).lower()

    def __str__(self) -> str:
        return f"{self.node} at {self.address}: {self.kind}"


def one_kind(
    machines: Iterable[ClusterMachine], *, here: Kind, chosen: str | None = None, target: Target | None = None
) -> list[ClusterMachine]:
    """Choose the machines to measure on: those with `chosen` in their name or their processor's that run code for
    `target`; if some have exactly its processor, only these.

    Raises `MeasureError`, with a list of the machines, if they are of several kinds, if none is left, or if their
    versions differ from those of this process, whose kind is `here`.
    """
    there = list(machines)
    found = [machine for machine in there if machine.is_named(chosen)]
    if not found:
        raise MeasureError(f"host={chosen!r}: no machine of the cluster has that in its name:{_listed(there)}")
    if target is not None:
        able = [machine for machine in found if not machine.kind.lacks(target)]
        if not able:
            raise MeasureError(f"target='{target}': no machine of the cluster runs code for it:{_listed(found)}")
        found = [machine for machine in able if machine.kind.llvm_cpu == target.cpu] or able
    if other := [m for m in found if m.kind.pegbox != here.pegbox or m.kind.llvm not in ("", here.llvm)]:
        raise MeasureError(
            f"the cluster has other versions than this process (pegbox {here.pegbox}, LLVM {here.llvm}); install the "
            f"same there:{_listed(other)}"
        )
    if len({m.kind for m in found}) > 1:
        raise MeasureError(
            "the machines of the cluster differ, so their costs cannot be compared; choose some with host=NAME, a part "
            f"of a machine's or its processor's name, or with target=:{_listed(found)}"
        )
    return found


def _listed(machines: Iterable[ClusterMachine]) -> str:
    return "".join(f"\n  {machine}" for machine in machines)
