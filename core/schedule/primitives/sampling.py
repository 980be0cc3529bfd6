"""Primitives for random decisions, which the trace records: tile sizes, categories, places.

Drawn numbers can be used like any others. A trace records their origin: a replay with another decision gives later
steps the new numbers. The primitives are those of MetaSchedule (Shao et al., "Tensor Program Optimization with
Probabilistic Programs", NeurIPS 2022).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from random import Random

from pegbox.errors import ScheduleError
from pegbox.loops.nodes import For
from pegbox.schedule.analysis import written_buffers
from pegbox.schedule.primitives.compute_location import INLINE, ROOT, compute_at
from pegbox.schedule.primitives.inline import compute_inline
from pegbox.schedule.state.handles import BlockRef, LoopRef, SampledInt, SampledLoop
from pegbox.schedule.state.recording import primitive
from pegbox.schedule.state.schedule_state import ScheduleState
from pegbox.shown import value_text

MOST_FACTORS = 64


@primitive(any_block=True)
def sample_perfect_tile(
    sch: ScheduleState,
    loop: LoopRef,
    n: int,
    max_innermost_factor: int | None = 16,
    decision: Sequence[int] | None = None,
) -> list[SampledInt]:
    """Draw factors for `split` that divide the loop's extent: each list of factors is as likely as any other.

    Args:
        n: the number of factors.
        max_innermost_factor: the upper limit of the last factor; None for no limit.
        decision: the factors, if they are not to be drawn.

    On a loop of 64 iterations, `sample_perfect_tile(i, 2)` returns one of `[64, 1]`, `[32, 2]`, `[16, 4]`, `[8, 8]`,
    `[4, 16]`, each with a probability of one in five.

    Raises:
        ScheduleError: there is no such list, or the decision is not one of them.
    """
    old = sch.find_loop(loop)
    limit = old.extent if max_innermost_factor is None else max_innermost_factor
    if not 1 <= n <= MOST_FACTORS:
        raise ScheduleError(
            f"n = {value_text(n)} is not a number of factors", f"give a number from 1 to {MOST_FACTORS}"
        )
    if limit < 1:
        raise ScheduleError(f"max_innermost_factor = {limit} is not a factor", "give a number from 1 up")
    if n == 1 and old.extent > limit:
        raise _no_tile(old, f"the only factor is the extent {old.extent}, more than {limit}")
    drawn = _factors(sch.rng, old.extent, n, limit) if decision is None else None
    return _tile(sch, old, n, drawn, decision, lambda factors: factors[-1] <= limit)


@primitive(any_block=True)
def sample_partitioned_tile(
    sch: ScheduleState,
    loop: LoopRef,
    n: int,
    partition_pos: int = 0,
    innerpart_factor: int = 1,
    decision: Sequence[int] | None = None,
) -> list[SampledInt]:
    """Draw factors for `split` that divide the loop's extent; the product of the inner ones is a multiple of a number.

    Args:
        n: the number of factors.
        partition_pos: the number of outer factors; the others are inner ones.
        innerpart_factor: the number of which the product of the inner factors is a multiple.
        decision: the factors, if they are not to be drawn.

    On a loop of 16 iterations, `sample_partitioned_tile(i, 2, 1, 4)` returns `[4, 4]`, `[2, 8]` or `[1, 16]`, each as
    likely as the others.

    Raises:
        ScheduleError: there is no such list, or the decision is not one of them.
    """
    old = sch.find_loop(loop)
    if not 1 <= n <= MOST_FACTORS or not 0 <= partition_pos < n:
        problem = f"n = {value_text(n)} with partition_pos = {value_text(partition_pos)} are not numbers of factors"
        raise ScheduleError(problem, f"give n from 1 to {MOST_FACTORS}, and partition_pos from 0 to n - 1")
    if innerpart_factor < 1 or old.extent % innerpart_factor:
        raise _no_tile(
            old, f"innerpart_factor = {value_text(innerpart_factor)} does not divide the extent {old.extent}"
        )
    drawn = _partitioned(sch.rng, old.extent, n, partition_pos, innerpart_factor) if decision is None else None
    return _tile(
        sch, old, n, drawn, decision, lambda factors: math.prod(factors[partition_pos:]) % innerpart_factor == 0
    )


@primitive(any_block=True)
def sample_categorical(
    sch: ScheduleState, candidates: Sequence[int], probs: Sequence[float], decision: int | None = None
) -> SampledInt:
    """Draw one of several numbers.

    Args:
        probs: the probabilities of the numbers, in the same order, relative to their sum.
        decision: the position of the number among the candidates, if it is not to be drawn.

    `sample_categorical([0, 16, 64], [0.5, 0.25, 0.25])` returns 0 in half of the cases.

    Raises:
        ScheduleError: there are no candidates, the numbers of candidates and probabilities differ, a probability is
            negative, or the decision is not a position in the list.
    """
    values, weights = [int(c) for c in candidates], [float(p) for p in probs]
    if not values or len(values) != len(weights):
        raise ScheduleError(f"{len(values)} candidates but {len(weights)} probabilities", "give one for each")
    if not all(math.isfinite(w) and w >= 0 for w in weights) or sum(weights) <= 0:
        raise ScheduleError(f"{weights} are not probabilities", "give numbers from 0 up, not all of them 0")
    if decision is None:
        decision = sch.rng.choices(range(len(values)), weights)[0]
    if not 0 <= decision < len(values):
        raise ScheduleError(
            f"there is no candidate {value_text(decision)}", f"give a position from 0 to {len(values) - 1}"
        )
    sch.amended["decision"] = int(decision)
    return SampledInt(values[decision], _drawing(sch))


@primitive(any_block=True)
def sample_compute_location(
    sch: ScheduleState, block: BlockRef | str, decision: int | None = None
) -> LoopRef | SampledInt:
    """Draw a place for a producer: any loop that `compute_at` accepts for it, its present place, or inline.

    Args:
        decision: the depth of the loop among those around the block's first consumer, -1 to leave the block where it
            is, -2 to inline it; if it is not to be drawn.

    Returns a loop, -1 or -2, which `compute_at(block, ...)` accepts: it moves, leaves or inlines the block.

    Raises:
        ScheduleError: the decision is not a legal place.
    """
    name = sch.find_block(block).block.name
    places = _places(sch, name)
    if decision is None:
        decision = sch.rng.choice(sorted(places))
    if not isinstance(decision, int) or decision not in places:
        legal = ", ".join(map(str, sorted(places)))
        raise ScheduleError(
            f"{value_text(decision)} is not a legal place for it",
            f"give one of {legal}: a loop of its first consumer by depth, {ROOT} to stay, {INLINE} to inline",
            name,
        )
    sch.amended["decision"] = int(decision)
    loop = places[decision]
    return SampledInt(decision, _drawing(sch)) if loop is None else SampledLoop(loop.var, _drawing(sch))


@primitive(any_block=True)
def enter_postproc(sch: ScheduleState) -> None:
    """Mark the steps from here on as postprocessing in the trace; the program does not change.

    `trace.simplified(remove_postproc=True)` and `apply_to_schedule(sch, remove_postproc=True)` omit them.
    """


def _places(sch: ScheduleState, name: str) -> dict[int, LoopRef | None]:
    """Return the legal decisions for a block, with their loops."""
    found: dict[int, LoopRef | None] = {ROOT: None}
    if _works(sch, lambda: compute_inline(sch, name)):
        found[INLINE] = None
    written = written_buffers(sch.find_block(name).block)
    readers = [r for b in written for r in sch.tree.readers(b) if r.block.name != name]
    for depth, loop in enumerate(sch.tree.ancestors(readers[0]) if readers else ()):
        ref = LoopRef(loop.var)
        if _works(sch, lambda ref=ref: compute_at(sch, name, ref)):  # type: ignore[misc]
            found[depth] = ref
    return found


def _works(sch: ScheduleState, call: Callable[[], object]) -> bool:
    before = sch.snapshot()
    try:
        call()
    except ScheduleError:
        return False
    finally:
        sch.restore(before)
    return True


def _drawing(sch: ScheduleState) -> object:
    """Return a token for the current step."""
    draw = object()
    sch.draws[draw] = len(sch.steps)
    return draw


def _tile(
    sch: ScheduleState,
    loop: For,
    n: int,
    drawn: list[int] | None,
    decision: Sequence[int] | None,
    is_legal: Callable[[list[int]], bool],
) -> list[SampledInt]:
    """Return the factors that were drawn, or check and return those of a decision."""
    factors = [int(f) for f in (() if decision is None else decision)] if drawn is None else drawn
    whole = len(factors) == n and min(factors) >= 1 and math.prod(factors) == loop.extent
    if not whole or not is_legal(factors):
        raise _no_tile(loop, f"the decision {factors} is not one of the lists that may be drawn")
    sch.amended["decision"] = tuple(factors)
    draw = _drawing(sch)
    return [SampledInt(f, draw, place) for place, f in enumerate(factors)]


def _no_tile(loop: For, why: str) -> ScheduleError:
    return ScheduleError(
        why,
        f"the product of the factors is the extent, {loop.extent}; without a decision they are drawn",
        loop.var,
    )


def _factors(rng: Random, extent: int, n: int, limit: int) -> list[int]:
    """Draw an ordered factorization of `extent` into `n` factors, the last at most `limit`, uniformly."""
    if n == 1:
        return [extent]
    innermost = [d for d in range(1, min(extent, limit) + 1) if extent % d == 0]
    last = rng.choices(innermost, [_count(extent // d, n - 1) for d in innermost])[0]
    factors = [1] * (n - 1)
    for prime, power in _primes(extent // last).items():
        # Stars and bars: the positions of n - 2 bars among the primes decide how many primes each factor gets.
        bars = sorted(rng.sample(range(power + n - 2), n - 2))
        ends = [-1, *bars, power + n - 2]
        for place in range(n - 1):
            factors[place] *= prime ** (ends[place + 1] - ends[place] - 1)
    return [*factors, last]


def _partitioned(rng: Random, extent: int, n: int, outer: int, factor: int) -> list[int]:
    """Draw a factorization in which the product of the factors from `outer` on is a multiple of `factor`, uniformly."""
    if not outer:
        return _factors(rng, extent, n, extent)
    inner = [d for d in range(factor, extent + 1, factor) if extent % d == 0]
    weights = [_count(extent // d, outer) * _count(d, n - outer) for d in inner]
    chosen = rng.choices(inner, weights)[0]
    return [*_factors(rng, extent // chosen, outer, extent), *_factors(rng, chosen, n - outer, extent)]


def _count(extent: int, n: int) -> int:
    """Return the number of ordered factorizations into `n` factors."""
    return math.prod(math.comb(power + n - 1, n - 1) for power in _primes(extent).values())


def _primes(number: int) -> dict[int, int]:
    """Return the prime factors, with their powers."""
    powers = Counter[int]()
    divisor = 2
    while number > 1:
        if divisor * divisor > number:
            divisor = number
        while number % divisor == 0:
            powers[divisor] += 1
            number //= divisor
        divisor += 1
    return powers
