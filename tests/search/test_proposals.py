"""The mistakes of tuners, and their consequences."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from pegbox.errors import ArgumentError, TuningError
from pegbox.measure.result import Result
from pegbox.search import ModelReport, PriorTrials, SearchOptions, TuneResult, run
from pegbox.search.loop.proposals import MAX_STALE_ASKS, REPEATED, SURPLUS, Proposer, SearchFailure, first_fault
from pegbox.search.testing import ArtificialMeasurer, constrained_space, matmul_space, result_of, small_space
from pegbox.space import Config, ConfigSpace, ListedSpace

SPACE = small_space()
ALL = list(SPACE.iterate())


class Scripted:
    """Answers each ask with what it was given for it."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.told: list[list[Config]] = []

    def ask(self, n: int) -> Any:
        answer = self.answers.pop(0) if self.answers else []
        return answer() if callable(answer) else answer

    def tell(self, configs: Sequence[Config], results: Sequence[Result]) -> None:
        self.told.append(list(configs))


def search(*answers: Any, **options: Any) -> TuneResult:
    given = {name: options.pop(name) for name in ("first", "finalists") if name in options}
    batch = options.pop("batch_size", 4)
    settings = SearchOptions(trials=options.pop("trials", 12), batch_size=batch, name="mine", **given)
    prior = PriorTrials(options.pop("history", ()))
    measurer = ArtificialMeasurer(lambda config: 1.0 + config.index)
    return run(Scripted(*answers), measurer, settings, prior=prior, **{"space": SPACE, **options})


# --- answers that are not quite right --------------------------------------------------------------------------------


def test_repetitions_are_measured_once_and_counted() -> None:
    a, b, c, d = ALL[:4]
    with pytest.warns(RuntimeWarning, match="proposed nothing after 4 configurations, although the space has more"):
        result = search([a, a, b], [b, c], [a, d, d])
    assert [trial.config for trial in result.trials] == [a, b, c, d]
    assert result.dropped == {REPEATED: 4}
    assert "proposals not measured: 4 repeated" in str(result)


def test_more_than_was_asked_for_is_cut_and_counted() -> None:
    result = search(ALL[:10], ALL[10:14], ALL[14:20])
    assert [trial.config for trial in result.trials] == [*ALL[:4], *ALL[10:14], *ALL[14:18]]
    assert result.dropped == {SURPLUS: 8}


def test_fewer_than_was_asked_for_are_measured() -> None:
    result = search(ALL[:1], ALL[1:4], ALL[4:8], ALL[8:12])
    assert len(result.trials) == 12
    assert result.dropped == {}
    assert "left out" not in str(result)


def test_a_generator_will_do() -> None:
    result = search(lambda: (config for config in ALL[:4]), ALL[4:8], ALL[8:12])
    assert len(result.trials) == 12


def test_nothing_from_a_space_that_has_more_ends_the_search_with_a_warning() -> None:
    with pytest.warns(RuntimeWarning, match=r"tuner 'mine' proposed nothing after 4 configurations"):
        result = search(ALL[:4], [])
    assert result.stopped_because == "exhausted"


@pytest.mark.parametrize("part", [ALL, ALL[:9]])
def test_nothing_from_a_space_that_has_no_more_is_as_it_should_be(part: list[Config], recwarn: Any) -> None:
    searched = ListedSpace(SPACE, np.array([config.digits for config in part]))
    result = search(part, trials=100, batch_size=100, searched=searched)
    assert (result.stopped_because, len(result.trials)) == ("exhausted", len(part))
    assert not recwarn


def test_history_counts_as_seen(recwarn: Any) -> None:
    history = [(config, result_of(1.0)) for config in ALL[4:]]
    assert len(search(ALL[:4], trials=100, history=history).trials) == 4
    assert not recwarn


