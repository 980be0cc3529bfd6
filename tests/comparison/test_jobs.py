"""Runs of a simulated comparison are made side by side: the results are those of one run after the other."""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

import pytest
from comparisons import FakeTask, InOrder, by_index, compared

from pegbox.comparison import progress, run_job
from pegbox.comparison.arguments import read_tuners
from pegbox.comparison.benchmark import open_benchmark
from pegbox.comparison.experiment import Experiment, Plan, RunSpec
from pegbox.comparison.payload import pack, unpack
from pegbox.comparison.pool import CompletedRuns
from pegbox.comparison.run_job import CompletedRun
from pegbox.comparison.runs import Run
from pegbox.errors import ArgumentError, ComparisonError, MeasureError, PluginError, TuningError
from pegbox.hooks import refs, registry
from pegbox.hooks.sources import imported_names
from pegbox.measure.result import Ok
from pegbox.records.recorded_space import RecordedSpace
from pegbox.search import Comparison, ComparisonInterrupted
from pegbox.search.objective import Objective
from pegbox.search.testing import small_space
from pegbox.space import Config, ConfigSpace


def recorded() -> RecordedSpace:
    space = small_space()
    results = {config: Ok((by_index(config),), total_seconds=7.0) for config in list(space.iterate())[::2]}
    return RecordedSpace("recorded", space, results, flop=1e9)


def simulated(tuners: Any = ("random", "ga"), **options: Any) -> Comparison:
    return compared(tuners, options.pop("tasks", None) or recorded(), **{"measurer": None, **options})


def results(report: Comparison) -> list[Run]:
    """The runs without what the clock says."""
    return [replace(run, seconds=0.0, tuner_seconds=0.0, run_queue_wait=0.0) for run in report.runs]


@pytest.fixture(autouse=True)
def as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Payloads that are unpacked here, and not in a process of their own, leave this one's imports as they were."""
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    monkeypatch.setattr(refs, "_ADOPTED", {})


class HerePool:
    """Makes runs in this process when they are asked for, and keeps the payload."""

    def __init__(self, jobs: int, payload: bytes) -> None:
        self.jobs, self.closed = jobs, False
        self.asked: list[RunSpec] = []
        run_job.prepare(payload)

    def submit(self, spec: RunSpec) -> Future[bytes]:
        self.asked.append(spec)
        answer: Future[bytes] = Future()
        answer.set_result(run_job.run(spec))
        return answer

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> list[HerePool]:
    """The pools that comparisons open: none of them starts a process."""
    opened: list[HerePool] = []

    def opens(jobs: Any, payload: bytes) -> HerePool:
        opened.append(HerePool(jobs, payload))
        return opened[-1]

    monkeypatch.setattr(progress, "open_pool", opens)
    for name in run_job.ONE_THREAD:
        monkeypatch.setenv(name, "1")  # else they would stay
    return opened


@pytest.mark.filterwarnings("ignore:jobs=2, but this process")
def test_processes_give_the_results_of_one_run_after_the_other(capfd: pytest.CaptureFixture[str]) -> None:
    class Talks(InOrder):
        def tell(self, configs: Any, results: Any) -> None:
            print(f"told in {os.getpid()}")
            warnings.warn("careful", UserWarning, stacklevel=1)
            super().tell(configs, results)

    def backwards(space: ConfigSpace, *, seed: int = 0) -> Talks:
        return Talks(space, seed=seed, backwards=True)

    registry.register("tuner", "registered_here", Talks, owner="this test")
    try:
        tuners = {"named": "registered_here", "closure": backwards, "ga": "ga:population=4,elite=1"}
        with pytest.warns(UserWarning, match="careful"):
            one = simulated(tuners, seeds=[3, 0, 1])
        capfd.readouterr()
        lines: list[tuple[int, int]] = []
        with pytest.warns(UserWarning, match="careful") as warned:
            two = simulated(tuners, seeds=[3, 0, 1], jobs=2, on_run=lambda run, task, n, of: lines.append((n, of)))
    finally:
        registry.unregister("tuner", "registered_here", owner="this test")
    assert results(two) == results(one)
    assert [run.seed for run in two.runs] == [3, 0, 1] * 3
    assert (one.setup.jobs, two.setup.jobs) == (1, 2)
    assert "2 runs at a time" in str(two)
    assert lines == [(n, 9) for n in range(1, 10)]
    assert [str(each.message) for each in warned].count("careful") == 1
    pids = set(capfd.readouterr().err.split("told in ")[1:])
    assert 1 <= len(pids) <= 2
    assert str(os.getpid()) not in {pid.strip() for pid in pids}


