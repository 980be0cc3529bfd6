"""`from pegbox.plugins import tvm`: TVM's names, so that scripts written for TVM 0.18 and older run on pegbox.

Each name is an adapter of a few lines over pegbox's own API; nothing else in pegbox imports this package. The table of
names, with the differences that remain, is docs/from-tvm.md.
"""

from __future__ import annotations

from typing import Any

import pegbox
from pegbox.errors import PegboxError
from pegbox.exports import on_demand

__version__ = f"0.18.0+pegbox.{pegbox.__version__}"  # whose names these are, for scripts that ask

# One line a name: the module that it is at home in. Names are imported when they are first used.
_HOME = {
    "IRModule": "pegbox.plugins.tvm.ir",
    "TVMError": "pegbox.plugins.tvm.error",
    "auto_scheduler": "pegbox.plugins.tvm.auto_scheduler",
    "autotvm": "pegbox.plugins.tvm.autotvm",
    "build": "pegbox.plugins.tvm.driver",
    "context": "pegbox.plugins.tvm.runtime.device",
    "contrib": "pegbox.plugins.tvm.contrib",
    "convert": "pegbox.plugins.tvm.registry",
    "cpu": "pegbox.plugins.tvm.runtime.device",
    "cuda": "pegbox.plugins.tvm.runtime.device",
    "device": "pegbox.plugins.tvm.runtime.device",
    "driver": "pegbox.plugins.tvm.driver",
    "error": "pegbox.plugins.tvm.error",
    "get_global_func": "pegbox.plugins.tvm.registry",
    "gpu": "pegbox.plugins.tvm.runtime.device",
    "ir": "pegbox.plugins.tvm.ir",
    "lower": "pegbox.plugins.tvm.driver",
    "metal": "pegbox.plugins.tvm.runtime.device",
    "nd": "pegbox.plugins.tvm.runtime",
    "ndarray": "pegbox.plugins.tvm.runtime",
    "opencl": "pegbox.plugins.tvm.runtime.device",
    "register_func": "pegbox.plugins.tvm.registry",
    "rocm": "pegbox.plugins.tvm.runtime.device",
    "runtime": "pegbox.plugins.tvm.runtime",
    "script": "pegbox.plugins.tvm.script",
    "target": "pegbox.plugins.tvm.target",
    "te": "pegbox.plugins.tvm.te",
    "testing": "pegbox.plugins.tvm.testing",
    "tir": "pegbox.plugins.tvm.tir",
    "topi": "pegbox.plugins.tvm.topi",
    "transform": "pegbox.plugins.tvm.ir",
    "vulkan": "pegbox.plugins.tvm.runtime.device",
}

# What TVM has and pegbox has not, and what to use.
_ELSEWHERE = {
    "arith": "simplification is a part of building expressions; bounds come from the loops",
    "dlight": "it schedules for GPUs; search with auto_scheduler",
    "meta_schedule": "search with auto_scheduler, over the same kind of sketches, or with autotvm",
    "micro": "write the kernels as object files, mod.save('kernel.o'), and link them",
    "relax": "pegbox takes operators, one by one; make tasks of them with autotvm or auto_scheduler",
    "relay": "pegbox takes operators, one by one; make tasks of them with autotvm or auto_scheduler",
    "rpc": "kernels run on this machine; mod.export_library('kernel.so') makes a file that can be copied",
}


class NotHere(PegboxError, ImportError):
    """A part of TVM that pegbox has not; an ImportError, so that `from ... import` shows what it says."""


_get = on_demand(__name__, _HOME)


def __getattr__(name: str) -> Any:
    if name in _ELSEWHERE:
        raise NotHere(f"tvm.{name} is not here: {_ELSEWHERE[name]}")
    return _get(name)


def __dir__() -> list[str]:
    return ["__version__", *_HOME]
