"""Random programs of threads that use memory together: what is accepted must come out as on a GPU.

PEGBOX_FUZZ=5000 tries that many instead of the usual few. The reference runs each statement for all threads of a block
before the next one, with all loads before all stores.
"""

from __future__ import annotations

import os
import random
import re
from itertools import product
from typing import Any

import numpy as np
from interpreter import interpret

import pegbox as pb
from pegbox.errors import ScriptError
from pegbox.tir import script

ROUNDS = int(os.environ.get("PEGBOX_FUZZ", "0")) or 40
BLOCKS, TY, TX = 2, 2, 4
PLACES = {
    "shared": ("t", "t", "t", "7 - t", "t + 4", "t + 8", "tx", "tx + 4", "ty", "0", "k", "t * 2 + i", "t * 2", "t + k",
               "15 - t", "t * 2 + 1", "tx * 2 + ty", "i * 8 + t", "t + i", "(t + 1) % 8", "t // 2", "t + 4 * i"),
    "warp": ("tx", "tx", "tx + 4", "3 - tx", "tx * 2 + i", "tx * 2", "tx + k", "0", "i * 4 + tx"),
    "local": ("0", "1", "k", "i", "1 - k"),
}  # fmt: skip
START = {"shared": ("t", "t + 8"), "warp": ("tx", "tx + 4"), "local": ("0", "1")}
TESTS = (None, None, None, None, "t < 4", "tx < 1", "tx == 0", "tx < 1 and ty < 1", "t == 0", "k < 1", "t < 6", "i < 1")


class Race(Exception):
    """Several threads write different values to one element in one step."""


