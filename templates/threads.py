"""The number of threads of a template's kernel: a knob where one thread may be the fastest."""

from __future__ import annotations

import pegbox as pb
from pegbox import te

_FEWEST, _MOST = 1 << 15, 1 << 25
"""The range of operations in which either may be faster; fewer take less time than starting threads."""


def declare(cfg: pb.TemplateConfig, flop: float) -> None:
    """Declare the knob `threads` for a target of several cores, one thread first, unless there are many operations.

    Threads take microseconds to start and to wait for each other, and longer if other programs use their cores.
    """
    if cfg.target.num_cores > 1 and flop <= _MOST:
        cfg.define_knob("threads", [1] if flop < _FEWEST else [1, cfg.target.num_cores])


def share(cfg: pb.TemplateConfig, stage: te.Stage, loop: te.IterVar) -> None:
    """Let threads share a loop, unless the configuration has one thread."""
    if "threads" not in cfg.space.knobs or cfg["threads"].val > 1:
        stage.parallel(loop)
