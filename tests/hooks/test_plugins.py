"""Finding plugins and keeping their failures apart."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import pytest

from pegbox.errors import PluginError, UnknownName
from pegbox.hooks.manager import BUILTIN_PLUGINS, PluginLoader
from pegbox.hooks.names import NameTable
from pegbox.hooks.registry import Registry
from pegbox.hooks.specs import HOOK_OF_KIND

MakeRegistry = Callable[..., Registry]

GOOD = "@hookimpl\ndef pegbox_register_tuners():\n    return {'good': dict}\n"
RAISING = GOOD.replace("return {'good': dict}", "raise ValueError('half way')")


def problems(registry: Registry, name: str) -> str:
    (plugin,) = (plugin for plugin in registry.plugins() if plugin.name == name)
    return "\n".join(map(str, plugin.problems))


def test_an_installed_plugin_is_found_by_its_entry_point(site: Any, make_registry: MakeRegistry) -> None:
    module = site.install("acme-tuners", GOOD, entry="acme", version="2.1")
    registry = make_registry()
    assert registry.get("tuner", "good") is dict
    (plugin,) = registry.plugins()
    assert (plugin.name, plugin.module, plugin.source) == ("acme", module, "acme-tuners 2.1")
    assert plugin.provides == {"tuner": ["good"]}
    assert registry.claim("tuner", "good").owner == "plugin acme (acme-tuners 2.1)"


@pytest.mark.parametrize("kind", HOOK_OF_KIND)
def test_every_hook_fills_its_kind(site: Any, make_registry: MakeRegistry, kind: str) -> None:
    site.install("acme", GOOD.replace("pegbox_register_tuners", HOOK_OF_KIND[kind]))
    registry = make_registry()
    assert {known: registry.names(known) for known in HOOK_OF_KIND if registry.names(known)} == {kind: ["good"]}


def test_every_hook_says_when_it_is_called() -> None:
    from pegbox.hooks import specs

    for hook in HOOK_OF_KIND.values():
        assert "called" in (getattr(specs, hook).__doc__ or "").lower()
    assert {name for name in vars(specs) if name.startswith("pegbox_register")} == set(HOOK_OF_KIND.values())


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("import no_such_module_at_all\n", "import: ModuleNotFoundError: No module named 'no_such_module_at_all'"),
        ("raise SystemExit('needs a licence')\n", "import: SystemExit: needs a licence"),
        ("def broken(:\n", "import: SyntaxError"),
        (RAISING, "pegbox_register_tuners: ValueError: half way"),
        (GOOD.replace("{'good': dict}", "['good']"), "gave ['good'] instead of a mapping"),
        (GOOD.replace("dict}", "3}"), "registers tuner 'good' as 3"),
        (
            GOOD.replace("tuners", "toners"),
            "no hook 'pegbox_register_toners'; did you mean 'pegbox_register_tuners'",
        ),
        (GOOD.replace("()", "(space)"), "hooks: PluginValidationError"),
    ],
)
def test_a_broken_plugin_keeps_its_error_and_the_rest_goes_on(
    site: Any, make_registry: MakeRegistry, source: str, said: str
) -> None:
    site.install("acme-broken", source, entry="a_broken")
    site.install("acme-good", GOOD.replace("good", "fine"), entry="b_good")
    registry = make_registry(builtins={"inner": site.module("from pegbox.hooks import hookimpl\n" + GOOD)})
    assert registry.names("tuner") == ["fine", "good"]
    assert said in problems(registry, "a_broken")
    assert problems(registry, "b_good") == problems(registry, "inner") == ""
    (plugin,) = (plugin for plugin in registry.plugins() if plugin.name == "a_broken")
    assert "Traceback" in plugin.problems[0].traceback or "Error" in plugin.problems[0].traceback


def test_one_raising_hook_leaves_the_plugins_other_hooks(site: Any, make_registry: MakeRegistry) -> None:
    site.install("acme", RAISING + GOOD.replace("tuners", "templates"))
    registry = make_registry()
    assert registry.names("template") == ["good"]
    assert "half way" in problems(registry, "plug")


def test_an_unknown_name_points_to_plugins_with_errors(site: Any, make_registry: MakeRegistry) -> None:
    site.install("acme", RAISING)
    with pytest.raises(UnknownName, match=r"no tuner 'good'.*plugins with errors.*plug .*pegbox plugins"):
        make_registry().get("tuner", "good")


def test_two_owners_of_a_name_are_both_named_when_it_is_used(site: Any, make_registry: MakeRegistry) -> None:
    site.install("acme-one", GOOD, entry="one")
    site.install("acme-two", GOOD.replace("dict", "list") + GOOD.replace("tuners", "runners"), entry="two")
    registry = make_registry()
    expected = r"tuner 'good' has 2 owners: plugin one \(acme-one 1\.0\) .* and plugin two \(acme-two 1\.0\)"
    with pytest.raises(PluginError, match=expected):
        registry.get("tuner", "good")
    assert "plugin one" in problems(registry, "two")
    assert registry.get("runner", "good") is dict


def test_a_name_of_this_process_clashes_with_a_plugins(site: Any, make_registry: MakeRegistry) -> None:
    site.install("acme-one", GOOD, entry="one")
    early, late = make_registry(), make_registry()
    early.register("tuner", "good", list, owner="my_script")
    with pytest.raises(PluginError, match=r"my_script .* and plugin one"):
        early.get("tuner", "good")
    assert late.get("tuner", "good") is dict
    late.register("tuner", "good", list, owner="my_script")
    with pytest.raises(PluginError, match=r"plugin one .* and my_script .*; instead of the name, write"):
        late.get("tuner", "good")


def test_distributions_may_use_one_entry_point_name(site: Any, make_registry: MakeRegistry) -> None:
    site.install("acme-one", GOOD, entry="plug")
    site.install("acme-two", GOOD.replace("good", "fine"), entry="plug")
    registry = make_registry()
    assert registry.names("tuner") == ["fine", "good"]
    assert len({plugin.name for plugin in registry.plugins()}) == 2


@pytest.mark.parametrize("blocked", ["plug", "acme-one", "other, plug ,", "inner,plug"])
def test_disabled_plugins_are_not_imported(site: Any, make_registry: MakeRegistry, blocked: str) -> None:
    module = site.install("acme-one", GOOD, entry="plug")
    registry = make_registry(PEGBOX_DISABLE_PLUGINS=blocked)
    assert registry.names("tuner") == []
    assert [plugin.enabled for plugin in registry.plugins()] == [False]
    assert module not in sys.modules


def test_a_misspelt_hook_is_reported_and_the_others_work(site: Any, make_registry: MakeRegistry) -> None:
    site.install("acme", GOOD + GOOD.replace("_tuners", "_runner"))
    registry = make_registry()
    assert registry.names("tuner") == ["good"]
    assert "no hook 'pegbox_register_runner'; did you mean 'pegbox_register_runners'" in problems(registry, "plug")


def test_a_misspelt_name_of_a_disabled_plugin_is_reported(site: Any, make_registry: MakeRegistry) -> None:
    site.install("acme-one", GOOD, entry="plug")
    with pytest.warns(RuntimeWarning, match="PEGBOX_DISABLE_PLUGINS=plugg leaves nothing out: .*did you mean 'plug'"):
        assert make_registry(PEGBOX_DISABLE_PLUGINS="plugg,absent").names("tuner") == ["good"]


def test_disabling_settles_a_clash(site: Any, make_registry: MakeRegistry) -> None:
    site.install("acme-one", GOOD, entry="one")
    site.install("acme-two", GOOD.replace("dict", "list"), entry="two")
    assert make_registry(PEGBOX_DISABLE_PLUGINS="one").get("tuner", "good") is list


@pytest.mark.parametrize("source", ["import no_such_module_at_all\n", RAISING])
def test_strict_raises_what_is_otherwise_kept(site: Any, make_registry: MakeRegistry, source: str) -> None:
    site.install("acme", source)
    registry = make_registry(PEGBOX_STRICT_PLUGINS="1")
    for _ in range(2):  # every time: a caller that ignores it once must not find an empty registry
        with pytest.raises(PluginError, match=r"plugin plug \(acme 1\.0\) failed"):
            registry.names("tuner")
    make_registry(PEGBOX_STRICT_PLUGINS="0").names("tuner")


def test_a_plugin_may_use_the_registry_while_it_is_imported(
    site: Any, make_registry: MakeRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = make_registry()
    site.install("acme", "import registry_of_test\nregistry_of_test.registry.register('tuner', 'early', dict)\n")
    monkeypatch.setitem(sys.modules, "registry_of_test", type(sys)("registry_of_test"))
    sys.modules["registry_of_test"].__dict__["registry"] = registry
    assert registry.names("tuner") == ["early"]
    assert problems(registry, "plug") == ""


def test_built_ins_load_without_a_problem_and_bring_the_promised_names() -> None:
    table = NameTable()
    loader = PluginLoader(table, environ={}, entry_points=list)
    loader.load()
    assert [plugin.name for plugin in loader.plugins if not plugin.problems] == list(BUILTIN_PLUGINS)
    assert {"random", "grid", "ga", "xgb"} <= set(table.names("tuner"))
    assert "xgboost" in table.names("cost_model")
    assert "local" in table.names("runner")
    assert {"matmul", "batch_matmul"} <= set(table.names("template"))
    assert table.names("results_reader") == ["kernel_tuner"]
    assert {"tune", "best", "show", "build", "templates", "plugins"} <= set(table.names("cli_command"))


@pytest.mark.parametrize("kind", HOOK_OF_KIND)
def test_every_built_in_name_can_be_imported(kind: str) -> None:
    table = NameTable()
    PluginLoader(table, environ={}, entry_points=list).load()
    for claim in table.claims(kind):
        assert callable(claim.load())


def test_a_plugin_keeps_a_name_that_its_module_registers_when_it_is_imported() -> None:
    table = NameTable()
    table.add("template", "json", "json:dumps", owner="plugin acme")
    table.add("template", "json", json.dumps, owner="json")
    assert table.claim("template", "json").owner == "plugin acme"
    assert table.claim("template", "json").load() is json.dumps
