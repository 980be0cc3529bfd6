"""`tvm.contrib.clang`: C code for the pragma `import_llvm`."""

from __future__ import annotations

import os
from pathlib import Path

from pegbox.report import write_file
from pegbox.tir import c_source


def create_llvm(inputs: str, output: str | os.PathLike[str] | None = None) -> object:
    """Make C (or C++) text code that kernels call. The system's compiler compiles it for the kernel's target.

    Args:
        inputs: the text, or the name of a file with it.
        output: a file that the text is written to.
    """
    text = Path(inputs).read_text(encoding="utf-8") if "\n" not in inputs and os.path.isfile(inputs) else inputs
    if output is not None:
        write_file(output, text)
    return c_source(text)