@pytest.mark.filterwarnings("ignore:jobs=2, but this process")
def test_a_tuner_that_ends_its_process_is_named_and_the_others_runs_are_kept() -> None:
    class Ends(InOrder):
        def ask(self, n: int) -> list[Config]:
            os.kill(os.getpid(), signal.SIGKILL)
            return []

    with pytest.raises(ComparisonError, match="recorded, seed 0, Ends: the process of the run was killed") as broken:
        simulated(["random", Ends], seeds=1, jobs=2)
    assert "SIGKILL" in str(broken.value)
    assert [run.tuner for run in broken.value.result.runs] == ["random"]


def test_a_tuner_that_breaks_is_reported_with_its_seed_and_line(here: list[HerePool]) -> None:
    class Breaks(InOrder):
        def __init__(self, space: ConfigSpace, *, seed: int = 0) -> None:
            super().__init__(space, seed=seed)
            self.seed = seed

        def ask(self, n: int) -> list[Config]:
            if self.seed:
                raise ZeroDivisionError("out of ideas")
            return super().ask(n)

    messages = []
    for jobs in (1, 2):
        with pytest.raises(ComparisonError) as broken:
            simulated(["random", Breaks], seeds=3, jobs=jobs)
        messages.append(str(broken.value).partition("; the report")[0])
        assert {(run.tuner, run.seed) for run in broken.value.result.runs} >= {("random", 0), ("Breaks", 0)}
        assert isinstance(broken.value.__cause__, TuningError)
        assert broken.value.__cause__.result.trials  # the common start
    assert "recorded, seed 1, Breaks: " in messages[0]
    assert "test_jobs.py:" in messages[0]
    assert messages[1] == messages[0]
    assert here[0].closed
    assert "out of ideas" in str(broken.value.__cause__.__cause__)


def test_ctrl_c_keeps_the_finished_runs_and_closes_the_pool(here: list[HerePool]) -> None:
    def interrupt(run: Run, task: object, number: int, planned: int) -> None:
        if number == 2:
            raise KeyboardInterrupt

    with pytest.raises(ComparisonInterrupted) as stopped:
        simulated(jobs=2, seeds=3, on_run=interrupt)
    assert len(stopped.value.result.runs) == 2
    assert here[0].closed


def test_a_cluster_that_goes_away_costs_no_finished_run(here: list[HerePool], monkeypatch: pytest.MonkeyPatch) -> None:
    class Gone(HerePool):
        @property
        def jobs(self) -> int:
            if len(self.asked) > 3:
                raise MeasureError("the scheduler is gone")
            return 2

        @jobs.setter
        def jobs(self, value: int) -> None: ...

    monkeypatch.setattr(progress, "open_pool", Gone)
    with pytest.raises(ComparisonError, match="the scheduler is gone; the report of the 4 of 8 runs") as error:
        simulated(jobs=2, seeds=4)
    assert len(error.value.result.runs) == 4


def test_processes_that_cannot_start_end_the_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise MeasureError("no more processes")

    monkeypatch.setattr("pegbox.comparison.pool.Worker", full)
    monkeypatch.setattr("pegbox.comparison.pool.usable_cores", lambda: (0, 1))
    with pytest.raises(ComparisonError, match="recorded, seed 0, random: no more processes"):
        simulated(jobs=2, seeds=4)


def test_no_more_runs_are_made_at_a_time_than_there_are(here: list[HerePool]) -> None:
    assert simulated(seeds=2, jobs=50).setup.jobs == 4


def test_a_pure_function_is_called_side_by_side_and_its_winners_here(here: list[HerePool]) -> None:
    one, two = (simulated(tasks=Objective(by_index, small_space(), pure=True), jobs=jobs) for jobs in (1, 2))
    assert results(one) == results(two)
    assert len(here) == 1


def test_several_recorded_spaces_are_compared_side_by_side(here: list[HerePool]) -> None:
    tasks = [recorded(), recorded()]
    tasks[1].name = "other"
    assert results(simulated(tasks=tasks, jobs=3)) == results(simulated(tasks=tasks))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"jobs": 0}, "jobs=0 is out of range"),
        ({"jobs": -2}, "jobs=-2 is out of range"),
        ({"jobs": True}, "jobs=True is not an integer"),
        ({"jobs": 2.5}, "jobs=2.5: give a number of processes"),
        ({"jobs": None}, "jobs=None: give a number of processes, 'auto'"),
        ({"jobs": "2"}, "jobs='2': give a number of processes, 'auto'"),
        ({"jobs": "two"}, "jobs='two': give a number of processes, 'auto'.*dask:scheduler="),
        ({"jobs": "local"}, "jobs='local': this runner has no machines"),
        ({"jobs": "dask"}, "name the cluster"),
        ({"jobs": 2, "callbacks": lambda *_: []}, "callbacks run in this process"),
        ({"jobs": 2, "tasks": Objective(by_index, small_space())}, r"by_index may time something.*pure=True"),
        ({"jobs": 2, "measurer": object, "tasks": FakeTask()}, "job is measured, and a timed run must be alone"),
    ],
)
def test_what_cannot_be_made_side_by_side_is_refused(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ArgumentError, match=said):
        simulated(**wrong)


