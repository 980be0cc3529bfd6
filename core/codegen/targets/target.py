"""`Target`: the processor for which code is generated, and the number of its cores."""

from __future__ import annotations

import os
import re
from contextvars import ContextVar
from functools import cache, cached_property
from typing import TYPE_CHECKING

from pegbox.checks import check_text, did_you_mean
from pegbox.codegen.targets import host
from pegbox.codegen.targets.cores import usable_cores
from pegbox.codegen.targets.cpus import (
    PLAIN_CACHES,
    X86_CACHES,
    X86_VECTOR_BITS,
    Caches,
    multiply_adds,
    vector_bits,
    x86_vector_registers,
)
from pegbox.digest import sha256
from pegbox.errors import TargetError
from pegbox.shown import value_text

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

TARGET_OPTIONS = ("-mcpu", "-mattr", "-mtriple", "-num-cores", "-caches")
MOST_CORES = 2048
"""The largest -num-cores.

OpenMP runtimes keep a record for each thread of a team on the caller's stack, which may have only half a megabyte.
"""

_PROCESSOR = ("-mcpu", "-mattr", "-mtriple")
_VARIABLE = "PEGBOX_TARGET"
_EXAMPLE = "llvm -mcpu=znver4 -mattr=+avx512bf16,-avx512fp16 -num-cores 2"

_entered: ContextVar[tuple[Target, ...]] = ContextVar("pegbox_targets", default=())
"""The targets of the `with` blocks around the caller, innermost last."""


