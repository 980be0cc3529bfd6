"""The flags of a compressor: an LZ77 whose cost is the size of its output and the steps of its search, both counted."""

from __future__ import annotations

import random
from functools import lru_cache

from pegbox.search.objective import Objective
from pegbox.space import Config, ConfigSpace

_WORDS = ("tensor", "schedule", "loop", "tile", "vector", "cache", "block", "reduce", "the", "of", "a", "and", " ")


@lru_cache
def _text() -> bytes:
    rng = random.Random(3)
    words = [rng.choice(_WORDS) + (str(rng.randrange(100)) if rng.random() < 0.2 else "") for _ in range(150)]
    return " ".join(words).encode()


def flags() -> Objective:
    """Make a problem of five flags; the cost is bytes of output, and a byte for each 40 steps of the search."""
    space = ConfigSpace()
    space.define_knob("window", [32, 64, 128, 256, 512, 1024, 2048])
    space.define_knob("chain", [1, 2, 4, 8, 16, 32])
    space.define_knob("shortest", [3, 4, 5, 6])
    space.define_knob("lazy", [False, True])
    space.define_knob("nice", [6, 8, 12, 16, 32])

    def cost(config: Config) -> float:
        window, chain, shortest, lazy, nice = (
            config[name].val for name in ("window", "chain", "shortest", "lazy", "nice")
        )
        literals, matches, steps = _parse(window, chain, shortest, lazy, nice)
        bits = 9 * literals + matches * (1 + 4 + window.bit_length() - 1)
        return float(bits / 8 + steps / 40)

    return Objective(cost, space, unit="bytes", pure=True)


def _parse(window: int, chain: int, shortest: int, lazy: bool, nice: int) -> tuple[int, int, int]:
    """Count the literals, the matches and the steps of the search."""
    text, places = _text(), {}  # type: tuple[bytes, dict[bytes, list[int]]]
    literals = matches = steps = place = 0

    def longest(at: int) -> int:
        nonlocal steps
        best = 0
        for start in reversed(places.get(text[at : at + 3], ())[-chain:]):
            if at - start > window or best >= nice:
                break
            length = 3
            while length < 34 and at + length < len(text) and text[start + length] == text[at + length]:
                length += 1
            steps += 1 + length // 4
            best = max(best, length)
        return best if best >= shortest else 0

    while place < len(text):
        length = longest(place)
        places.setdefault(text[place : place + 3], []).append(place)
        if length and lazy and length < nice and longest(place + 1) > length:
            length = 0
        if not length:
            literals, place = literals + 1, place + 1
            continue
        for inner in range(place + 1, place + length):
            places.setdefault(text[inner : inner + 3], []).append(inner)
        matches, place = matches + 1, place + length
    return literals, matches, steps
