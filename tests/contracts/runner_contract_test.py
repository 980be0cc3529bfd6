"""Every built-in runner keeps the contract of runners."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import pytest

from pegbox.hooks import registry
from pegbox.measure import Bench, Ok, Result, Runner
from pegbox.plugins.runners.dask_client import connected
from pegbox.plugins.runners.local import LocalRunner
from pegbox.testing import RunnerContract


class Registered(RunnerContract):
    name: ClassVar[str]

    def make(self, bench: Bench, **options: Any) -> Runner:
        runner: Runner = registry.get("runner", self.name)(bench, **options, **self.more())
        return runner

    def more(self) -> dict[str, Any]:
        return {}


class OnCluster(Registered):
    """All tests share the cluster."""

    _cluster: ClassVar[Any]
    _client: ClassVar[Any]

    @classmethod
    def setup_class(cls) -> None:
        pytest.importorskip("distributed")
        cls._cluster = connected(None)
        cls._client = cls._cluster.__enter__()

    @classmethod
    def teardown_class(cls) -> None:
        super().teardown_class()
        cls._cluster.__exit__(None, None, None)

    def more(self) -> dict[str, Any]:
        return {"scheduler": self._client}


_BASES = {"dask": OnCluster}

# Taken from the registry, so that no runner can be left out; pytest collects classes that are called Test...
for _name in registry.names("runner"):
    _base = _BASES.get(_name, Registered)
    globals()[f"Test[{_name}]"] = type(f"Test[{_name}]", (_base,), {"name": _name, "__module__": __name__})


def test_the_local_runner_is_found_by_name() -> None:
    assert registry.get("runner", "local") is LocalRunner


def test_a_runner_that_changes_run_alone_does_not_keep_the_contract() -> None:
    class Double(LocalRunner):
        def run(self, program: Any, **options: Any) -> Result:
            result = super().run(program, **options)
            return replace(result, costs=tuple(2 * cost for cost in result.costs)) if isinstance(result, Ok) else result

    class Suite(RunnerContract):
        def make(self, bench: Bench, **options: Any) -> Runner:
            return Double(bench, **options)

    suite = Suite()
    suite.setup_method()
    try:
        with pytest.raises(AssertionError, match="change both methods alike"):
            suite.test_run_and_rerun_of_one_candidate_agree()
    finally:
        suite.teardown_method()
