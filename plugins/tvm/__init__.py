"""`from pegbox.plugins import tvm`: TVM's names, so that scripts written for TVM 0.18 and older run on pegbox.

Each name is an adapter of a few lines over pegbox's own API; nothing else in pegbox imports this package. The table of
names, with the differences that remain, is docs/from-tvm.md.
"""

from __future__ import annotations

from pegbox.exports import on_demand

# One line a name: the module that it is at home in. Names are imported when they are first used.
_HOME = {
    "auto_scheduler": "pegbox.plugins.tvm.auto_scheduler",
    "autotvm": "pegbox.plugins.tvm.autotvm",
    "script": "pegbox.plugins.tvm.script",
    "te": "pegbox.plugins.tvm.te",
    "tir": "pegbox.plugins.tvm.tir",
    "topi": "pegbox.plugins.tvm.topi",
}

__getattr__ = on_demand(__name__, _HOME)