class Program:
    """`body` holds statements (buffer, place, value terms, test) and loops (variable, extent, body)."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        kinds = rng.choices(["shared", "warp", "local"], weights=[3, 1, 1], k=rng.choice([1, 2, 2, 3]))
        self.scopes = {f"S{n}": scope for n, scope in enumerate(kinds)}
        self.outs = 0
        self.lean = rng.random() < 0.7  # blocks have only the variables that they use
        begin = [(b, place, [("A", "t + k")], None) for b, scope in self.scopes.items() for place in START[scope]]
        self.body = [x for x in begin if rng.random() < 0.85] + self.suite(0, rng.choice([1, 2, 3]))
        if not self.outs:
            self.body.append(self.out())

    def suite(self, depth: int, count: int) -> list[Any]:
        found: list[Any] = []
        for _ in range(count):
            kind = self.rng.random()
            if kind < 0.25 and depth < 2:
                found.append(("ki"[depth], 2, self.suite(depth + 1, self.rng.choice([1, 2, 3]))))
            elif kind < 0.45:
                found.append(self.out())
            else:
                name = self.rng.choice(list(self.scopes))
                found.append((name, self.place(name), self.terms(), self.rng.choice(TESTS)))
        return found

    def place(self, name: str) -> str:
        return self.rng.choice(PLACES[self.scopes.get(name, "shared")])

    def terms(self) -> list[tuple[str, str]]:
        names = ["A", *self.scopes]
        return [(name, self.place(name)) for name in self.rng.choices(names, k=self.rng.choice([1, 1, 2]))]

    def out(self) -> Any:
        self.outs += 1
        value = [(name, self.place(name)) for name in self.rng.choices(list(self.scopes), k=self.rng.choice([1, 2]))]
        return (f"B{self.outs}", "(bx * 16 + t * 2 + k) * 2 + i", value, None)

    def text(self) -> str:
        params = ", ".join(["A: T.Buffer((16,))", *(f"B{n + 1}: T.Buffer(({BLOCKS * 32},))" for n in range(self.outs))])
        lines = [f"def f({params}):"]
        lines += [f'    {s} = T.alloc_buffer((16,), scope="{scope}")' for s, scope in self.scopes.items()]
        lines += [f'    for bx in T.thread_binding({BLOCKS}, thread="blockIdx.x"):']
        lines += [f'        for ty in T.thread_binding({TY}, thread="threadIdx.y"):']
        lines += [f'            for tx in T.thread_binding({TX}, thread="threadIdx.x"):']
        self.number = 0
        return "\n".join(["@T.prim_func", *lines, *self.lines(self.body, 16, {"k": "0", "i": "0"})]) + "\n"

    def lines(self, body: list[Any], depth: int, loops: dict[str, str]) -> list[str]:
        pad, found = " " * depth, []
        for stmt in body:
            if len(stmt) == 3:
                found += [f"{pad}for {stmt[0]} in range({stmt[1]}):"]
                found += self.lines(stmt[2], depth + 4, {**loops, stmt[0]: stmt[0]})
                continue
            name, place, terms, test = stmt
            self.number += 1
            bound = {"bx": ("bx", BLOCKS), "ty": ("ty", TY), "tx": ("tx", TX)}
            bound |= {v: (v, 2) for v, e in loops.items() if e != "0"}
            value = " + ".join(f"{b}[{self.spell(p, loops, 'v')}]" for b, p in terms)
            at = self.spell(place, loops, "v")
            used = set(re.findall(r"v[a-z]+", f"{at} {value}")) if self.lean else {"v" + v for v in bound}
            found.append(f'{pad}with T.block("b{self.number}"):')
            found += [f"{pad}    v{v} = T.axis.spatial({n}, {e})" for v, (e, n) in bound.items() if "v" + v in used]
            if test is not None:
                found.append(f"{pad}    T.where({self.spell(test, loops, '')})")
            found.append(f"{pad}    {name}[{at}] = {value} + T.float32({self.number})")
        return found

    def spell(self, text: str, loops: dict[str, str], mark: str) -> str:
        def word(found: re.Match[str]) -> str:
            w = found[0]
            if w == "t":
                return f"({mark}ty * {TX} + {mark}tx)"
            if w in loops and loops[w] == "0":
                return "0"
            return mark + w if w in ("bx", "ty", "tx", "k", "i") else w

        return re.sub(r"[a-z]+", word, text)

    def reference(self, a: Any) -> list[Any] | None:
        """The outputs; None if something unwritten is read, or threads write different values to one element."""
        self.outputs = {f"B{n + 1}": np.zeros(BLOCKS * 32, "float32") for n in range(self.outs)}
        numbers = self.numbers()
        for bx in range(BLOCKS):
            self.memory: dict[Any, float] = {}
            try:
                self.steps(self.body, {"bx": bx, "k": 0, "i": 0}, a, numbers)
            except (KeyError, Race):
                return None
        return list(self.outputs.values())

    def steps(self, body: list[Any], env: dict[str, int], a: Any, numbers: dict[int, int]) -> None:
        for stmt in body:
            if len(stmt) == 3:
                for n in range(stmt[1]):
                    self.steps(stmt[2], {**env, stmt[0]: n}, a, numbers)
            else:
                self.step(stmt, env, a, numbers[id(stmt)])

    def step(self, stmt: Any, env: dict[str, int], a: Any, number: int) -> None:
        """One statement, for all threads: loads, then stores."""
        name, place, terms, test = stmt
        new: dict[Any, Any] = {}
        for ty, tx in product(range(TY), range(TX)):
            inside = {**env, "ty": ty, "tx": tx, "t": ty * TX + tx}
            if test is not None and not eval(test, {}, inside):
                continue
            value = np.float32(number)
            for b, p in terms:
                at = eval(p, {}, inside)
                value += a[at] if b == "A" else self.memory[self.key(b, at, ty, tx)]
            key = self.key(name, eval(place, {}, inside), ty, tx)
            if new.setdefault(key, value) != value:
                raise Race
        for key, value in new.items():
            if name.startswith("B"):
                self.outputs[name][key[1]] = value
            else:
                self.memory[key] = value

    def key(self, name: str, at: int, ty: int, tx: int) -> Any:
        scope = self.scopes.get(name)
        return (name, at) if scope in (None, "shared") else (name, at, ty) if scope == "warp" else (name, at, ty, tx)

    def numbers(self) -> dict[int, int]:
        """The statements, counted in the order of the text."""
        found: dict[int, int] = {}

        def go(body: list[Any]) -> None:
            for stmt in body:
                if len(stmt) == 3:
                    go(stmt[2])
                else:
                    found[id(stmt)] = len(found) + 1

        go(self.body)
        return found


def judge(seed: int) -> str:
    rng = random.Random(seed)
    a = np.random.default_rng(seed).integers(-9, 9, 16).astype("float32") * 64
    for _ in range(20):
        program = Program(rng)
        wanted = program.reference(a)
        if wanted is not None:
            break
    text = program.text()
    try:
        func = script.from_source(text)
    except ScriptError as error:
        return f"refused, {'bad' if wanted is None else 'good'}: {str(error).splitlines()[0]}"
    if wanted is None:
        return "accepted, bad"
    assert script.from_source(func.script()) == func, text
    start = [a, *(np.zeros(BLOCKS * 32, "float32") for _ in wanted)]
    got = interpret(func, [x.copy() for x in start])
    built = [x.copy() for x in start]
    pb.build(func)(*built)
    for out, machine, want in zip(got, built[1:], wanted, strict=True):
        assert np.array_equal(out, want), f"{text}\n{func.script()}"
        assert np.array_equal(machine, want), f"{text}\n{func.script()}"
    return "accepted, good"


def test_accepted_programs_do_what_the_threads_would_do() -> None:
    seen = [judge(seed) for seed in range(ROUNDS)]
    assert sum(s == "accepted, good" for s in seen) > ROUNDS // 3