def test_a_tuner_may_repeat_itself_for_a_while() -> None:
    tuner = Scripted(ALL[:2], ALL[:2], ALL[:1] * 3, ALL[2:4])
    proposer = Proposer(tuner, "mine", space=SPACE)
    first = proposer.ask(2)
    proposer.tell(first, [result_of(1.0), result_of(2.0)])
    assert proposer.ask(2) == ALL[2:4]
    assert tuner.told == [ALL[:2], ALL[:2], ALL[:1]]  # it was told again what is known
    assert proposer.dropped[REPEATED] == 5


def test_what_was_asked_for_and_not_told_yet_is_not_handed_out_again() -> None:
    proposer = Proposer(Scripted(ALL[:2], ALL[1:3]), "mine", space=SPACE)
    assert proposer.ask(2) + proposer.ask(2) == ALL[:3]


def test_a_tuner_that_only_repeats_what_it_was_asked_for_is_broken() -> None:
    proposer = Proposer(Scripted(*[ALL[:2]] * 20), "mine", space=SPACE)
    proposer.ask(2)
    with pytest.raises(
        SearchFailure, match=rf"'mine' proposed only .* {MAX_STALE_ASKS} times in a row .the last: #0 tile"
    ):
        proposer.ask(2)


# --- configurations that come first ----------------------------------------------------------------------------------


def test_first_configurations_come_before_those_of_the_tuner_and_count_as_trials() -> None:
    result = search(ALL[:4], ALL[4:8], ALL[8:12], first=[ALL[20], ALL[21], ALL[20]])
    assert [trial.config for trial in result.trials][:4] == [ALL[20], ALL[21], *ALL[:2]]
    assert len(result.trials) == 12
    assert result.dropped == {SURPLUS: 2}


def test_a_tuner_that_proposes_a_first_configuration_too_has_not_repeated_itself() -> None:
    result = search(ALL[:3], ALL[4:8], ALL[8:12], trials=11, first=[ALL[1]])
    assert [trial.config for trial in result.trials][:3] == [ALL[1], ALL[0], ALL[2]]
    assert result.dropped == {}


def test_of_each_answer_candidates_of_one_thread_come_first() -> None:
    space = ConfigSpace()
    space.define_knob("tile", [1, 2, 3])
    space.define_knob("threads", [1, 4])
    given = [space.get(index) for index in range(len(space))][::-1]
    result = search(given[:4], given[4:], trials=6, space=space)
    asked = [[trial.config["threads"].val for trial in result.trials][:4], [trial.config for trial in result.trials]]
    assert asked[0] == sorted(config["threads"].val for config in given[:4])
    assert set(asked[1][:4]) == set(given[:4])


def test_first_configurations_that_are_known_are_not_measured_again() -> None:
    result = search(ALL[:4], trials=4, first=[ALL[5]], history=[(ALL[5], result_of(1.0))])
    assert [trial.config for trial in result.trials] == ALL[:4]


def test_more_first_configurations_than_trials_are_cut() -> None:
    result = search(trials=2, batch_size=8, first=ALL[:5])
    assert [trial.config for trial in result.trials] == ALL[:2]


