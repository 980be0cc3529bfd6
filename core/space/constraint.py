"""Constraints: predicates over some knobs, evaluated once per combination of their digits."""

from __future__ import annotations

import math
import pickle
import threading
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pegbox.checks import check_callable, check_list, check_text, near_names
from pegbox.errors import SpaceError
from pegbox.origin import explained, located
from pegbox.space.config import Config
from pegbox.space.digits import Digits, Mask, digits_of, strides
from pegbox.space.entities import Entity

if TYPE_CHECKING:
    from pegbox.space.space import ConfigSpace

TABLE_LIMIT = 1 << 20
CACHE_LIMIT = 1 << 20

UNKNOWN, HOLDS, FAILS = np.int8(0), np.int8(1), np.int8(2)


class Constraint:
    """A predicate, the knobs it reads, and its demand as a message for people."""

    __slots__ = ("_travels", "message", "predicate", "reads")

    def __init__(self, predicate: Callable[[Config], bool], reads: tuple[str, ...], message: str) -> None:
        self.predicate = predicate
        self.reads = reads
        self.message = message
        self._travels: bool | None = None

    def __str__(self) -> str:
        return f"{self.message} (reads {', '.join(self.reads)})"

    def __deepcopy__(self, memo: object) -> Constraint:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        # Lambdas do not pickle, nor do objects that hold this constraint. Since a Config must still travel between
        # processes, such predicates stay behind.
        if self._travels is None:
            asked: list[Constraint] = _of_thread.__dict__.setdefault("asked", [])
            if self in asked:
                message = f"the predicate of constraint {self.message!r} refers to the constraint itself"
                raise pickle.PicklingError(message)
            asked.append(self)
            try:
                pickle.dumps(self.predicate)
                self._travels = True
            except Exception:
                self._travels = False
            finally:
                asked.pop()
        predicate = self.predicate if self._travels else LeftBehind(self.message)
        return Constraint, (predicate, self.reads, self.message)


def constraint_of(
    predicate: Callable[[Config], bool], reads: Sequence[str], message: str, knobs: Collection[str]
) -> Constraint:
    """Return the constraint of a space with these knobs.

    Raises:
        SpaceError: the predicate is not a function, the message is not text, or `reads` is empty or names an unknown
            knob.
    """
    check_text("add_constraint: message", message, error=SpaceError)
    of_config = "a function of a config that returns True if the constraint holds"
    asked = check_callable(f"constraint {message!r}: predicate", predicate, of_config, error=SpaceError)
    read = [reads] if isinstance(reads, str) else reads
    wanted = "the names of the knobs that it uses"
    names = dict.fromkeys(check_list(f"constraint {message!r}: reads", read, wanted, error=SpaceError, of=str))
    if not names:
        raise SpaceError(f"constraint {message!r} reads no knob; name those that it uses in reads=")
    for name in names:
        if name not in knobs:
            raise SpaceError(f"constraint {message!r} reads {name!r}, no such knob{near_names(name, knobs)}")
    return Constraint(asked, tuple(names), message)


_of_thread = threading.local()
"""The constraints whose predicates a thread is trying to pickle, each while pickling the one before, as `asked`."""


class LeftBehind:
    """A stand-in for a predicate that could not be pickled; calling it is an error rather than a guess."""

    def __init__(self, message: str) -> None:
        self.message = message

    def __call__(self, config: Config) -> bool:
        raise SpaceError(
            f"constraint {self.message!r} cannot be checked in this process: its predicate does not pickle; "
            "use a function of a module instead of a lambda, a nested function, or a method of an object with "
            "the space"
        )


class DoesNotExist(Exception):
    """A predicate read a knob that this config lacks: the constraint then demands nothing."""


class Probe(Config):
    """The config as a predicate sees it: only the knobs that it has declared to read."""

    __slots__ = ("_bound", "_shifted")

    def __init__(self, bound: BoundConstraint, shifted: tuple[int, ...]) -> None:
        # No digits: a predicate must not see the rest of the config.
        super().__init__(bound.space, ())
        self._bound = bound
        self._shifted = shifted

    def __getitem__(self, name: str) -> Any:
        found = self._bound.readable.get(name) or self._read(name)  # called millions of times
        digit = self._shifted[found[0]]
        if digit == 0:
            raise DoesNotExist(name)
        return found[1][digit - 1]

    def __contains__(self, name: object) -> bool:
        return name in self._bound.readable

    def exists(self, name: str) -> bool:
        return self._shifted[self._read(name)[0]] > 0

    def _read(self, name: str) -> tuple[int, Sequence[Entity]]:
        found = self._bound.readable.get(name)
        if found is None:
            constraint = self._bound.constraint
            raise SpaceError(
                f"constraint {constraint.message!r} uses knob {name!r} but declares reads={constraint.reads}; "
                "list every knob that it uses"
            )
        return found


