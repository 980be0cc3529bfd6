"""Damaged reports: each is read as what it says, and then shown in every way, or refused with a RecordError."""

from __future__ import annotations

import copy
import json
import math
import os
import random
import types
import typing
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import comparisons
import pytest
from damage import VALUES, damaged
from hypothesis import HealthCheck, given, settings

from pegbox.comparison import Comparison
from pegbox.comparison.runs import Setup
from pegbox.errors import RecordError

REPORT = comparisons.made(
    {"a": [[3.0, 2.0, 2.0], [math.inf, 5.0, 1.0], [4.0, 4.0, 4.0]], "b": [[4.0, 1.0, 1.0], [math.inf] * 3, [2.0] * 3]},
    recorded_best=0.5,
    models={"b": 0.7},
)
READ = {"kind", "version", "setup", "runs"}
GOOD = {name: value for name, value in json.loads(json.dumps(REPORT.to_json())).items() if name in READ}


def places(form: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The places of all values, objects and lists."""
    for key in form if isinstance(form, dict) else range(len(form)) if isinstance(form, list) else ():
        yield (*path, key)
        yield from places(form[key], (*path, key))


def changed(path: tuple[Any, ...], value: Any) -> Any:
    form = copy.deepcopy(GOOD)
    inner: Any = form
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return form


def is_of(value: Any, hint: Any) -> bool:
    """Tell whether a value has the type that a dataclass declares for a field, with all that it holds."""
    arguments = typing.get_args(hint)
    match typing.get_origin(hint):
        case typing.Union | types.UnionType:
            return any(is_of(value, one) for one in arguments)
        case origin if origin is tuple:
            return type(value) is tuple and all(is_of(item, arguments[0]) for item in value)
        case None:
            return hint is Any or (type(value) is hint and (not is_dataclass(hint) or has_types(value)))
    return type(value) is dict and all(is_of(item, arguments[1]) for item in value.values())


def has_types(value: Any) -> bool:
    hints = typing.get_type_hints(type(value))
    return all(is_of(getattr(value, each.name), hints[each.name]) for each in fields(value))


def check(path: Path, text: str, *, page: bool = False) -> None:
    """It is refused with a message that names the file, or shown in every way."""
    path.write_text(text, errors="surrogatepass")
    try:
        report = Comparison.load(path)
    except RecordError as error:
        assert path.name in str(error)  # noqa: PT017 - or there is none
        return
    assert type(report.setup) is Setup
    assert all(map(has_types, (report.setup, *report.runs)))
    assert str(report)
    json.dumps(report.to_json(), allow_nan=False)
    if page:
        report.to_html(path.with_suffix(".html"))
        report.plot(path.with_suffix(".svg"))


def test_the_good_report_is_read(tmp_path: Path) -> None:
    check(tmp_path / "report.json", json.dumps(GOOD), page=True)
    assert Comparison.load(tmp_path / "report.json") == REPORT


def test_a_report_with_a_former_field_name_is_read(tmp_path: Path) -> None:
    path, form = tmp_path / "report.json", changed(("runs", 0, "run_queue_wait"), 0.5)
    form["runs"][0]["waited"] = form["runs"][0].pop("run_queue_wait")
    path.write_text(json.dumps(form))
    assert Comparison.load(path).runs[0].run_queue_wait == 0.5


def test_another_value_anywhere_is_read_or_refused(tmp_path: Path) -> None:
    """Tries a part of some 7,000 reports with one other value; `PEGBOX_EXPLORE=1` takes another part."""
    chosen = random.Random(None if os.environ.get("PEGBOX_EXPLORE") == "1" else 0)
    changes = [(path, value) for path in places(GOOD) for value in VALUES]
    for number, (path, value) in enumerate(chosen.sample(changes, 500)):
        check(tmp_path / "report.json", json.dumps(changed(path, value)), page=number % 100 == 0)


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(damaged(GOOD))
def test_a_damaged_report_is_read_or_refused(tmp_path: Path, text: str) -> None:
    check(tmp_path / "report.json", text)


RUN = GOOD["runs"][0]


def test_a_run_that_proposed_nothing_has_an_empty_curve_and_no_cost(tmp_path: Path) -> None:
    form = changed(("runs", 0, "curve"), [])
    form["setup"]["start"] = 0
    (tmp_path / "report.json").write_text(json.dumps(form))
    with pytest.raises(RecordError, match="a run has an empty curve"):
        Comparison.load(tmp_path / "report.json")
    form["runs"][0]["final_cost"] = None
    (tmp_path / "report.json").write_text(json.dumps(form))
    assert Comparison.load(tmp_path / "report.json").runs[0].curve == ()


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("version",), "1", "version is '1', of the type str instead of int"),
        (("setup", "tuners"), [], "tuners .*: at least 1 was expected"),
        (("setup", "tuners", 1), "a", "a tuner, 'a', is present twice"),
        (("setup", "tuners", 0), "c", "a run has the tuner 'a', but the setup does not"),
        (("setup", "trials"), 2, "a run has 3 trials, more than the 2 of the setup"),
        (("setup", "trials"), 10**9, "trials 1000000000: a count is from 1 to"),
        (("setup", "seeds"), [0, 1, 1], "a seed, 1, is present twice"),
        (("setup", "tasks", 0, "name"), "other", "a run has the task 'job', but the setup does not"),
        (("setup", "tasks", 0, "flop"), -1, "flop -1: a finite number, 0 or more"),
        (("setup", "tasks", 0, "speed"), 1, "a task has a field 'speed' that pegbox does not know"),
        (("runs",), [], "runs is empty, without a note that gives the reason"),
        (("runs", 0, "curve"), [], "a run has an empty curve, although it began with random trials"),
        (("runs", 1), RUN, r"a run, \('job', 'a', 0\), is present twice"),
        (("runs", 0), {k: v for k, v in RUN.items() if k != "curve"}, "the field 'curve' is missing"),
        (("runs", 0, "curve"), [1.0, 0], r"costs \[0\]"),
        (("runs", 0, "failures"), {"timeout": 0.5}, "failures: timeout is 0.5, of the type float instead of int"),
        (("runs", 0, "run_queue_wait"), 1.5, "run_queue_wait 1.5: a share is at most 1"),
        (("runs", -1, "model", "pairwise_accuracy"), 2, "pairwise_accuracy 2: a share"),
    ],
)
def test_the_message_says_which_field_is_wrong(tmp_path: Path, path: tuple[Any, ...], value: Any, said: str) -> None:
    (tmp_path / "report.json").write_text(json.dumps(changed(path, value)))
    with pytest.raises(RecordError, match=rf"report\.json: (a field has the wrong form: )?{said}"):
        Comparison.load(tmp_path / "report.json")