class Target:
    """A processor, from a string: `llvm [-mcpu=NAME] [-mattr=+f,-g] [-mtriple=T] [-num-cores N] [-caches=L1,L2,L3]`.

    Without -mcpu, the processor is this machine's, with exactly the features that it offers; -mcpu=native and the name
    of this machine's processor mean the same. With another architecture's -mtriple, it is that architecture's "generic"
    processor. Without -num-cores, the number of cores is that on which this process may run. -caches are those of one
    core in KiB; without it, they follow from the processor's name, so that a string means the same everywhere. The
    environment variable PEGBOX_TARGET, also a target string, supplies the parts that the string omits: the processor if
    it has none of -mcpu, -mattr, -mtriple, and the number of cores. `str(target)` is canonical: two targets are equal
    when their strings are.

    In a `with pegbox.Target("llvm -num-cores 1"):` block, tasks and programs that name no target use it.

    Raises:
        TargetError: the kind, an option or the processor is unknown, or a value is malformed, here or in PEGBOX_TARGET.
    """

    def __init__(self, text: str = "llvm") -> None:
        options = _parse(check_text("target", text, error=TargetError))
        defaults = _defaults(os.environ.get(_VARIABLE, ""))
        if not options.keys().isdisjoint(_PROCESSOR):
            defaults = {name: value for name, value in defaults.items() if name == "-num-cores"}
        options = {**defaults, **options}
        self.triple = options.get("-mtriple", "")
        if options.get("-mcpu") == "native":
            if not _is_x86(self.triple):
                raise TargetError(
                    f"target {text!r}: native is the processor of this machine; name one of {self.triple}"
                )
            del options["-mcpu"]
        self._named = options.get("-mcpu") or ("" if _is_x86(self.triple) else "generic")
        self.attributes = _attributes(options.get("-mattr", ""), text)
        cores = options.get("-num-cores")
        self.num_cores = min(len(usable_cores()), MOST_CORES) if cores is None else _count(cores, text)
        self._caches = _sizes(options["-caches"], text) if "-caches" in options else None
        if "-mcpu" in options:
            _check_cpu(self._named, self.triple, text)

    @classmethod
    def host(cls, *, num_cores: int | None = None) -> Target:
        """Return this machine's target, ignoring PEGBOX_TARGET, with all cores of the process or with `num_cores`."""
        count = len(usable_cores()) if num_cores is None else num_cores
        return cls(f"llvm -mcpu={host.cpu_name()} -num-cores {value_text(count)}")

    @classmethod
    def default(cls) -> Target:
        """Return the target of the innermost `with` block around the caller, else `Target("llvm")`."""
        return cls.entered() or cls("llvm")

    @staticmethod
    def entered() -> Target | None:
        """Return the target of the innermost `with` block around the caller (in its thread or task), or None."""
        entered = _entered.get()
        return entered[-1] if entered else None

    def __enter__(self) -> Self:
        _entered.set((*_entered.get(), self))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _entered.set(_entered.get()[:-1])

    @cached_property
    def cpu(self) -> str:
        """LLVM's name for the processor.

        Raises:
            TargetError: the processor is this machine's, and llvmlite, which names it, is missing.
        """
        return self._named or host.cpu_name()

    @cached_property
    def key(self) -> str:
        """A text that differs for different processors, made without LLVM; this machine's is named by its features."""
        if self._named:
            return str(self)
        features = sha256(" ".join((host.cpu_model(), *host.cpu_flags())).encode()).hexdigest()[:16]
        return self._text(f"{host.cpu_model()} {features}")

    @property
    def architecture(self) -> str:
        """The first word of the triple, or this machine's architecture: aarch64, riscv64, x86_64, ..."""
        return host.canonical_architecture(self.triple.split("-")[0]) if self.triple else host.architecture()

    @property
    def is_host_cpu(self) -> bool:
        """True if the processor is this machine's; False without llvmlite, which knows its name."""
        return not self.triple and host.has_llvm() and self.cpu == host.cpu_name()

    @property
    def features(self) -> str:
        """The feature string for LLVM, in which later words win."""
        return ",".join((host.cpu_features() if self.is_host_cpu else ()) + self.attributes)

    def with_cores(self, count: int) -> Target:
        """Return the same processor with another number of cores.

        Raises:
            TargetError: the number is out of range.
        """
        return Target(str(self).replace(f"-num-cores {self.num_cores}", f"-num-cores {value_text(count)}"))

    @property
    def explicit(self) -> Target:
        """The target with all features of this machine's processor written out, which means the same everywhere."""
        if not self.is_host_cpu:
            return self
        caches = f" -caches={','.join(str(size >> 10) for size in self._caches)}" if self._caches else ""
        return Target(f"llvm -mcpu={self.cpu} -mattr={self.features} -num-cores {self.num_cores}{caches}")

    # Templates read the next properties thousands of times in a search.

    @cached_property
    def vector_bits(self) -> int:
        """The width in bits of the vectors into which a vectorized loop is cut."""
        return vector_bits(self.cpu, self._switches)

    @cached_property
    def vector_registers(self) -> int:
        """The number of vectors that a core holds in registers: the limit of a register tile."""
        if _is_x86(self.triple):
            return x86_vector_registers(self.cpu, self._switches)
        return 16 if self.triple.startswith(("arm-", "armv", "thumb")) else 32

    @property
    def multiply_adds(self) -> int:
        """The number of vectors that a core multiplies and adds per cycle: 2, or 1 if it computes them in halves."""
        return multiply_adds(self.cpu, self.vector_bits)

    @property
    def caches(self) -> Caches:
        """The bytes of L1 (data), L2 and one core's share of the last level, which must hold the blocks of loops."""
        return self._caches or X86_CACHES.get(self.cpu, PLAIN_CACHES)

    @property
    def _switches(self) -> tuple[str, ...]:
        return tuple(self.features.split(",")) if self.features else ()

    def __str__(self) -> str:
        return self._text(self.cpu)

    def _text(self, cpu: str) -> str:
        parts = ["llvm", f"-mcpu={cpu}"]
        if self.attributes:
            parts.append(f"-mattr={','.join(self.attributes)}")
        if self.triple:
            parts.append(f"-mtriple={self.triple}")
        parts.append(f"-num-cores {self.num_cores}")
        if self._caches:
            parts.append("-caches=" + ",".join(str(size >> 10) for size in self._caches))
        return " ".join(parts)

    def __repr__(self) -> str:
        return f"Target({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Target) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))

    def __reduce__(self) -> tuple[type[Target], tuple[str]]:
        return Target, (str(self),)


