"""Results of Kernel Tuner and KTT as recorded spaces: files as they are found, each deviation in a small one."""

import gzip
import json
import lzma
import math
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pegbox as pb
from pegbox.errors import RecordError
from pegbox.measure.result import Failed, FailureKind, Ok, Result
from pegbox.plugins.cli import main
from pegbox.plugins.kernel_tuner.reader import KernelTunerReader
from pegbox.plugins.kernel_tuner.values import cost_number, failure_of, number, plain_column, seconds_in
from pegbox.records.journal import RecordWarning
from pegbox.records.library import reader_of
from pegbox.records.recorded_space import RecordedSpace, seconds_of
from pegbox.space import ListedSpace

read_results = KernelTunerReader().read


def t4(configuration: dict[str, Any], time: Any = 2.0, **changes: Any) -> dict[str, Any]:
    """One result as Kernel Tuner's own writer makes it."""
    return {
        "timestamp": "2023-12-21 10:44:42.236642+00:00",
        "configuration": configuration,
        "times": {"compilation": 600.0, "benchmark": 80.0, "framework": 5.0, "search_algorithm": 1.0, "validation": 20},
        "invalidity": "correct",
        "correctness": 1,
        "measurements": [{"name": "time", "value": time, "unit": "ms"}],
        "objectives": ["time"],
        **changes,
    }


GOOD = t4({"block": 999})


def cache(lines: dict[str, dict[str, Any]], **changes: Any) -> dict[str, Any]:
    return {
        "device_name": "NVIDIA A100",
        "kernel_name": "convolution",
        "problem_size": [4096, 4096],
        "tune_params_keys": ["block", "unroll"],
        "tune_params": {"block": [16, 32, 64], "unroll": [0, 1]},
        "objective": "time",
        "cache": lines,
        **changes,
    }


def read(path: Path, document: Any, *, name: str = "results.json", **options: Any) -> RecordedSpace:
    file = path / name
    file.write_text(document if isinstance(document, str) else json.dumps(document))
    return read_results(file, **options)


def of(recorded: RecordedSpace, **values: Any) -> Result:
    """The result of the one configuration with these values."""
    (found,) = (
        result
        for config, result in recorded.results.items()
        if all(config[name].val == value for name, value in values.items())
    )
    return found


def one(path: Path, result: dict[str, Any], **document: Any) -> Result:
    """Return the outcome of a single result besides a good one."""
    (name,) = result["configuration"]
    return of(read(path, {"results": [result, GOOD], **document}), **{name: result["configuration"][name]})


# --- T4 ---------------------------------------------------------------------------------------------------------------


def test_a_file_of_kernel_tuner(tmp_path: Path) -> None:
    results = [t4({"block": block, "mode": mode}, block / 8) for block in (64, 16, 32) for mode in ("a", "b")]
    recorded = read(tmp_path, {"results": results, "schema_version": "1.0.0"}, name="A100_T4.json")
    assert (recorded.name, len(recorded), recorded.task, recorded.flop) == ("A100", 6, None, 0.0)
    assert [entity.val for entity in recorded.space.knobs["block"].entities] == [16, 32, 64]
    assert recorded.best_cost == pytest.approx(2e-3)
    result = of(recorded, block=32, mode="b")
    assert isinstance(result, Ok)
    assert result.cost == pytest.approx(4e-3)
    assert result.phases == {"compile": 0.6, "run": 0.08, "check": 0.02}
    assert seconds_of(result) == pytest.approx((0.6, 0.1))
    assert result.timestamp == pytest.approx(1703155482.236642)
    assert recorded.space is recorded.full_space  # every combination is there


def test_what_is_not_there_is_not_searched(tmp_path: Path) -> None:
    results = [t4({"a": a, "b": a % 3}, 1.0 + a) for a in range(9)]
    recorded = read(tmp_path, {"results": results})
    assert isinstance(recorded.space, ListedSpace)
    assert (recorded.space.num_valid(), recorded.space.size) == (9, 27)


def test_repeats_become_the_costs(tmp_path: Path) -> None:
    times = {"runtimes": [2.5, 1.5, 2.0, 2.0]}
    result = one(tmp_path, t4({"block": 1}, 2.0, times=times))
    assert isinstance(result, Ok)
    assert result.costs == pytest.approx((2.5e-3, 1.5e-3, 2e-3, 2e-3))
    assert result.phases == pytest.approx({"run": 8e-3})  # nothing says what the benchmark took


