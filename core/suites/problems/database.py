"""Knobs of databases: a simulated page cache, and the cost model of a log-structured merge tree."""

from __future__ import annotations

import math
import random
from collections import OrderedDict
from functools import lru_cache

from pegbox.search.objective import Objective
from pegbox.space import Config, ConfigSpace

_MEMORY = 256
"""The bytes of the cache, in units of the smallest page."""


@lru_cache
def _trace() -> tuple[tuple[int, bool], ...]:
    """Draw addresses, true for those that are written: hot keys, scans, and a working set that moves."""
    rng = random.Random(9)
    accesses, scan = [], 0
    for step in range(1500):
        if rng.random() < 0.25:
            scan = (scan + 1) % 4096
            accesses.append((scan, False))
        else:
            hot = int(400 * rng.random() ** 3) + 150 * (step // 500)
            accesses.append((hot, rng.random() < 0.3))
    return tuple(accesses)


def page_cache() -> Objective:
    """Make a page cache; the cost is cycles of reads, writes and bookkeeping over a trace of 1,500 accesses."""
    space = ConfigSpace()
    space.define_knob("page", [1, 2, 4, 8, 16, 32])
    space.define_knob("policy", ["fifo", "lru", "two queues"])
    space.define_knob("probation", [0.1, 0.25, 0.5, 0.75], when={"policy": "two queues"})
    space.define_knob("read ahead", [0, 1, 2, 4])
    space.define_knob("write back", [1, 4, 16, 64])

    def cost(config: Config) -> float:
        return _Cache(config).run()

    return Objective(cost, space, unit="cycles", pure=True)


class _Cache:
    """A cache that counts cycles."""

    def __init__(self, config: Config) -> None:
        self.page = config["page"].val
        self.policy = config["policy"].val
        self.ahead = config["read ahead"].val
        self.batch = config["write back"].val
        self.room = max(_MEMORY // self.page, 2)
        share = config["probation"].val if self.policy == "two queues" else 1.0
        self.trial = max(int(self.room * share), 1)
        self.first: OrderedDict[int, bool] = OrderedDict()
        self.second: OrderedDict[int, bool] = OrderedDict()
        self.dirty = 0
        self.cycles = 0.0

    def run(self) -> float:
        for address, written in _trace():
            self.touch(address // self.page, written)
        return float(self.cycles + self.dirty * (10 + self.page))

    def touch(self, page: int, written: bool) -> None:
        self.cycles += 2.0 if self.policy == "fifo" else 3.0
        if page in self.second:
            self.second.move_to_end(page)
        elif page in self.first:
            if self.policy == "lru":
                self.first.move_to_end(page)
            elif self.policy == "two queues":
                self.second[page] = self.first.pop(page)
                self.shrink(self.second, self.room - self.trial)
        else:
            self.cycles += 60 + 4 * self.page
            self.load(page)
            for step in range(1, self.ahead + 1):
                if page + step not in self.first and page + step not in self.second:
                    self.cycles += 4 * self.page
                    self.load(page + step)
        if written:
            self.dirty += 1
            if self.dirty >= self.batch:
                self.cycles += 40 + self.dirty * (2 + self.page / 2)
                self.dirty = 0

    def load(self, page: int) -> None:
        self.first[page] = True
        self.shrink(self.first, self.trial)

    def shrink(self, pages: OrderedDict[int, bool], room: int) -> None:
        while len(pages) > max(room, 1):
            pages.popitem(last=False)


def merge_tree() -> Objective:
    """Make a log-structured merge tree; the cost is blocks per operation, by Dayan and Idreos' model (2018)."""
    space = ConfigSpace()
    space.define_knob("size ratio", [2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32])
    space.define_knob("runs inside", [1, 2, 3, 4, 6, 8, 12, 16])
    space.define_knob("runs last", [1, 2, 3, 4, 6, 8])
    space.define_knob("buffer", [1, 2, 4, 8, 16, 32, 64])
    space.define_knob("filter bits", [0, 2, 4, 6, 8, 10, 12, 16])
    space.define_knob("block", [1, 2, 4, 8, 16])
    space.add_constraint(
        lambda config: config["runs inside"].val < config["size ratio"].val,
        reads=["runs inside", "size ratio"],
        message="a level holds fewer runs than the size ratio",
    )

    def cost(config: Config) -> float:
        ratio, inside, last = (config[name].val for name in ("size ratio", "runs inside", "runs last"))
        buffer, bits, block = (config[name].val for name in ("buffer", "filter bits", "block"))
        if buffer + 4 * bits > 96:
            raise MemoryError("the buffer and the filters need more memory than there is")
        levels = max(1.0, math.log(20_000 / (buffer * 8)) / math.log(ratio))
        wrong = math.exp(-bits * math.log(2) ** 2)
        runs = (levels - 1) * inside + last
        write = (levels - 1) * ratio / (inside + 1) + ratio / (last + 1)
        read = 1 + runs * wrong
        scan = runs + 40 / block
        return float(4 * write / block + (0.35 * read + 0.15 * scan) * (1 + block / 8))

    return Objective(cost, space, unit="blocks", pure=True)
