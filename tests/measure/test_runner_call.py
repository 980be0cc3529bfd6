"""A runner that breaks its protocol is reported with its name, the line and the expected form."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from adding_task import AddingTask

from pegbox.errors import ArgumentError, MeasureError
from pegbox.measure import LocalMeasurer, Ok, Runner, RunnerWrapper
from pegbox.measure.runners.runner_call import CheckedRunner, check_runner_factory

RESULT = r"return pegbox.measure.Ok\(\(seconds, ...\)\).* or pegbox.measure.Failed\(kind, message\)"


class Sound(Runner):
    """A runner of the right form that runs nothing."""

    def __init__(self, bench: Any, *, timing: Any, cores: Any, max_memory: Any) -> None:
        self.bench = bench

    def run(self, program: Any, *, best: float = 1.0) -> Any:
        return Ok((1.0,))

    def rerun(self, programs: Any) -> Any:
        return [Ok((1.0,)) for _ in programs]

    def interrupt(self) -> None: ...

    def close(self) -> None: ...


class Raises(Sound):
    def run(self, program: Any, *, best: float = 1.0) -> Any:
        raise KeyError("x")


class Stuck(Sound):
    def interrupt(self) -> None:
        raise OSError("no answer")

    def close(self) -> None:
        raise OSError("gone")


class Gives(Sound):
    given: Any = None

    def run(self, program: Any, *, best: float = 1.0) -> Any:
        return self.given

    def rerun(self, programs: Any) -> Any:
        return self.given


class WithoutBest(Sound):
    def run(self, program: Any) -> Any:  # type: ignore[override]
        return Ok((1.0,))


class Halves:
    def __init__(self, bench: Any, *, timing: Any, cores: Any, max_memory: Any) -> None: ...

    def run(self, program: Any, *, best: float = 1.0) -> Any: ...


class BenchAlone:
    def __init__(self, bench: Any) -> None: ...


class Tuner:
    def __init__(self, space: Any, *, seed: int = 0) -> None: ...

    def ask(self, n: int) -> Any: ...

    def tell(self, configs: Any, results: Any) -> None: ...


def checked(factory: Any) -> CheckedRunner:
    return CheckedRunner("mine", factory, None, timing=None, cores=None, max_memory=None)  # type: ignore[arg-type]


def line_of(text: str) -> str:
    """`test_runner_call.py:LINE: ` of the first line of this file that holds the text, as a pattern."""
    lines = Path(__file__).read_text().splitlines()
    return rf"test_runner_call\.py:{next(at for at, line in enumerate(lines, 1) if text in line)}: "


def test_a_sound_runner_is_passed_through() -> None:
    runner = checked(Sound)
    assert runner.run(None) == Ok((1.0,))  # type: ignore[arg-type]
    assert runner.rerun([None, None]) == [Ok((1.0,))] * 2  # type: ignore[list-item]
    assert isinstance(runner, RunnerWrapper)


class Reversed(Raises):
    def rerun(self, programs: Any) -> Any:
        return super().rerun(programs[::-1])


class Wrapped(RunnerWrapper):
    def __init__(self, bench: Any, *, timing: Any, cores: Any, max_memory: Any) -> None:
        super().__init__(Sound(bench, timing=timing, cores=cores, max_memory=max_memory))

    def rerun(self, programs: Any) -> Any:
        return self.inner.rerun(programs)


@pytest.mark.parametrize(
    ("factory", "expected"),
    [
        (Sound, ""),
        (Reversed, ""),
        (Stuck, ""),
        (Raises, "runner 'mine' changes run() but not rerun(), which times the finalists"),
        (Wrapped, "runner 'mine' changes rerun() but not run(), which times the trials"),
    ],
)
def test_a_runner_that_changes_one_of_the_two_methods_alone_is_known(factory: Any, expected: str) -> None:
    assert checked(factory).uneven == expected


def test_an_error_of_a_runner_has_its_line() -> None:
    message = line_of('raise KeyError("x")') + r"runner 'mine': run\(\) raised KeyError: 'x'; .*pegbox.measure.Failed"
    with pytest.raises(MeasureError, match=message):
        checked(Raises).run(None)  # type: ignore[arg-type]


def test_an_interrupt_that_fails_has_its_line() -> None:
    message = line_of('raise OSError("no answer")') + r"runner 'mine': interrupt\(\) raised OSError: no answer"
    with pytest.raises(MeasureError, match=message):
        checked(Stuck).interrupt()


def test_a_runner_that_cannot_be_ended_costs_no_result() -> None:
    measurer = LocalMeasurer(AddingTask(), runner=Stuck)  # type: ignore[arg-type]
    assert measurer.remeasure([]) == []  # the runner is there now
    with pytest.warns(RuntimeWarning) as warned:
        measurer.close()
    first, second = (str(each.message) for each in warned)
    assert "runner 'Stuck': interrupt() raised OSError: no answer" in first
    assert "runner 'Stuck': close() raised OSError: gone" in second


@pytest.mark.parametrize("given", [None, 0.001, Ok(0.001), Ok(()), (1.0,)])  # type: ignore[arg-type]
def test_what_is_no_result_is_reported(given: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Gives, "given", given)
    with pytest.raises(MeasureError, match=rf"test_runner_call\.py:\d+: runner 'mine': run\(\) gave .*; {RESULT}"):
        checked(Gives).run(None)  # type: ignore[arg-type]
    with pytest.raises(
        MeasureError, match=r"runner 'mine': rerun\(\) gave .* for 2 programs; return a list of as many"
    ):
        checked(Gives).rerun([None, None])  # type: ignore[list-item]


def test_run_has_to_take_the_best() -> None:
    with pytest.raises(MeasureError, match=r"runner 'mine': run\(\) cannot be called as run\(program, best=seconds\)"):
        checked(WithoutBest)


def test_what_is_not_a_runner_is_refused() -> None:
    with pytest.raises(MeasureError, match=r"'mine' made a Halves instead of a pegbox.measure.Runner; derive it"):
        checked(Halves)


def test_a_runner_without_its_methods_is_refused() -> None:
    class Half(Runner):
        def __init__(self, bench: Any, *, timing: Any, cores: Any, max_memory: Any) -> None: ...

        def run(self, program: Any, *, best: float = 1.0) -> Any: ...

    with pytest.raises(MeasureError, match=r"'mine': its factory raised TypeError: .*rerun"):
        checked(Half)


@pytest.mark.parametrize(("factory", "other"), [(BenchAlone, ""), (Tuner, "; this is a tuner: give it as tuner=")])
def test_a_factory_of_another_form_is_refused_before_anything_runs(factory: Any, other: str) -> None:
    message = (
        r"runner 'mine' cannot be made as factory\(bench, \*, timing, cores, max_memory\): .*signature is .*" + other
    )
    with pytest.raises(ArgumentError, match=message):
        check_runner_factory("mine", factory)
    with pytest.raises(ArgumentError, match=f"runner '{factory.__name__}' cannot be made"):
        LocalMeasurer(AddingTask(), runner=factory)  # type: ignore[arg-type]
