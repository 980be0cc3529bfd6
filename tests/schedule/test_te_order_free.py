"""The calls on different stages, and a stage's place and its loops, may come in any order: the program is the same."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from te_values import check_values, stages

from pegbox import te
from pegbox.errors import ScheduleError
from pegbox.schedule.te.replay import lower_te

Call = Callable[[Any], None]


def _loop_calls(rng: random.Random, tensor: Any, fresh: dict[str, Any]) -> list[Call]:
    """Calls on the loops of one stage, which must stay in their order; `fresh` holds the loops that they make."""
    name, (i, j) = tensor.op.name, tensor.op.axis

    def split(axis: Any, label: str, factor: int) -> Call:
        def call(s: Any) -> None:
            fresh[f"{name}.{label}o"], fresh[f"{name}.{label}i"] = s[tensor].split(axis, factor=factor)

        return call

    def reorder(*labels: str) -> Call:
        return lambda s: s[tensor].reorder(*(fresh[f"{name}.{label}"] for label in labels))

    calls = [split(i, "i", rng.choice((2, 3, 4))), split(j, "j", rng.choice((2, 3, 5)))]
    if rng.random() < 0.7:
        calls.append(reorder("io", "jo", "ii", "ji"))
    if rng.random() < 0.5:
        calls.append(lambda s: s[tensor].vectorize(fresh[f"{name}.ji"]))
    if rng.random() < 0.3:
        calls.append(lambda s: s[tensor].unroll(fresh[f"{name}.ii"]))
    return calls


def _interleaved(rng: random.Random, chains: list[list[Call]]) -> list[Call]:
    rest = [list(chain) for chain in chains if chain]
    order: list[Call] = []
    while rest:
        chain = rng.choice(rest)
        order.append(chain.pop(0))
        rest = [c for c in rest if c]
    return order


def _programs(seed: int) -> set[str]:
    """Return the programs of a random schedule whose calls are mixed in several ways."""
    found = set()
    for mix in range(4):
        rng, mixer = random.Random(seed), random.Random(f"{seed}.{mix}")
        a, b, c, d = stages(12, 10)
        s = te.create_schedule(d.op)
        fresh: dict[str, Any] = {}
        chains = [_loop_calls(rng, t, fresh) for t in (b, c, d)]
        # The loop must be there before something is attached to it; all else is free.
        places: list[tuple[Any, Any, str]] = [(c, d, rng.choice(("io", "jo"))), (b, c, rng.choice(("io", "jo")))]
        for maker, reader, label in places:
            position = 1 if label == "io" else 2
            chain = chains[2 if reader is d else 1]
            place = mixer.randint(position, len(chain))
            chain.insert(
                place,
                lambda s, m=maker, r=reader, fresh=fresh, key=f"{reader.op.name}.{label}": s[m].compute_at(
                    s[r], fresh[key]
                ),
            )
        for call in _interleaved(mixer, chains):
            call(s)
        try:
            found.add(str(lower_te(s, [a, d])))
        except ScheduleError as refused:
            found.add(str(refused))
    return found


@pytest.mark.parametrize("seed", range(40))
def test_te_any_order_of_calls_gives_one_program(seed: int) -> None:
    assert len(_programs(seed)) == 1


def test_te_most_of_these_schedules_are_legal() -> None:
    texts = [next(iter(_programs(seed))) for seed in range(40)]
    assert sum(text.startswith("def main") for text in texts) > 30


@pytest.mark.parametrize("first", ["attach", "split"])
def test_te_a_place_is_given_before_or_after_the_stage_gets_its_loops(first: str) -> None:
    a, b, c, d = stages(6, 10)
    s = te.create_schedule(d.op)
    s[b].compute_inline()
    outer, _ = s[d].split(d.op.axis[1], factor=4)
    calls = [lambda: s[c].compute_at(s[d], outer), lambda: s[c].unroll(s[c].split(c.op.axis[1], factor=2)[1])]
    for call in calls if first == "attach" else reversed(calls):
        call()
    check_values(s, [a, d])
    assert "for j.inner in unrolled range(2)" in str(lower_te(s, [a, d]))


def test_te_the_last_place_of_a_stage_counts() -> None:
    a, b, c, d = stages()

    def program(*places: str) -> str:
        s = te.create_schedule(d.op)
        for place in places:
            if place == "at":
                s[c].compute_at(s[d], d.op.axis[0])
            else:
                getattr(s[c], f"compute_{place}")()
        check_values(s, [a, d])
        return str(lower_te(s, [a, d]))

    assert program("at", "inline", "root") == program()
    assert program("inline", "at") == program("at")
    assert program("at", "inline") == program("inline")
    del b
