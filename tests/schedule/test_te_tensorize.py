"""TE: intrinsics whose bodies are C functions, LLVM intrinsics or statements; the C code that travels with kernels."""

from __future__ import annotations

import ctypes
import pickle
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from compilers import compiler

import pegbox as pb
from pegbox import te, tir
from pegbox.codegen import Target, c_header, compile_program, emit, load, write_object, write_shared_library
from pegbox.codegen.targets import features
from pegbox.errors import ArgumentError, CompileError, ScheduleError
from pegbox.schedule.te.replay import lower_te

GEMV = """
int gemv_update(float *cc, float *aa, float *bb, int m, int l, int stride) {
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < l; ++j) cc[i] += aa[j] * bb[i * stride + j];
  return 0;
}
int gemv_reset(float *cc, int m) {
  for (int i = 0; i < m; ++i) cc[i] = 0.0f;
  return 0;
}
"""


def gemv(m: int, n: int, parts: str = "all", **options: Any) -> Any:
    """The intrinsic of TVM's tutorial."""
    a, b = te.placeholder((n,), name="a"), te.placeholder((m, n), name="b")
    k = te.reduce_axis((0, n), name="k")
    c = te.compute((m,), lambda i: te.sum(a[k] * b[i, k], axis=k), name="c")
    binds = {
        a: tir.decl_buffer(a.shape, a.dtype, name="A", offset_factor=1, strides=[1]),
        b: tir.decl_buffer(b.shape, b.dtype, name="B", offset_factor=1, strides=[te.var("s1"), 1]),
        c: tir.decl_buffer(c.shape, c.dtype, name="C", offset_factor=1, strides=[1]),
    }

    def intrin_func(ins: Any, outs: Any) -> Any:
        (aa, bb), (cc,) = ins, outs

        def reset() -> Any:
            ib = tir.ir_builder.create()
            ib.emit(tir.call_extern("int32", "gemv_reset", cc.access_ptr("w"), m))
            return ib.get()

        def update() -> Any:
            ib = tir.ir_builder.create()
            pointers = [cc.access_ptr("w"), aa.access_ptr("r"), bb.access_ptr("r")]
            ib.emit(tir.call_extern("int32", "gemv_update", *pointers, m, n, bb.strides[0]))
            return ib.get()

        body = [reset(), update()]
        return {"all": (body, reset(), update()), "body": (body,), "no reset": (body, None, update())}[parts]

    return te.decl_tensor_intrin(c.op, intrin_func, binds=binds, name="gemv", **options)


def product(n: int = 64) -> Any:
    a, b = te.placeholder((n, n), name="A"), te.placeholder((n, n), name="B")
    k = te.reduce_axis((0, n), name="k")
    return [a, b, te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[j, k], axis=k), name="C")]


def scheduled(args: Any, parts: str = "all", rows: int = 16, steps: int | None = None, **options: Any) -> Any:
    c = args[2]
    s = te.create_schedule(c.op)
    (x, y), (z,) = c.op.axis, c.op.reduce_axis
    yo, yi = s[c].split(y, factor=rows)
    if steps is None:
        s[c].reorder(x, yo, yi, z)
    else:
        zo, zi = s[c].split(z, factor=steps)
        s[c].reorder(x, yo, zo, yi, zi)
    s[c].tensorize(yi, gemv(rows, steps or c.shape[1], parts, **options))
    return s


def run(what: Any, args: Any) -> None:
    n = args[0].shape[0]
    a, b = (np.random.default_rng(s).integers(-5, 6, (n, n)).astype("float32") for s in (0, 1))
    c = np.full((n, n), 7, "float32")
    (what if callable(what) else pb.build(what, args))(a, b, c)
    np.testing.assert_array_equal(c, a @ b.T)


@compiler
@pytest.mark.parametrize("parts", ["all", "body", "no reset"])
@pytest.mark.parametrize("steps", [None, 16])
def test_te_a_matrix_product_by_a_c_function(parts: str, steps: int | None, golden: Any, request: Any) -> None:
    args = product()
    if parts == "body" and steps:
        s = scheduled(args, parts, steps=steps)
        with pytest.raises(ScheduleError, match="the reduction goes on outside the nest, in vk_o, but the intrinsic"):
            lower_te(s, args)
        return
    s = scheduled(args, parts, steps=steps, code=tir.c_source(GEMV))
    run(s, args)
    if parts == "all":
        golden(pb.lower(s, args))