def test_repeats_of_something_else_are_no_costs(tmp_path: Path) -> None:
    """Converted files may have the time of one tool and the repeats of another."""
    result = one(tmp_path, t4({"block": 1}, 2.0, times={"runtimes": [20.0, 21.0, 22.0]}))
    assert isinstance(result, Ok)
    assert result.costs == pytest.approx((2e-3,))


def test_repeats_alone_will_do(tmp_path: Path) -> None:
    results = [t4({"a": a}, measurements=[], times={"runtimes": [3.0 + a, 4.0 + a]}) for a in range(3)]
    assert read(tmp_path, {"results": results}).best_cost == pytest.approx(3.5e-3)


def test_a_list_as_value_is_repeats(tmp_path: Path) -> None:
    result = one(tmp_path, t4({"block": 1}, [2.0, 3.0, None, "4.0"]))
    assert isinstance(result, Ok)
    assert result.costs == pytest.approx((2e-3, 3e-3, 4e-3))


@pytest.mark.parametrize(
    ("unit", "metadata", "seconds"),
    [
        ("ms", {}, 2e-3),
        ("", {}, 2e-3),  # converted caches: Kernel Tuner's times are ms
        (None, {}, 2e-3),
        ("s", {}, 2.0),
        ("us", {}, 2e-6),
        ("Microseconds", {}, 2e-6),
        ("nanoseconds", {}, 2e-9),
        ("", {"timeunit": "miliseconds"}, 2e-3),  # as it is spelt in the wild
        ("", {"timeunit": "seconds"}, 2.0),
        ("ms", {"timeunit": "seconds"}, 2e-3),  # the measurement knows best
    ],
)
def test_units(tmp_path: Path, unit: Any, metadata: dict[str, Any], seconds: float) -> None:
    measured = [{"name": "time", "value": 2.0, "unit": unit}]
    result = one(tmp_path, t4({"block": 1}, measurements=measured), metadata=metadata)
    assert result.cost == pytest.approx(seconds)


def test_unknown_units_are_reported(tmp_path: Path) -> None:
    measured = [{"name": "time", "value": 2.0, "unit": "ticks"}]
    with pytest.warns(RecordWarning, match="times in 'ticks', which is not a known unit of time; taken as ms"):
        assert one(tmp_path, t4({"block": 1}, measurements=measured)).cost == pytest.approx(2e-3)


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"invalidity": "compile"}, FailureKind.COMPILE_ERROR),
        ({"invalidity": "runtime"}, FailureKind.RUN_ERROR),
        ({"invalidity": "timeout"}, FailureKind.TIMEOUT),
        ({"invalidity": "correctness"}, FailureKind.WRONG_RESULT),
        ({"invalidity": "constraints"}, FailureKind.INVALID),
        ({"invalidity": "Constraints"}, FailureKind.INVALID),
        ({"invalidity": "cosmic rays"}, FailureKind.INVALID),
        ({"correctness": 0}, FailureKind.WRONG_RESULT),
        # Converted files say "correct" of everything; what stands in place of the time is the truth.
        ({"time": "CompilationFailedConfig"}, FailureKind.COMPILE_ERROR),
        ({"time": "RuntimeFailedConfig"}, FailureKind.RUN_ERROR),
        ({"time": "InvalidConfig"}, FailureKind.INVALID),
        ({"time": 1e20}, FailureKind.INVALID),
        ({"time": "1e20"}, FailureKind.INVALID),
        ({"time": None}, FailureKind.RUN_ERROR),
        ({"time": ""}, FailureKind.RUN_ERROR),
        ({"time": math.nan}, FailureKind.RUN_ERROR),
        ({"time": "nan"}, FailureKind.RUN_ERROR),
        ({"time": math.inf}, FailureKind.RUN_ERROR),
        ({"time": 0.0}, FailureKind.RUN_ERROR),
        ({"time": -1.0}, FailureKind.RUN_ERROR),
        ({"measurements": []}, FailureKind.RUN_ERROR),
        ({"measurements": None, "times": None}, FailureKind.RUN_ERROR),
    ],
)
def test_failures(tmp_path: Path, changes: dict[str, Any], kind: FailureKind) -> None:
    result = one(tmp_path, t4({"block": 1}, **changes))
    assert isinstance(result, Failed)
    assert result.kind is kind
    assert "T4 says time = " in result.message


