"""Devices: this machine's CPU, and names of others, which do not exist here."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from pegbox.errors import ArgumentError

_KINDS = {"llvm": "cpu", "c": "cpu", "gpu": "cuda", "nvptx": "cuda", "cl": "opencl"}
_KINDS |= {kind: kind for kind in ("cpu", "cuda", "opencl", "vulkan", "metal", "rocm", "hexagon", "webgpu")}


@dataclass(frozen=True)
class Device:
    """A device by its kind and number. `exist` is True if kernels can run there: on the first CPU only."""

    kind: str
    device_id: int = 0

    @property
    def exist(self) -> bool:
        return self == Device("cpu", 0)

    def sync(self) -> None:
        """Return at once: a call of a kernel returns when it is done."""

    def __str__(self) -> str:
        return f"{self.kind}({self.device_id})"

    __repr__ = __str__


def device(dev_type: str, dev_id: int = 0) -> Device:
    """Make a device of a kind: "cpu", "cuda", or the first word of a target string.

    Raises `ArgumentError` for another kind.
    """
    word = next(iter(str(dev_type).split()), "")
    if word not in _KINDS:
        raise ArgumentError(f"device({dev_type!r}): unknown kind; give one of {', '.join(_KINDS)}")
    return Device(_KINDS[word], dev_id)


context = device
cpu = partial(device, "cpu")
cuda = gpu = partial(device, "cuda")
metal, opencl, rocm, vulkan = (partial(device, kind) for kind in ("metal", "opencl", "rocm", "vulkan"))


def check_device(given: Device | None) -> None:
    """Raise `ArgumentError` for a device that does not exist."""
    if given is not None and not (isinstance(given, Device) and given.exist):
        raise ArgumentError(
            f"{given}: there is no such device; arrays and kernels are in this machine's memory: tvm.cpu(0)"
        )