@compiler
def test_te_the_source_is_a_pragma(golden: Any) -> None:
    args = product()
    s = scheduled(args, steps=16)
    s[args[2]].pragma(args[2].op.axis[0], "import_c", GEMV)
    run(s, args)
    low = pb.lower(s, args)
    assert low.loops("C") == [("i", 64, "serial"), ("j.outer", 4, "serial"), ("k.outer", 4, "serial")]


@compiler
def test_te_cpp_source_is_compiled_as_such() -> None:
    args = product(16)
    source = 'extern "C" {' + GEMV + "}"
    run(scheduled(args, code=tir.c_source(source)), args)


@compiler
def test_te_producers_go_into_loops_around_an_intrinsic(golden: Any) -> None:
    a, b = te.placeholder((32, 32), name="A"), te.placeholder((32, 32), name="B")
    a2 = te.compute((32, 32), lambda i, j: a[i, j] + 1.0, name="A2")
    b2 = te.compute((32, 32), lambda i, j: b[i, j] * 2.0, name="B2")
    k = te.reduce_axis((0, 32), name="k")
    c = te.compute((32, 32), lambda i, j: te.sum(a2[i, k] * b2[j, k], axis=k), name="C")
    s = te.create_schedule(c.op)
    (x, y), (z,) = c.op.axis, c.op.reduce_axis
    (yo, yi), (zo, zi) = s[c].split(y, factor=8), s[c].split(z, factor=8)
    s[c].reorder(x, yo, zo, yi, zi)
    s[c].tensorize(yi, gemv(8, 8, code=tir.c_source(GEMV)))
    s[a2].compute_at(s[c], x)
    s[b2].compute_at(s[c], zo)  # a tile of 8 x 8, whose rows are 8 apart then
    golden(pb.lower(s, [a, b, c]))
    u, v = (np.random.default_rng(n).integers(-5, 6, (32, 32)).astype("float32") for n in (0, 1))
    w = np.zeros_like(u)
    pb.build(s, [a, b, c])(u, v, w)
    np.testing.assert_array_equal(w, (u + 1) @ (v * 2).T)


# Where the C functions come from.


@compiler
def test_te_code_travels_with_programs(tmp_path: Path) -> None:
    args = product(32)
    s = scheduled(args, code=tir.c_source(GEMV))
    program = pickle.loads(pickle.dumps(emit(pb.lower(s, args, name="kernel"), Target())))
    assert program.externs == ("gemv_reset", "gemv_update")
    run(load(pickle.loads(pickle.dumps(compile_program(program)))), args)
    write_shared_library(program, tmp_path / "kernel.so")
    library = ctypes.CDLL(str(tmp_path / "kernel.so"))

    def call(*arrays: Any) -> None:
        library.kernel(*(x.ctypes.data_as(ctypes.c_void_p) for x in arrays), None)

    run(call, args)
    write_object(program, tmp_path / "kernel.o")
    assert "calls C functions: link with gemv_reset, gemv_update" in c_header(program)


@compiler
def test_te_a_library_that_is_there(tmp_path: Path) -> None:
    source = tmp_path / "gemv.c"
    source.write_text(GEMV)
    subprocess.run(["cc", "-shared", "-fPIC", "-O2", str(source), "-o", str(tmp_path / "libgemv.so")], check=True)
    args = product(32)
    run(scheduled(args, code=tir.c_library(tmp_path / "libgemv.so")), args)
    with pytest.raises(ArgumentError, match="there is no such file"):
        tir.c_library(tmp_path / "missing.so")


def test_te_functions_that_are_nowhere_are_refused_before_anything_runs() -> None:
    args = product(32)
    with pytest.raises(CompileError, match=r"calls the C function.* gemv_reset, gemv_update, and no C code is given"):
        pb.build(scheduled(args), args)


@compiler
def test_te_functions_that_the_source_lacks_are_refused() -> None:
    args = product(32)
    with pytest.raises(CompileError, match="gemv_reset, gemv_update, in none of the 1 piece"):
        pb.build(scheduled(args, code=tir.c_source("int other(void) { return 0; }")), args)


