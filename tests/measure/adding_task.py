"""A task whose configs are hand-written kernels, so that measuring is tested without schedules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from pegbox.codegen import Target
from pegbox.testing import llvm_kernels as kernels


@dataclass(frozen=True)
class AddingConfig:
    """A name for messages and a maker of programs; equal by name, as configs are equal by their digits."""

    name: str
    make: Callable[[], Any] = field(compare=False, default=kernels.good)


@dataclass
class AddingTask:
    """C = A + B. No two configs make equal programs, unless `duplicates` are wanted."""

    target: Target = field(default_factory=lambda: Target.host(num_cores=1))
    flop: float = kernels.SIZE
    lowered: list[str] = field(default_factory=list)
    duplicates: bool = False
    has_indirect_reads: bool = False
    given_accuracy: None = None
    is_continuous: bool = True

    def lower(self, config: AddingConfig) -> Any:
        self.lowered.append(config.name)
        program = config.make()
        return program if self.duplicates else replace(program, ll=f"{program.ll}; {config.name}\n")

    def arguments(self) -> Any:
        return kernels.arguments()

    def reference(self, inputs: list[Any], *, wide: bool = False) -> list[Any]:
        return [np.asarray(inputs[0] + inputs[1])]