@pytest.mark.parametrize(
    ("first", "message"),
    [
        (3, "first=3 is not a list; give configurations of the task's space"),
        ([{"tile": 1}], "at place 0 of the list; give configurations of the task's space"),
    ],
)
def test_first_configurations_that_are_none_are_refused(first: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        search(first=first)


def test_first_configurations_of_another_space_are_refused() -> None:
    with pytest.raises(ArgumentError, match=r"first\[1\] is a configuration of another space"):
        search(first=[ALL[0], matmul_space().get(0)])


def test_a_first_configuration_is_a_finalist_however_slow_it_was() -> None:
    result = search(ALL[:4], trials=4, first=[ALL[9]])
    assert [trial.config for trial in result.finalists] == [ALL[0], ALL[9]]
    assert search(ALL[:4], trials=4, first=[ALL[9]], finalists=0).finalists == ()


# --- answers that are wrong ------------------------------------------------------------------------------------------


def other_space() -> ConfigSpace:
    space = ConfigSpace()
    space.define_knob("unroll", [0, 16])
    return space


def missing_knob() -> Config:
    return Config(SPACE, (0, 0, 2))  # panel does not exist where layout is plain


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (None, r"gave None for ask\(4\); return a list"),
        (7, r"gave 7 for ask\(4\)"),
        (["grid"], "proposed 'grid', which is not a Config"),
        ([ALL[0], ALL[1].digits], r"proposed \(1, 0, 0\), which is not a Config; take them from space\.config"),
        (np.zeros((2, 3), dtype=np.int64), r"proposed array\(\[0, 0, 0\]\), which is not a Config"),
        ([other_space().get(1)], "proposed a configuration of another space: #1 unroll=16"),
        ([Config(SPACE, (0, 0))], "proposed a configuration with 2 digits for 3 knobs"),
        ([Config(SPACE, (99, 0, 0))], r".* that the space excludes: digits \(99, 0, 0\) \(outside its knobs\)"),
        ([missing_knob()], r".* that the space excludes: .*knobs that do not exist in it must have digit 0"),
        (lambda: 1 // 0, r"raised ZeroDivisionError in ask\(4\): integer division"),
        (lambda: (1 // 0 for _ in ALL), r"raised ZeroDivisionError in ask\(4\)"),
    ],
)
def test_wrong_answers_name_the_tuner_and_lose_nothing(answer: Any, message: str) -> None:
    with pytest.raises(TuningError, match=f"tuner 'mine' {message}") as caught:
        search(ALL[:4], answer)
    assert [trial.config for trial in caught.value.result.trials] == ALL[:4]
    assert caught.value.result.stopped_because == "error"


def test_what_the_space_excludes_is_shown_with_the_reason() -> None:
    space = constrained_space()
    bad = next(config for config in map(space.get, range(space.size)) if space.violated(config))
    with pytest.raises(TuningError, match=r"excludes: #0 .*\(the register tile holds 8 to 28 vectors\)"):
        search([bad], space=space)


def test_a_list_excludes_what_it_does_not_list() -> None:
    listed = ListedSpace(SPACE, np.array([config.digits for config in ALL[:9]]))
    with pytest.raises(TuningError, match=r"excludes: .*\(it is one of the 9 listed configs\)"):
        search(ALL[9:12], space=listed)


class Reporting(Scripted):
    def __init__(self, report: Callable[[], Any]) -> None:
        super().__init__(ALL[:4], ALL[4:8], ALL[8:12])
        self.report = report

    def model_report(self) -> Any:
        return self.report()


def report_of(report: Callable[[], Any]) -> TuneResult:
    return run(
        Reporting(report), ArtificialMeasurer(lambda config: 1.0), SearchOptions(trials=12, batch_size=4, name="mine")
    )


def test_the_report_of_the_model_reaches_the_result() -> None:
    report = ModelReport(4, 6, 0.75)
    assert report_of(lambda: report).model == report
    assert report_of(lambda: None).model is None


@pytest.mark.parametrize(
    ("report", "message"),
    [
        (lambda: 1 // 0, r"raised ZeroDivisionError in model_report\(\)"),
        (lambda: 0.75, r"gave 0\.75 for model_report\(\); return a ModelReport or None"),
    ],
)
def test_a_wrong_report_loses_nothing(report: Callable[[], Any], message: str) -> None:
    with pytest.raises(TuningError, match=f"tuner 'mine' {message}") as caught:
        report_of(report)
    assert len(caught.value.result.trials) == 4


def test_the_first_fault_has_its_place() -> None:
    assert first_fault(ALL[:3], SPACE) is None
    assert first_fault([], SPACE) is None
    fault = first_fault([*ALL[:2], matmul_space().get(0)], SPACE)
    assert fault is not None
    assert fault[0] == 2
    assert first_fault([matmul_space().get(0)], None) is None
