"""Cache of the object code of the fastest candidates, so that they are measured again without compiling."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pegbox.codegen import CompiledProgram
    from pegbox.space import Config


class BuildCache:
    """Keeps the builds of the `capacity` configs with the lowest costs."""

    def __init__(self, *, capacity: int = 32) -> None:
        self._capacity = capacity
        self._builds: dict[Config, tuple[float, CompiledProgram]] = {}

    def offer(self, config: Config, cost: float, build: CompiledProgram) -> None:
        """Remember a build, at the expense of the slowest one when the cache is full."""
        self._builds[config] = (cost, build)
        if len(self._builds) > self._capacity:
            del self._builds[max(self._builds, key=lambda held: self._builds[held][0])]

    def get(self, config: Config) -> CompiledProgram | None:
        """The build of a config, if it is among the fastest."""
        found = self._builds.get(config)
        return found[1] if found else None
