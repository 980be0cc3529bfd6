"""Attention: values of all shapes and masks, the structure of its program, and arguments that are refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from interpreter import interpret

import pegbox as pb
from pegbox.errors import TemplateError

AVX2 = "llvm -mcpu=x86-64-v3 -num-cores 1"
AVX512 = "llvm -mcpu=x86-64-v4 -num-cores 1"


def softmax_product(
    q: Any, k: Any, v: Any, *, causal: bool = False, scale: float | None = None, bias: Any = 0.0
) -> Any:
    """Attention in float64, with the whole matrix of scores."""
    group = q.shape[1] // k.shape[1]
    k, v = (np.repeat(x, group, 1).astype("float64") for x in (k, v))
    s = q.astype("float64") @ k.swapaxes(-1, -2) * (1 / math.sqrt(q.shape[-1]) if scale is None else scale) + bias
    if causal:
        first = k.shape[2] - q.shape[2]
        s = np.where(np.arange(k.shape[2]) <= np.arange(q.shape[2])[:, None] + first, s, -np.inf)
    weight = np.exp(s - s.max(-1, keepdims=True))
    return weight / weight.sum(-1, keepdims=True) @ v


def arrays_of(task: pb.Task, size: float = 1.0) -> list[Any]:
    rng = np.random.default_rng(7)
    return [(rng.standard_normal(a.shape) * size).astype(a.dtype) for a in task.arguments()]


def _some(task: pb.Task) -> list[pb.Config]:
    return [task.space.config(digits) for digits in task.space.sample(4, np.random.default_rng(1))]


CASES: list[dict[str, Any]] = [
    {},
    {"n_q": 1, "n_k": 1, "d": 1},
    {"n_q": 1, "n_k": 130},
    {"n_q": 1, "n_k": 70, "heads": 6, "kv_heads": 2, "d": 8},
    {"n_q": 3, "n_k": 65, "heads": 4, "kv_heads": 1, "causal": True},
    {"n_q": 40, "n_k": 40, "causal": True},
    {"n_q": 21, "n_k": 90, "causal": True, "heads": 4, "kv_heads": 2},
    {"n_q": 30, "n_k": 129, "d": 33, "d_v": 17, "scale": 0.7},
    {"n_q": 25, "n_k": 70, "dtype": "float64", "causal": True},
    {"batch": 2, "n_q": 200, "n_k": 300, "d": 20},
    {"n_q": 20, "n_k": 70, "d_v": 75},
    {"n_q": 18, "n_k": 1030, "d_v": 33, "causal": True},
]


@pytest.mark.parametrize("caches", ["", " -caches=4,8,64"])
@pytest.mark.parametrize("given", CASES)
def test_values_of_some_configurations(given: dict[str, Any], caches: str) -> None:
    """Check values, also where keys and values are fetched from beyond L2."""
    sizes = {"batch": 1, "heads": 2, "n_q": 37, "n_k": 50, "d": 16, **given}
    task = pb.create_task("attention", kwargs=sizes, target=f"llvm -num-cores 2{caches}")
    q, k, v, o = arrays_of(task)
    want = softmax_product(q, k, v, causal=sizes.get("causal", False), scale=sizes.get("scale"))
    for config in [next(task.space.iterate()), *_some(task)]:
        o[:] = np.nan
        pb.build(task, config=config)(q, k, v, o)
        error = abs(o - want).max()
        assert error < (1e-13 if o.dtype == "float64" else 1e-5), (config, error)


LAYOUTS: list[dict[str, Any]] = [
    {"layout": "BNHD", "kv_heads": 2, "n_k": 40},
    {"layout": "BNHD", "kv_heads": 1, "n_q": 2, "bias": "BHN"},
    {"layout": "BN3HD", "bias": "HN"},
    {"layout": "3NHBD", "causal": True, "bias": ""},
    {"bias": "N", "n_k": 129},
]


@pytest.mark.parametrize("given", LAYOUTS)
def test_arrays_with_other_orders_of_axes_and_a_bias(given: dict[str, Any]) -> None:
    sizes = {"batch": 2, "heads": 4, "n_q": 17, "n_k": 17, "d": 16, **given}
    task = pb.create_task("attention", kwargs=sizes, target="llvm -num-cores 1")
    layout = sizes.get("layout", "BHND")
    order = [layout.replace("3", "").index(axis) for axis in "BHND"]
    arrays = arrays_of(task)
    parts = [arrays[0].take(n, layout.index("3")) for n in range(3)] if "3" in layout else arrays[:3]
    bias = arrays[-2] if "bias" in given else 0.0
    want = softmax_product(*(x.transpose(order) for x in parts), causal=sizes.get("causal", False), bias=bias)
    for config in [next(task.space.iterate()), task.space.config(task.space.sample(1, np.random.default_rng(1))[0])]:
        pb.build(task, config=config)(*arrays)
        assert abs(arrays[-1].transpose(order) - want).max() < 1e-5, config


@pytest.mark.parametrize(("kv_heads", "n_q", "cores"), [(2, 5, 1), (2, 8, 2), (4, 7, 1)])
def test_threads_share_heads_whose_rows_blocks_do_not_divide(kv_heads: int, n_q: int, cores: int) -> None:
    sizes = {"batch": 2, "heads": 3 * kv_heads, "kv_heads": kv_heads, "n_q": n_q, "n_k": 31, "d": 8, "d_v": 16}
    task = pb.create_task("attention", kwargs=sizes, target=f"llvm -num-cores {cores}")
    q, k, v, o = arrays_of(task)
    want = softmax_product(q, k, v)
    blocks = {}
    for config in task.space.iterate():
        rows = config["mr"].val * config["tiles"].val
        if 3 * n_q % rows and rows < 3 * n_q and ("threads" not in task.space.knobs or config["threads"].val > 1):
            blocks.setdefault(rows, config)
    for config in [*blocks.values()][:4]:
        o[:] = np.nan
        pb.build(task, config=config)(q, k, v, o)
        np.testing.assert_allclose(o, want, atol=1e-5)
    assert blocks


@pytest.mark.parametrize(("heads", "n_q", "mr", "tiles"), [(4, 5, 7, 2), (8, 1, 3, 2), (6, 3, 4, 3)])
def test_the_last_tile_of_rows_needs_nothing_of_the_next_head(heads: int, n_q: int, mr: int, tiles: int) -> None:
    """Check that weights and their sums are computed together for all tiles where registers are few."""
    task = pb.create_task("attention", args=(1, heads, n_q, 7, 4), kwargs={"kv_heads": 2}, target=AVX2)
    config = _config(task, mr=mr, tiles=tiles)
    arrays = arrays_of(task)[:-1]
    (found,) = interpret(task.schedule(config).func, arrays)
    np.testing.assert_allclose(found, softmax_product(*arrays), atol=1e-5)


@pytest.mark.parametrize("cpu", [AVX2, AVX512])
@pytest.mark.parametrize(("group", "n_q"), [(4, 2), (5, 4), (6, 2)])
def test_no_block_of_rows_computes_scores_of_another_group_of_heads(cpu: str, group: int, n_q: int) -> None:
    """Check the number of heads that each buffer of scores holds, also for tiles that do not divide the rows."""
    kwargs = {"kv_heads": 3, "causal": True}
    task = pb.create_task("attention", args=(1, 3 * group, n_q, 33, 16), kwargs=kwargs, target=cpu)
    configs = {(c["mr"].val, c["tiles"].val): c for c in task.space.iterate() if c["unroll"].val == 1}
    assert any(group * n_q % (mr * tiles) for mr, tiles in configs if mr * tiles < group * n_q)
    for config in configs.values():
        allocations = pb.lower(*task.instantiate(config)).allocations
        assert allocations["S"][0][-3] == 1, config
    assert (task.space.get(0)["mr"].val, task.space.get(0)["tiles"].val) in configs


def test_a_bias_hides_keys() -> None:
    """Blocks of hidden keys come first: their maximum is not minus infinity, of which a difference is NaN."""
    task = pb.create_task("attention", args=(1, 1, 20, 96, 16), kwargs={"bias": ""}, target="llvm -num-cores 1")
    q, k, v, bias, o = arrays_of(task)
    bias[..., :70] = -np.inf
    pb.build(task, config=_config(task, block=32))(q, k, v, bias, o)
    np.testing.assert_allclose(o, softmax_product(q, k[:, :, 70:], v[:, :, 70:], bias=bias[..., 70:]), atol=1e-5)


@pytest.mark.parametrize(("n_k", "block"), [(16, 0), (17, 0), (40, 0), (40, 32)])
def test_a_row_whose_keys_are_all_hidden_is_the_mean_of_its_values(n_k: int, block: int) -> None:
    """Check that keys beyond the last one, which fill a vector or a block, have no part in it."""
    task = pb.create_task("attention", args=(1, 1, 3, n_k, 8), kwargs={"bias": "N"}, target="llvm -num-cores 1")
    q, k, v, bias, o = arrays_of(task)
    bias[..., 1, :] = np.finfo("float32").min
    pb.build(task, config=_config(task, block=block))(q, k, v, bias, o)
    np.testing.assert_allclose(o[0, 0, 1], v[0, 0].mean(axis=0), atol=1e-5)


@pytest.mark.parametrize(("n_k", "block"), [(16, 0), (37, 0), (40, 32), (70, 32)])
def test_a_bias_that_hides_what_a_causal_query_sees_shows_it_nothing_else(n_k: int, block: int) -> None:
    """Query 1 sees keys of the lowest bias alone, query 2 one of them beside others of -inf: as torch computes it."""
    kwargs = {"bias": "N", "causal": True}
    task = pb.create_task("attention", args=(1, 1, 9, n_k, 8), kwargs=kwargs, target="llvm -num-cores 1")
    q, k, v, bias, o = arrays_of(task)
    bias[..., 1, :] = np.finfo("float32").min
    bias[..., 2, :], bias[..., 2, 3] = -np.inf, np.finfo("float32").min
    pb.build(task, config=_config(task, block=block))(q, k, v, bias, o)
    np.testing.assert_allclose(o[0, 0, 1], v[0, 0, : n_k - 7].mean(axis=0), atol=1e-5)
    np.testing.assert_allclose(o, softmax_product(q, k, v, bias=bias, causal=True), atol=1e-5)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("n_k", "block"), [(16, 0), (17, 0), (40, 0), (40, 32), (70, 32)])
def test_a_query_all_of_whose_keys_have_a_bias_of_minus_infinity_gets_zeros(n_k: int, block: int, causal: bool) -> None:
    kwargs = {"bias": "N", "causal": causal}
    task = pb.create_task("attention", args=(1, 1, 9, n_k, 8), kwargs=kwargs, target="llvm -num-cores 1")
    q, k, v, bias, o = arrays_of(task)
    want = softmax_product(q, k, v, bias=bias, causal=causal)
    bias[..., 1, :], want[..., 1, :] = -np.inf, 0
    for config in (_config(task, block=block), _config(task, block=block, tiles=2)):
        o[:] = np.nan
        pb.build(task, config=config)(q, k, v, bias, o)
        np.testing.assert_allclose(o, want, atol=1e-5)
    np.testing.assert_allclose(task.reference([q, k, v, bias])[0], want, atol=1e-5)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize(("causal", "block"), [(False, 0), (False, 32), (True, 32)])
def test_a_bias_that_is_infinite_or_not_a_number_spoils_the_rows_that_see_it(
    value: float, causal: bool, block: int
) -> None:
    kwargs = {"bias": "N", "causal": causal}
    task = pb.create_task("attention", args=(1, 1, 20, 70, 8), kwargs=kwargs, target="llvm -num-cores 1")
    q, k, v, bias, o = arrays_of(task)
    bias[..., 7, 40], bias[..., 8, 69] = value, value
    pb.build(task, config=_config(task, block=block))(q, k, v, bias, o)
    spoilt = [7] if causal else [7, 8]  # query 8 does not see key 69
    assert np.isnan(o[0, 0, spoilt]).all()
    assert np.isfinite(np.delete(o[0, 0], spoilt, axis=0)).all()


@pytest.mark.parametrize("size", [0.0, 30.0])
def test_scores_of_any_magnitude_keep_their_accuracy(size: float) -> None:
    """Scores of thousands: exponentials overflow unless the maximum is subtracted first, block by block."""
    task = pb.create_task("attention", args=(1, 1, 20, 200, 16), target="llvm -num-cores 1")
    q, k, v, o = arrays_of(task, size)
    v[:] = np.sin(np.arange(v.size)).reshape(v.shape)
    pb.build(task, config=_config(task, block=32))(q, k, v, o)
    np.testing.assert_allclose(o, softmax_product(q, k, v), atol=2e-3 if size else 1e-5)


def test_scores_that_are_not_numbers_spoil_their_rows_alone() -> None:
    for block in (0, 32):
        task = pb.create_task("attention", args=(1, 1, 40, 96, 16), target="llvm -num-cores 1")
        q, k, v, o = arrays_of(task)
        q[0, 0, 7, 3] = np.nan
        pb.build(task, config=_config(task, block=block))(q, k, v, o)
        assert np.isnan(o[0, 0, 7]).all()
        assert np.isfinite(np.delete(o[0, 0], 7, axis=0)).all()


@pytest.mark.parametrize("n_k", [64, 65, 79, 80, 81, 96, 100, 130])
def test_tiles_that_do_not_divide_the_keys_end_with_narrow_ones(n_k: int) -> None:
    task = pb.create_task("attention", args=(1, 2, 21, n_k, 16), target="llvm -num-cores 1")
    q, k, v, o = arrays_of(task)
    want = softmax_product(q, k, v)
    for vectors in {c["vectors"].val for c in task.space.iterate()}:
        o[:] = np.nan
        pb.build(task, config=_config(task, vectors=vectors, block=0))(q, k, v, o)
        np.testing.assert_allclose(o, want, atol=1e-5)


def _config(task: pb.Task, **values: Any) -> pb.Config:
    return next(c for c in task.space.iterate() if all(c[n].val == v for n, v in values.items()))


def test_the_program_of_a_causal_attention(golden: Callable[[object], None]) -> None:
    task = pb.create_task("attention", args=(1, 4, 48, 96, 16, 2, True), target=AVX2)
    golden(task.show_ir(_config(task, mr=6, vectors=2, columns=2, tiles=2, block=32, unroll=1)))


def test_the_program_of_a_step_of_decoding(golden: Callable[[object], None]) -> None:
    task = pb.create_task("attention", args=(1, 4, 1, 96, 16, 1), target=AVX2)
    golden(task.show_ir(_config(task, keys="dot", mr=4, vectors=2, columns=2, tiles=1, block=32, unroll=1)))


def test_the_program_of_weights_between_the_steps_of_products(golden: Callable[[object], None]) -> None:
    """The second vector of keys is weighted while the first is multiplied; a second tile finds the weights."""
    task = pb.create_task("attention", args=(1, 1, 20, 20, 16), kwargs={"d_v": 32}, target=AVX512)
    golden(task.show_ir(_config(task, mr=4, vectors=2, columns=1, tiles=1, block=0, unroll=4, values="plain")))


@pytest.mark.parametrize("block", [0, 512, 1024])
def test_weights_are_kept_for_further_tiles_of_columns(block: int) -> None:
    task = pb.create_task("attention", args=(1, 1, 20, 1050, 16), kwargs={"d_v": 70}, target="llvm -num-cores 1")
    q, k, v, o = arrays_of(task)
    for columns in {c["columns"].val for c in task.space.iterate()}:
        o[:] = np.nan
        pb.build(task, config=_config(task, block=block, columns=columns))(q, k, v, o)
        np.testing.assert_allclose(o, softmax_product(q, k, v), atol=1e-5)


def test_the_last_block_of_rows_has_no_tiles_beyond_them() -> None:
    """Nine rows are left of 24: a tile of six and one of three, without tests of rows."""
    task = pb.create_task("attention", args=(1, 1, 33, 40, 16), target=AVX2)
    shown = task.show_ir(_config(task, mr=6, vectors=2, columns=2, tiles=4, block=0))
    assert "if i2.inner.outer" not in shown
    assert "O[0, 0, i2.inner.inner_2 + 30," in shown


def test_no_buffer_holds_the_scores_of_all_keys() -> None:
    task = pb.create_task("attention", args=(1, 1, 512, 4096, 64), target=AVX2)
    buffers = pb.lower(*task.instantiate(_config(task, block=128, mr=6, vectors=2, tiles=2))).allocations
    assert math.prod(buffers["S"][0]) == math.prod(buffers["P"][0]) == 12 * 128
    for packed in ("K_packed", "V_packed"):
        assert math.prod(buffers.pop(packed)[0]) == 4096 * 64
    assert all(math.prod(shape) <= 12 * 128 for shape, _, _ in buffers.values())


def test_keys_that_no_row_of_a_block_sees_are_not_computed() -> None:
    """The blocks of keys beyond the diagonal hold NaN, which a mask alone would let through."""
    task = pb.create_task("attention", args=(1, 1, 64, 128, 16, None, True), target="llvm -num-cores 1")
    q, k, v, o = arrays_of(task)
    k[:, :, 96:], v[:, :, 96:] = np.nan, np.nan
    pb.build(task, config=_config(task, block=32, mr=4, tiles=1))(q, k, v, o)
    assert np.isfinite(o[:, :, :32]).all()


def test_operations_are_those_of_the_keys_that_are_seen() -> None:
    def flop(*args: Any) -> float:
        return pb.create_task("attention", args=args, target=AVX2).flop

    assert flop(2, 3, 8, 20, 4) == 2 * 2 * 3 * 8 * 20 * (4 + 4)
    assert flop(1, 1, 8, 8, 4, None, True) == 2 * 36 * 8
    assert flop(1, 1, 8, 20, 4, None, True) == 2 * (36 + 8 * 12) * 8


@pytest.mark.parametrize(
    ("args", "why"),
    [
        ((0, 1, 1, 1, 1), "batch=0"),
        ((1, 1, 1, 1, 1.5), "d=1.5"),
        ((1, 4, 8, 8, 16, 3), "kv_heads=3 does not divide heads=4"),
        ((1, 1, 9, 8, 16, None, True), "n_q=9 queries see n_k=8 keys"),
        ((1, 1, 8, 8, 16, None, False, "large"), "scale='large'"),
        ((1, 1, 8, 8, 16, None, False, float("inf")), "scale=inf"),
        ((1, 1, 8, 8, 16, None, False, None, 0), "d_v=0"),
        ((1, 1, 8, 8, 16, None, False, None, None, "float16"), "dtype='float16'.*cast the inputs"),
        ((1, 1, 8, 8, 16, None, False, None, None, "int32"), "dtype='int32'"),
        ((1, 1, 8, 8, 16, None, False, None, None, "float32", "BNDH"), "layout='BNDH'.*D behind them"),
        ((1, 1, 8, 8, 16, None, False, None, None, "float32", 4), "layout=4"),
        ((1, 1, 8, 9, 16, None, False, None, None, "float32", "BN3HD"), "as many queries as keys"),
        ((1, 1, 8, 8, 16, None, False, None, None, "float32", "BHND", "NH"), "bias='NH'.*as \"HN\""),
        ((1, 1, 8, 8, 16, None, False, None, None, "float32", "BHND", True), "bias=True"),
        ((1 << 20, 1 << 20, 1 << 10, 1 << 10, 64), r"attention: an array of .* has more than 2\^47 bytes"),
    ],
)
def test_what_cannot_be_computed_is_refused(args: tuple[Any, ...], why: str) -> None:
    with pytest.raises(TemplateError, match=why):
        pb.create_task("attention", args=args, target=AVX2)


@pytest.mark.parametrize("target", [AVX2, "llvm -mcpu=x86-64-v4 -num-cores 1"])
def test_the_first_configuration_fills_the_registers(target: str) -> None:
    task = pb.create_task("attention", args=(1, 12, 512, 512, 64), target=target)
    config = task.space.get(0)
    assert not task.space.violated(config)
    registers = pb.Target(target).vector_registers
    tile = config["mr"].val * config["vectors"].val
    assert registers // 2 <= tile < registers
    assert config["tiles"].val * config["mr"].val * config["block"].val <= 8192


@pytest.mark.parametrize("target", [AVX2, "llvm -mcpu=x86-64-v4 -num-cores 1"])
def test_keys_are_packed_at_first_if_enough_rows_share_them(target: str) -> None:
    def first(n_q: int, n_k: int) -> str:
        return str(pb.create_task("attention", args=(1, 4, n_q, n_k, 64), target=target).space.get(0)["keys"].val)

    assert first(16, 2048) == "packed"
    assert first(4, 2048) == first(5, 5) == "dot"


def test_more_rows_share_keys_that_the_second_cache_cannot_hold() -> None:
    def rows(caches: str) -> int:
        target = f"llvm -mcpu=x86-64-v4 -num-cores 1 -caches={caches}"
        config = pb.create_task("attention", args=(1, 1, 4096, 4096, 64), target=target).space.get(0)
        return int(config["mr"].val * config["tiles"].val)

    assert rows("48,2048,4096") > rows("48,8192,16384")


@pytest.mark.parametrize("given", [{}, {"d": 80}, {"layout": "BNHD", "kv_heads": 1}, {"layout": "BN3HD"}])
@pytest.mark.parametrize("cpu", [AVX2, AVX512])
def test_scores_fetch_keys_and_values_that_the_second_cache_cannot_hold(cpu: str, given: dict[str, Any]) -> None:
    sizes = {"batch": 1, "heads": 2, "n_q": 4096, "n_k": 4096, "d": 64, **given}
    task = pb.create_task("attention", kwargs=sizes, target=f"{cpu} -caches=48,2048,4096")
    names = {"packed": "V_packed", "plain": "QKV" if "BN3HD" in given.values() else "V"}
    for way, name in names.items():
        configs = (config for config in task.space.iterate() if config["values"].val == way)
        shown = task.show_ir(next(config for config in configs if config["block"].val >= 512))
        assert "prefetch(address(K_packed[" in shown
        assert (f"prefetch(address({name}[" in shown) == (name != "QKV")  # which has the queries, too
        assert "prefetch(address(Q[" not in shown


@pytest.mark.parametrize("cpu", [AVX2, AVX512])
def test_many_rows_take_turns_with_a_block_of_keys(cpu: str) -> None:
    """Check values and buffers where one row of tiles after the other goes through all stages."""
    task = pb.create_task("attention", args=(1, 2, 100, 1100, 32), target=f"{cpu} -caches=4,8,64")
    q, k, v, o = arrays_of(task)
    want = softmax_product(q, k, v)
    for block in (96, 512):
        config = _config(task, mr=4, vectors=2, tiles=16, block=block)
        sizes = pb.lower(*task.instantiate(config)).allocations["S"][0]
        assert sizes[-2] == 4
        assert sizes[-1] <= block + 16
        o[:] = np.nan
        pb.build(task, config=config)(q, k, v, o)
        np.testing.assert_allclose(o, want, atol=1e-5)


def test_the_first_configuration_shares_far_keys_among_hundreds_of_rows() -> None:
    target = "llvm -mcpu=emeraldrapids -num-cores 1"
    for n_k in (3000, 4096):
        config = pb.create_task("attention", args=(1, 1, 4096, n_k, 64), target=target).space.get(0)
        assert config["mr"].val * config["tiles"].val >= 128
        assert config["block"].val == 1024


def test_columns_that_end_inside_a_vector_are_a_single_tile() -> None:
    """72 columns are five vectors; a second tile of half a vector would keep few accumulators busy."""
    for d, columns in ((40, 3), (56, 4), (72, 5)):
        config = pb.create_task("attention", args=(1, 1, 900, 900, d), target="llvm -mcpu=emeraldrapids").space.get(0)
        assert config["columns"].val == columns


@pytest.mark.parametrize(
    ("given", "is_fetched"),
    [
        ({}, True),
        ({"layout": "BNHD"}, True),
        ({"n_q": 100}, False),
        ({"n_k": 2300}, False),
        ({"causal": True, "n_k": 1100}, False),
        ({"heads": 1, "n_q": 9000}, False),
    ],
)
def test_scores_fetch_keys_and_values_of_the_next_head(given: dict[str, Any], is_fetched: bool) -> None:
    sizes = {"batch": 1, "heads": 2, "n_q": 1100, "n_k": 1000, "d": 64, **given}
    task = pb.create_task("attention", kwargs=sizes, target=f"{AVX512} -caches=48,2048,4096")
    shown = task.show_ir(_config(task, mr=6, vectors=4, columns=4, tiles=1))
    assert ("prefetch(address(K[" in shown) == ("prefetch(address(V[" in shown) == is_fetched


@pytest.mark.parametrize(
    ("given", "block"),
    [({"n_q": 1000, "n_k": 1000, "d": 64}, 0), ({"causal": True, "d": 64}, 1024), ({"n_q": 2500, "n_k": 2500}, 96)],
)
def test_near_keys_few_panels_and_blocks_that_a_mask_hides_are_not_fetched(given: dict[str, Any], block: int) -> None:
    sizes = {"batch": 1, "heads": 1, "n_q": 4096, "n_k": 4096, "d": 128, **given}
    task = pb.create_task("attention", kwargs=sizes, target=f"{AVX512} -caches=48,2048,4096")
    config = next(config for config in task.space.iterate() if config["block"].val == block)
    assert "prefetch(" not in task.show_ir(config)


def test_panels_that_are_not_made_of_whole_lines_are_not_fetched() -> None:
    task = pb.create_task("attention", args=(1, 1, 2500, 2500, 96), target=f"{AVX2} -caches=48,1024,4096")
    configs = [config for config in task.space.iterate() if config["block"].val == 1024 and config["mr"].val == 4]
    by_width = {config["vectors"].val: task.show_ir(config) for config in configs if config["columns"].val == 2}
    assert {width: "prefetch(" in shown for width, shown in by_width.items()} == {2: True, 3: False}


def test_tiles_are_taller_where_a_core_multiplies_two_wide_vectors_in_a_cycle() -> None:
    def rows(cpu: str) -> int:
        task = pb.create_task("attention", args=(1, 4, 1024, 1024, 64), target=f"llvm -mcpu={cpu} -num-cores 1")
        return int(task.space.get(0)["mr"].val)

    assert rows("emeraldrapids") == rows("znver5") > rows("znver4")


def test_the_first_tile_has_more_accumulators_than_hide_the_latency() -> None:
    """Five rows would divide 777 with fewer left over, but 10 accumulators of AVX2 keep no core busy."""
    config = pb.create_task("attention", args=(1, 2, 777, 777, 128), target=AVX2).space.get(0)
    assert config["mr"].val * config["vectors"].val >= 12


@pytest.mark.parametrize("target", [AVX2, "llvm -mcpu=x86-64-v4 -num-cores 1"])
@pytest.mark.parametrize("n_k", [1, 40, 129, 1024, 5000])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_first_configuration_is_valid_for_any_number_of_rows(target: str, n_k: int, dtype: str) -> None:
    """Four rows have a tile of three vectors at best, of which a block of 128 keys holds no whole number."""
    for n_q in (1, 2, 3, 4, 5, 7, 9, 13, 24):
        args = (1, 8, n_q, n_k, 64, 2, False, None, None, dtype)
        space = pb.create_task("attention", args=args, target=target).space
        assert not space.violated(space.get(0)), (n_q, space.get(0))
