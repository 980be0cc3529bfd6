"""The script: programs as Python text in the dialect of TVMScript.

    from pegbox.tir import script
    from pegbox.tir.script import ir as I, tir as T

`script.from_source(text)` reads text, `@T.prim_func` and `@I.ir_module` read functions and classes of a file, and
`mod.script()` prints.
"""

from __future__ import annotations

from pegbox.loops.module import IRModule
from pegbox.loops.nodes import Function
from pegbox.loops.script.functions import read_text
from pegbox.tir.script import ir as ir
from pegbox.tir.script import tir as tir


def from_source(text: str, name: str = "<script>") -> IRModule | Function:
    """Read a script: return a module for a class, a function for a single function.

    Args:
        name: the text's name in errors.

    Raises:
        ScriptError: the text is not in the dialect; the error shows line and column.
    """
    return read_text(text, name)
