"""Every built-in runner keeps the contract of runners."""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import Any, ClassVar

import pytest
from processors import for_target

from pegbox.codegen import Program
from pegbox.codegen.targets import host
from pegbox.hooks import registry
from pegbox.measure import Bench, FailureKind, Ok, Runner
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


class InEmulator(Registered):
    """Candidates of another architecture; a minute of it is enough for .ci/emulate."""

    target = for_target("aarch64" if host.architecture() != "aarch64" else "riscv64")

    @classmethod
    def setup_class(cls) -> None:
        if not os.environ.get("PEGBOX_EMULATE"):
            pytest.skip("PEGBOX_EMULATE=1 runs it in an emulator")

    def check_failed(self, program: Program, kinds: Collection[FailureKind], words: str = "") -> None:
        """Nothing that counts is behind a candidate's descriptors: what it writes there, or closes, does no harm."""
        if program.externs:
            assert isinstance(self.shared().run(self.compiled(program)), Ok)
            self.check_recovered(self.shared())
        else:
            super().check_failed(program, kinds, words)


_BASES = {"dask": OnCluster, "qemu": InEmulator}

# Taken from the registry, so that no runner can be left out; pytest collects classes that are called Test...
for _name in registry.names("runner"):
    _base = _BASES.get(_name, Registered)
    globals()[f"Test[{_name}]"] = type(f"Test[{_name}]", (_base,), {"name": _name, "__module__": __name__})


def test_the_local_runner_is_found_by_name() -> None:
    assert registry.get("runner", "local") is LocalRunner
