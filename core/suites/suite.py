"""`Suite`: the problems of a benchmark suite, with a digest of their content."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pegbox.digest import sha256
from pegbox.search.protocols import SearchTask


@dataclass(frozen=True)
class Problem:
    """A problem of a suite: a recorded space or a pure objective.

    Attributes:
        name: its name, unique in the suite.
        task: the recorded space or the objective that tuners search.
        digest: the digest of its content: configurations and results, or the text of the code.
        description: a sentence for people.
        optimum: the lowest cost, if the suite declares it.
    """

    name: str
    task: SearchTask
    digest: str
    description: str = ""
    optimum: float | None = None


@dataclass(frozen=True)
class Missing:
    """A listed problem of a suite that cannot be opened, with the reason."""

    name: str
    reason: str

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}"


@dataclass(frozen=True)
class Suite:
    """A benchmark suite. `missing` lists the problems that cannot be opened; `source` is its folder."""

    name: str
    problems: tuple[Problem, ...]
    missing: tuple[Missing, ...] = ()
    description: str = ""
    source: str = ""

    @property
    def digest(self) -> str:
        """The digest of all problems, independent of their order, which identifies the suite in results."""
        lines = sorted(f"{problem.name} {problem.digest}" for problem in self.problems)
        return str(sha256("\n".join(lines).encode()).hexdigest())

    def __iter__(self) -> Iterator[Problem]:
        return iter(self.problems)

    def __len__(self) -> int:
        return len(self.problems)

    def __str__(self) -> str:
        lost = f", {len(self.missing)} missing" if self.missing else ""
        return f"{self.name}: {len(self.problems)} problems{lost}, digest {self.digest[:12]}"