def target_of(given: str | Target | None) -> Target:
    """Return the target given by an argument, or `Target.default()` for None.

    Raises:
        TargetError: the string is malformed.
    """
    if given is None:
        return Target.default()
    return given if isinstance(given, Target) else Target(given)


def _parse(text: str) -> dict[str, str]:
    words = text.split()
    if not words:
        raise TargetError(f"a target is a string such as {_EXAMPLE!r}, got {text!r}")
    if words[0] != "llvm":
        raise TargetError(f"target {text!r}: unknown kind {words[0]!r}; the only kind is 'llvm', as in {_EXAMPLE!r}")
    options: dict[str, str] = {}
    rest = iter(words[1:])
    for word in rest:
        name, equals, value = word.partition("=")
        if name not in TARGET_OPTIONS:
            hint = did_you_mean(name, TARGET_OPTIONS, shown=str) or f"; use {', '.join(TARGET_OPTIONS)}"
            raise TargetError(f"target {text!r}: unknown option {word!r}{hint}")
        if not equals:
            value = next(rest, "")
        if not value or (value.startswith("-") and name != "-mattr"):
            raise TargetError(f"target {text!r}: option {name} needs a value, as in {_EXAMPLE!r}")
        if name in options:
            raise TargetError(f"target {text!r}: option {name} is given twice; keep one")
        options[name] = value
    return options


@cache
def _defaults(text: str) -> dict[str, str]:
    """Parse the environment variable."""
    if not text.strip():
        return {}
    try:
        options = _parse(text)
        _attributes(options.get("-mattr", ""), text)
        _count(options.get("-num-cores", "1"), text)
        _sizes(options.get("-caches", "1,1,0"), text)
        if options.get("-mcpu", "native") != "native":
            _check_cpu(options["-mcpu"], options.get("-mtriple", ""), text)
    except TargetError as error:
        raise TargetError(f"the environment variable {_VARIABLE} (for parts that a target omits): {error}") from None
    return options


def _attributes(value: str, text: str) -> tuple[str, ...]:
    names = tuple(name for name in value.split(",") if name)
    for name in names:
        if not re.fullmatch(r"[+-][\w.-]+", name):
            raise TargetError(
                f"target {text!r}: feature {name!r} in -mattr must start with + (switch on) or - (switch off)"
            )
    return names


def _count(value: str, text: str) -> int:
    digits = value.lstrip("0")
    if not value.isdecimal() or not digits:
        raise TargetError(f"target {text!r}: -num-cores must be a positive number, got {value!r}")
    if len(digits) > len(str(MOST_CORES)) or int(digits) > MOST_CORES:
        raise TargetError(f"target {text!r}: -num-cores must be at most {MOST_CORES}, got {value!r}")
    return int(digits)


def _sizes(value: str, text: str) -> Caches:
    sizes = value.split(",")
    if len(sizes) != 3 or not all(re.fullmatch(r"\d{1,9}", size) for size in sizes) or "0" in sizes[:2]:
        raise TargetError(
            f"target {text!r}: -caches must be the KiB of L1, L2 and a core's share of L3, such as 32,1024,4096 "
            f"(the last may be 0), got {value!r}"
        )
    return Caches(*(int(size) << 10 for size in sizes))


def _is_x86(triple: str) -> bool:
    return not triple or triple.startswith(("x86_64", "x86-64", "amd64"))


def _check_cpu(cpu: str, triple: str, text: str) -> None:
    if not _is_x86(triple):
        return  # other architectures have no list of names; LLVM falls back to their plainest processor
    if cpu in X86_VECTOR_BITS or (host.has_llvm() and cpu == host.cpu_name()):
        return
    hint = did_you_mean(cpu, [*X86_VECTOR_BITS, host.cpu_name()]) or "; see `llc -mcpu=help` for the names"
    raise TargetError(f"target {text!r}: unknown processor {cpu!r} in -mcpu{hint}; without -mcpu it is this machine")
