"""`tvm.contrib.clang`: C code for the pragma `import_llvm`."""

from __future__ import annotations

import os
from collections.abc import Sequence

from pegbox.checks import check_path
from pegbox.errors import ArgumentError
from pegbox.loops.foreign import CSource, c_source
from pegbox.output import write_file
from pegbox.plugins.tvm.notice import means_nothing


def create_llvm(
    inputs: str | Sequence[str],
    output: str | os.PathLike[str] | None = None,
    options: Sequence[str] | None = None,
    cc: str | None = None,
) -> CSource:
    """C (or C++) text as code that kernels call. The system's compiler compiles it for the target when it is needed.

    Args:
        inputs: the text, or the name of a file with it.
        output: a file that the text is written to.
        options, cc: accepted, without effect.

    Raises:
        ArgumentError: several inputs.
    """
    texts = [inputs] if isinstance(inputs, str) else list(inputs)
    if len(texts) != 1:
        raise ArgumentError(f"create_llvm: {len(texts)} inputs; give one text")
    if options or cc:
        means_nothing("options and cc of create_llvm", "C code is compiled for the kernel's target")
    text = texts[0]
    if "\n" not in text and os.path.isfile(text):
        with open(text, encoding="utf-8") as file:
            text = file.read()
    if output is not None:
        write_file(check_path("create_llvm: output", output), text)
    return c_source(text)