@pytest.mark.parametrize("missing", ["timestamp", "times", "invalidity", "correctness", "objectives"])
def test_fields_may_be_missing(tmp_path: Path, missing: str) -> None:
    result = t4({"block": 1})
    del result[missing]
    assert one(tmp_path, result).cost == pytest.approx(2e-3)


def test_times_may_be_called_and_left_out_as_the_schema_has_it(tmp_path: Path) -> None:
    times = {"compilation_time": 300.0, "benchmark": None, "validation": "0"}
    assert one(tmp_path, t4({"block": 1}, times=times)).phases == pytest.approx({"compile": 0.3, "run": 2e-3})


def test_a_number_written_as_text_is_a_number(tmp_path: Path) -> None:
    results = [t4({"block": "16"}, "2.5"), t4({"block": 32.0}), t4({"block": 64})]
    recorded = read(tmp_path, {"results": results})
    assert [entity.val for entity in recorded.space.knobs["block"].entities] == [16, 32, 64]
    assert of(recorded, block=16).cost == pytest.approx(2.5e-3)


def test_text_stays_text(tmp_path: Path) -> None:
    values = ["-O3", "1", 2, True, None, [1, 2]]
    recorded = read(tmp_path, {"results": [t4({"flags": value}, 1.0 + n) for n, value in enumerate(values)]})
    assert [entity.val for entity in recorded.space.knobs["flags"].entities] == values


def test_a_parameter_that_a_configuration_leaves_out_is_none_there(tmp_path: Path) -> None:
    recorded = read(tmp_path, {"results": [t4({"a": 1}), t4({"a": 1, "b": 7}, 3.0)]})
    assert of(recorded, a=1, b=None).cost == pytest.approx(2e-3)
    assert of(recorded, a=1, b=7).cost == pytest.approx(3e-3)


def test_what_was_measured_twice_has_the_costs_of_both(tmp_path: Path) -> None:
    results = [t4({"a": 1}, 2.0), t4({"a": 1}, 4.0), t4({"a": 1}, 4.0), t4({"a": 2}, 9.0)]
    result = of(read(tmp_path, {"results": results}), a=1)
    assert isinstance(result, Ok)
    assert result.costs == pytest.approx((2e-3, 4e-3))  # the third is the second, out of a cache


@pytest.mark.parametrize(("first", "second", "ok"), [(2.0, "InvalidConfig", False), ("InvalidConfig", 2.0, True)])
def test_where_one_of_two_failed_the_later_counts(tmp_path: Path, first: Any, second: Any, ok: bool) -> None:
    results = [t4({"a": 1}, first), t4({"a": 1}, second), t4({"a": 2}, 9.0)]
    assert of(read(tmp_path, {"results": results}), a=1).ok is ok


def test_results_without_anything_around_them(tmp_path: Path) -> None:
    assert len(read(tmp_path, [t4({"a": 1}), t4({"a": 2})])) == 2
    assert len(read(tmp_path, {"results": {"0": t4({"a": 1}), "1": t4({"a": 2})}})) == 2


# --- objectives -------------------------------------------------------------------------------------------------------


def rated(a: int, time: float, gflops: float) -> dict[str, Any]:
    measured = [{"name": "time", "value": time, "unit": "ms"}, {"name": "GFLOP/s", "value": gflops, "unit": ""}]
    return t4({"a": a}, measurements=measured, objectives=["GFLOP/s"])


def test_time_is_the_objective_even_where_the_file_maximised_another(tmp_path: Path) -> None:
    recorded = read(tmp_path, {"results": [rated(1, 2.0, 50.0), rated(2, 4.0, 25.001)]})
    assert recorded.best_cost == pytest.approx(2e-3)
    assert recorded.flop == pytest.approx(1e8, rel=1e-4)


def test_operations_are_unknown_where_time_and_rate_do_not_agree(tmp_path: Path) -> None:
    assert read(tmp_path, {"results": [rated(1, 2.0, 50.0), rated(2, 4.0, 50.0)]}).flop == 0.0


