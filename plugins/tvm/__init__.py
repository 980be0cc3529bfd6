"""`from pegbox.plugins import tvm`: TVM's names, so that scripts written for TVM 0.18 and older run on pegbox.

Each name is pegbox's own object, or a thin adapter of it. docs/from-tvm.md lists the names, the differences, and what
is refused.
"""

from __future__ import annotations

import pegbox
from pegbox.plugins.tvm.absence import names, watch_imports

__version__ = f"0.18.0+pegbox.{pegbox.__version__}"  # whose names these are, for scripts that ask

_NAMES = {
    "auto_scheduler": "auto_scheduler",
    "autotvm": "autotvm",
    "contrib": "contrib",
    "driver": "driver build lower",
    "error": "error TVMError",
    "ir": "ir IRModule",
    "registry": "convert get_global_func register_func",
    "runtime": "context cpu cuda device gpu metal nd opencl rocm runtime vulkan",
    "script": "script",
    "target": "target",
    "te": "te",
    "testing": "testing",
    "tir": "tir",
    "topi": "topi",
    "transform": "transform",
}
"""The names by the modules that they are at home in."""

# Before TVM 0.7, the names of `te` and some of `tir` were here.
_NAMES["te"] += """
    all any ceil cast comm_reducer compute const create_schedule decl_tensor_intrin div exp extern floor floordiv
    floormod if_then_else indexdiv indexmod log max max_value min min_value placeholder popcount power prod
    reduce_axis round select sigmoid size_var sqrt sum tag_scope tanh thread_axis trunc truncdiv truncmod var
"""
_NAMES["tir"] += " call_extern call_packed call_pure_extern decl_buffer"

__getattr__ = names(__name__, _NAMES)
watch_imports()
