"""`tvm.runtime`: devices, arrays and built modules, by TVM's names."""

from __future__ import annotations

from pegbox.plugins.tvm.absence import names
from pegbox.plugins.tvm.registry import convert as convert
from pegbox.plugins.tvm.runtime import ndarray as ndarray
from pegbox.plugins.tvm.runtime.device import Device as Device
from pegbox.plugins.tvm.runtime.device import cpu as cpu
from pegbox.plugins.tvm.runtime.device import cuda as cuda
from pegbox.plugins.tvm.runtime.device import device as device
from pegbox.plugins.tvm.runtime.device import enabled as enabled
from pegbox.plugins.tvm.runtime.device import gpu as gpu
from pegbox.plugins.tvm.runtime.device import num_threads as num_threads
from pegbox.plugins.tvm.runtime.module import Module as Module
from pegbox.plugins.tvm.runtime.module import load_module as load_module
from pegbox.plugins.tvm.runtime.ndarray import NDArray as NDArray

nd = ndarray
__getattr__ = names(__name__)