def test_of_a_rate_the_reciprocal_is_minimised(tmp_path: Path) -> None:
    results = [rated(1, 2.0, 50.0), rated(2, 4.0, 80.0)]
    recorded = read(tmp_path, {"results": results}, objective="GFLOP/s")
    assert of(recorded, a=2).cost == recorded.best_cost
    assert recorded.flop / recorded.best_cost / 1e9 == pytest.approx(80.0)  # tables show it as it was


def test_another_objective_is_taken_as_it_is(tmp_path: Path) -> None:
    results = [t4({"a": a}, measurements=[{"name": "energy", "value": 5.0 + a, "unit": "J"}]) for a in range(3)]
    assert read(tmp_path, {"results": results}, objective="energy").best_cost == 5.0


@pytest.mark.parametrize("name", ["Time", "runtime", "Duration"])
def test_other_names_of_time(tmp_path: Path, name: str) -> None:
    results = [t4({"a": a}, measurements=[{"name": name, "value": 5.0 + a, "unit": "us"}]) for a in range(3)]
    assert read(tmp_path, {"results": results}).best_cost == pytest.approx(5e-6)


def test_without_a_time_the_others_are_named(tmp_path: Path) -> None:
    measured = [{"name": "score", "value": 0.5}, {"name": "GB/s", "value": 3.0}, {"name": "note", "value": "fine"}]
    with pytest.raises(RecordError, match=r"no objective called time; it measured score, GB/s; .* objective='score'"):
        read(tmp_path, {"results": [t4({"a": 1}, measurements=measured)]})
    with pytest.raises(RecordError, match=r"no objective called time; it measured nothing$"):
        read(tmp_path, {"results": [t4({"a": 1}, measurements=[])]})


def test_an_objective_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="measured nothing called 'energy'; it has time"):
        read(tmp_path, {"results": [GOOD]}, objective="energy")


def test_an_objective_below_zero_is_refused(tmp_path: Path) -> None:
    results = [t4({"a": a}, measurements=[{"name": "score", "value": a - 1}]) for a in range(4)]
    with pytest.raises(RecordError, match=r"'score' is not above 0 in 2 of 4 configurations \(-1 in the first\)"):
        read(tmp_path, {"results": results}, objective="score")


# --- cache files ------------------------------------------------------------------------------------------------------

LINES = {
    "16,0": {"block": 16, "unroll": 0, "time": 3.0, "times": [3.5, 2.5, 3.0], "compile_time": 900.0,
             "verification_time": 0, "benchmark_time": 120.0, "GFLOP/s": 40.0, "strategy_time": 0,
             "framework_time": 9.0, "timestamp": "2023-12-22 09:54:05+00:00"},
    "32,0": {"block": 32, "unroll": 0, "time": 2.0, "times": [2.0, 2.0], "compile_time": 900.0, "GFLOP/s": 60.0},
    "16,1": {"block": 16, "unroll": 1, "time": 1e20, "compile_time": 900.0},
    "32,1": {"block": 32, "unroll": 1, "time": "RuntimeFailedConfig", "compile_time": 900.0},
}  # fmt: skip


def test_a_cache_file(tmp_path: Path) -> None:
    recorded = read(tmp_path, cache(LINES), name="A100.json")
    assert (recorded.name, recorded.host, len(recorded), recorded.num_ok) == ("convolution-A100", "NVIDIA A100", 4, 2)
    assert [entity.val for entity in recorded.space.knobs["block"].entities] == [16, 32, 64]  # as it declares them
    result = of(recorded, block=16, unroll=0)
    assert isinstance(result, Ok)
    assert result.costs == pytest.approx((3.5e-3, 2.5e-3, 3e-3))
    assert result.phases == pytest.approx({"compile": 0.9, "run": 0.12})
    assert recorded.flop == pytest.approx(1.2e8)
    kinds = [getattr(of(recorded, block=block, unroll=1), "kind", None) for block in (16, 32)]
    assert kinds == [FailureKind.INVALID, FailureKind.RUN_ERROR]


