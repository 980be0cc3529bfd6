from __future__ import annotations

import math

import pytest

from pegbox.errors import ArgumentError
from pegbox.measure.trial.timing import TimingPolicy, half_width


@pytest.mark.parametrize(
    "options",
    [{"timeout": 0}, {"timeout": math.nan}, {"repeats": 0}, {"repeats": 2.5}, {"min_repeat_ms": -1}, {"drop": 0.5},
     {"repeats": 30, "max_repeats": 20}],
)  # fmt: skip
def test_an_option_outside_its_domain_is_shown(options: dict[str, float]) -> None:
    with pytest.raises(ArgumentError, match="="):
        TimingPolicy(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize(("given", "wanted"), [(False, 0), (0, 0), (4096, 4096), (True, 64 << 20)])
def test_the_bytes_that_pass_through_the_caches(given: bool | int, wanted: int) -> None:
    assert TimingPolicy(flush_cache=given).flushed_bytes == wanted
    with pytest.raises(ArgumentError, match="flush_cache=-1"):
        TimingPolicy(flush_cache=-1)
    with pytest.raises(ArgumentError, match="fresh_inputs='A' is not a list; give names of inputs"):
        TimingPolicy(fresh_inputs="A")  # type: ignore[arg-type]


def test_a_timing_of_a_tiny_kernel_is_many_calls() -> None:
    policy = TimingPolicy(min_repeat_ms=5)
    assert policy.calls(15e-6) == 334
    assert policy.calls(9e-3) == 1
    assert TimingPolicy(flush_cache=True).calls(15e-6) == 1
    assert TimingPolicy(flush_cache=1 << 20).calls(15e-6) == 1
    assert TimingPolicy(flush_cache=0).calls(15e-6) > 1


def test_far_behind_means_twice_the_best_and_a_cold_call_is_forgiven_its_page_faults() -> None:
    policy = TimingPolicy()
    assert policy.far_behind(0.021, 0.01)
    assert not policy.far_behind(0.019, 0.01)
    assert not policy.far_behind(0.021, 0.01, cold=True)
    assert policy.far_behind(0.030, 0.01, cold=True)
    assert not policy.far_behind(1e6, math.inf)


def test_an_ordinary_candidate_gets_the_ordinary_repeats() -> None:
    policy = TimingPolicy(repeats=3)
    assert policy.wants_more([1.5, 1.7], 1.0, spent=0.0)
    assert not policy.wants_more([1.5, 1.7, 1.9], 1.0, spent=0.0)


def test_a_candidate_whose_fastest_timing_is_near_the_best_gets_the_benefit_of_the_doubt() -> None:
    policy = TimingPolicy()
    disturbed = [1.9, 1.02, 1.8]
    assert policy.wants_more(disturbed, 1.0, spent=0.0)
    assert not policy.wants_more([1.9, 1.7, 1.8], 1.0, spent=0.0)


def test_a_candidate_near_the_best_is_repeated_until_its_interval_is_tight() -> None:
    policy = TimingPolicy(repeats=3, max_repeats=10)
    assert policy.wants_more([1.0, 1.1, 1.05], 1.0, spent=0.0)
    assert not policy.wants_more([1.0, 1.01, 1.02], 1.0, spent=0.0)
    assert not policy.wants_more([1.0, 1.1] * 5, 1.0, spent=0.0)
    assert not policy.wants_more([1.0, 1.1, 1.05], 1.0, spent=policy.near_seconds)


def test_timings_stop_when_their_time_is_spent_but_never_before_the_first() -> None:
    policy = TimingPolicy(max_seconds=0.5)
    assert policy.wants_more([], 1.0, spent=9.0)
    assert not policy.wants_more([1.0], 1.0, spent=0.5)


def test_the_limit_of_a_first_call_follows_the_best_then_the_work_then_the_timeout() -> None:
    policy = TimingPolicy(timeout=10, hopeless=20, least_limit=0.3)
    assert policy.first_call_limit(0.1, flop=2e9) == pytest.approx(2.0)
    assert policy.first_call_limit(0.001, flop=2e9) == 0.3
    assert policy.first_call_limit(math.inf, flop=4e8) == pytest.approx(2.0)
    assert policy.first_call_limit(math.inf, flop=4e4) == 1.0
    assert policy.first_call_limit(math.inf, flop=1e15) == 10
    assert policy.first_call_limit(math.inf, flop=0) == 10


def test_one_interruption_does_not_widen_the_interval_of_many_timings() -> None:
    steady = [1.0 + 0.001 * (i % 5) for i in range(12)]
    assert half_width([*steady, 3.0]) < 0.01
    assert half_width([1.0, 3.0]) == pytest.approx(0.5)
    assert half_width([1.0]) == math.inf
