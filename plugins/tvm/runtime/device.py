"""Devices: this machine's CPU, and names of others, which do not exist here."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from pegbox.checks import check_int, near_names
from pegbox.codegen.targets import host
from pegbox.codegen.targets.cores import usable_cores
from pegbox.errors import ArgumentError

_NUMBERS = {
    "cpu": 1, "cuda": 2, "opencl": 4, "vulkan": 7, "metal": 8, "vpi": 9, "rocm": 10, "ext_dev": 12, "hexagon": 14,
    "webgpu": 15,
}  # fmt: skip
_ALIASES = {"llvm": "cpu", "c": "cpu", "stackvm": "cpu", "gpu": "cuda", "nvptx": "cuda", "cl": "opencl"}


@dataclass(frozen=True)
class Device:
    """A device by its kind and number. `exist` says whether kernels can run there: on the first CPU only."""

    device_type: int
    device_id: int = 0

    kDLCPU: ClassVar[int] = 1
    kDLCUDA: ClassVar[int] = 2

    @property
    def device_name(self) -> str:
        """The machine, for a device that exists."""
        return host.describe_host() if self.exist else ""

    @property
    def exist(self) -> bool:
        return self == cpu(0)

    def sync(self, stream: object = None) -> None:
        """Nothing: a call of a kernel returns when it is done."""

    def __str__(self) -> str:
        kind = next(name for name, number in _NUMBERS.items() if number == self.device_type)
        return f"{kind}({self.device_id})"

    __repr__ = __str__


def device(dev_type: str | int, dev_id: int = 0) -> Device:
    """A device of a kind ("cpu", "cuda", or the first word of a target string).

    Raises:
        ArgumentError: no such kind.
    """
    if isinstance(dev_type, str) and dev_type.split():
        kind = dev_type.split()[0]
        kind = _ALIASES.get(kind, kind)
        if kind not in _NUMBERS:
            raise ArgumentError(f"device({dev_type!r}): unknown kind{near_names(kind, [*_NUMBERS, *_ALIASES])}")
        dev_type = _NUMBERS[kind]
    if dev_type not in _NUMBERS.values():
        raise ArgumentError(f"device({dev_type!r}): give a kind, such as 'cpu'")
    return Device(int(dev_type), check_int("device: dev_id", dev_id, minimum=0))


context = device
cpu = partial(device, "cpu")
cuda = gpu = partial(device, "cuda")
opencl = partial(device, "opencl")
vulkan = partial(device, "vulkan")
metal = partial(device, "metal")
rocm = partial(device, "rocm")


def check_device(given: Device | None) -> Device:
    """The device, the first CPU where none is given.

    Raises:
        ArgumentError: it does not exist.
    """
    if given is None or (isinstance(given, Device) and given.exist):
        return cpu(0)
    raise ArgumentError(
        f"{given}: there is no such device; arrays and kernels are in this machine's memory: tvm.cpu(0)"
    )


def enabled(kind: str) -> bool:
    """Whether code can be generated for a kind of target: "llvm" or "cpu"."""
    return kind.split()[:1] in (["llvm"], ["cpu"])


def num_threads() -> int:
    """How many cores kernels run on that were built without -num-cores."""
    return len(usable_cores())