@pytest.mark.parametrize("cut", [0, 1, 2, 3])
@pytest.mark.parametrize("comma", ["", ",", ",\n"])
def test_a_cache_file_that_was_not_closed(tmp_path: Path, cut: int, comma: str) -> None:
    head = json.dumps(cache({}), indent="").rstrip()[:-1].rstrip()[:-1]
    lines = ",\n".join(f"{json.dumps(key)}: {json.dumps(line)}" for key, line in LINES.items())
    text = head + lines + ("}\n}"[: 3 - cut] if cut < 3 else comma)
    assert len(read(tmp_path, text)) == 4


def test_a_cache_file_whose_last_line_is_torn(tmp_path: Path) -> None:
    head = json.dumps(cache({}), indent="").rstrip()[:-1].rstrip()[:-1]
    lines = ",\n".join(f"{json.dumps(key)}: {json.dumps(line)}" for key, line in LINES.items())
    with pytest.warns(RecordWarning, match="last line is torn"):
        assert len(read(tmp_path, head + lines[:-20])) == 3


def test_parameters_may_stand_in_the_key_alone(tmp_path: Path) -> None:
    lines = {key: {"time": line["time"]} for key, line in LINES.items()}
    recorded = read(tmp_path, cache(lines))
    assert of(recorded, block=32, unroll=0).cost == pytest.approx(2e-3)


def test_values_that_were_not_declared_are_added(tmp_path: Path) -> None:
    lines = {**LINES, "48,0": {"block": 48, "unroll": 0, "time": 1.0}}
    recorded = read(tmp_path, cache(lines, tune_params={}))
    assert [entity.val for entity in recorded.space.knobs["block"].entities] == [16, 32, 48]
    recorded = read(tmp_path, cache(lines))
    assert [entity.val for entity in recorded.space.knobs["block"].entities] == [16, 32, 64, 48]


# --- KTT --------------------------------------------------------------------------------------------------------------


def ktt(block: int, duration: float, status: str = "Ok") -> dict[str, Any]:
    return {
        "KernelName": "triad",
        "Configuration": [{"Name": "BLOCK", "Value": block, "ValueType": "UnsignedInt"}],
        "ComputationResults": [{"Duration": duration, "Overhead": 70000.0}] if status == "Ok" else [],
        "Status": status,
        "TotalDuration": duration,
    }


def test_the_output_of_ktt(tmp_path: Path) -> None:
    states = ["ComputationFailed", "ValidationFailed", "DeviceLimitsExceeded"]
    results = [ktt(32, 16.0), ktt(64, 10.0), *(ktt(100 + n, 0.0, state) for n, state in enumerate(states))]
    document = {"Metadata": {"Device": "RTX 3060", "TimeUnit": "Microseconds"}, "Results": results}
    recorded = read(tmp_path, document)
    assert (recorded.name, recorded.host) == ("triad-results", "RTX 3060")
    assert of(recorded, BLOCK=64).cost == recorded.best_cost == pytest.approx(10e-6)
    assert seconds_of(of(recorded, BLOCK=64)) == pytest.approx((0.07, 10e-6))
    kinds = [getattr(of(recorded, BLOCK=100 + n), "kind", None) for n in range(3)]
    assert kinds == [FailureKind.RUN_ERROR, FailureKind.WRONG_RESULT, FailureKind.COMPILE_ERROR]


# --- files ------------------------------------------------------------------------------------------------------------


def test_files_may_be_packed_and_misnamed(tmp_path: Path) -> None:
    content = json.dumps({"results": [GOOD, t4({"block": 2})]}).encode()
    (tmp_path / "a.json.gz").write_bytes(gzip.compress(content))
    (tmp_path / "b.json.xz").write_bytes(lzma.compress(content))
    (tmp_path / "c.json").write_bytes(gzip.compress(content))
    with zipfile.ZipFile(tmp_path / "d.zip", "w") as archive:
        archive.writestr("inside/results.json", content)
        archive.writestr("__MACOSX/results.json", b"junk")
    for name in ("a.json.gz", "b.json.xz", "c.json", "d.zip"):
        assert isinstance(reader_of(tmp_path / name), KernelTunerReader)
        recorded = read_results(tmp_path / name)
        assert (recorded.name, len(recorded)) == (name[0], 2)


