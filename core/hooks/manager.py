"""The plugin manager: finds plugins, loads them one at a time, and asks each for its names.

pluggy's own entry-point loading stops at the first plugin that fails, and one hook that raises loses the answers of all
plugins. Here a failure affects only the plugin that caused it: it is kept for `pegbox plugins`, and the rest continues.

There are two environment variables: `PEGBOX_DISABLE_PLUGINS=a,b` leaves plugins out (by the name of their entry point,
or of their distribution); `PEGBOX_STRICT_PLUGINS=1` raises the first failure as PluginError.
"""

from __future__ import annotations

import importlib
import os
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib import metadata

import pluggy

from pegbox.checks import did_you_mean
from pegbox.errors import PluginError
from pegbox.hooks import specs
from pegbox.hooks.names import PLUGIN, NameTable, label
from pegbox.origin import explained, users_level

GROUP = "pegbox"

# Plugin's name (for PEGBOX_DISABLE_PLUGINS) -> the module that answers its hooks. They are ordinary plugins without an
# entry point; the modules are text, because this package must not import those above it.
BUILTIN_PLUGINS: dict[str, str] = {
    "pegbox.tuners": "pegbox.tuners.plugin",
    "pegbox.templates": "pegbox.templates.plugin",
    "pegbox.runners": "pegbox.plugins.runners.plugin",
    "pegbox.kernel_tuner": "pegbox.plugins.kernel_tuner.plugin",
    "pegbox.sketch": "pegbox.plugins.sketch.plugin",
    "pegbox.onnx": "pegbox.plugins.onnx.plugin",
    "pegbox.cli": "pegbox.plugins.cli.plugin",
}


@dataclass(frozen=True, slots=True)
class PluginProblem:
    """A fault of a plugin: its stage, a message, and the traceback for the plugin's author."""

    stage: str
    message: str
    traceback: str = ""

    def __str__(self) -> str:
        return f"{self.stage}: {self.message}"


@dataclass(slots=True)
class Plugin:
    """A plugin as `pegbox plugins` shows it. `provides` maps a kind to the names registered."""

    name: str
    module: str
    source: str
    enabled: bool = True
    problems: list[PluginProblem] = field(default_factory=list)
    provides: dict[str, list[str]] = field(default_factory=dict)

    @property
    def owner(self) -> str:
        """The name of the plugin in messages."""
        return f"{PLUGIN}{self.name} ({self.source})"


def installed_entry_points() -> Iterable[metadata.EntryPoint]:
    """List the entry points of all installed distributions in the group `pegbox`."""
    return metadata.entry_points(group=GROUP)


class PluginLoader:
    """A loader of every plugin into a table of names; `load` is called once.

    Tests may pass other built-ins, environment and entry points than the process's own.
    """

    def __init__(
        self,
        table: NameTable,
        *,
        builtins: Mapping[str, str] | None = None,
        environ: Mapping[str, str] | None = None,
        entry_points: Callable[[], Iterable[metadata.EntryPoint]] = installed_entry_points,
    ) -> None:
        self.plugins: list[Plugin] = []
        self._table = table
        self._builtins = BUILTIN_PLUGINS if builtins is None else builtins
        env = os.environ if environ is None else environ
        self._entry_points = entry_points
        self._strict = env.get("PEGBOX_STRICT_PLUGINS", "") not in ("", "0")
        self._blocked = {name.strip() for name in env.get("PEGBOX_DISABLE_PLUGINS", "").split(",") if name.strip()}
        self._names: set[str] = set()
        self._pluggy = pluggy.PluginManager(specs.PROJECT)
        self._pluggy.add_hookspecs(specs)

    def load(self) -> None:
        """Load built-ins, then entry points in order of their names. Raises PluginError only when strict."""
        for name, module in self._builtins.items():
            self._add(Plugin(name, module, "built in"), {name}, partial(importlib.import_module, module))
        for entry in sorted(self._entry_points(), key=lambda entry: (entry.name, entry.value)):
            dist = entry.dist.name if entry.dist else "unknown distribution"
            version = f" {entry.dist.version}" if entry.dist else ""
            taken = any(plugin.name == entry.name for plugin in self.plugins)
            name = f"{dist}:{entry.name}" if taken else entry.name
            self._add(Plugin(name, entry.value, f"{dist}{version}"), {name, entry.name, dist}, entry.load)
        for name in sorted(self._blocked - self._names):  # probably a misspelt name, whose plugin was loaded
            if hint := did_you_mean(name, sorted(self._names)):
                message = f"PEGBOX_DISABLE_PLUGINS={name} leaves nothing out: there is no plugin {name!r}{hint}"
                warnings.warn(message, RuntimeWarning, stacklevel=users_level())

    def _add(self, plugin: Plugin, aliases: set[str], load: Callable[[], object]) -> None:
        self.plugins.append(plugin)
        self._names |= aliases
        if aliases & self._blocked:
            plugin.enabled = False
            return
        try:
            module = load()
        except (Exception, SystemExit) as error:  # a module may call sys.exit() if something is missing
            return self._fail(plugin, "import", error)
        try:
            self._pluggy.register(module, name=plugin.name)
        except Exception as error:
            return self._fail(plugin, "hooks", error)
        for problem in self._unknown_hooks(module):
            self._fail(plugin, "hooks", problem)
        for kind, hook in specs.HOOK_OF_KIND.items():
            self._ask(plugin, module, kind, hook)

    def _unknown_hooks(self, module: object) -> Iterator[PluginError]:
        """Find misspelt hooks, which would never be called. (`optionalhook=True` is for future hooks.)"""
        known = sorted(specs.HOOK_OF_KIND.values())
        for caller in self._pluggy.get_hookcallers(module) or []:
            optional = all(impl.optionalhook for impl in caller.get_hookimpls() if impl.plugin is module)
            if caller.name not in known and not optional:
                hint = did_you_mean(caller.name, known)
                yield PluginError(f"there is no hook {caller.name!r}{hint}; the hooks are {', '.join(known)}")

    def _ask(self, plugin: Plugin, module: object, kind: str, hook: str) -> None:
        others = [other for other in self._pluggy.get_plugins() if other is not module]
        try:
            answers = self._pluggy.subset_hook_caller(hook, remove_plugins=others)()
        except (Exception, SystemExit) as error:
            return self._fail(plugin, hook, error)
        for answer in answers:
            if not isinstance(answer, Mapping):
                problem = PluginError(f"the hook gave {answer!r} instead of a mapping from names to objects")
                self._fail(plugin, hook, problem)
                continue
            for name, target in answer.items():
                try:
                    clash = self._table.add(kind, name, target, owner=plugin.owner)
                except PluginError as error:
                    self._fail(plugin, hook, error)
                    continue
                plugin.provides.setdefault(kind, []).append(name)
                if clash is not None:
                    self._fail(plugin, hook, clash)

    def _fail(self, plugin: Plugin, stage: str, error: BaseException) -> None:
        message = str(error) if isinstance(error, PluginError) else explained(error)
        if self._strict:
            raise PluginError(f"{plugin.owner} failed, {stage}: {message}") from error
        plugin.problems.append(PluginProblem(stage, message, "".join(traceback.format_exception(error))))


def describe_failures(plugins: Iterable[Plugin], kind: str) -> str:
    """Write the end of "unknown name" messages if a broken plugin may be the reason, else nothing."""
    broken = [plugin.name for plugin in plugins if plugin.problems]
    if not broken:
        return ""
    return f"; plugins with errors may be why a {label(kind)} is missing: {', '.join(broken)} (see 'pegbox plugins')"