@compiler
def test_te_source_that_does_not_compile_is_shown_with_the_compilers_words() -> None:
    args = product(32)
    with pytest.raises(CompileError, match=r"rejects the C source: .*error"):
        pb.build(scheduled(args, code=tir.c_source("int gemv_update(float *c {")), args)
    with pytest.raises(ArgumentError, match="give the text of C functions"):
        tir.c_source("")


def test_te_no_compiler_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    args = product(32)
    with pytest.raises(CompileError, match=r"no C compiler .*: none of \$CC, cc, gcc, clang is there; install one"):
        pb.build(scheduled(args, code=tir.c_source(GEMV + "/* not yet compiled */")), args)


def test_te_one_function_has_one_signature() -> None:
    a = te.placeholder((4,), name="a")
    c = te.compute((4,), lambda i: a[i] + 1.0, name="c")

    def body(ins: Any, outs: Any) -> Any:
        ib = tir.ir_builder.create()
        ib.emit(tir.call_extern("int32", "f", outs[0].access_ptr("w")))
        ib.emit(tir.call_extern("int32", "f", 1))
        return ib.get()

    intrin = te.decl_tensor_intrin(c.op, body, name="twice")
    s = te.create_schedule(c.op)
    s[c].tensorize(c.op.axis[0], intrin)
    with pytest.raises(CompileError, match="also used as"):
        pb.build(s, [a, c])


# Bodies of LLVM intrinsics and of statements.


def test_te_a_body_of_an_llvm_intrinsic(golden: Any) -> None:
    a, b, d = (te.placeholder((16,), name=n) for n in "abd")
    c = te.compute((16,), lambda i: a[i] * b[i] + d[i], name="c")

    def body(ins: Any, outs: Any) -> Any:
        values = [x.vload([0], "float32x16") for x in ins]
        return outs[0].vstore([0], tir.call_llvm_pure_intrin("float32x16", "llvm.fma.v16f32", *values))

    fma = te.decl_tensor_intrin(c.op, body, name="fma16")
    x, y, z = (te.placeholder((8, 32), name=n) for n in "XYZ")
    w = te.compute((8, 32), lambda i, j: x[i, j] * y[i, j] + z[i, j], name="W")
    s = te.create_schedule(w.op)
    _, inner = s[w].split(w.op.axis[1], factor=16)
    s[w].tensorize(inner, fma)
    s[w].parallel(w.op.axis[0])
    golden(pb.lower(s, [x, y, z, w]))
    u, v, t = (np.random.default_rng(n).integers(-5, 6, (8, 32)).astype("float32") for n in range(3))
    got = np.zeros_like(u)
    kernel = pb.build(s, [x, y, z, w])
    kernel(u, v, t, got)
    np.testing.assert_array_equal(got, u * v + t)


