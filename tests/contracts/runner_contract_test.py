"""Every built-in runner keeps the contract of runners."""

from __future__ import annotations

from typing import Any, ClassVar

from pegbox.hooks import registry
from pegbox.measure import Bench, Runner
from pegbox.plugins.runners.local import LocalRunner
from pegbox.testing import RunnerContract


class Registered(RunnerContract):
    name: ClassVar[str]

    def make(self, bench: Bench, **options: Any) -> Runner:
        runner: Runner = registry.get("runner", self.name)(bench, **options)
        return runner


# Taken from the registry, so that no runner can be left out; pytest collects classes that are called Test...
for _name in registry.names("runner"):
    globals()[f"Test[{_name}]"] = type(f"Test[{_name}]", (Registered,), {"name": _name, "__module__": __name__})


def test_the_local_runner_is_found_by_name() -> None:
    assert registry.get("runner", "local") is LocalRunner
