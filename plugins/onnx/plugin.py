"""The reader of ONNX models, by the ending of their files."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from pegbox.errors import GraphError
from pegbox.graph import Graph
from pegbox.hooks import hookimpl


@hookimpl
def pegbox_register_model_readers() -> dict[str, str]:
    return {".onnx": "pegbox.plugins.onnx.plugin:read_model"}


def read_model(path: str | os.PathLike[str], *, shapes: Mapping[str, int | Sequence[int]] | None = None) -> Graph:
    """Read a model from a file, as `pegbox.plugins.onnx.reader.read_model` does.

    Raises:
        GraphError: the package onnx is not installed, or the model cannot be read.
    """
    try:
        from pegbox.plugins.onnx import reader
    except ImportError as error:
        raise GraphError(
            f"models of ONNX are read by the package onnx: pip install 'pegbox[onnx]' ({error})"
        ) from error
    return reader.read_model(path, shapes=shapes)
