"""ConfigSpace: the knobs of a template, the constraints between them, and all their configs."""

from __future__ import annotations

import hashlib
import json
import math
import operator
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pegbox.checks import check_instance, check_int, near_names, with_checked_keywords
from pegbox.errors import SpaceError
from pegbox.shown import value_text
from pegbox.space import enumeration, sampling, variation
from pegbox.space.annotate import annotate_knob
from pegbox.space.config import Config, not_a_config
from pegbox.space.constraint import Constraint, constraint_of
from pegbox.space.digits import Digits, Mask, checked_rows, digits_of
from pegbox.space.entities import SplitEntity
from pegbox.space.jsonform import config_from_json, rows_from_json
from pegbox.space.knob import Knob, condition_of
from pegbox.space.option import option_knob
from pegbox.space.printing import space_text
from pegbox.space.range import float_knob, int_knob
from pegbox.space.reorder import Chains, ReorderOptions, reorder_knob
from pegbox.space.split import SplitOptions, split_knob
from pegbox.space.structure import Structure

COUNT_BUDGET = 1 << 20
MOST_SAMPLES = 1 << 31


class ConfigSpace:
    """Declare knobs with the `define_*` methods; then list, sample, walk, encode and store configs.

    Knobs keep their declaration order, and the first varies fastest in the index. Declaring a knob again with equal
    content changes nothing, with other content it is an error. See docs/spaces.md for the policies.
    """

    def __init__(self) -> None:
        self.knobs: dict[str, Knob] = {}
        self.positions: dict[str, int] = {}
        self.constraints: list[Constraint] = []
        self._structure: Structure | None = None
        self._fingerprint: str | None = None

    # Declaring ---------------------------------------------------------------------------------------------------

    @with_checked_keywords
    def define_split(
        self,
        name: str,
        axis: int,
        policy: str = "factors",
        *,
        num_outputs: int | None = None,
        max_factor: int | None = None,
        filter: Callable[[SplitEntity], bool] | None = None,
        no_tail: bool | None = None,
        candidate: Sequence[Sequence[int]] | None = None,
        when: Mapping[str, Any] | None = None,
    ) -> tuple[str, ...]:
        """Declare how to split an axis of `axis` iterations into `num_outputs` loops, the outermost inferred.

        Args:
            policy: "factors" (divisors), "power2" (powers of two up to the extent), "verbose" (both), "candidate".
            num_outputs: number of loops, 2 by default; under "candidate" the length of the candidates.
            max_factor: the largest factor of any loop but the outermost.
            filter: a function of the entity that is true for the splits to keep (`e.size[-1] <= 64`).
            no_tail: whether the factors must divide the extent; by default only under "factors".
            candidate: for policy "candidate", lists of extents whose first may be -1.
            when: `{knob: value}` or `{knob: (value, ...)}`; the knob exists only under these values.

        Returns:
            Names for the resulting loops, usable as axes of `define_reorder` and `define_annotate`.

        Raises:
            SpaceError: an argument is out of its domain, no split is left, or the name is taken by another knob.
        """
        options = SplitOptions(policy, num_outputs, max_factor, filter, no_tail, candidate)
        return self._add(split_knob(name, axis, options, when=condition_of(name, when, self.knobs)))

    @with_checked_keywords
    def define_knob(self, name: str, candidates: Iterable[Any], *, when: Mapping[str, Any] | None = None) -> None:
        """Declare a choice of one value out of `candidates`: numbers, text, booleans, None, or lists of them.

        Raises:
            SpaceError: there are no candidates, JSON cannot represent a value, or the name is taken by another knob.
        """
        self._add(option_knob(name, candidates, when=condition_of(name, when, self.knobs)))

    @with_checked_keywords
    def define_int(
        self,
        name: str,
        low: int,
        high: int,
        *,
        step: int = 1,
        log: bool = False,
        when: Mapping[str, Any] | None = None,
    ) -> None:
        """Declare a choice of one of the integers `low`, `low + step`, ... up to `high`, which may be very many.

        Args:
            step: the distance of the values; if it does not divide the range, the last value is below `high`.
            log: let tuners see the logarithm: as many samples from 1 to 10 as from 100 to 1,000.
            when: as for `define_split`.

        Raises:
            SpaceError: a bound or the step is not an integer, low > high, step < 1, low < 1 with `log`, more than 2**53
                values, or the name is taken by another knob.
        """
        self._add(int_knob(name, low, high, step, log, when=condition_of(name, when, self.knobs)))

    @with_checked_keywords
    def define_float(
        self, name: str, low: float, high: float, *, log: bool = False, when: Mapping[str, Any] | None = None
    ) -> None:
        """Declare a choice of a number between `low` and `high`, both included.

        The numbers are decimal, with 10 to 100 million steps in the range, so that a config keeps an exact index.

        Args:
            log: let tuners see the logarithm: as many samples from 0.001 to 0.01 as from 0.1 to 1.
            when: as for `define_split`.

        Raises:
            SpaceError: a bound is not a finite number, low > high, low <= 0 with `log`, or the name is taken by another
                knob.
        """
        self._add(float_knob(name, low, high, log, when=condition_of(name, when, self.knobs)))

    @with_checked_keywords
    def define_reorder(
        self,
        name: str,
        axes: Sequence[str],
        policy: str,
        *,
        candidate: Sequence[Sequence[str | int]] | None = None,
        interval: tuple[int, int] | None = None,
        spatial: Chains | None = None,
        reduce: Chains | None = None,
        when: Mapping[str, Any] | None = None,
    ) -> tuple[str, ...]:
        """Declare a choice between orders of the named axes.

        Args:
            policy: "identity", "all", "interval_all" (or "interval"), "interleave", "interleave_cuda", "candidate".
            candidate: for "candidate", lists of all axes, by name or position.
            interval: for "interval_all", (begin, end): only these axes change places.
            spatial, reduce: for "interleave", chains of axes, outermost first. The spatial chains without their last
                axes are merged in all ways that keep each chain's order; inside them, the last spatial axes and the
                reduction chains are merged likewise. "interleave_cuda" keeps the last spatial axes innermost, as
                listed.
            when: as for `define_split`.

        Returns:
            Names for the positions of the new order.

        Raises:
            SpaceError: an argument is out of its domain, or the name is taken by another knob.
        """
        options = ReorderOptions(policy, candidate, interval, spatial, reduce)
        return self._add(reorder_knob(name, axes, options, when=condition_of(name, when, self.knobs)))

    @with_checked_keywords
    def define_annotate(
        self,
        name: str,
        axes: Sequence[str],
        policy: str,
        *,
        candidate: Sequence[Sequence[str]] | None = None,
        num_anchor: int | None = None,
        when: Mapping[str, Any] | None = None,
    ) -> tuple[str, ...]:
        """Declare a choice between annotations of the named axes.

        Args:
            policy: words of "none" (or "try"), "unroll" and "vec" joined by "_": each axis takes one, at most one is
                "vec". Or "bind_gpu", "bind_gpu_virtual", "locate_cache", "candidate".
            candidate: for "candidate", lists of one annotation per axis.
            num_anchor: for "locate_cache", how many of the axes to choose.
            when: as for `define_split`.

        Returns:
            Names for the annotated axes.

        Raises:
            SpaceError: an argument is out of its domain, or the name is taken by another knob.
        """
        condition = condition_of(name, when, self.knobs)
        return self._add(annotate_knob(name, axes, policy, candidate=candidate, num_anchor=num_anchor, when=condition))

    def add_constraint(self, predicate: Callable[[Config], bool], *, reads: Sequence[str], message: str) -> None:
        """Demand that `predicate(config)` is true; it may use only the knobs named in `reads`.

        The predicate must depend on nothing else: it is called once per combination of these knobs. If it reads a knob
        that does not exist in a config, the constraint demands nothing of that config.

        Args:
            message: the demand, for people: "the tile fits in L1".

        Raises:
            SpaceError: `reads` is empty or names an unknown knob.
        """
        made = constraint_of(predicate, reads, message, self.knobs)
        if not any(c.predicate is predicate and c.reads == made.reads for c in self.constraints):
            self.constraints.append(made)
            self._structure = None

    def _add(self, knob: Knob) -> tuple[str, ...]:
        """Declare a knob; return the names of its outputs."""
        if not isinstance(knob.name, str) or not knob.name:
            raise SpaceError(f"a knob's name must be text that is not empty, got {value_text(knob.name)}")
        known = self.knobs.get(knob.name)
        if known is None:
            self.positions[knob.name] = len(self.knobs)
            self.knobs[knob.name] = knob
            self._structure = self._fingerprint = None
        elif known != knob:
            raise SpaceError(f"knob {knob.name!r} is declared twice with different content:\n  {known}\n  {knob}")
        return knob.outputs

    # One config at a time -----------------------------------------------------------------------------------------

    @property
    def size(self) -> int:
        """The product of the lengths of all knobs, exact at any size. `num_valid` counts the configs that are valid."""
        return math.prod(len(knob) for knob in self.knobs.values())

    def __len__(self) -> int:
        if self.size > sys.maxsize:
            raise OverflowError(f"the space has {self.size} points, more than len() can return; use space.size")
        return self.size

    def __bool__(self) -> bool:
        return True

    def num_valid(self) -> int | None:
        """The number of valid canonical configs; None if counting them means looking at more than a million rows."""
        return enumeration.count_valid(self.structure, COUNT_BUDGET)

    @property
    def fingerprint(self) -> str:
        """SHA-256 over kinds, names, contents and conditions of the knobs: equal where indices mean the same."""
        if self._fingerprint is None:
            description = [knob.description() for knob in self.knobs.values()]
            text = json.dumps(description, sort_keys=True, separators=(",", ":"))
            self._fingerprint = hashlib.sha256(text.encode()).hexdigest()
        return self._fingerprint

    def get(self, index: int) -> Config:
        """Return the config of an index in [0, size).

        Digits of knobs that do not exist in it are set to 0, so that its own index may be smaller. Indices count all
        combinations, as AutoTVM's do: the config may break constraints, see `violated`. `iterate` and `sample` give
        only valid ones.

        Raises:
            SpaceError: the index is outside the space.
        """
        if isinstance(index, bool) or not isinstance(index, (int, np.integer)):
            raise not_a_config(index, f"the index of one of the {self.size:,} points, counted from 0")
        if not 0 <= index < self.size:
            raise SpaceError(
                f"index {value_text(index)} is outside the space: it has {self.size:,} points, counted from 0"
            )
        return self.config(digits_of(int(index), [len(knob) for knob in self.knobs.values()]))

    def config(self, digits: Sequence[int] | Digits) -> Config:
        """Return the config of one digit per knob, made canonical. Constraints are not checked; see `violated`.

        Raises:
            SpaceError: there are too few or too many digits, or one is outside its knob.
        """
        try:
            row = tuple(map(operator.index, digits))
        except TypeError:
            raise SpaceError(
                f"digits={value_text(digits)}: give integers, one per knob, as config.digits has"
            ) from None
        if len(row) != len(self.knobs):
            raise SpaceError(f"expected {len(self.knobs)} digits, one per knob, got {len(row)}: {list(row)}")
        for digit, knob in zip(row, self.knobs.values(), strict=True):
            if not 0 <= digit < len(knob):
                raise SpaceError(f"digit {digit} is outside {knob}")
        if self.structure.conditions:
            row = tuple(self.structure.canonical(np.array([row], dtype=np.int64))[0].tolist())
        return Config(self, row)

    def from_json(self, form: object) -> Config:
        """Return the config that `Config.to_json` wrote; if `index` or `entity` is missing, the other decides.

        Raises:
            SpaceError: it belongs to another space, or its index and its entities disagree.
        """
        return config_from_json(self, form)

    def rows_from_json(self, forms: Sequence[Mapping[str, Any]]) -> Digits:
        """Return the digits of many configs that `Config.to_json` wrote; raises as `from_json` does."""
        return rows_from_json(self, forms)

    def exists(self, config: Config, name: str) -> bool:
        """Decide if a knob exists in a config; `config.exists(name)` is the usual spelling."""
        if not isinstance(name, str) or name not in self.knobs:
            raise SpaceError(f"no knob {value_text(name)} in this space{near_names(name, self.knobs)}")
        when = self.knobs[name].when
        return when is None or all(
            config.digits[self.positions[parent]] in digits and self.exists(config, parent)
            for parent, digits in when.parents
        )

    def violated(self, config: Config) -> tuple[str, ...]:
        """List the messages of the constraints that a config breaks; empty for a valid one."""
        wanted = "a config, from space.get(index) or space.config(digits)"
        check_instance("config", config, Config, wanted, error=SpaceError)
        structure, row = self.structure, self._rows([config.digits])
        return tuple(b.constraint.message for b in structure.constraints if not structure.holds(row, [b])[0])

    def iterate(self, *, points: int | None = None) -> Iterator[Config]:
        """Yield all valid canonical configs in the order of their indices, made as they are asked for.

        Args:
            points: the largest number of values of each range, evenly spaced from the first to the last.
        """
        if points is not None:
            check_int("iterate: points", points, error=SpaceError)
        for block in enumeration.in_index_order(self.structure, points):
            for row in block.tolist():
                yield Config(self, tuple(row))

    # Whole arrays of digits, int64 of shape (configs, knobs) --------------------------------------------------------

    def sample(self, n: int, rng: np.random.Generator) -> Digits:
        """Draw `n` random configs: valid, canonical, all different; fewer rows only if the space has, or shows, no
        more.

        Raises:
            SpaceError: the space has no valid config, or none was found among millions; the message says which.
        """
        check_int("sample: n", n, minimum=0, maximum=MOST_SAMPLES, error=SpaceError)
        return sampling.sample(self.structure, n, check_generator(rng))

    def neighbors(self, digits: Digits, rng: np.random.Generator) -> Digits:
        """Return one random valid neighbour per row: one knob moved, mostly to one of its closest values."""
        return variation.neighbors(self.structure, self._rows(digits), check_generator(rng))

    def crossover(self, a: Digits, b: Digits, rng: np.random.Generator) -> Digits:
        """Return one child per pair of rows: every knob comes from one of the parents, repaired to a valid config."""
        rows_a, rows_b = self._rows(a), self._rows(b)
        if rows_a.shape != rows_b.shape:
            raise SpaceError(f"crossover pairs rows, but got {len(rows_a)} and {len(rows_b)} of them")
        return variation.crossover(self.structure, rows_a, rows_b, check_generator(rng))

    def canonical(self, digits: Digits) -> Digits:
        """Return the rows with digits of knobs that do not exist set to 0."""
        return self.structure.canonical(self._rows(digits))

    def is_valid(self, digits: Digits) -> Mask:
        """Test whether rows lie inside the space and satisfy its constraints."""
        rows = checked_rows(digits, len(self.knobs))
        inside = self._inside(rows)
        inside[inside] = self.structure.holds(rows[inside])
        return inside

    def encode(self, digits: Digits) -> NDArray[np.float32]:
        """Compute features for cost models, float32 of shape (configs, len(feature_names))."""
        return self.structure.encode(self._rows(digits))

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The meaning of each column of `encode`."""
        return self.structure.features.names

    # Inside ---------------------------------------------------------------------------------------------------------

    @property
    def structure(self) -> Structure:
        """The arrays behind the space's operations; for the modules of this package."""
        if self._structure is None:
            self._structure = Structure(self)
        return self._structure

    def _inside(self, rows: Digits) -> Mask:
        return np.asarray(((rows >= 0) & (rows < self.structure.sizes)).all(axis=1))

    def _rows(self, digits: object) -> Digits:
        rows = checked_rows(digits, len(self.knobs))
        outside = np.flatnonzero(~self._inside(rows))
        if len(outside):
            raise SpaceError(f"row {outside[0]} of the digits is outside the space: {rows[outside[0]].tolist()}")
        return rows

    def __getstate__(self) -> dict[str, Any]:
        # Structure and fingerprint are computed again when they are needed.
        return {"knobs": self.knobs, "constraints": self.constraints}

    def __setstate__(self, state: dict[str, Any]) -> None:
        ConfigSpace.__init__(self)
        self.knobs, self.constraints = state["knobs"], state["constraints"]
        self.positions = {name: position for position, name in enumerate(self.knobs)}

    def __str__(self) -> str:
        return space_text(self)

    def __repr__(self) -> str:
        return f"<ConfigSpace of {len(self.knobs)} knobs, {self.size} points>"


def check_generator(rng: object) -> np.random.Generator:
    wanted = "a generator of NumPy, such as numpy.random.default_rng(0)"
    return check_instance("rng", rng, np.random.Generator, wanted, error=SpaceError)
