"""`from pegbox.plugins import tvm`: TVM's names, so that scripts written for TVM 0.18 and older run on pegbox.

Each name is an adapter of a few lines over pegbox's own API; nothing else in pegbox imports this package. The table of
names, with the differences that remain, is docs/from-tvm.md.
"""

from __future__ import annotations

import pegbox
from pegbox.plugins.tvm.absence import names, watch_imports

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

# Before TVM 0.7, what is in `te` was here, and some of `tir`.
_OF_TE = """
    all any ceil cast comm_reducer compute const create_schedule decl_tensor_intrin div exp extern floor floordiv
    floormod if_then_else indexdiv indexmod log max max_value min min_value placeholder popcount power prod
    reduce_axis round select sigmoid size_var sqrt sum tag_scope tanh thread_axis trunc truncdiv truncmod var
"""
_OF_TIR = "call_extern call_packed call_pure_extern decl_buffer"
_HOME |= dict.fromkeys(_OF_TE.split(), "pegbox.plugins.tvm.te")
_HOME |= dict.fromkeys(_OF_TIR.split(), "pegbox.plugins.tvm.tir")

__getattr__ = names(__name__, _HOME)
watch_imports()


def __dir__() -> list[str]:
    return ["__version__", *_HOME]
