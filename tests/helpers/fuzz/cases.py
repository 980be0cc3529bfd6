"""A random case, which is its seed, and the count of what cases did."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field, replace

from fuzz.drawing import Graph
from fuzz.graphs import draw_graph
from fuzz.kinds import ANY_ORDER, KINDS
from fuzz.values import SPECIAL
from pegbox.schedule import Trace

LANGUAGES = {"tir": 45, "te": 30, "sketch": 10, "script": 10, "sizes": 5}
"""The shares of programs made with `tir.Schedule`, with TE stages, by the sketch generator, from the text of a script
that changes arrays in place, and for size variables."""


class CaseFailed(AssertionError):
    """A random case went wrong; the message says all."""


@dataclass(frozen=True)
class Case:
    """`steps` are the seeds of the single steps, so that one can be left out without changing what the others draw."""

    seed: int
    kind: str  # of the graph, one of KINDS; or "drawn"
    language: str  # one of LANGUAGES
    steps: tuple[int, ...]
    trace: Trace | None = None  # in place of steps, whose choices change when primitives are added
    thorough: bool = False  # more of what is expensive

    def graph(self) -> Graph:
        rng = random.Random(self.seed)
        if self.kind == "drawn":
            return draw_graph(rng, foreign=self.language in ("te", "tir"))
        graph = KINDS[self.kind](rng)
        if self.kind in ANY_ORDER and rng.random() < 0.3:
            graph = replace(graph, contents=dict.fromkeys(graph.tensors, SPECIAL))
        return graph

    @property
    def command(self) -> str:
        """Return the command that runs it again."""
        thorough = " --thorough" if self.thorough else ""
        return f"python3 tests/helpers/fuzz --seed {self.seed} --kind {self.kind} --language {self.language}{thorough}"


@dataclass
class Tally:
    """The numbers of times that each primitive was done and refused, and the checks that were made."""

    done: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    checked: Counter[str] = field(default_factory=Counter)
    cases: int = 0

    def __str__(self) -> str:
        names = sorted({*self.done, *self.refused})
        checks = [f"  {name:48} {count:8}" for name, count in sorted(self.checked.items())]
        rows = [f"  {n:32} {self.done[n]:8} done {self.refused[n]:8} refused" for n in names]
        return "\n".join([f"{self.cases} cases", *checks, *rows])

    def update(self, other: Tally) -> None:
        self.done.update(other.done)
        self.refused.update(other.refused)
        self.checked.update(other.checked)
        self.cases += other.cases


def draw_case(seed: int, kind: str | None = None, language: str | None = None, *, thorough: bool = False) -> Case:
    """The case of a seed: mostly a graph drawn freely; kind and language may be given."""
    rng = random.Random(seed * 2 + 1)
    # Drawn in any case: what is drawn after them must not depend on whether they are given.
    drawn = rng.choice(list(KINDS)) if rng.random() < 0.2 else "drawn"
    (language_drawn,) = rng.choices(list(LANGUAGES), list(LANGUAGES.values()))
    language = language or ("tir" if kind and language_drawn in ("script", "sizes") else language_drawn)
    count = rng.randint(8, 24 if language == "tir" else 18)
    steps = tuple(rng.randrange(2**32) for _ in range(count))
    return Case(seed, kind or drawn, language, steps, thorough=thorough)
