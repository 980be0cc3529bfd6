"""The built-in runner passes the suite of all runners, and a few tests of its own."""

from __future__ import annotations

from runner_contract import RunnerContract

from pegbox.hooks import registry
from pegbox.plugins.runners.local import LocalRunner


class TestLocalRunner(RunnerContract):
    factory = LocalRunner

    def test_it_is_found_by_name(self) -> None:
        assert registry.get("runner", "local") is LocalRunner
