"""Target features: the features that LLVM's intrinsics need, and the processors that have them."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache

from pegbox.codegen.targets import host
from pegbox.codegen.targets.cpus import X86_VECTOR_BITS
from pegbox.codegen.targets.feature_string import is_on
from pegbox.codegen.targets.target import Target
from pegbox.errors import TargetError

# The longest prefix wins. Instructions without a prefix here are left to LLVM.
_NEEDS = {
    "llvm.x86.avx512.vpdp": "avx512vnni",
    "llvm.x86.avx512bf16.": "avx512bf16",
    "llvm.x86.avx512fp16.": "avx512fp16",
    "llvm.x86.avx512.pmaddubs.w.512": "avx512bw",
    "llvm.x86.avx512.pmaddw.d.512": "avx512bw",
    "llvm.x86.avx512.": "avx512f",
    "llvm.x86.avx2.": "avx2",
    "llvm.x86.avx.": "avx",
    "llvm.x86.ssse3.": "ssse3",
    "llvm.x86.sse41.": "sse4.1",
    "llvm.x86.sse42.": "sse4.2",
    "llvm.x86.tdpbf16ps": "amx-bf16",
    "llvm.x86.tdpb": "amx-int8",
    "llvm.x86.tile": "amx-tile",
}
_ARCHITECTURES = {"llvm.x86.": "x86_64", "llvm.aarch64.": "aarch64", "llvm.arm.": "arm"}

_VNNI = """
    cascadelake cooperlake icelake-client icelake-server rocketlake tigerlake sapphirerapids emeraldrapids graniterapids
    graniterapids-d diamondrapids znver4 znver5
"""
_BF16 = "cooperlake sapphirerapids emeraldrapids graniterapids graniterapids-d diamondrapids znver4 znver5"
_FP16 = "sapphirerapids emeraldrapids graniterapids graniterapids-d diamondrapids"
_VBMI2 = f"icelake-client icelake-server rocketlake tigerlake novalake znver4 znver5 {_FP16}"
_SMALL = """
    alderlake raptorlake meteorlake gracemont sierraforest grandridge clearwaterforest arrowlake arrowlake-s lunarlake
    pantherlake wildcatlake
"""
_IFMA = """
    sierraforest grandridge clearwaterforest arrowlake arrowlake-s lunarlake pantherlake wildcatlake diamondrapids
    novalake
"""
_SSE4A = "amdfam10 barcelona btver1 btver2 bdver1 bdver2 bdver3 bdver4 znver1 znver2 znver3 znver4 znver5"
_COMES_WITH = {
    "avx512vnni": _VNNI, "avx512bf16": _BF16, "avx512fp16": _FP16, "avx512vbmi2": _VBMI2, "avx512bitalg": _VBMI2,
    "avx512vpopcntdq": f"{_VBMI2} knm", "avx512vbmi": f"{_VBMI2} cannonlake", "avx512ifma": f"{_VBMI2} cannonlake",
    "avxifma": _IFMA, "avxvnni": f"{_FP16} {_SMALL} novalake znver5", "gfni": f"{_VBMI2} {_SMALL} tremont",
    "sse4a": _SSE4A, "amx-bf16": _FP16, "amx-int8": _FP16, "amx-tile": _FP16,
}  # fmt: skip
_NOT_AVX2 = "sandybridge corei7-avx ivybridge core-avx-i bdver1 bdver2 bdver3 btver2"
_WITHOUT_SSSE3 = """
    generic x86-64 nocona k8 opteron athlon64 athlon-fx k8-sse3 opteron-sse3 athlon64-sse3 amdfam10 barcelona
"""
_WITHOUT_SSE41 = f"{_WITHOUT_SSSE3} core2 bonnell atom btver1"
_MISSING_IN = {
    "avx512f": (512, ""), "avx512bw": (512, "knl knm"), "avx512dq": (512, "knl knm"), "avx512vl": (512, "knl knm"),
    "avx": (256, ""), "avx2": (256, _NOT_AVX2), "f16c": (256, "sandybridge corei7-avx bdver1"),
    "fma": (256, "sandybridge corei7-avx ivybridge core-avx-i bdver1 btver2"),
    "ssse3": (128, _WITHOUT_SSSE3), "sse4.1": (128, _WITHOUT_SSE41), "sse4.2": (128, f"{_WITHOUT_SSE41} penryn"),
}  # fmt: skip
"""The vector width from which processors have a feature, and the exceptions that lack it."""


_CHOSEN = (
    "avx512bitalg", "avx512ifma", "avx512vbmi", "avx512vbmi2", "avx512vpopcntdq", "avxifma", "avxvnni", "f16c", "gfni",
    "sse4a",
)  # fmt: skip
"""The features that no intrinsic here needs, but whose instructions LLVM selects by itself: AMD's SSE4A for shuffles
and nontemporal stores of floats, GFNI for shifts of bytes, VBMI for shuffles of bytes, and IFMA for products of
integers of 52 bits."""

_KNOWN = frozenset((*_NEEDS.values(), *_CHOSEN))
"""The features for which the processors are known without LLVM."""

_COMPILED_FOR = ("avx", "bmi", "f16c", "fma", "gfni", "movbe", "sse", "ssse", "tbm", "xop")
"""The beginnings of flags for instructions that LLVM selects by itself."""

_UNLISTED = ("avx10", "avxneconvert", "avxvnniint")
"""The beginnings of features that /proc/cpuinfo never lists, even if the processor has them."""

_LLVM_WORDS = {"bmi1": "bmi", "pni": "sse3"}
"""LLVM's words for flags that have other names in /proc/cpuinfo."""


