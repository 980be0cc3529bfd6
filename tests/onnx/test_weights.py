"""Weights outside of the model's file: mapped, and refused where they may not be."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pegbox.errors import GraphError
from pegbox.graph import evaluate

onnx = pytest.importorskip("onnx")
builders = pytest.importorskip("onnx_builders")
reader = pytest.importorskip("pegbox.plugins.onnx.reader")

SIZE = 1000


def write(folder: Path, location: str, *, shape: tuple[int, ...] = (SIZE,), dtype: int = 1, **entries: Any) -> Path:
    """Write a model that adds weights of another file to its input."""
    folder.mkdir(exist_ok=True)
    built = builders.model([builders.node("Add", "x w", "y")], {"x": shape}, ["y"], dtypes={"x": dtype, "y": dtype})
    tensor = built.graph.initializer.add(name="w", data_type=dtype, dims=shape)
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, value in {"location": location, **entries}.items():
        tensor.external_data.add(key=key, value=str(value))
    path = folder / "m.onnx"
    path.write_bytes(built.SerializeToString())
    return path


def is_mapped(array: Any) -> bool:
    while array is not None:
        if isinstance(array, np.memmap):
            return True
        array = getattr(array, "base", None)
    return False


def test_weights_of_another_file_are_mapped(tmp_path: Path) -> None:
    weights = np.arange(SIZE, dtype="float32")
    weights.tofile(tmp_path / "w.bin")
    graph = reader.read_model(write(tmp_path, "w.bin"))
    (array,) = graph.constants.values()
    assert is_mapped(array)
    assert not array.flags.writeable
    (made,) = evaluate(graph, {graph.inputs[0]: np.ones(SIZE, "float32")})
    np.testing.assert_array_equal(made, weights + 1)


def test_weights_begin_at_their_offset_in_a_folder(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    weights = np.arange(SIZE + 4, dtype="float32")
    weights.tofile(tmp_path / "data/w.bin")
    graph = reader.read_model(write(tmp_path, "data/w.bin", offset=16, length=4 * SIZE))
    np.testing.assert_array_equal(next(iter(graph.constants.values())), weights[4:])


def test_weights_at_an_odd_place_are_copied_to_an_even_one(tmp_path: Path) -> None:
    weights = np.arange(SIZE, dtype="float32")
    (tmp_path / "w.bin").write_bytes(b"\0" + weights.tobytes())
    array = next(iter(reader.read_model(write(tmp_path, "w.bin", offset=1)).constants.values()))
    assert array.flags.aligned
    np.testing.assert_array_equal(array, weights)


def test_bfloat16_weights_are_mapped(tmp_path: Path) -> None:
    np.full(SIZE, 0x3F80, "uint16").tofile(tmp_path / "w.bin")  # ones
    array = next(iter(reader.read_model(write(tmp_path, "w.bin", dtype=16)).constants.values()))
    assert is_mapped(array)
    assert (array.astype("float32") == 1).all()


@pytest.mark.parametrize(
    ("location", "entries", "message"),
    [
        ("gone.bin", {}, "'gone.bin', which should hold its elements, cannot be read.*copy it into the folder"),
        ("../w.bin", {}, "is not a path in the model's folder"),
        ("data/../../w.bin", {}, "is not a path in the model's folder"),
        ("/etc/passwd", {}, "is not a path in the model's folder"),
        ("..\\w.bin", {}, "is not a path in the model's folder"),
        ("", {}, "is not a path in the model's folder"),
        ("link.bin", {}, "is a link out of the model's folder"),
        ("links/w.bin", {}, "is a link out of the model's folder"),
        ("folder", {}, "is not a file"),
        ("pipe", {}, "is not a file"),
        ("short.bin", {}, r"its bytes 0 to 4000 are beyond the end of 'short.bin', which has 8"),
        ("w.bin", {"offset": 4}, "its bytes 4 to 4004 are beyond the end"),
        ("w.bin", {"offset": -4}, "begin at -4; the model is damaged"),
        ("w.bin", {"offset": "much"}, "its place in another file cannot be read"),
        ("w.bin", {"length": 8}, r"FLOAT\[1000\] has 4000 bytes, but its entry for 'w.bin' says 8"),
    ],
)
def test_weights_that_are_missing_or_elsewhere_are_refused(
    tmp_path: Path, location: str, entries: dict[str, Any], message: str
) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    np.zeros(SIZE, "float32").tofile(folder / "w.bin")
    np.zeros(SIZE, "float32").tofile(tmp_path / "w.bin")
    (folder / "link.bin").symlink_to(tmp_path / "w.bin")
    (folder / "links").symlink_to(tmp_path)
    (folder / "folder").mkdir()
    os.mkfifo(folder / "pipe")
    (folder / "short.bin").write_bytes(b"12345678")
    with pytest.raises(GraphError, match=f"initializer 'w': .*{message}"):
        reader.read_model(write(folder, location, **entries))


def test_a_model_in_memory_has_no_folder_of_weights(tmp_path: Path) -> None:
    built = onnx.load(write(tmp_path, "w.bin"), load_external_data=False)
    with pytest.raises(GraphError, match="in a folder that is not known; give the path of the model"):
        reader.read_model(built)


def test_a_tensor_with_less_data_than_its_shape_says_is_refused() -> None:
    built = builders.model([builders.node("Add", "x w", "y")], {"x": [3]}, ["y"])
    built.graph.initializer.add(name="w", data_type=1, dims=[10**9], raw_data=b"1234")
    with pytest.raises(GraphError, match=r"initializer 'w': its FLOAT\[1000000000\] cannot be read .*damaged"):
        reader.read_model(built)


@pytest.mark.skipif(os.environ.get("PEGBOX_ONNX_LARGE") != "1", reason="set PEGBOX_ONNX_LARGE=1: 3 GB of sparse file")
def test_weights_of_more_than_2_gb_are_mapped(tmp_path: Path) -> None:
    rows = 3 * 2**28
    with open(tmp_path / "w.bin", "wb") as file:
        file.truncate(4 * rows)
    path = write(tmp_path, "w.bin", shape=(rows,))
    graph = reader.read_model(path)
    (array,) = graph.constants.values()
    assert is_mapped(array)
    assert array.nbytes > 2**31
