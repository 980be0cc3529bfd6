"""Modules as libraries, for Python and C."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from compilers import compiler
from processors import on_this_machine
from small_models import Array, added, graph_of, module_of, scaled, value

from pegbox.codegen import load_library
from pegbox.codegen.targets.c_compiler import c_compiler
from pegbox.errors import ArgumentError
from pegbox.graph import Graph
from pegbox.graph.operations import matmul_node
from pegbox.model.module import Module

pytestmark = [on_this_machine, compiler]

EXAMPLE = Path(__file__).parents[2] / "examples" / "call_model.c"


def mlp() -> Graph:
    """x @ w, three times, plus b."""
    x, w, b = value("x", 1, 8), value("w", 8, 4), value("b", 1, 4)
    rng = np.random.default_rng(7)
    product = matmul_node("product", x, w)
    triple = scaled("triple", product.outputs[0], 3.0)
    total = added("total", triple.outputs[0], b)
    constants: dict[object, Array] = {each: rng.normal(size=each.shape).astype(np.float32) for each in (w, b)}
    return graph_of([x], [product, triple, total], [total.outputs[0]], constants, name="mlp")  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def module() -> Module:
    return module_of(mlp())


X = np.arange(8, dtype=np.float32).reshape(1, 8)


def test_a_library_is_called_with_arrays(module: Module, tmp_path: Path) -> None:
    module.export(tmp_path / "mlp.so")
    library = load_library(tmp_path / "mlp.so")
    assert list(library) == ["mlp"]
    y = np.zeros((1, 4), np.float32)
    library["mlp"](X, y)
    np.testing.assert_array_equal(y, module(X)[0])
    assert library["mlp"].time_ns([X, y]) > 0


def test_the_example_in_c_computes_the_same(module: Module, tmp_path: Path) -> None:
    module.export(tmp_path / "mlp.so")
    program = [*c_compiler(), "-Wall", "-Werror", "-I.", str(EXAMPLE), "./mlp.so", "-o", "call_model"]
    subprocess.run(program, cwd=tmp_path, check=True)
    done = subprocess.run(["./call_model"], cwd=tmp_path, check=True, capture_output=True, text=True)
    np.testing.assert_array_equal(np.array(done.stdout.split(), np.float32), module(X)[0].reshape(-1))


def test_two_models_are_in_one_process(module: Module, tmp_path: Path) -> None:
    x = value("x", 1, 8)
    node = scaled("double", x, 2.0)
    other = module_of(graph_of([x], [node], [node.outputs[0]], name="main"))
    for name, each in (("mlp", module), ("other", other)):
        each.export(tmp_path / f"{name}.so", header=False)
        assert not (tmp_path / f"{name}.h").exists()
    y, z = np.zeros((1, 4), np.float32), np.zeros((1, 8), np.float32)
    mlp_library, other_library = (load_library(tmp_path / f"{name}.so") for name in ("mlp", "other"))
    mlp_library["mlp"](X, y)
    other_library["main_model"](X, z)  # C programs have a main of their own
    np.testing.assert_array_equal(y, module(X)[0])
    np.testing.assert_array_equal(z, X * 2)


def test_a_file_of_another_kind_stays(module: Module, tmp_path: Path) -> None:
    (tmp_path / "mlp.h").write_text("mine")
    with pytest.raises(ArgumentError, match=r"mlp.h.*is not a header that pegbox wrote"):
        module.export(tmp_path / "mlp.so")
    assert [file.name for file in tmp_path.iterdir()] == ["mlp.h"]


def test_descriptions_are_not_looked_for_in_constants(tmp_path: Path) -> None:
    """The constants may hold any bytes, and are most of the file."""
    text = b'pegbox kernel: {"name": 1}\0'.ljust(64, b"\1")
    w = value("w", 64, dtype="uint8")
    x = value("x", 64, dtype="uint8")
    node = added("total", x, w)
    graph = graph_of([x], [node], [node.outputs[0]], {w: np.frombuffer(text, np.uint8)})
    module_of(graph).export(tmp_path / "small.so")
    assert text in (tmp_path / "small.so").read_bytes()
    assert list(load_library(tmp_path / "small.so")) == ["small"]


def test_arguments_of_c_have_names_of_their_own(tmp_path: Path) -> None:
    x, y, z = value("x.1", 3), value("x_1", 3), value("x_1_0", 3)
    first = added("first", x, y)
    second = added("second", first.outputs[0], z)
    module_of(graph_of([x, y, z], [first, second], [second.outputs[0]])).export(tmp_path / "small.so")
    (line,) = re.findall(r"void small\(.*", (tmp_path / "small.h").read_text())
    parameters = re.findall(r"float \*(\w+)", line)
    assert len(parameters) == len(set(parameters)) == 4


def test_a_model_with_the_name_of_a_function_of_c_gets_another() -> None:
    """Its copies call the function."""
    x = value("x", 1000)
    module = module_of(graph_of([x], [], [x], name="memcpy"))
    assert module.name == "memcpy_model"
    given = np.ones(1000, np.float32)
    np.testing.assert_array_equal(module(given)[0], given)


def test_other_suffixes_than_so_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=r"must end in \.so"):
        module_of(mlp()).export(tmp_path / "mlp.txt")
    assert not list(tmp_path.iterdir())
