"""The values of `runner=`: names with options, files, factories."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pegbox.errors import ArgumentError, UnknownName
from pegbox.hooks import registry
from pegbox.measure.runners.runner import RunnerWrapper, runner_factory, runner_name
from pegbox.plugins.runners.local import LocalRunner


class Plain:
    """Keeps what it was made with."""

    def __init__(self, bench: Any, *, timing: Any, cores: Any, max_memory: Any, host: str = "", tries: int = 1) -> None:
        self.options = {"host": host, "tries": tries}
        self.given = (bench, timing, cores, max_memory)


@pytest.fixture(autouse=True)
def plain() -> Any:
    registry.register("runner", "plain", Plain, owner="test_runner")
    yield
    registry.unregister("runner", "plain", owner="test_runner")


@pytest.mark.parametrize(
    ("spec", "options", "made"),
    [
        ("plain", {}, {"host": "", "tries": 1}),
        ("plain:tries=3,host=tower", {}, {"host": "tower", "tries": 3}),
        ("plain:tries=3", {"tries": 5}, {"host": "", "tries": 5}),
        (Plain, {"tries": "4"}, {"host": "", "tries": 4}),
    ],
)
def test_options_reach_the_runner(spec: Any, options: dict[str, Any], made: dict[str, Any]) -> None:
    runner: Any = runner_factory(spec, options)("bench", timing="t", cores="c", max_memory=1)
    assert runner.options == made
    assert runner.given == ("bench", "t", "c", 1)


def test_a_runner_without_options_is_its_factory_itself() -> None:
    assert runner_factory("local", {}) is LocalRunner


def test_a_file_defines_a_runner(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def mine(bench, *, timing, cores, max_memory, spread=0.5): return spread\n")
    factory: Any = runner_factory(f"{tmp_path}/mine.py:mine:spread=0.25", {})
    assert factory(None, timing=None, cores=None, max_memory=None) == 0.25


@pytest.mark.parametrize(
    ("spec", "options", "error", "words"),
    [
        ("locall", {}, UnknownName, "'local'"),
        ("plain:trie=3", {}, ArgumentError, r"runner 'plain' has no option 'trie' .*did you mean 'tries'.*host: str"),
        ("plain:tries=many", {}, ArgumentError, "cannot read tries='many' as int"),
        ("plain:cores=3", {}, ArgumentError, "no option 'cores'"),
        (
            "local",
            {"speed": 3},
            ArgumentError,
            r"runner 'local' has no option 'speed' \(given speed=3\); its options: folder",
        ),
        (Plain, {"speed": 3}, ArgumentError, "runner 'Plain' has no option 'speed'"),
        (
            42,
            {},
            ArgumentError,
            r"runner=42 of type int cannot make a runner; give .*, its class, or a distributed\.client\.Client",
        ),
        (RunnerWrapper(Any), {}, ArgumentError, "runner=.* it is an instance: give its class"),  # type: ignore[arg-type]
    ],
)
def test_bad_runners_are_refused(spec: Any, options: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        runner_factory(spec, options)


def test_a_client_of_a_dask_cluster_is_the_option_of_its_runner() -> None:
    kind = type("Client", (), {"__module__": "distributed.client"})
    client = type("Mine", (kind,), {})()
    factory: Any = runner_factory(client, {"host": "rack"})
    assert runner_name(client) == "dask"
    assert factory.func is registry.get("runner", "dask")
    assert factory.keywords == {"scheduler": client, "host": "rack"}
