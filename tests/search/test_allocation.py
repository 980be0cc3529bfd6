"""Which task is searched next: in turn, or by the gradient of the whole program's time."""

from __future__ import annotations

import pytest

from pegbox.errors import ArgumentError
from pegbox.search.allocation import UNKNOWN, GradientAllocation, Progress, RoundRobin


def test_in_turn_leaves_out_those_that_are_exhausted() -> None:
    tasks = [Progress(), Progress(exhausted=True), Progress()]
    turn = RoundRobin()
    assert [turn.next(tasks) for _ in range(4)] == [0, 2, 0, 2]
    assert turn.next([Progress(exhausted=True)]) is None


def test_each_task_has_a_round_first() -> None:
    tasks = [Progress(best=[1.0]), Progress(), Progress()]
    assert GradientAllocation().next(tasks) == 1
    tasks[1].best.append(1e-9)
    assert GradientAllocation().next(tasks) == 2


def test_first_rounds_that_can_wait_take_turns_with_later_rounds() -> None:
    tasks = [Progress(), *(Progress(can_wait=True) for _ in range(3))]
    order = []
    for _ in range(7):
        order.append(number := GradientAllocation().next(tasks))
        assert number is not None
        tasks[number].best.append(1.0 / (len(tasks[number].best) + 1) if number == 0 else 1e-9)
    assert order == [0, 1, 0, 2, 0, 3, 0]


def test_tasks_that_can_wait_begin_where_nothing_else_is_left() -> None:
    tasks = [Progress(best=[1.0], exhausted=True), Progress(best=[1.0], can_wait=True, exhausted=True)]
    assert GradientAllocation().next([*tasks, Progress(can_wait=True)]) == 2


def test_the_slowest_task_is_next_where_all_have_had_as_much() -> None:
    assert GradientAllocation().next([Progress(best=[1.0]), Progress(best=[3.0]), Progress(best=[2.0])]) == 1


def test_what_a_task_weighs_in_the_total_counts() -> None:
    tasks = [Progress(best=[1.0]), Progress(best=[3.0])]
    assert GradientAllocation(lambda costs: 10 * costs[0] + costs[1]).next(tasks) == 0
    assert GradientAllocation(lambda costs: costs[0]).next(tasks) == 0
    assert GradientAllocation(lambda costs: costs[0]).gradient(tasks, 1) == 0


def test_a_task_that_has_stopped_gaining_gives_way_to_one_that_gains() -> None:
    still, gaining = Progress(best=[2.0] * 6), Progress(best=[8.0, 6.0, 5.0, 4.0, 3.0, 2.0])
    allocation = GradientAllocation()
    assert allocation.next([still, gaining]) == 1
    # The last three rounds gained 1 s each, the mean round so far 2 / 6 s.
    assert allocation.gradient([still, gaining], 1) == pytest.approx(0.2 * -1.0 + 0.8 * -2.0 / 6)
    assert allocation.gradient([still, gaining], 0) == pytest.approx(0.8 * -2.0 / 6)


def test_a_task_far_behind_a_similar_one_is_expected_to_catch_up() -> None:
    fast = Progress(flop=1e9, best=[0.01] * 8, similar="conv")
    slow = Progress(flop=1e9, best=[1.0] * 8, similar="conv")
    alone = Progress(flop=1e9, best=[1.1] * 8)
    allocation = GradientAllocation()
    assert allocation.next([fast, slow, alone]) == 1
    assert allocation.gradient([fast, slow, alone], 1) == pytest.approx(0.8 * (2.0 * 0.01 - 1.0))
    assert allocation.next([fast, Progress(flop=1e9, best=[1.0] * 8), alone]) == 2


def test_a_task_of_which_nothing_ran_comes_first() -> None:
    assert GradientAllocation().next([Progress(best=[1.0]), Progress(best=[float("inf")])]) == 1
    assert Progress(best=[float("inf")]).cost == UNKNOWN


def test_exhausted_tasks_get_no_more() -> None:
    assert GradientAllocation().next([Progress(best=[9.0], exhausted=True), Progress(best=[1.0])]) == 1
    assert GradientAllocation().next([Progress(exhausted=True)]) is None


@pytest.mark.parametrize("options", [{"alpha": 2.0}, {"beta": -1.0}, {"window": 0}])
def test_options_outside_their_domain_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(ArgumentError, match=next(iter(options))):
        GradientAllocation(**options)  # type: ignore[arg-type]
