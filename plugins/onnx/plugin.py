"""The reader of ONNX models, by the ending of their files."""

from __future__ import annotations

from pegbox.hooks import hookimpl


@hookimpl
def pegbox_register_model_readers() -> dict[str, str]:
    return {".onnx": "pegbox.plugins.onnx.reader:read_model"}
