"""Files of ONNX models: their messages, with the checks that do not need the meaning."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx
from google.protobuf.message import DecodeError

from pegbox.checks import check_path
from pegbox.errors import GraphError

_LARGEST = 2**31 - 1  # the largest protobuf message in bytes

_NAMES_OF_EXPORTERS = ("", "main_graph", "torch_jit", "torch-jit-export")
"""PyTorch's names for every graph, with which functions of two libraries would have the same name."""


@dataclass(frozen=True)
class ModelFile:
    """A model as the package onnx represents it.

    Attributes:
        proto: the message.
        name: the name in errors.
        folder: the folder of its weights; None if the model was not read from a file.
        stem: the name of the file without its ending.
    """

    proto: onnx.ModelProto
    name: str
    folder: Path | None
    stem: str = "model"

    @property
    def title(self) -> str:
        """The name of the graph; if an exporter gives that name to every graph, the name of the file."""
        name = self.proto.graph.name
        return self.stem if name in _NAMES_OF_EXPORTERS else name


def is_own(domain: str) -> bool:
    """Decide if a domain is ONNX's own."""
    return domain in ("", "ai.onnx")


def opset_of(model: onnx.ModelProto) -> int:
    """Return the version of the operators of ONNX's own domain that a model uses."""
    return max((each.version for each in model.opset_import if is_own(each.domain)), default=0)


def open_model(source: str | os.PathLike[str] | onnx.ModelProto) -> ModelFile:
    """Read the message of a model.

    Raises:
        GraphError: there is no such file, or it does not hold an ONNX model.
    """
    if isinstance(source, onnx.ModelProto):
        model = ModelFile(source, repr(source.graph.name or "model"), None)
    else:
        path = check_path("model", source, error=GraphError)
        model = ModelFile(_parsed(path), repr(str(path)), path.resolve().parent, path.stem)
    if not model.proto.HasField("graph") or not model.proto.opset_import:
        raise GraphError(
            f"{model.name} is not an ONNX model: it has no graph or no versions of operators; export or copy it again"
        )
    if not _has_readable_names(model.proto):
        raise GraphError(f"{model.name} is damaged: it has names that are not text; export or copy it again")
    return model


def _parsed(path: Path) -> onnx.ModelProto:
    try:
        if path.stat().st_size > _LARGEST:
            raise GraphError(
                f"{str(path)!r} has more than 2 GB, which is damaged or never was an ONNX model; save large weights "
                "beside it: onnx.save(model, path, save_as_external_data=True)"
            )
        return onnx.load_model_from_string(path.read_bytes())
    except OSError as error:
        raise GraphError(f"cannot read the model {str(path)!r}: {error.strerror or error}") from error
    except DecodeError as error:
        raise GraphError(
            f"{str(path)!r} is damaged, or not an ONNX model ({error}); export or copy it again"
        ) from error


def _has_readable_names(model: onnx.ModelProto) -> bool:
    """Decide if all strings are text; protobuf gives bytes for others."""
    pending: list[Any] = [model]
    while pending:
        message = pending.pop()
        if isinstance(message, onnx.TensorProto):  # except its elements, which would be copied
            pending += message.external_data
            if not isinstance(message.name, str):
                return False
            continue
        for field, value in message.ListFields():
            values = [value] if isinstance(value, str | bytes) or not hasattr(value, "__len__") else value
            if field.type == field.TYPE_STRING and not all(isinstance(each, str) for each in values):
                return False
            if field.type == field.TYPE_MESSAGE:
                pending += values
    return True