def test_auto_is_one_process_for_each_core_and_none_where_something_is_timed(
    here: list[HerePool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pegbox.comparison.pool.usable_cores", lambda: (0, 1, 2))
    assert simulated(jobs="auto").setup.jobs == 3
    assert compared(jobs="auto").setup.jobs == 1
    assert len(here) == 1


def test_more_processes_than_cores_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    from pegbox.comparison import pool

    monkeypatch.setattr(pool, "usable_cores", lambda: (0,))
    with pytest.warns(RuntimeWarning, match="jobs=3, but this process may use 1 core: "):
        pool.open_pool(3, b"").close()


# --- payloads ---------------------------------------------------------------------------------------------------------


def planned(tuners: Any, task: Any = None) -> Experiment:
    benchmark = open_benchmark("recorded", task or recorded(), measurer=None, runner="local")
    return Experiment(Plan(read_tuners(tuners), (0,), trials=5), {"recorded": benchmark})


def made(experiment: Experiment, tuner: str = "", seed: int = 0) -> Run:
    return experiment.run(RunSpec("recorded", tuner or next(iter(experiment.plan.tuners)), seed))


def test_code_of_a_script_travels() -> None:
    scope: dict[str, Any] = {"InOrder": InOrder, "__name__": "__main__"}
    exec("class Mine(InOrder):\n    pass\nmine = lambda space, *, seed=0: Mine(space, seed=seed)", scope)
    there = unpack(pack(planned({"class": scope["Mine"], "lambda": scope["mine"]})))
    one, two = (made(there, tuner) for tuner in there.plan.tuners)
    assert len(one.curve) == 5
    assert one.curve == two.curve


def test_constraints_travel_though_they_are_lambdas() -> None:
    space = ConfigSpace()
    space.define_knob("a", [1, 2, 3])
    space.add_constraint(lambda config: config["a"].val > 1, reads=("a",), message="above 1")
    whole = RecordedSpace("few", space, {config: Ok((1.0,)) for config in space.iterate()})
    there = unpack(pack(planned(["random"], whole))).benchmarks["recorded"].problem
    assert [config["a"].val for config in there.task.space.iterate()] == [2, 3]


def test_what_cannot_leave_the_process_is_reported_before_the_first_run() -> None:
    lock = threading.Lock()

    def locked(space: ConfigSpace, *, seed: int = 0) -> InOrder:
        with lock:
            return InOrder(space, seed=seed)

    with pytest.raises(ArgumentError, match=r"tuner 'locked' cannot be sent to another process \(TypeError: .*jobs=1"):
        simulated([locked], jobs=2)


def test_a_module_that_is_not_there_is_reported_with_the_tuner(monkeypatch: pytest.MonkeyPatch) -> None:
    module = type(sys)("only_here")
    exec("def tuner(space, *, seed=0): ...", vars(module))
    monkeypatch.setitem(sys.modules, "only_here", module)
    payload = pack(planned([vars(module)["tuner"]]))
    monkeypatch.delitem(sys.modules, "only_here")
    words = r"tuner 'tuner' cannot be made in another process, on .*only_here.*file\.py:NAME"
    with pytest.raises(PluginError, match=words):
        unpack(payload)


OWN = """
from beside import answer
from pegbox.tuners.random import RandomTuner

class Own(RandomTuner):
    def __init__(self, space, *, seed=0):
        super().__init__(space, seed=answer())

class Late(RandomTuner):
    def ask(self, *given):
        from late.inner import (
            chosen as first, second,
        )
        import later
        return first(super().ask(*given))[:later.count]
"""
LATE = """
def second(): pass
def chosen(configs):
    from . import order
    return order.backwards(configs)
"""


MODEL = """
from pegbox.tuners.cost_models.ridge import RidgeCostModel

class Model(RidgeCostModel):
    pass
"""


@pytest.fixture
def elsewhere(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """This process is in a folder with modules of the user's; a call makes it one where others have their names."""
    names = set(sys.modules)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    monkeypatch.setattr(refs, "_ADOPTED", {})
    for folder, seed in (("here", 7), ("there", 8)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "mine.py").write_text(OWN if folder == "here" else "print('another program')")
        (tmp_path / folder / "beside.py").write_text(f"def answer(): return {seed}")
    (tmp_path / "here" / "model.py").write_text(MODEL)
    (tmp_path / "here" / "later.py").write_text("count = 2")
    (tmp_path / "here" / "late").mkdir()
    (tmp_path / "here" / "late" / "inner.py").write_text(LATE)
    (tmp_path / "here" / "late" / "order.py").write_text("def backwards(values): return values[::-1]")

    def forget() -> None:
        for name in set(sys.modules) - names:
            del sys.modules[name]

    def moved() -> None:
        forget()
        monkeypatch.chdir(tmp_path / "there")
        monkeypatch.setattr(sys, "path", [str(tmp_path / "there"), *sys.path[1:]])

    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.syspath_prepend(str(tmp_path / "here"))
    yield moved
    forget()


@pytest.mark.parametrize("given", ["mine.py:Own", "mine:Own", "class"])
def test_a_module_of_the_user_travels_with_what_it_imports(given: str, elsewhere: Callable[[], None]) -> None:
    here = planned([__import__("mine").Own if given == "class" else given])
    here.rehearse()
    wanted, payload = made(here, seed=3).curve, pack(here)
    elsewhere()
    assert made(unpack(payload), seed=3).curve == wanted


def test_what_functions_of_a_module_import_travels_though_none_has_been_called(elsewhere: Callable[[], None]) -> None:
    payload = pack(planned([__import__("mine").Late]))
    assert not {"late", "later"} & set(sys.modules)
    elsewhere()
    assert len(made(unpack(payload), seed=3).curve) == 5


@pytest.mark.parametrize(
    ("text", "package", "names"),
    [
        ("import a, b.c as d", "", ["a", "b.c"]),
        ("  from a import b as c, d  # e", "", ["a", "a.b", "a.d"]),
        ("if x: import a; from b import c", "", ["a", "b", "b.c"]),
        ("from a import (\n  b,\n  c,\n)", "", ["a", "a.b", "a.c"]),
        (
            "from . import a\nfrom ..b import c\nfrom .d import e",
            "p.q",
            ["p.q", "p.q.a", "p.b", "p.b.c", "p.q.d", "p.q.d.e"],
        ),
        ("from a import *", "", ["a", "a.*"]),
        ("reimport = important = 1", "", []),
        ("%matplotlib inline\n!ls\nimport a", "", ["a"]),
    ],
)
def test_names_of_imports_are_read_from_text(text: str, package: str, names: list[str]) -> None:
    assert list(imported_names(text, package=package)) == names


def test_a_cost_model_in_a_file_travels(elsewhere: Callable[[], None]) -> None:
    here = planned(["xgb:cost_model=model.py:Model"])
    here.rehearse()
    payload = pack(here)
    elsewhere()
    assert len(made(unpack(payload)).curve) == 5


# --- completed runs ---------------------------------------------------------------------------------------------------


class Scripted:
    """A pool whose runs end when the test says so: at each look, those that `ends` names."""

    def __init__(self, replies: Callable[[RunSpec], CompletedRun | Exception], *, jobs: Iterator[int]) -> None:
        self._replies, self._jobs = replies, jobs
        self.asked: list[int] = []

    @property
    def jobs(self) -> int:
        return next(self._jobs)

    def submit(self, spec: RunSpec) -> Future[bytes]:
        self.asked.append(spec.seed)
        future: Future[bytes] = Future()
        reply = self._replies(spec)
        if isinstance(reply, Exception):
            future.set_exception(reply)
        else:
            future.set_result(pickle.dumps(reply))
        return future

    def close(self) -> None: ...


SPECS = [RunSpec("job", "walk", seed) for seed in range(8)]


def ones() -> Iterator[int]:
    while True:
        yield 1


def test_after_a_run_that_broke_no_other_begins() -> None:
    pool = Scripted(lambda spec: MeasureError("gone") if spec.seed in (2, 3) else CompletedRun(_run()), jobs=ones())
    ended = list(CompletedRuns(pool, SPECS))
    assert [spec.seed for spec, completed in ended if completed.run is None] == [2]
    assert ended[-1][1].reason == "gone"
    assert max(pool.asked) < 6


def test_machines_that_join_later_are_used() -> None:
    sizes = iter([1, 1, 1, *[4] * 100])
    pool = Scripted(lambda spec: CompletedRun(_run()), jobs=sizes)
    assert {spec.seed for spec, _ in CompletedRuns(pool, SPECS)} == set(range(8))


def _run() -> Run:
    return Run("job", "walk", 0, (1.0,), 1.0)
