"""Random graphs through the sketch generator: a random configuration, and the code that is written for it."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

import pegbox as pb
from fuzz.checks import Different, machine_code
from fuzz.drawing import Graph
from fuzz.kernels import Effort
from pegbox import te
from pegbox.codegen import Target
from pegbox.loops.nodes import Function
from pegbox.loops.passes import lower_function
from pegbox.schedule.te.replay import replay
from pegbox.space import Config
from pegbox.task.task import Task
from pegbox.task.workload import Workload


def check_sketch(graph: Graph, rng: random.Random, target: Target, effort: Effort) -> None:
    """The kernel of a random configuration computes NumPy's values, and its written code makes the same kernel."""
    rules = rng.choice(("sketch", "sketch", "sketch:rules=ansor"))
    task = pb.create_task(Workload("graph", lambda: list(graph.tensors)), space=rules, target=target)
    (row,) = task.space.sample(1, np.random.default_rng(rng.randrange(2**32)))
    config = task.space.config(row)
    lowered = task.lowered(config)
    machine_code(lowered, graph, target, effort)
    check_code(task, config, lowered)


def check_code(task: Task, config: Config, wanted: Function) -> None:
    """`schedule_code` runs, and makes the program of its configuration.

    Raises:
        Different: it makes another one.
    """
    code = task.schedule_code(config)
    scope: dict[str, Any] = {"te": te}
    try:
        exec(code, scope)
    except Exception as error:
        raise Different(f"{type(error).__name__}: {error}\nis raised by\n{code}") from error
    tensors = [scope[tensor.name] for tensor in task.tensors]
    made = lower_function(replay(scope["s"], tensors, task.symbol).func)
    if str(made) != str(wanted):
        raise Different(f"the code\n{code}\nmakes\n{made}\ninstead of\n{wanted}")
