"""Verdicts, and how they are said."""

from __future__ import annotations

import math

import pytest
from comparisons import made
from hypothesis import given
from hypothesis import strategies as st

from pegbox.comparison.sentences import p_text, sentences
from pegbox.comparison.verdicts import Question, Verdict, questions

INF = math.inf


def seeds(cost: float, *, count: int = 10) -> list[list[float]]:
    """Runs of four trials whose ends are near `cost`."""
    return [[9.0, 9.0, 9.0, cost + 0.001 * seed] for seed in range(count)]


def test_clear_differences_are_said_as_such_and_others_are_not() -> None:
    report = made({"xgb": seeds(1.0), "ga": seeds(1.0005), "random": seeds(2.0)})
    words = " ".join(report.words("job"))
    assert "xgb beats random at 4 trials (p < 0.0001)" in words
    assert "xgb and ga cannot be told apart (p = " in words
    assert "beats xgb" not in words
    assert "ga reaches 95% of the best known sooner than random (p < 0.0001)" in words


def test_earlier_budgets_are_asked_about_where_the_common_start_is_behind() -> None:
    assert questions(200, 1) == [
        Question("budget", 50),
        Question("budget", 100),
        Question("budget", 200),
        Question("target", 0.95),
    ]
    assert [question.at for question in questions(200, 60)] == [100, 200, 0.95]
    assert [question.at for question in questions(1, 1)] == [1, 0.95]


def test_at_an_earlier_budget_the_curves_count_and_at_the_end_the_final_measurements() -> None:
    report = made({"early": [[1.0, 1.0, 1.0, 1.0]] * 8, "late": [[5.0, 5.0, 5.0, 0.5]] * 8})
    by_budget = {v.question.at: v for v in report.verdicts() if v.question.kind == "budget"}
    assert (by_budget[2].better, by_budget[4].better) == ("early", "late")


def test_runs_that_never_reach_the_target_rank_behind_all_that_did() -> None:
    report = made({"never": [[9.0] * 4] * 8, "last": [[9.0, 9.0, 9.0, 1.0]] * 8})
    (verdict,) = [v for v in report.verdicts() if v.question.kind == "target"]
    assert (verdict.better, verdict.superiority, verdict.ratio) == ("last", 1.0, INF)
    assert verdict.decided


def test_nobody_reached_the_target_or_found_anything() -> None:
    report = made({"a": [[INF, INF]] * 6, "b": [[INF, INF]] * 6})
    assert all(v.p == 1.0 and v.ratio == 1.0 and not v.decided for v in report.verdicts())
    assert "a and b cannot be told apart at 2 trials (p = 1)." in report.words("job")
    assert "nothing valid was found" in report.table()


def test_holm_corrects_over_the_pairs_of_a_question() -> None:
    two = made({"a": seeds(1.0), "b": seeds(1.004)})
    four = made({"a": seeds(1.0), "b": seeds(1.004), "c": seeds(1.008), "d": seeds(1.012)})

    def final(report: object) -> Verdict:
        return next(v for v in report.verdicts() if v.question.at == 4 and {v.better, v.worse} == {"a", "b"})  # type: ignore[attr-defined]

    assert final(two).p == final(two).corrected == final(four).p
    assert final(four).corrected > final(four).p


def test_one_seed_gives_no_statistics_and_says_so() -> None:
    report = made({"a": [[1.0]], "b": [[2.0]]})
    assert report.verdicts() == []
    (words,) = report.words("job")
    assert words.startswith("One seed: no statistics.")
    assert "[" not in report.table().splitlines()[3]  # no interval


@pytest.mark.parametrize(("count", "said"), [(3, "0.1"), (4, None), (2, "0.33")])
def test_few_seeds_say_what_p_can_at_least_be(count: int, said: str | None) -> None:
    remark = made({"a": seeds(1.0, count=count), "b": seeds(2.0, count=count)}).words("job")[-1]
    if said is None:
        assert "p is at least" not in remark
    else:
        assert f"With {count} seeds p is at least {said}, so" in remark
        assert "take 4 seeds or more" in remark


def test_few_seeds_of_several_pairs_are_fewer_still() -> None:
    report = made({name: seeds(cost, count=4) for name, cost in (("a", 1.0), ("b", 2.0), ("c", 3.0))})
    assert "With 4 seeds p is at least 0.029 (0.086 when corrected for 3 pairs)" in report.words("job")[-1]


def test_one_tuner_is_compared_with_nothing() -> None:
    assert made({"a": seeds(1.0)}).words("job") == ["There is one tuner, so there is nothing to compare."]
    cut = made({"a": seeds(1.0), "b": [], "c": []}).words("job")
    assert cut == ["No run of b and c is finished: there is nothing to compare a with."]


def test_a_tuner_with_one_finished_seed_is_left_out_of_the_tests() -> None:
    report = made({"a": seeds(1.0), "b": seeds(2.0), "c": seeds(3.0, count=1)})
    assert {v.worse for v in report.verdicts()} == {"b"}
    assert "A tuner with one finished seed is left out of the tests." in report.words("job")


NAMES = ["a", "b", "c", "d", "e"]
PAIRS = [(x, y) for i, x in enumerate(NAMES) for y in NAMES[i + 1 :]]


@given(st.lists(st.booleans(), min_size=len(PAIRS), max_size=len(PAIRS)))
def test_every_pair_is_said_and_no_group_holds_two_that_differ(decided: list[bool]) -> None:
    verdicts = [
        Verdict("job", Question("budget", 9), x, y, 0.01, 0.01 if apart else 0.5, 0.9, 2.0)
        for (x, y), apart in zip(PAIRS, decided, strict=True)
    ]
    (sentence,) = sentences(verdicts, NAMES)
    said_together: set[tuple[str, str]] = set()
    for part in sentence.rstrip(".").split("; "):
        if "cannot be told apart" in part:
            group = part.partition(" cannot")[0].replace(" and ", ", ").split(", ")
            said_together |= {(x, y) for i, x in enumerate(group) for y in group[i + 1 :]}
    assert said_together == {pair for pair, apart in zip(PAIRS, decided, strict=True) if not apart}
    for (x, y), apart in zip(PAIRS, decided, strict=True):
        assert (f"{x} beats {y} at 9 trials (p = 0.01)" in sentence) == apart


@pytest.mark.parametrize(
    ("p", "text"), [(1.0, "p = 1"), (0.05234, "p = 0.052"), (0.000123, "p = 0.00012"), (1e-9, "p < 0.0001")]
)
def test_p_values_have_two_digits(p: float, text: str) -> None:
    assert p_text(p) == text
