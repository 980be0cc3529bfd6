"""The rules that derive sketches, in Ansor's order (Zheng et al., OSDI 2020, table 1)."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from enum import Enum
from typing import Protocol, TypeAlias, runtime_checkable

from pegbox.errors import ScheduleError, TemplateError
from pegbox.expr import SLOW
from pegbox.hooks import explained, located
from pegbox.plugins.sketch.analysis import SLOW_OF_ANSOR, is_strictly_inlineable
from pegbox.plugins.sketch.state import State, follow, spatial_and_reduce
from pegbox.plugins.sketch.steps import Axes, Name, schedule_lines
from pegbox.plugins.sketch.tiles import Tiles

MOST_STEPS = 4000  # the largest number of steps of a derivation; an attention has 400
CONST_INDICES = "auto_scheduler_simplify_const_tensor_indices"

Derived: TypeAlias = tuple[State, int]


class Match(Enum):
    """The fit of a rule to a stage, and its effect on the rules after it."""

    NO = "no"
    ALSO = "also"  # this rule, and later ones as alternatives
    ONLY = "only"  # this rule, and no later one


@runtime_checkable
class Rule(Protocol):
    """A way to continue a sketch at a stage. Messages name it by its class, or by its attribute `name`."""

    def match(self, state: State, stage: int) -> Match:
        """Check if the rule fits `state.stages[stage]`."""

    def apply(self, state: State, stage: int) -> list[Derived]:
        """Return the sketches that the rule makes, each with the stage to visit next. `state` must not change."""


class AlwaysInline:
    """A rule that inlines a step that is as cheap to compute as to read.

    Args:
        by_use: inline a step with slow intrinsics if that computes no element twice. Ansor regards only `exp` as slow,
            and never inlines it.
    """

    def __init__(self, *, by_use: bool = False) -> None:
        self.by_use = by_use

    def match(self, state: State, stage: int) -> Match:
        name = state.stages[stage]
        op = state.op(name)
        if len(op.outputs) > 1 or state.is_output(name) or op.reduce_axis:
            return Match.NO
        slow = SLOW_OF_ANSOR if not self.by_use else frozenset() if state.is_read_once(name) else SLOW
        return Match.ONLY if is_strictly_inlineable(op, slow) else Match.NO

    def apply(self, state: State, stage: int) -> list[Derived]:
        new = state.copy()
        new.compute_inline(state.stages[stage])
        return [(new, stage - 1)]


class AddRfactor:
    """A rule that splits a reduction with few results into parts, computed in parallel or as the lanes of vectors.

    An ordered one is excluded, as its parts would not be combined in order.
    """

    def match(self, state: State, stage: int) -> Match:
        name = state.stages[stage]
        op = state.op(name)
        points, terms = spatial_and_reduce(op)
        is_ordered = op.reduce is not None and op.reduce.reducer.ordered
        if is_ordered or name in state.partials.values() or name in state.caches:
            return Match.NO
        if state.needs_tiling(name):
            needed = points <= terms and points <= 16 * state.target.num_cores
        else:
            needed = terms > 1 and terms > state.target.num_cores
        return Match.ALSO if needed else Match.NO

    def apply(self, state: State, stage: int) -> list[Derived]:
        return [self._derive(state, stage, inner) for inner in (False, True)]

    def _derive(self, state: State, stage: int, inner: bool) -> Derived:
        new = state.copy()
        name = new.stages[stage]
        spatial = [x for x in new.loops(name) if not new.is_reduce(x)]
        fused = new.fuse(name, [x for x in new.loops(name) if new.is_reduce(x)])
        parts = new.tile(name, fused, 2)[1]
        partial = new.rfactor(name, parts[inner], len(spatial))
        if inner:  # the parts become lanes
            loops = new.loops(partial)
            lanes = loops.pop(len(spatial))
            new.reorder(partial, [*loops, lanes])
        new.applied.append(f"rfactor({'lanes' if inner else 'parts'})")
        return new, new.stages.index(partial) - 1


class SimplifyConstTensor:
    """A rule that unrolls loops over a small constant matrix (of Winograd's transforms), so that its zeros and ones
    vanish.

    An operation requests it by its attribute `auto_scheduler_simplify_const_tensor_indices`, the names of those axes.
    """

    def match(self, state: State, stage: int) -> Match:
        return Match.ONLY if CONST_INDICES in state.op(state.stages[stage]).attrs else Match.NO

    def apply(self, state: State, stage: int) -> list[Derived]:
        new = state.copy()
        name = new.stages[stage]
        op = new.op(name)
        axes = dict(zip(new.loops(name), (*op.axis, *op.reduce_axis), strict=True))
        constant = [loop for loop, axis in axes.items() if axis.name in op.attrs[CONST_INDICES]]
        tiled = [new.tile(name, loop, 2)[1] for loop in axes if loop not in constant]
        new.reorder(name, [*(t[0] for t in tiled), *(t[1] for t in tiled), *constant])
        for loop in constant:
            new.call(name, "unroll", Name(loop))
        return [(new, stage - 1)]


class AddCacheWrite:
    """A rule that gives a tiled stage without a consumer to fuse with one that copies its tile."""

    def match(self, state: State, stage: int) -> Match:
        name = state.stages[stage]
        alone = state.needs_tiling(name) and state.matched_consumer(name) is None
        return Match.ALSO if alone else Match.NO

    def apply(self, state: State, stage: int) -> list[Derived]:
        new = state.copy()
        new.cache_write(new.stages[stage])
        new.applied.append("cache")
        return [(new, stage)]


class MultiLevelTiling:
    """A rule that tiles loops for registers, caches and cores at once.

    Args:
        structure: one letter per level, S for the spatial loops and R for the reduce ones.
        max_innermost_factor: the largest number of iterations of the innermost loop of a split.
        tails: allow splits that do not divide, if an extent has few divisors.
        long_sums: allow the innermost loop of a reduce axis to be as long as the axis, during which a tile stays in
            registers.
    """

    def __init__(
        self,
        structure: str = "SSRSRS",
        max_innermost_factor: int = 64,
        tails: bool = False,
        long_sums: bool = False,
    ) -> None:
        self.structure, self.max_innermost_factor = structure, max_innermost_factor
        self.tails, self.long_sums = tails, long_sums

    def match(self, state: State, stage: int) -> Match:
        return Match.ONLY if state.needs_tiling(state.stages[stage]) else Match.NO

    def apply(self, state: State, stage: int) -> list[Derived]:
        new = state.copy()
        self.tile(new, new.stages[stage])
        new.applied.append("tile")
        return [(new, stage - 1)]

    def tile(self, state: State, stage: str, like: Tiles | None = None) -> list[str]:
        """Tile a stage, with the knobs of another one if one is `like` it; return the knobs of its spatial axes."""
        levels: dict[str, list[list[str]]] = {letter: [[] for _ in self.structure] for letter in "SR"}
        given = iter(() if like is None else (*like.knobs, *like.sums))
        knobs: dict[str, list[str]] = {"S": [], "R": []}
        for loop in state.loops(stage):
            letter = "R" if state.is_reduce(loop) else "S"
            count = self.structure.count(letter)
            most = None if letter == "R" and self.long_sums else self.max_innermost_factor
            knob, parts = state.tile(stage, loop, count, innermost=most, tails=self.tails, knob=next(given, ""))
            knobs[letter].append(knob)
            for level, part in zip(levels[letter], parts, strict=False):
                level.append(part)
        ordered = [levels[letter].pop(0) for letter in self.structure]
        name = "" if like is None else like.stage
        state.tiles[stage] = Tiles(stage, self.structure, ordered, tuple(knobs["S"]), tuple(knobs["R"]), like=name)
        state.reorder(stage, [loop for level in ordered for loop in level])
        return knobs["S"]


class MultiLevelTilingWithFusion(MultiLevelTiling):
    """A rule that computes the tiled stage in the tiles of its consumer, at either of the outer levels."""

    def match(self, state: State, stage: int) -> Match:
        name = state.stages[stage]
        if not state.needs_tiling(name) or state.matched_consumer(name) is None:
            return Match.NO
        return Match.ONLY if name in state.caches else Match.ALSO

    def apply(self, state: State, stage: int) -> list[Derived]:
        return [self._derive(state, stage, n) for n in (1, 2) if self.structure[n - 1] == "S"]

    def _derive(self, state: State, stage: int, level: int) -> Derived:
        new = state.copy()
        name = new.stages[stage]
        consumer = new.matched_consumer(name)
        assert consumer is not None  # match has asked
        knobs = self.tile(new, name)
        new.compute_at(name, consumer, follow(new, consumer, knobs, level))
        new.applied.append(f"fuse({level})")
        return new, stage - 1


class Skip:
    """A rule that leaves a stage unchanged."""

    def match(self, state: State, stage: int) -> Match:
        return Match.ALSO

    def apply(self, state: State, stage: int) -> list[Derived]:
        return [(state, stage - 1)]


def ansor_rules(
    structure: str = "SSRSRS",
    max_innermost_factor: int = 64,
    tails: bool = False,
    long_sums: bool = False,
    *,
    by_use: bool = False,
) -> list[Rule]:
    """Return the rules of Ansor on a CPU, in its order; see `MultiLevelTiling` and `AlwaysInline` for the arguments."""
    tiling = structure, max_innermost_factor, tails, long_sums
    first: list[Rule] = [AlwaysInline(by_use=by_use), SimplifyConstTensor(), AddRfactor(), AddCacheWrite()]
    return [*first, MultiLevelTilingWithFusion(*tiling), MultiLevelTiling(*tiling), Skip()]


def derive(state: State, rules: Sequence[Rule]) -> list[State]:
    """Return the sketches that the rules derive, from the last stage to the first.

    Raises:
        TemplateError: a rule takes an illegal step, or there are too many sketches to search.
    """
    pending = deque([(state, len(state.stages) - 1)])
    done: list[State] = []
    for _ in range(MOST_STEPS):
        if not pending:
            return done
        current, stage = pending.popleft()
        if stage < 0:
            done.append(current)
            continue
        for rule in rules:
            match, derived = _asked(rule, current, stage)
            pending.extend(derived)
            if match is Match.ONLY:
                break
    raise TemplateError(
        f"the rules derive more than {len(done):,} sketches and did not end after {MOST_STEPS:,} steps; give fewer "
        "rules, let each go on to an earlier stage, or divide the computation"
    )


def _asked(rule: Rule, state: State, stage: int) -> tuple[Match, list[Derived]]:
    """Apply a rule. Raises TemplateError that names the rule if it takes an illegal step."""
    where = f"rule {getattr(rule, 'name', type(rule).__name__)} at stage {state.stages[stage]}"
    before = _content(state)
    try:
        match = rule.match(state, stage)
        derived = rule.apply(state, stage) if match in (Match.ALSO, Match.ONLY) else []
    except ScheduleError as error:
        done = "\n".join(schedule_lines(state.steps)) or "nothing was done yet"
        raise TemplateError(f"{where}: {error}\nThe sketch that it was given:\n{done}") from error
    except Exception as error:
        raise located(TemplateError(f"{where} raised {explained(error)}"), error) from error
    if not isinstance(match, Match):
        raise TemplateError(f"{where}: match gave {match!r}; give Match.NO, Match.ALSO or Match.ONLY")
    if _content(state) != before:
        raise TemplateError(f"{where} changed the sketch that it was given; change a copy, state.copy()")
    if not isinstance(derived, list) or not all(_is_derived(each, stage) for each in derived):
        raise TemplateError(f"{where} gave {derived!r}; give a list of (state.copy() with steps, next stage)")
    for made, _ in derived:
        made.credit(where)
    return match, derived


def _content(state: State) -> tuple[int, int]:
    """Return the content that reveals a changed sketch, without names of axes, which are made on demand."""
    return sum(not isinstance(step, Axes) for step in state.steps), len(state.knobs)


def _is_derived(each: object, stage: int) -> bool:
    if not (isinstance(each, tuple) and len(each) == 2 and isinstance(each[0], State) and type(each[1]) is int):
        return False
    return -1 <= each[1] <= min(stage + 1, len(each[0].stages) - 1)
