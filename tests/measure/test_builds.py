"""Programs are compiled here, and on the runner's machines as far as the builders of this one are busy."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

import pytest

from pegbox.measure import Failed
from pegbox.measure.pipeline.builds import Builds
from pegbox.workers.process import GivenUp


class Here:
    """Two builders, which compile what is `held` only once it is let go."""

    size = 2

    def __init__(self) -> None:
        self.held: dict[str, threading.Event] = {}
        self.begun = threading.Semaphore(0)

    def build(self, program: Any) -> Any:
        self.begun.release()
        assert self.held.get(program, LET_GO).wait(10)
        return f"{program} here"


LET_GO = threading.Event()
LET_GO.set()


class Elsewhere:
    """A runner with other machines."""

    def __init__(self, builders: int) -> None:
        self.builders = builders
        self.able = True
        self.timing = False
        self.waiting = threading.Event()
        self.inside = 0

    def build(self, program: Any, *, timeout: float) -> Any:
        return f"{program} there in {timeout:g} s" if self.able else None

    @contextlib.contextmanager
    def building_here(self, given_up: Callable[[], bool]) -> Iterator[None]:
        while self.timing:
            self.waiting.set()
            if given_up():
                raise GivenUp
        self.inside += 1
        yield


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as threads:
        yield threads


def builds(runner: Any) -> Any:
    return Builds(Here(), runner, timeout=3.0)  # type: ignore[arg-type]


def build(made: Builds, program: str, given_up: threading.Event | None = None) -> Any:
    built, seconds = made.build(program, given_up or threading.Event())  # type: ignore[arg-type]
    assert seconds >= 0
    return built


@contextlib.contextmanager
def busy(made: Any, threads: ThreadPoolExecutor) -> Iterator[Callable[[int], None]]:
    """Both builders here work in the body; the function lets one of them end."""
    names = ["busy 0", "busy 1"]
    made.here.held.update({name: threading.Event() for name in names})
    futures = [threads.submit(build, made, name) for name in names]
    for _ in names:
        assert made.here.begun.acquire(timeout=10)

    def end(place: int) -> None:
        made.here.held[names[place]].set()
        assert futures[place].result(10) == f"{names[place]} here"

    try:
        yield end
    finally:
        end(0)
        end(1)


def test_what_is_too_much_for_this_machine_goes_to_the_others(threads: ThreadPoolExecutor) -> None:
    made = builds(Elsewhere(1))
    with busy(made, threads):
        assert build(made, "c") == "c there in 3 s"
    assert build(made, "d") == "d here"
    assert made.size == 3


def test_a_build_waits_until_the_others_have_room(threads: ThreadPoolExecutor) -> None:
    runner = Elsewhere(0)
    made = builds(runner)
    with busy(made, threads):
        future = threads.submit(build, made, "c")
        wait([future], 0.05)
        assert not future.done()
        runner.builders = 1
        assert future.result(10) == "c there in 3 s"


def test_what_the_others_cannot_compile_is_compiled_here(threads: ThreadPoolExecutor) -> None:
    runner = Elsewhere(1)
    runner.able = False
    made = builds(runner)
    with busy(made, threads):
        inside = runner.inside
        assert build(made, "c") == "c here"
    assert runner.inside == inside + 1  # not while a worker on this machine times


def test_a_build_that_waits_for_others_to_time_is_given_up(threads: ThreadPoolExecutor) -> None:
    asking: set[int] = set()

    class Full(Elsewhere):
        @property
        def builders(self) -> int:
            asking.add(threading.get_ident())
            return 0

        @builders.setter
        def builders(self, count: int) -> None: ...

    runner = Full(0)
    runner.timing = True
    made, given_up = builds(runner), threading.Event()
    futures = [threads.submit(build, made, "a", given_up) for _ in range(4)]  # two of them wait for a builder
    assert runner.waiting.wait(10)
    while len(asking) < 2:
        time.sleep(0.001)
    given_up.set()
    assert [type(future.result(10)) for future in futures] == [Failed] * 4
    assert runner.inside == 0
    runner.timing = False
    assert build(made, "b") == "b here"


def test_what_was_given_up_is_compiled_neither_there_nor_here(threads: ThreadPoolExecutor) -> None:
    made, given_up = builds(Elsewhere(1)), threading.Event()
    given_up.set()
    assert isinstance(build(made, "a", given_up), Failed)
    with busy(made, threads):
        assert isinstance(build(made, "a", given_up), Failed)


def test_builders_here_do_not_wait_until_the_others_say_what_they_have(threads: ThreadPoolExecutor) -> None:
    asked, answer = threading.Event(), threading.Event()

    class Hanging(Elsewhere):
        @property
        def builders(self) -> int:
            asked.set()
            assert answer.wait(10)
            return 1

        @builders.setter
        def builders(self, count: int) -> None: ...

    made = builds(Hanging(0))
    with busy(made, threads) as end:
        future = threads.submit(build, made, "c")
        assert asked.wait(10)
        end(0)
        made.here.held["b"] = threading.Event()
        other = threads.submit(build, made, "b")
        assert made.here.begun.acquire(timeout=10)  # it has begun before there is an answer
        answer.set()
        assert future.result(10) == "c there in 3 s"
        made.here.held["b"].set()
        assert other.result(10) == "b here"