def test_te_a_dot_product_of_bytes_as_tvm_users_write_it() -> None:
    a, b = te.placeholder((4,), "uint8", name="a"), te.placeholder((16, 4), "int8", name="b")
    k = te.reduce_axis((0, 4), name="k")
    c = te.compute((16,), lambda i: te.sum(a[k].astype("int32") * b[i, k].astype("int32"), axis=k), name="c")

    def intrin(ins: Any, outs: Any) -> Any:
        def part(number: int) -> Any:
            if number == 1:
                return outs[0].vstore([0], te.const(0, "int32").astype("int32x16"))
            group = tir.reinterpret("int32", ins[0].vload([0], "uint8x4")).astype("int32x16")
            bytes_ = ins[1].vload([0, 0], "int8x64")
            start = outs[0].vload([0], "int32x16") if number == 2 else te.const(0, "int32").astype("int32x16")
            name = "llvm.x86.avx512.vpdpbusd.512"
            return outs[0].vstore(
                [0], te.call_llvm_pure_intrin("int32x16", name, start, tir.reinterpret("uint8x64", group), bytes_)
            )

        return part(0), part(1), part(2)

    vnni = te.decl_tensor_intrin(c.op, intrin, name="dot_16x1x16", default_buffer_params={"offset_factor": 1})
    x, y = te.placeholder((32, 64), "uint8", name="X"), te.placeholder((4, 16, 16, 4), "int8", name="Y")
    r = te.reduce_axis((0, 64), name="r")
    w = te.compute(
        (32, 64),
        lambda i, j: te.sum(x[i, r].astype("int32") * y[j // 16, r // 4, j % 16, r % 4].astype("int32"), axis=r),
        name="W",
    )
    s = te.create_schedule(w.op)
    (i, j), (r,) = w.op.axis, w.op.reduce_axis
    (jo, ji), (ro, ri) = s[w].split(j, factor=16), s[w].split(r, factor=4)
    s[w].reorder(i, jo, ro, ji, ri)
    s[w].tensorize(ji, vnni)
    lower_te(s, [x, y, w])
    if features.has(Target(), "avx512vnni"):
        rng = np.random.default_rng(0)
        u, v = rng.integers(0, 256, (32, 64)).astype("uint8"), rng.integers(-128, 128, (64, 64)).astype("int8")
        got = np.zeros((32, 64), "int32")
        rows = v.reshape(4, 16, 16, 4).transpose(0, 2, 1, 3)
        pb.build(s, [x, y, w])(u, np.ascontiguousarray(rows.transpose(0, 2, 1, 3)), got)
        np.testing.assert_array_equal(got, u.astype(np.int32) @ rows.reshape(64, 64).astype(np.int32).T)


def test_te_a_body_of_statements(golden: Any) -> None:
    a = te.placeholder((4, 8), name="a")
    k = te.reduce_axis((0, 8), name="k")
    c = te.compute((4,), lambda i: te.sum(a[i, k], axis=k), name="c")

    def body(ins: Any, outs: Any) -> Any:
        ib = tir.ir_builder.create()
        x, out = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        total = ib.allocate("float32", 8, "total")
        with ib.for_range(0, 4, "i") as i:
            with ib.for_range(0, 8, "k", kind="unroll") as step:
                total[step] = x[i, step]
            with ib.for_range(1, 8, "k") as step:
                total[0] = total[0] + total[step]
            out[i] = total[0]
        return ib.get()

    sums = te.decl_tensor_intrin(c.op, body, name="sums")
    x = te.placeholder((16, 8), name="X")
    r = te.reduce_axis((0, 8), name="r")
    y = te.compute((16,), lambda i: te.sum(x[i, r], axis=r), name="Y")
    s = te.create_schedule(y.op)
    _, inner = s[y].split(y.op.axis[0], factor=4)
    s[y].tensorize(inner, sums)
    golden(pb.lower(s, [x, y]))
    u = np.random.default_rng(0).integers(-5, 6, (16, 8)).astype("float32")
    got = np.zeros(16, "float32")
    pb.build(s, [x, y])(u, got)
    np.testing.assert_array_equal(got, u.sum(1))


def test_te_statements_under_conditions() -> None:
    a = te.placeholder((8,), name="a")
    c = te.compute((8,), lambda i: te.maximum(a[i], -a[i]), name="c")

    def body(ins: Any, outs: Any) -> Any:
        ib = tir.ir_builder.create()
        x, out = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        with ib.for_range(0, 8, "i") as i:
            with ib.if_scope(x[i] < 0.0):
                out[i] = -x[i]
            with ib.if_scope(x[i] >= 0.0):
                out[i] = x[i]
        return ib.get()

    magnitudes = te.decl_tensor_intrin(c.op, body, name="magnitudes")
    x = te.placeholder((24,), name="X")
    y = te.compute((24,), lambda i: te.maximum(x[i], -x[i]), name="Y")
    s = te.create_schedule(y.op)
    _, inner = s[y].split(y.op.axis[0], factor=8)
    s[y].tensorize(inner, magnitudes)
    u, got = np.random.default_rng(0).integers(-5, 6, 24).astype("float32"), np.full(24, np.nan, "float32")
    pb.build(s, [x, y])(u, got)
    np.testing.assert_array_equal(got, np.abs(u))


# Misuse.


def copy_op() -> Any:
    a = te.placeholder((4,), name="a")
    return te.compute((4,), lambda i: a[i], name="c").op


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            lambda ins, outs: outs[0].vstore([0], ins[0].vload([1], "float32x4")),
            "may leave Buffer.a: .* at the index 1",
        ),
        (lambda ins, outs: ins[0].vstore([0], outs[0].vload([0], "float32x4")), "write a, which the description only"),
        (lambda ins, outs: "text", "'text' is not a statement"),
        (lambda ins, outs: outs[0].vstore([0], ins[0].vload([0], "int32x4")), "it holds float32, not int32x4"),
        (lambda ins, outs: outs[0].vstore([0, 0], ins[0].vload([0])), "1 dimension.* indexed with 2"),
        (lambda ins, outs: outs[0].access_ptr("x"), "'x' is not an access"),
        (lambda ins, outs: tir.ir_builder.create().get(), "nothing was emitted"),
    ],
)
def test_te_malformed_bodies_are_refused(body: Any, message: str) -> None:
    with pytest.raises(ScheduleError, match=message):
        te.decl_tensor_intrin(copy_op(), body, name="malformed")


