"""Names: registering, looking up, clashes, references."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from pegbox.errors import ArgumentError, PluginError, UnknownName
from pegbox.hooks.registry import Registry


@pytest.fixture
def registry(make_registry: Callable[..., Registry]) -> Registry:
    return make_registry()


def define(body: int = 0) -> Callable[..., int]:
    def template() -> int:
        return body

    return template


def test_gives_back_what_was_registered(registry: Registry) -> None:
    first = define()
    registry.register("template", "tutorial/matmul", first)
    assert registry.get("template", "tutorial/matmul") is first
    assert registry.names("template") == ["tutorial/matmul"]
    assert registry.names("tuner") == []


def test_names_of_a_kind_do_not_meet_those_of_another(registry: Registry) -> None:
    registry.register("template", "same", define())
    registry.register("tuner", "same", dict)
    assert registry.get("tuner", "same") is dict


def test_registering_the_same_definition_again_replaces_it(registry: Registry) -> None:
    registry.register("template", "mine", define(1))
    registry.register("template", "mine", define(2))
    assert registry.get("template", "mine")() == 2


def test_a_decorated_function_counts_as_the_function_it_wraps(registry: Registry) -> None:
    class Wrapper:
        def __init__(self, function: Callable[..., int]) -> None:
            self.__wrapped__ = function

        def __call__(self) -> int:
            return self.__wrapped__()

    registry.register("template", "mine", Wrapper(define(1)))
    registry.register("template", "mine", Wrapper(define(2)))
    assert registry.get("template", "mine")() == 2


def test_only_the_bare_name_of_two_definitions_is_refused(registry: Registry) -> None:
    registry.register("tuner", "mine", dict, owner="first.module")
    registry.register("tuner", "mine", list, owner="second.module")
    said = (
        r"first\.module \(builtins:dict\) and second\.module \(builtins:list\); instead of the name, write "
        r"'builtins:dict' or 'builtins:list', or rename one$"
    )
    with pytest.raises(PluginError, match=said):
        registry.get("tuner", "mine")
    assert registry.every("tuner", "mine") == [dict, list]
    assert registry.resolve("tuner", "builtins:list") is list


def test_a_second_definition_by_the_same_owner_leaves_the_first_in_place(registry: Registry) -> None:
    registry.register("tuner", "mine", dict, owner="notebook")
    with pytest.raises(PluginError, match="has 2 owners"):
        registry.register("tuner", "mine", list, owner="notebook")
    assert registry.get("tuner", "mine") is dict


def test_unregister_forgets_only_the_owners_claim(registry: Registry) -> None:
    registry.register("tuner", "mine", dict, owner="me")
    registry.unregister("tuner", "mine", owner="somebody")
    assert registry.names("tuner") == ["mine"]
    registry.unregister("tuner", "mine", owner="me")
    assert registry.names("tuner") == []


def test_unknown_name_shows_near_names_and_all_names(registry: Registry) -> None:
    for name in ("random", "grid", "xgb"):
        registry.register("tuner", name, dict, owner=name)
    with pytest.raises(UnknownName, match=r"no tuner 'xbg'; did you mean 'xgb'\? \(known: grid, random, xgb\)$"):
        registry.get("tuner", "xbg")


def test_unknown_name_says_so_when_nothing_is_known(registry: Registry) -> None:
    with pytest.raises(UnknownName, match=r"no cost model 'x' \(known: none\)$"):
        registry.get("cost_model", "x")


def test_unknown_kind_lists_the_kinds(registry: Registry) -> None:
    with pytest.raises(ArgumentError, match=r"kind of plugin 'tunner'.*tuner, cost_model, runner"):
        registry.get("tunner", "xgb")


@pytest.mark.parametrize("name", ["", "with space", "a:b", "a=b", "a,b", "line\nbreak", 3])
def test_malformed_names_are_refused(registry: Registry, name: Any) -> None:
    with pytest.raises(PluginError, match="a name is text"):
        registry.register("tuner", name, dict)


@pytest.mark.parametrize("target", ["no_colon", "module:", ":name", "a b:c", 7, None])
def test_targets_that_are_neither_callable_nor_a_reference_are_refused(registry: Registry, target: Any) -> None:
    with pytest.raises(PluginError, match="registers tuner 'mine'"):
        registry.register("tuner", "mine", target)


def test_a_string_is_imported_when_it_is_asked_for(registry: Registry) -> None:
    registry.register("tuner", "table", "collections:abc.Mapping")
    registry.register("tuner", "broken", "no_such_module_at_all:Tuner")
    from collections.abc import Mapping

    assert registry.get("tuner", "table") is Mapping
    with pytest.raises(PluginError, match=r"'broken' .*'no_such_module_at_all:Tuner': ModuleNotFoundError"):
        registry.get("tuner", "broken")


def test_a_string_and_the_object_it_means_are_one_definition(registry: Registry) -> None:
    registry.register("tuner", "ordered", "collections:OrderedDict", owner="plugin")
    from collections import OrderedDict

    registry.register("tuner", "ordered", OrderedDict, owner="decorator")
    assert registry.get("tuner", "ordered") is OrderedDict


def test_resolve_takes_objects_names_and_module_references(registry: Registry) -> None:
    registry.register("tuner", "mine", dict)
    assert registry.resolve("tuner", list) is list
    assert registry.resolve("tuner", "mine") is dict
    assert registry.resolve("tuner", "builtins:set") is set
    with pytest.raises(PluginError, match=r"'xgb:plan_size' cannot be imported.*name:key=value"):
        registry.resolve("tuner", "xgb:plan_size")


def test_resolve_imports_a_file_once_and_its_neighbours(registry: Registry, tmp_path: Path) -> None:
    (tmp_path / "neighbour_of_mine.py").write_text("VALUE = 5\n")
    (tmp_path / "mine.py").write_text("from neighbour_of_mine import VALUE\nclass Tuner:\n    value = VALUE\n")
    found = registry.resolve("tuner", f"{tmp_path}/mine.py:Tuner")
    assert found.value == 5
    assert registry.resolve("tuner", f"{tmp_path}/mine.py:Tuner") is found


def test_two_files_of_one_name_are_two_modules(registry: Registry, tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "same.py").write_text(f"class Tuner:\n    folder = {folder!r}\n")
    found = [registry.resolve("tuner", f"{tmp_path}/{folder}/same.py:Tuner") for folder in ("a", "b")]
    assert [tuner.folder for tuner in found] == ["a", "b"]
    assert found[0].__module__ != found[1].__module__


def test_resolve_finds_a_name_that_the_file_registers(registry: Registry, tmp_path: Path) -> None:
    path = tmp_path / "registers.py"
    path.write_text("def _function():\n    return 1\n")
    function = registry.resolve("template", f"{path}:_function")
    registry.register("template", "fancy", function)
    assert registry.resolve("template", f"{path}:fancy") is function


def test_a_file_of_ones_own_wins_over_a_registered_name(registry: Registry, tmp_path: Path) -> None:
    path = tmp_path / "own.py"
    path.write_text(
        "from pegbox_registry_test import registry\nfrom collections import OrderedDict as wrapped\n"
        "def mine(): return 1\nregistry.register('template', 'mine', mine)\n"
        "def _wrapper(): return wrapped()\nregistry.register('template', 'wrapped', _wrapper)\n"
    )
    registry.register("template", "mine", dict, owner="plugin acme")
    sys.modules["pegbox_registry_test"] = ModuleType("pegbox_registry_test")
    vars(sys.modules["pegbox_registry_test"])["registry"] = registry
    try:
        assert registry.resolve("template", f"{path}:mine")() == 1
    finally:
        del sys.modules["pegbox_registry_test"]
    assert registry.resolve("template", f"{path}:wrapped").__name__ == "_wrapper"  # not what the file imports
    with pytest.raises(PluginError, match=rf"write 'builtins:dict' or '{path}:mine', or rename one, or switch a"):
        registry.get("template", "mine")


def test_a_file_that_is_imported_under_two_names_has_one_definition(registry: Registry, tmp_path: Path) -> None:
    path = tmp_path / "twice.py"
    path.write_text("def mine(): return __name__\n")
    for module in ("first", "second"):
        scope: dict[str, Any] = {"__name__": module}
        exec(compile(path.read_text(), str(path), "exec"), scope)
        registry.register("template", "mine", scope["mine"])
    assert registry.get("template", "mine")() == "second"


@pytest.mark.parametrize(
    ("source", "attribute", "error", "message"),
    [
        (None, "f", PluginError, "there is no Python file"),
        ("raise RuntimeError('half way')", "f", PluginError, "RuntimeError: half way"),
        ("raise SystemExit(0)", "f", PluginError, "cannot be imported: SystemExit: 0"),
        ("def g(): pass", "f", UnknownName, "defines no 'f'; it defines g"),
        ("x = 1", "f", UnknownName, "it defines nothing"),
    ],
)
def test_resolve_says_what_is_wrong_with_a_file(
    registry: Registry, tmp_path: Path, source: str | None, attribute: str, error: type[Exception], message: str
) -> None:
    path = tmp_path / "file.py"
    if source is not None:
        path.write_text(source)
    with pytest.raises(error, match=message):
        registry.resolve("template", f"{path}:{attribute}")


def test_a_file_that_failed_is_run_again(registry: Registry, tmp_path: Path) -> None:
    path = tmp_path / "flaky.py"
    path.write_text("raise RuntimeError\n")
    with pytest.raises(PluginError):
        registry.resolve("template", f"{path}:f")
    path.write_text("def f():\n    return 'repaired'\n")
    assert registry.resolve("template", f"{path}:f")() == "repaired"


def test_a_name_of_another_kind_is_reported(registry: Registry) -> None:
    registry.register("runner", "steady", "acme:Steady", owner="tests")
    with pytest.raises(UnknownName, match="there is no tuner 'steady': 'steady' is a runner; give it as such"):
        registry.get("tuner", "steady")


def defined(source: str, path: str, module: str, name: str = "mine") -> Any:
    """Make what the source of a module defines."""
    scope: dict[str, Any] = {"__name__": module}
    exec(compile(source, path, "exec"), scope)
    return scope[name]


def test_an_edited_file_that_is_imported_again_has_one_definition(registry: Registry, tmp_path: Path) -> None:
    path = tmp_path / "twice.py"
    path.touch()
    for count, module in enumerate(["first", "second", "first"]):
        made = defined("\n" * count + f"def mine(): return {count}\n", str(path), module)
        registry.register("template", "mine", made)
    assert registry.get("template", "mine")() == 2
    assert [each() for each in registry.every("template", "mine")] == [2]


def test_a_class_of_a_file_is_written_with_the_file(
    registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("my_tuner.py").write_text("class Mine: pass\n")
    registry.register("tuner", "mine", registry.resolve("tuner", "my_tuner.py:Mine"))
    registry.register("tuner", "mine", list, owner="other")
    with pytest.raises(PluginError, match=r"instead of the name, write 'my_tuner\.py:Mine' or 'builtins:list', or"):
        registry.get("tuner", "mine")


def test_what_no_text_means_is_given_itself(registry: Registry) -> None:
    source = "def mine(): pass\n"
    registry.register("template", "mine", defined(source, "/tmp/ipykernel_7/123.py", "__main__"))
    registry.register("template", "mine", dict, owner="other")
    with pytest.raises(PluginError, match=r"write 'builtins:dict', or give the function itself, or rename one$"):
        registry.get("template", "mine")


def test_only_templates_and_workloads_without_the_name_are_taken_for_models(registry: Registry) -> None:
    registry.register("template", "mine.pt", dict, owner="tests")
    assert registry.resolve("template", "mine.pt") is dict
    with pytest.raises(UnknownName, match=r"'other\.pt' is a model"):
        registry.resolve("template", "other.pt")
    with pytest.raises(UnknownName, match=r"there is no tuner 'other\.pt'"):
        registry.resolve("tuner", "other.pt")
