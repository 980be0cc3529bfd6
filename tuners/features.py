"""The features for a cost model: those of the knobs, of the program, or both.

Features of programs cost far more to compute than knobs to encode, and are cheapest for many rows at once. So they are
cached, and computed in batches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from pegbox.checks import check_choice
from pegbox.errors import ArgumentError
from pegbox.search import Experience, Features, FeatureSource, Prior
from pegbox.space import ConfigSpace
from pegbox.tuners.rows import Digits, Places, keys_of

KINDS = ("both", "knobs", "program")
REMEMBERED = 1 << 16
"""The largest number of cached rows; beyond it, `trim` drops them all, and those still needed are computed again."""


class FeatureTable:
    """Features of rows of digits, each row computed once.

    `kind` is "knobs" (the space's own encoding), "program" (the features from `program`), or "both": the knobs, then
    the program; without a `program`, only the knobs. With features of the program, `priors` on them are columns at the
    end.
    """

    def __init__(
        self,
        space: ConfigSpace,
        program: FeatureSource | None = None,
        kind: str = "both",
        priors: Sequence[Prior] = (),
    ) -> None:
        check_choice("features", kind, KINDS)
        if program is None and kind == "program":
            raise ArgumentError(
                "features='program' needs the features of the task's programs, which are missing: the tuner was given "
                "a space without a task, or one whose task has no template; use features='knobs'"
            )
        self._sources: list[Callable[[Digits], Features]] = []
        width = 0
        if kind != "program":
            self._sources.append(space.encode)
            width = len(space.feature_names)
        self.program_columns: slice | None = None
        """The columns of the program's features."""
        self.program_names: tuple[str, ...] = ()
        if program is not None and kind != "knobs":
            self._sources.append(program)
            self.program_columns = slice(width, width + len(program.names))
            self.program_names = program.names
            width += len(program.names)
        self._within_known = getattr(program, "within_known", None) if self.program_columns is not None else None
        self._priors = tuple(priors) if self.program_columns is not None else ()
        self.prior_columns = slice(width, width + len(self._priors))
        """The columns of the priors: standardised scores; higher is faster."""
        width += len(self._priors)
        self._places: dict[bytes, int] = {}
        self._features: Features = np.empty((0, width), dtype=np.float32)

    def prepare(self) -> None:
        """Begin to fit the priors in the background."""
        for prior in self._priors:
            if isinstance(prior, Experience):
                prior.prepare()

    def wait(self) -> None:
        """Wait until the priors are fitted."""
        for prior in self._priors:
            if isinstance(prior, Experience):
                prior.wait()

    def __len__(self) -> int:
        return len(self._places)

    def __call__(self, rows: Digits) -> Features:
        """Compute features of shape (n, d)."""
        return self.at(self.places(rows))

    def affordable(self, rows: Digits, classes: int) -> Digits:
        """Select the rows whose features cost little: those of known classes of programs, and of a few others.

        All rows are selected without features of programs, or if their source has no classes.
        """
        return rows if self._within_known is None else rows[self._within_known(rows, more=classes)]

    def at(self, places: Places) -> Features:
        """Return the features of the rows at some places."""
        taken: Features = self._features[places]
        return taken

    def places(self, rows: Digits) -> Places:
        """Find the places of the rows in the table; compute new rows together and add them."""
        keys = keys_of(rows)
        fresh: dict[bytes, int] = {}
        for number, key in enumerate(keys):
            if key not in self._places:
                fresh.setdefault(key, number)
        if fresh:
            self._compute(rows[list(fresh.values())])
            for key in fresh:
                self._places[key] = len(self._places)
        return np.array([self._places[key] for key in keys], dtype=np.intp)

    def trim(self) -> None:
        """Clear the table if it has become too large; earlier places are then invalid."""
        if len(self) > REMEMBERED:
            self._places.clear()

    def _compute(self, rows: Digits) -> None:
        """Append the features of new rows to the table."""
        computed = np.concatenate([source(rows) for source in self._sources], axis=1)
        if self._priors:
            scores = [prior(computed[:, self.program_columns]) for prior in self._priors]
            computed = np.concatenate([computed, np.stack(scores, axis=1).astype(np.float32)], axis=1)
        first, end = len(self), len(self) + len(computed)
        if end > len(self._features):
            grown = np.empty((max(1024, 2 * end), computed.shape[1]), dtype=np.float32)
            grown[:first] = self._features[:first]
            self._features = grown
        self._features[first:end] = computed