@cache
def _comes_with(feature: str) -> frozenset[str]:
    """Find the x86 processors that have a feature."""
    if feature in _COMES_WITH:
        return frozenset(_COMES_WITH[feature].split())
    least, without = _MISSING_IN[feature]
    return frozenset(cpu for cpu, bits in X86_VECTOR_BITS.items() if bits >= least and cpu not in without.split())


def missing_features(target: Target, offered: Collection[str]) -> list[str]:
    """List the known features that code for the x86 target may use but a processor lacks.

    `offered` are the processor's features, such as `+avx2`. AMX features count only if -mattr names them, since LLVM
    never selects their instructions by itself.
    """
    last = {item[1:]: item for item in target.features.split(",")}  # later items win
    used = {item for item in last.values() if item.startswith("+")}
    if target.architecture == host.architecture() and host.has_llvm():  # -mattr may also hold LLVM's preferences
        used &= {f"+{item[1:]}" for item in host.cpu_features()}
    if not target.is_host_cpu:
        used |= {f"+{feature}" for feature in _KNOWN if has(target, feature)}
    never_chosen = {item for item in used if item.startswith("+amx-")} - set(target.attributes)
    return sorted(used - never_chosen - set(offered))


def check_processor(target: Target, what: str, *, built_on: Collection[str] = ()) -> None:
    """Raise `TargetError` if this machine's processor lacks a known feature that code for the x86 target may use.

    `what` names the code, and `built_on` are the `host.cpu_flags` of the machine that ran it before. LLVM is asked only
    if this machine lacks some of the instructions.
    """
    flags = host.cpu_flags()
    if not flags or target.architecture != "x86_64" or (built_on and {*built_on} <= {*flags}):
        return
    lacking = {*_lacking(target.cpu, target.attributes, tuple(flags))}
    if lacking and target.is_host_cpu:  # its code uses only this machine's instructions and those of -mattr
        lacking &= {item[1:] for item in target.attributes}
    if built_on and target.is_host_cpu:
        lacking |= {word for word in built_on if word.startswith(_COMPILED_FOR)} - {*flags}
    if lacking:
        raise TargetError(
            f"{what} was built for {target.cpu}, and this machine's processor ({host.cpu_model()}) lacks some of its "
            f"instructions ({', '.join(sorted(lacking)[:3])}); build it for this one, or for one whose instructions "
            "both have: target='llvm -mcpu=x86-64-v3'"
        )


@cache
def _lacking(cpu: str, attributes: tuple[str, ...], flags: tuple[str, ...]) -> frozenset[str]:
    """Return the features that code for an x86 processor may use, by -mcpu and -mattr alone, and that these flags lack.

    Every loaded kernel needs this, so it is cached: with all features by name it takes a millisecond.
    """
    return frozenset(_used_by(cpu, attributes) - _offered(attributes, flags))


def _used_by(cpu: str, attributes: Collection[str]) -> set[str]:
    """List the features whose instructions LLVM may use for an x86 processor, by -mcpu and -mattr alone."""
    named = {item[1:] for item in attributes}
    others = {name for name in named - _KNOWN if name.startswith(_COMPILED_FOR)} - {"sse-unaligned-mem"}
    known = {name for name in _KNOWN if name in named or not name.startswith("amx-")}
    used = {name for name in known if is_on(name, attributes, known=cpu in _comes_with(name))}
    return used | {name for name in others if is_on(name, attributes)}


def _offered(attributes: Collection[str], flags: Collection[str]) -> set[str]:
    """List the features of a processor with these flags, in LLVM's words: known features, and those named in -mattr."""
    plain = {_LLVM_WORDS.get(word, word).replace("_", "") for word in flags}
    named = {item[1:] for item in attributes}
    unlisted = {name for name in named if name.startswith(_UNLISTED)}
    if unlisted and host.has_llvm():
        unlisted &= {item[1:] for item in host.cpu_features() if item.startswith("+")}
    return unlisted | {name for name in _KNOWN | named if name.replace("-", "").replace(".", "") in plain}


def needed(intrinsic: str) -> str | None:
    """Return the feature that an intrinsic needs; None if unknown."""
    fitting = [prefix for prefix in _NEEDS if intrinsic.startswith(prefix)]
    return _NEEDS[max(fitting, key=len)] if fitting else None


def has(target: Target, feature: str) -> bool:
    """Decide if the x86 target has the feature; later words of its feature string win."""
    known = target.cpu in _comes_with(feature) and not target.is_host_cpu
    return is_on(feature, target.features.split(","), known=known)


def computes_float16(target: Target) -> bool:
    """Decide if the target has float16 arithmetic, or conversions from and to float32.

    With only conversions, LLVM computes in float32, and fuses a product and a sum as it does for other floats.
    """
    if _is(target, "llvm.x86."):
        return has(target, "f16c")
    return _is(target, "llvm.aarch64.") or "+zfh" in target.attributes


def _is(target: Target, prefix: str) -> bool:
    return target.architecture.startswith(_ARCHITECTURES[prefix])


def check_intrinsic(name: str, target: Target) -> None:
    """Raise `TargetError` if the target lacks the intrinsic's instruction."""
    for prefix, architecture in _ARCHITECTURES.items():
        if name.startswith(prefix) and not target.architecture.startswith(architecture):
            raise TargetError(
                f"{name} is an instruction of {architecture}, the target {str(target)!r} is for "
                f"{target.architecture}; tensorize for that processor with another intrinsic, or not at all"
            )
    feature = needed(name)
    if feature is not None and not has(target, feature):
        raise TargetError(
            f"{name} needs the feature {feature}, which the target {str(target)!r} does not have; leave the tensorize "
            f"out there, name a processor that has it (-mcpu=...), or say that this one does (-mattr=+{feature})"
        )
