"""Devices, arrays and built modules by TVM's names."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from compilers import compiler

from pegbox.errors import ArgumentError
from pegbox.plugins import tvm
from pegbox.plugins.tvm import te
from pegbox.plugins.tvm.contrib import cc, utils
from pegbox.plugins.tvm.registry import remove_global_func


def adding(n: int = 8) -> tuple[object, list[te.Tensor]]:
    A = te.placeholder((n,), name="A")
    B = te.placeholder((n,), name="B")
    C = te.compute((n,), lambda i: A[i] + B[i], name="C")
    return te.create_schedule(C.op), [A, B, C]


def arrays(n: int = 8) -> list[tvm.nd.NDArray]:
    return [tvm.nd.array(np.arange(n).astype("float32")), tvm.nd.array(np.ones(n, "float32")), tvm.nd.empty((n,))]


@pytest.fixture(scope="module")
def module() -> tvm.runtime.Module:
    schedule, args = adding()
    return tvm.build(schedule, args, "llvm", name="myadd")


def test_only_the_first_cpu_exists() -> None:
    assert tvm.cpu(0).exist
    assert tvm.device("llvm -mcpu=haswell", 0) == tvm.cpu() == tvm.runtime.device("cpu", 0)
    assert not tvm.cuda(0).exist
    assert not tvm.opencl().exist
    assert str(tvm.cuda(1)) == "cuda(1)"
    with pytest.raises(ArgumentError, match="give one of llvm"):
        tvm.device("cudda")


def test_arrays_are_copies_and_copied() -> None:
    source = np.arange(6, dtype="int8").reshape(2, 3)
    array = tvm.nd.array(source, tvm.cpu(0))
    source[0, 0] = 7
    assert (array.shape, array.dtype, array.device) == ((2, 3), "int8", tvm.cpu(0))
    assert array.ctypes.data % 64 == 0
    assert type(array.numpy()) is np.ndarray
    assert array.numpy().tolist() == array.asnumpy().tolist() == [[0, 1, 2], [3, 4, 5]]
    other = tvm.nd.empty((2, 3), "int8")
    assert array.copyto(other) is other
    assert (other.copyto(tvm.cpu()) == array).all()
    assert str(other).startswith("<tvm.nd.NDArray shape=(2, 3), cpu(0)>\narray([[0, 1, 2]")
    assert other.copyfrom(np.ones((2, 3))).numpy().tolist() == [[1, 1, 1], [1, 1, 1]]
    assert tvm.nd.array([1.5]).dtype == "float64"
    assert (
        tvm.nd.array([1], ctx=tvm.cpu(0)).device == tvm.nd.empty((1,), ctx=tvm.context("llvm", 0)).device == tvm.cpu(0)
    )
    with pytest.raises(ArgumentError, match="there is no such device"):
        tvm.nd.empty((1,), ctx=tvm.gpu(0))
    assert tvm.nd.empty(3).shape == (3,)


def test_a_device_may_be_called_as_before_tvm_0_8() -> None:
    assert tvm.nd.array([1.0], ctx=tvm.context("llvm", 0)).asnumpy() == [1.0]
    with pytest.raises(ArgumentError, match="there is no such device"):
        tvm.nd.empty((2,), ctx=tvm.gpu(0))


def test_arrays_of_other_shapes_and_devices_are_refused() -> None:
    array = tvm.nd.empty((2, 3))
    with pytest.raises(ArgumentError, match=r"expected the shape \(3, 2\), got \(2, 3\)"):
        array.copyto(tvm.nd.empty((3, 2)))
    with pytest.raises(ArgumentError, match=r"copyfrom: expected the shape \(2, 3\), got \(2,\)"):
        array.copyfrom(np.zeros(2))
    with pytest.raises(ArgumentError, match=r"cuda\(0\): there is no such device"):
        tvm.nd.array([1.0], tvm.cuda(0))


def test_a_module_is_called_by_itself_and_by_name(module: tvm.runtime.Module) -> None:
    a, b, c = arrays()
    for call in (module, module["myadd"], module.entry_func, module.get_function("myadd")):
        c[...] = 0
        call(a, b, c)
        tvm.testing.assert_allclose(c.numpy(), a.numpy() + b.numpy())
    assert module.entry_name == "myadd"
    with pytest.raises(ArgumentError, match="'myad'"):
        module["myad"]


def test_wrong_arrays_get_the_kernels_errors(module: tvm.runtime.Module) -> None:
    a, b, _ = arrays()
    with pytest.raises(ArgumentError, match=r"argument 2 \(C\) has shape \(9,\), expected \(8,\)"):
        module(a, b, tvm.nd.empty((9,)))
    with pytest.raises(ArgumentError, match=r"argument 2 \(C\) has dtype float64, expected float32"):
        module(a, b, tvm.nd.empty((8,), "float64"))


def test_a_call_is_timed(module: tvm.runtime.Module) -> None:
    times = module.time_evaluator(module.entry_name, tvm.cpu(0), 2, repeat=3)(*arrays())
    assert len(times.results) == 3
    assert times.min <= times.median <= times.max
    assert times.mean > 0
    assert times.std >= 0
    with pytest.raises(ArgumentError, match=r"time_evaluator\(cache_flush_bytes=1048576\): pegbox measures in its own"):
        module.time_evaluator("myadd", tvm.cpu(0), cache_flush_bytes=1 << 20)
    with pytest.raises(ArgumentError, match="'other'"):
        module.time_evaluator("other", tvm.cpu(0))


def test_the_source_is_shown(module: tvm.runtime.Module) -> None:
    assert "define void @myadd(" in module.get_source()
    assert module.get_source("ll") == module.get_source()
    assert "myadd" in module.get_source("asm")
    with pytest.raises(ArgumentError, match="the forms are 'll' and 'asm'"):
        module.get_source("cu")


@compiler
def test_a_saved_module_is_loaded_again(module: tvm.runtime.Module, tmp_path: Path) -> None:
    folder = utils.tempdir()
    module.save(folder.relpath("myadd.o"))
    cc.create_shared(folder.relpath("linked.so"), [folder.relpath("myadd.o")])
    module.export_library(folder.relpath("exported.so"))
    module.export_library(folder / "by_cc.so", fcompile=cc.create_shared)
    module.export_library(folder / "packed.tar")
    assert sorted(folder.listdir()) == ["by_cc.so", "exported.so", "linked.so", "myadd.o", "packed.tar"]
    for name in ("myadd.o", "linked.so", "exported.so", "by_cc.so", "packed.tar"):
        a, b, c = arrays()
        loaded = tvm.runtime.load_module(folder.relpath(name))
        loaded(a, b, c)
        tvm.testing.assert_allclose(c.numpy(), a.numpy() + b.numpy())
        with pytest.raises(ArgumentError, match="has shape"):
            loaded["myadd"](a, b, tvm.nd.empty((9,)))
        with pytest.raises(ArgumentError, match="loaded from object code alone"):
            loaded.get_source()
    module.save(str(tmp_path / "text.ll"))
    assert (tmp_path / "text.ll").read_text() == module.get_source()
    folder.remove()
    assert not folder.path.exists()


def test_files_that_cannot_be_written_or_loaded_are_refused(module: tvm.runtime.Module, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=r"must end in \.o, \.ll or \.s"):
        module.save(tmp_path / "kernel.bc")
    with pytest.raises(ArgumentError, match=r"must end in \.so or \.tar"):
        module.export_library(tmp_path / "kernel.dll")
    (tmp_path / "other.tar").write_text("nothing")
    with pytest.raises(ArgumentError, match="no archive of pegbox's"):
        tvm.runtime.load_module(tmp_path / "other.tar")
    with pytest.raises(ArgumentError, match="there is no such file"):
        tvm.runtime.load_module(tmp_path / "none.so")
    (tmp_path / "text.so").write_text("nothing")
    with pytest.raises(ArgumentError, match="no pegbox kernel"):
        tvm.runtime.load_module(tmp_path / "text.so")


def test_functions_are_registered_by_name() -> None:
    @tvm.register_func("tests.twice")
    def twice(x: int) -> int:
        return 2 * x

    assert tvm.get_global_func("tests.twice")(3) == twice(3) == 6
    with pytest.raises(ArgumentError, match="the name is taken"):
        tvm.register_func("tests.twice", twice)
    tvm.register_func("tests.twice", abs, override=True)
    assert tvm.get_global_func("tests.twice") is abs
    assert tvm.get_global_func("tests.thrice", allow_missing=True) is None
    with pytest.raises(ArgumentError, match="not registered"):
        tvm.get_global_func("tests.twic")
    remove_global_func("tests.twice")


def test_what_this_machine_can_do_is_reported() -> None:
    assert tvm.runtime.enabled("llvm")
    assert not tvm.runtime.enabled("cuda")
    assert tvm.__version__.startswith("0.18.0+pegbox.")
    assert {"nd", "build", "te", "__version__"} <= set(dir(tvm))


def test_arrays_are_compared_within_bounds() -> None:
    tvm.testing.assert_allclose(tvm.nd.array([1.0, 0.0]), [1.0, 1e-8])
    tvm.testing.assert_allclose([1.0], [1.01], rtol=0.1)
    with pytest.raises(AssertionError):
        tvm.testing.assert_allclose([1.0], [1.01])
    with pytest.raises(AssertionError):
        tvm.testing.assert_allclose(np.ones(2), np.ones((1, 2)))


def test_parts_that_are_not_here_are_reported_with_what_to_use() -> None:
    with pytest.raises(ImportError, match=r"tvm\.relay is not here: a model is a file of ONNX"):
        from pegbox.plugins.tvm import relay  # noqa: F401
    with pytest.raises(tvm.TVMError, match=r"tvm\.meta_schedule is not here: search with auto_scheduler"):
        tvm.meta_schedule  # noqa: B018
    with pytest.raises(AttributeError, match="no attribute 'bilud'"):
        tvm.bilud  # noqa: B018