class BoundConstraint:
    """A constraint tied to the columns of a space, with the answers it gave so far.

    Caches change the speed of an answer, never the answer: sampling stays a function of the space and the seed.
    """

    def __init__(self, space: ConfigSpace, constraint: Constraint, columns: tuple[int, ...], parents: set[int]) -> None:
        self.space = space
        self.constraint = constraint
        self.columns = columns
        self.needs = frozenset(columns) | frozenset(parents)
        self.readable = {name: (slot, space.knobs[name].entities) for slot, name in enumerate(constraint.reads)}
        # A knob that does not exist has the extra digit 0, before its real digits.
        self.radices = tuple(len(entities) + 1 for _, entities in self.readable.values())
        size = math.prod(self.radices)
        self._strides = strides(self.radices) if size < 1 << 62 else None
        self.table = np.zeros(size, dtype=np.int8) if size <= TABLE_LIMIT else None
        """The answers so far by key, for few keys."""
        self._answers: dict[int | tuple[int, ...], bool] = {}

    def holds(self, digits: Digits, active: Mask) -> Mask:
        """Return one answer per row; `active` is true for the knobs that exist in it."""
        columns = list(self.columns)
        shifted: Digits = np.where(active[:, columns], digits[:, columns] + 1, 0)
        if self._strides is None:
            rows = map(tuple, shifted.tolist())
            return np.fromiter((self._remembered(row) for row in rows), dtype=np.bool_, count=len(shifted))
        keys = np.asarray(shifted @ self._strides, dtype=np.int64)
        if (table := self.table) is None:
            distinct, inverse = np.unique(keys, return_inverse=True)
            return np.array(list(map(self._remembered, distinct.tolist())), dtype=np.bool_)[inverse.reshape(-1)]
        answers = table[keys]
        unknown = answers == UNKNOWN
        if unknown.any():
            for key in np.unique(keys[unknown]).tolist():
                table[key] = HOLDS if self._ask(digits_of(key, self.radices)) else FAILS
            answers = table[keys]
        return np.asarray(answers == HOLDS)

    def _remembered(self, key: int | tuple[int, ...]) -> bool:
        answer = self._answers.get(key)
        if answer is None:
            if len(self._answers) >= CACHE_LIMIT:
                self._answers.clear()
            answer = self._ask(key if isinstance(key, tuple) else digits_of(key, self.radices))
            self._answers[key] = answer
        return answer

    def _ask(self, shifted: tuple[int, ...]) -> bool:
        probe = Probe(self, shifted)
        try:
            return bool(self.constraint.predicate(probe))
        except DoesNotExist:
            return True
        except SpaceError as error:
            located(error)
            raise
        except (Exception, SystemExit) as error:
            seen = ", ".join(f"{name}={entity}" for name, entity in probe.items())
            raised = SpaceError(f"constraint {self.constraint.message!r} raised {explained(error, f'at {seen}')}")
            raise located(raised, error) from error


class JointAnswers:
    """The known answers of several constraints, looked up in their tables for many rows at once.

    Rows with an unknown answer are left to the constraints, which are evaluated in their order. So is every row if a
    constraint has no table.
    """

    def __init__(self, constraints: Sequence[BoundConstraint], num_knobs: int) -> None:
        tables = [bound.table for bound in constraints if bound.table is not None]
        self._tables = tables if len(tables) == len(constraints) else None
        # Keys of tables are small, so that float64 is exact, and its matrix product is fast.
        self._steps = np.zeros((num_knobs, len(constraints)))
        for place, bound in enumerate(constraints if self._tables is not None else ()):
            np.add.at(self._steps, (list(bound.columns), place), strides(bound.radices))

    def of(self, digits: Digits, active: Mask) -> tuple[Mask, NDArray[np.intp]]:
        """Return the rows that pass as far as is known, and the places of those with an unknown answer."""
        passing = np.ones(len(digits), dtype=np.bool_)
        if self._tables is None:
            return passing, np.arange(len(digits))
        is_open = np.zeros(len(digits), dtype=np.bool_)
        keys = (np.where(active, digits + 1.0, 0.0) @ self._steps).astype(np.intp)
        for column, table in zip(keys.T, self._tables, strict=True):
            answers = table[column]
            is_open |= passing & (answers == UNKNOWN)
            passing &= answers != FAILS
        passing |= is_open
        return passing, np.flatnonzero(is_open)
