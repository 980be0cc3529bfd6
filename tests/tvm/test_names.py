"""Each public name of TVM 0.18 is here, and on the page docs/from-tvm.md, or is refused with the reason."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from tvm_modules import TVM_MODULES
from tvm_names import TVM_NAMES

from pegbox.errors import ArgumentError
from pegbox.plugins import tvm
from pegbox.plugins.tvm.absence import _ELSE, _REASONS, NoAttribute, NotHere, refuse

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "from-tvm.md").read_text().partition("## The names")[2]
PACKAGE = "pegbox.plugins.tvm"

ROWS = {
    home: re.findall(r"`(\w+)`", names.partition(", and")[0])
    for home, names in re.findall(r"^\| `([\w.]+)` \| (`.*) \|$", PAGE, flags=re.M)
}
"""The names of the page, by the modules that they are in."""


def found(home: str, name: str) -> Any:
    """The value of a name of TVM's, or the error that refuses it."""
    try:
        return getattr(import_module(f"{PACKAGE}.{home}"), name)
    except (NotHere, NoAttribute) as error:
        return error


@pytest.mark.parametrize("home", TVM_NAMES)
def test_each_name_of_tvm_is_here_or_refused_with_the_reason(home: str) -> None:
    values = {name: found(home, name) for name in TVM_NAMES[home].split()}
    refused = {name: str(value) for name, value in values.items() if isinstance(value, NotHere | NoAttribute)}
    assert not [text for text in refused.values() if _ELSE in text]
    assert sorted(ROWS.get(home, [])) == sorted(values.keys() - refused.keys())


@pytest.mark.parametrize("home", ROWS)
def test_each_name_of_the_page_is_here(home: str) -> None:
    module = tvm if home == "tvm" else import_module(f"{PACKAGE}.{home}")
    assert all(getattr(module, name) is not None for name in ROWS[home])


@pytest.mark.parametrize("reason", _REASONS)
def test_a_name_that_is_not_here_gives_the_reason_to_each_kind_of_import(reason: str) -> None:
    modules = [name for name in _REASONS[reason].split() if not any(part[0].isupper() for part in name.split("."))]
    for dotted in modules:
        home, _, name = f"{PACKAGE}.{dotted}".rpartition(".")
        if dotted in HERE:
            continue
        for line in (f"from {home} import {name}", f"import {home}.{name}", f"import {home}.{name}.part"):
            with pytest.raises(NotHere, match=f"is not here: {re.escape(reason)}"):
                exec(line)


@pytest.mark.parametrize("dotted", TVM_MODULES.split())
def test_each_module_of_tvm_is_here_or_refused_with_the_reason(dotted: str) -> None:
    home, _, name = f"{PACKAGE}.{dotted}".rpartition(".")
    lines = [
        f"import {home}.{name} as module",
        f"from {home} import {name}",
        f"from {home}.{name} import nothing_of_this_name",
        f"from pegbox.plugins import tvm; tvm.{dotted}",
    ]
    errors: list[Exception] = []
    for line in lines:
        try:
            exec(line)
        except NoAttribute:
            pass
        except (ImportError, AttributeError) as error:
            refused = isinstance(error, NotHere) and _ELSE not in str(error)
            if not refused and not re.search("nothing_of_this_name|topi.generic has schedule_", str(error)):
                errors.append(error)
    assert not errors


def test_an_absent_module_is_no_attribute() -> None:
    assert not hasattr(tvm, "relay")
    with pytest.raises(AttributeError, match=r"tvm\.relay is not here: a model is a file of ONNX"):
        tvm.relay  # noqa: B018
    with pytest.raises(AttributeError, match=r"has no attribute 'Targit'; did you mean 'Target' .*known: Target, "):
        tvm.target.Targit  # noqa: B018
    with pytest.raises(AttributeError, match=r"did you mean 'placeholder' .*known: ((?!Any|annotations|Callable).)*$"):
        tvm.te.placehoder  # noqa: B018


HERE = {
    "autotvm.callback", "autotvm.measure", "autotvm.record", "autotvm.task.space", "autotvm.tuner",
    "auto_scheduler.auto_schedule", "auto_scheduler.measure", "auto_scheduler.measure_record",
    "auto_scheduler.workload_registry", "contrib", "driver", "ir", "script", "testing", "tir", "topi", "transform",
}  # fmt: skip
"""The modules that are here, whose other names have the reason."""


def test_other_names_are_refused_with_the_page() -> None:
    with pytest.raises(ImportError, match=r"tvm\.bilud is not here: docs/from-tvm.md lists"):
        import pegbox.plugins.tvm.bilud  # noqa: F401
    with pytest.raises(AttributeError, match="no attribute 'bilud'"):
        tvm.bilud  # noqa: B018
    assert not hasattr(tvm, "_ffi")


def test_options_are_refused_with_the_reason_and_none_is_no_option() -> None:
    refuse("LocalRunner", {"module_loader": None})
    with pytest.raises(ArgumentError, match=r"LocalRunner\(module_loader=3\): pegbox measures .*; leave it out"):
        refuse("LocalRunner", {"module_loader": 3})


def test_each_name_of_a_package_is_at_home_where_it_is_said_to_be() -> None:
    for package in (tvm, tvm.autotvm, tvm.auto_scheduler):
        assert all(getattr(package, name) is not None for name in dir(package) if name != "__version__")
