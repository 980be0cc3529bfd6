"""Programs are compiled here, and on a cluster as far as the builders of this machine are busy."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pegbox.measure import Failed
from pegbox.measure.pipeline.build_sites import BuildSites
from pegbox.workers.process import GivenUp


@dataclass
class Here:
    size: int = 2

    def build(self, program: Any) -> Any:
        return f"{program} here"


class Cluster:
    def __init__(self, builders: int) -> None:
        self.builders = builders
        self.able = True
        self.timing = False
        self.waiting = threading.Event()
        self.inside = 0

    def build(self, program: Any, *, timeout: float) -> Any:
        return f"{program} there in {timeout:g} s" if self.able else None

    @contextlib.contextmanager
    def building_here(self, given_up: Callable[[], bool]) -> Any:
        while self.timing:
            self.waiting.set()
            if given_up():
                raise GivenUp
        self.inside += 1
        yield


def sites(cluster: Any = None) -> Any:
    made = BuildSites(Here(), timeout=3.0)  # type: ignore[arg-type]
    made.cluster = cluster
    return made


def test_what_is_too_much_for_this_machine_goes_to_the_cluster() -> None:
    found = sites(Cluster(1))
    with contextlib.ExitStack() as stack:
        built = [stack.enter_context(found.free()).build(name) for name in "abc"]
    assert built == ["a here", "b here", "c there in 3 s"]
    assert found.size == 3


def test_a_build_waits_until_the_cluster_has_room() -> None:
    cluster = Cluster(0)
    found = sites(cluster)
    built: list[Any] = []

    def build() -> None:
        with found.free() as site:
            built.append(site.build("c"))

    with found.free(), found.free():
        thread = threading.Thread(target=build)
        thread.start()
        thread.join(0.05)
        assert thread.is_alive()
        cluster.builders = 1
        thread.join(10)
    assert built == ["c there in 3 s"]


def test_what_the_cluster_cannot_compile_is_compiled_here() -> None:
    cluster = Cluster(1)
    cluster.able = False
    found = sites(cluster)
    with found.free(), found.free(), found.free() as site:
        assert site.build("c") == "c here"
    assert cluster.inside == 1  # not while a worker on this machine times


def test_without_a_cluster_the_builders_are_asked_themselves() -> None:
    found = sites()
    with found.free() as one, found.free() as two, found.free() as three:
        assert [type(site) for site in (one, two, three)] == [Here] * 3
    assert found.size == 2


def test_a_build_that_waits_for_the_cluster_to_time_is_given_up() -> None:
    asking: set[int] = set()

    class Full(Cluster):
        @property
        def builders(self) -> int:
            asking.add(threading.get_ident())
            return 0

        @builders.setter
        def builders(self, count: int) -> None: ...

    cluster = Full(0)
    cluster.timing = True
    found = sites(cluster)
    built: list[Any] = []

    def build() -> None:
        with found.free() as site:
            built.append(site.build("a"))

    threads = [threading.Thread(target=build, daemon=True) for _ in range(4)]  # two of them wait for a builder
    for thread in threads:
        thread.start()
    assert cluster.waiting.wait(10)
    while len(asking) < 2:
        time.sleep(0.001)
    found.interrupt()
    for thread in threads:
        thread.join(10)
    assert [type(each) for each in built] == [Failed] * 4
    assert cluster.inside == 0
    cluster.timing = False
    with found.free() as site:
        assert site.build("b") == "b here"


def test_sites_that_were_closed_compile_nothing_on_the_cluster_or_beside_it() -> None:
    found = sites(Cluster(1))
    found.close()
    with found.free() as one, found.free(), found.free() as there:
        assert [type(site.build("a")) for site in (one, there)] == [Failed] * 2


def test_builders_here_do_not_wait_until_the_cluster_says_what_it_has() -> None:
    asked, answer = threading.Event(), threading.Event()

    class Hanging(Cluster):
        @property
        def builders(self) -> int:
            asked.set()
            assert answer.wait(10)
            return 1

        @builders.setter
        def builders(self, count: int) -> None: ...

    found = sites(Hanging(0))
    built: list[Any] = []

    def build() -> None:
        with found.free() as site:
            built.append(site.build("c"))

    freed = threading.Timer(5, answer.set)  # else a fault here would last for ever
    freed.start()
    with found.free():
        with found.free():
            thread = threading.Thread(target=build, daemon=True)
            thread.start()
            assert asked.wait(10)
        with found.free() as again:
            assert not answer.is_set()
            assert again.build("b") == "b here"
            freed.cancel()
            answer.set()
            thread.join(10)
    assert built == ["c there in 3 s"]