def test_the_metadata_beside_the_results_names_the_device(tmp_path: Path) -> None:
    gpu = {"environment": {"device_query": {"nvidia-smi": {"nvidia_smi_log": {"gpu": {"product_name": "RTX A6000"}}}}}}
    (tmp_path / "A6000-metadata.json.gz").write_bytes(gzip.compress(json.dumps({"metadata": gpu}).encode()))
    recorded = read(tmp_path, {"results": [GOOD]}, name="A6000-results.json")
    assert (recorded.name, recorded.host) == ("A6000", "RTX A6000")
    with pytest.raises(RecordError, match=r"neither records of pegbox nor results of Kernel Tuner.* with 'metadata'"):
        read_results(tmp_path / "A6000-metadata.json.gz")


def test_records_of_pegbox_need_no_reader(tmp_path: Path) -> None:
    for name, content in {
        "a.jsonl": "{}", "b.log": '{"input": ["llvm", "matmul", [], {}]}\n', "c": "# comment\n", "d.json": "",
        "e.jsonl.gz": "not even packed",
    }.items():  # fmt: skip
        (tmp_path / name).write_text(content)
        assert reader_of(tmp_path / name) is None


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ("{", r"neither a file of records nor JSON: Expecting"),
        ({"trials": [], "best": 1}, r"found an object with 'trials', 'best', but T4 files have 'results'"),
        ([1, 2], r"found list '\[1, 2\]'"),
        ({}, "found an object with no keys"),
        ({"results": []}, "a T4 file without a result"),
        (cache({}), "a Kernel Tuner cache file without a result"),
        ({"results": [{"time": 3}]}, r"results\[0\]: a result has an object 'configuration', found .* 'time'"),
        ({"results": [7]}, r"results\[0\]: .*found int '7'"),
        ({"results": [t4({})]}, "its 1 configurations have no parameters"),
        (cache({"16,0": 7}), "the cache has 7 at '16,0', an object was expected"),
        ({"cache": {"16,0": {"time": 1.0}}}, "'tune_params_keys' is missing"),
        ({"Results": [{"Configuration": [1]}]}, r"Results\[0\]: its 'Configuration' is not a list of names and values"),
        ({"results": [t4({"a": 1}, invalidity="compile"), t4({"a": 2}, "InvalidConfig")]},
         r"none of its 2 configurations ran.*first failed with compile error: T4 says time = 2\.0, compile"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_said_with_what_was_found(tmp_path: Path, document: Any, message: str) -> None:
    with pytest.raises(RecordError, match=message) as caught:
        read(tmp_path, document, name="mine.json")
    assert "mine.json" in str(caught.value)


def test_files_that_are_damaged_or_not_there(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"cannot read the results.*No such file"):
        read_results(tmp_path / "none.json")
    (tmp_path / "torn.json.gz").write_bytes(gzip.compress(b"x" * 1000)[:-9])
    with pytest.raises(RecordError, match="it is damaged"):
        read_results(tmp_path / "torn.json.gz")
    with zipfile.ZipFile(tmp_path / "two.zip", "w") as archive:
        archive.writestr("a.json", b"{}")
        archive.writestr("b.json", b"{}")
    with pytest.raises(RecordError, match=r"must hold one \.json file, but holds a\.json, b\.json"):
        read_results(tmp_path / "two.zip")


# --- values -----------------------------------------------------------------------------------------------------------

values = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.lists(st.integers()))


@given(values)
def test_a_number_is_one_or_none(value: Any) -> None:
    found = number(value)
    assert found is None or (isinstance(found, float) and not math.isnan(found))
    cost = cost_number(value)
    assert cost is None or 0 < cost < 1e19


@given(values)
def test_words_and_units_never_raise(value: Any) -> None:
    assert failure_of(value) is None or isinstance(failure_of(value), FailureKind)
    assert seconds_in(value) is None or seconds_in(value) > 0  # type: ignore[operator]


