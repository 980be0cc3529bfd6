"""`tvm.runtime`: devices, arrays and built modules, by TVM's names."""

from __future__ import annotations

from pegbox.plugins.tvm.registry import convert as convert
from pegbox.plugins.tvm.runtime import ndarray as nd  # noqa: F401
from pegbox.plugins.tvm.runtime.device import Device as Device
from pegbox.plugins.tvm.runtime.device import context as context
from pegbox.plugins.tvm.runtime.device import cpu as cpu
from pegbox.plugins.tvm.runtime.device import cuda as cuda
from pegbox.plugins.tvm.runtime.device import device as device
from pegbox.plugins.tvm.runtime.device import gpu as gpu
from pegbox.plugins.tvm.runtime.device import metal as metal
from pegbox.plugins.tvm.runtime.device import opencl as opencl
from pegbox.plugins.tvm.runtime.device import rocm as rocm
from pegbox.plugins.tvm.runtime.device import vulkan as vulkan
from pegbox.plugins.tvm.runtime.module import Module as Module
from pegbox.plugins.tvm.runtime.module import load_module as load_module
from pegbox.plugins.tvm.runtime.ndarray import NDArray as NDArray


def enabled(kind: str) -> bool:
    """Return True for the kinds of target that code can be generated for: "llvm" and "cpu"."""
    return kind.split()[:1] in (["llvm"], ["cpu"])
