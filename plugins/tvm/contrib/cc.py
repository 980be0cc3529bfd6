"""`tvm.contrib.cc`: linking object files with the system's linker."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from pegbox.codegen import link_shared_library


def create_shared(
    output: str | os.PathLike[str],
    objects: str | Sequence[str],
    options: Sequence[str] | None = None,
    cc: str | None = None,
) -> None:
    """Link object files to a shared library. Raises `CompileError` if there is no linker, or it failed."""
    parts = [objects] if isinstance(objects, str) else [os.fspath(part) for part in objects]
    link_shared_library(Path(output), [*parts, *(options or ())], linker=[cc] if cc else None)