@given(st.lists(st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=4)), max_size=8))
def test_a_column_keeps_its_length_and_is_plain(column: list[Any]) -> None:
    plain = plain_column(column)
    assert len(plain) == len(column)
    assert plain_column(plain) == plain
    json.dumps(plain, allow_nan=False)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.fixed_dictionaries(
            {"configuration": st.dictionaries(st.sampled_from("abc"), values, min_size=1)},
            optional={"invalidity": values, "correctness": values, "timestamp": values, "times": values,
                      "measurements": st.lists(st.fixed_dictionaries({"name": st.just("time"), "value": values,
                                                                      "unit": st.sampled_from(["ms", "", None])}))},
        ),
        max_size=6,
    )
)  # fmt: skip
def test_files_with_anything_in_them_are_read(tmp_path_factory: pytest.TempPathFactory, results: list[Any]) -> None:
    """Whatever the fields hold: a recorded space with the good one in it."""
    recorded = read(tmp_path_factory.mktemp("t4"), {"results": [*results, t4({"a": "good"}, 2.0)]})
    assert of(recorded, a="good").ok
    assert math.isfinite(recorded.best_cost)


# --- tuning on them ---------------------------------------------------------------------------------------------------


def tiled(path: Path) -> Path:
    """240 configurations with a best one, 20 of which fail."""
    results = [
        t4({"block": block, "unroll": unroll, "pad": pad}, "InvalidConfig" if block == 512 else seconds)
        for block in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048)
        for unroll in range(10)
        for pad in (False, True)
        for seconds in [abs(math.log2(block) - 6) + abs(unroll - 4) + 1.0 - pad / 2]
    ]
    file = path / "tiled_T4.json"
    file.write_text(json.dumps({"results": results, "schema_version": "1.0.0"}))
    return file


def test_a_results_file_is_tuned_and_compared_on(tmp_path: Path) -> None:
    recorded = pb.recorded_space(tiled(tmp_path))
    assert recorded.space is recorded.full_space
    result = pb.tune(recorded, tuner="ga", trials=60, progress=False)
    assert result.simulated
    assert result.best is not None
    assert result.best.cost < 4 * recorded.best_cost
    report = pb.compare(recorded, ["random", "ga"], trials=20, seeds=2, progress=False)
    assert "tiled" in str(report)


def test_the_command_line_compares_on_a_results_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["compare", "--simulate", str(tiled(tmp_path)), "--tuners", "random,ga", "--trials", "20", "--seeds", "2"]
    assert main([*words, "--quiet"]) == 0
    out = capsys.readouterr().out
    assert "tiled" in out
    assert "random" in out


def test_the_command_line_takes_the_objective(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "r.json"
    file.write_text(json.dumps({"results": [rated(a, 2.0 + a, 50.0 + a) for a in range(8)]}))
    words = ["--simulate", str(file), "--objective", "GFLOP/s"]
    assert main(["compare", *words, "--tuners", "random,grid", "--trials", "8", "--seeds", "1", "--quiet"]) == 0
    assert "57.0 GFLOP/s" in capsys.readouterr().out
    assert main(["tune", *words, "--tuner", "random", "--trials", "8", "--quiet"]) == 0
    assert "57.0 GFLOP/s" in capsys.readouterr().out
    assert main(["compare", "matmul", "8", "8", "8", "--objective", "energy"]) == 2
    assert "--objective chooses among records: it needs --simulate" in capsys.readouterr().err


def test_a_tuner_is_driven_by_hand_on_a_results_file(tmp_path: Path) -> None:
    recorded = pb.recorded_space(tiled(tmp_path))
    tuner = pb.create_tuner("xgb", recorded, seed=0)
    while len(tuner.trials) < 48:
        configs = tuner.ask(8)
        tuner.tell(configs, [recorded.results[config] for config in configs])
    assert tuner.best is not None


def test_what_does_not_go_with_results_of_another_tool_is_refused(tmp_path: Path) -> None:
    file = tiled(tmp_path)
    task = pb.create_task("matmul", args=(64, 64, 64))
    with pytest.raises(RecordError, match=r"holds results of another tool, not of matmul\(M=64"):
        pb.recorded_space(file, task)
    with pytest.raises(RecordError, match=r"holds results of another tool, not of matmul"):
        pb.tune(task, runner=pb.SimulatedRunner(file), trials=1, progress=False)
    with pytest.raises(RecordError, match="one space: leave host out"):
        pb.recorded_space(file, host="here")


def test_the_objective_can_be_said(tmp_path: Path) -> None:
    (tmp_path / "r.json").write_text(json.dumps({"results": [rated(1, 2.0, 50.0), rated(2, 4.0, 80.0)]}))
    assert pb.recorded_space(tmp_path / "r.json", objective="GFLOP/s").flop == 1.0