def test_te_malformed_declarations_are_refused() -> None:
    a = te.placeholder((4,), name="a")
    with pytest.raises(ScheduleError, match="computes nothing"):
        te.decl_tensor_intrin(a.op, lambda ins, outs: None)
    op = copy_op()
    wrong = {op.inputs[0]: tir.decl_buffer((5,), "float32", name="A")}
    with pytest.raises(ScheduleError, match="is bound to IntrinBuffer"):
        te.decl_tensor_intrin(op, lambda ins, outs: outs[0].vstore([0], ins[0].vload([0])), binds=wrong)
    with pytest.raises(ScheduleError, match=r"2 stride\(s\) for 1 dimension"):
        tir.decl_buffer((5,), "float32", strides=[1, 1])


def test_te_what_cannot_be_tensorized_is_refused() -> None:
    args = product(8)
    c = args[2]
    s = te.create_schedule(c.op)
    i, j = c.op.axis
    with pytest.raises(ScheduleError, match="is not a tensor intrinsic"):
        s[c].tensorize(j, 3)
    with pytest.raises(ScheduleError, match="no tensor intrinsic is called 'nothing'"):
        s[c].tensorize(j, "nothing")
    s[c].tensorize(j, gemv(8, 8))
    with pytest.raises(ScheduleError, match="j is tensorized already"):
        s[c].tensorize(i, gemv(8, 8))
    s = te.create_schedule(c.op)
    s[c].split(j, factor=4)
    with pytest.raises(ScheduleError, match="j was split or fused already"):
        s[c].tensorize(j, gemv(8, 8))
    s = te.create_schedule(c.op)
    _, inner = s[c].split(j, factor=3)
    s[c].tensorize(inner, gemv(3, 8))
    with pytest.raises(ScheduleError, match="which does not divide it"):
        lower_te(s, args)


def test_te_rows_that_are_apart_need_a_stride() -> None:
    """A body without the distance of rows takes it that they follow each other."""
    a, b = te.placeholder((8,), name="a"), te.placeholder((4, 8), name="b")
    k = te.reduce_axis((0, 8), name="k")
    c = te.compute((4,), lambda i: te.sum(a[k] * b[i, k], axis=k), name="c")

    def body(ins: Any, outs: Any) -> Any:
        update = tir.call_extern("int32", "f", outs[0].access_ptr("w"), *(x.access_ptr("r") for x in ins))
        return update, update, update

    intrin = te.decl_tensor_intrin(c.op, body, name="compact")
    args = product(16)
    out = args[2]
    s = te.create_schedule(out.op)
    (x, y), (z,) = out.op.axis, out.op.reduce_axis
    (yo, yi), (zo, zi) = s[out].split(y, factor=4), s[out].split(z, factor=8)
    s[out].reorder(x, yo, zo, yi, zi)
    s[out].tensorize(yi, intrin)
    with pytest.raises(ScheduleError, match=r"neighbours along dimension 0 .* are 8 elements apart"):
        lower_te(s, args)


def test_te_a_tensorized_loop_is_not_split_any_more() -> None:
    args = product(16)
    s = scheduled(args, rows=16)
    x, _, yi, _ = s[args[2]].leaf_iter_vars
    with pytest.raises(ScheduleError, match=r"split.*an intrinsic computes .* and what is inside; do this first"):
        s[args[2]].split(yi, factor=4)
    s[args[2]].split(x, factor=4)
