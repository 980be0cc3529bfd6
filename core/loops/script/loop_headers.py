"""Reader of loop headers in scripts: ranges, grids and loop kinds."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from pegbox.expr import dtypes
from pegbox.loops.nodes import ForKind
from pegbox.loops.script.blocks import Blocks
from pegbox.loops.script.words import Word

_WORDS = {kind.word: kind for kind in ForKind}


class Domains(Blocks):
    """A reader of the part after `in` of a loop."""

    def domains(self, node: ast.expr) -> tuple[list[tuple[int, int]], ForKind, tuple[tuple[str, Any], ...]]:
        """Read the (first value, number of values) of each loop, and the loops' kind and annotations."""
        remedy = f"loops run over range(n), T.grid(...), {', '.join(f'T.{word}' for word in _WORDS)}"
        function = self.value(node.func) if isinstance(node, ast.Call) else None
        if not isinstance(node, ast.Call) or not (function is range or isinstance(function, Word)):
            self.fail(node, f"{ast.unparse(node)} is not a domain of a loop", remedy)
        if function is range:
            if len(node.args) == 3 and self.integer(node.args[2], "step") != 1:
                self.fail(node.args[2], "loops have the step 1", "multiply the variable where it is used")
            return [self.interval(node, node.args[:2])], ForKind.SERIAL, ()
        if function.name == "grid":
            return [each for a in node.args for each in self.of_grid(a)], ForKind.SERIAL, ()
        if function.name not in _WORDS:
            self.fail(node, f"{function} is not a domain of a loop", remedy)
        return self.of_kind(node, function.name)

    def of_grid(self, node: ast.expr) -> list[tuple[int, int]]:
        """Read one extent, or the extents of a starred shape."""
        if not isinstance(node, ast.Starred):
            return [self.interval(node, [node])]
        shape = self.value(node.value)
        if not isinstance(shape, tuple | list) or any((dtypes.integer(n) or 0) < 1 for n in shape):
            self.fail(node, f"{ast.unparse(node)} is not a row of extents", "star a shape, such as *A.shape")
        return [(0, int(n)) for n in shape]

    def of_kind(self, node: ast.Call, word: str) -> tuple[list[tuple[int, int]], ForKind, tuple[tuple[str, Any], ...]]:
        options = {k.arg: k.value for k in node.keywords}
        notes: dict[str, Any] = {}
        args = list(node.args)
        kind = _WORDS[word]
        if kind.option:
            axes = {each.value: each for each in ForKind if each.word == word}
            tag = options.pop(kind.option, None) or (args.pop() if len(args) > 1 else None)
            name = None if tag is None else self.value(tag)
            if not isinstance(name, str) or name not in axes:
                what = f"a {kind.option} axis"
                why = f"T.{word} needs {what}" if tag is None else f"{name!r} is not {what}"
                others = ", ".join(axes)
                self.fail(tag or node, why, f'write {kind.option}="{next(iter(axes))}", or another of {others}')
            kind = axes[name]
        for bound in ("start", "stop"):
            if bound in options:
                args.append(options.pop(bound))
        if (given := options.pop("annotations", None)) is not None:
            literal = self.literal(given)
            if not isinstance(literal, dict | None):
                self.fail(given, "annotations are a dictionary")
            notes = literal or {}
        if options:
            self.fail(node, f"T.{word} has no argument {next(iter(options))!r}", "it takes annotations={...}")
        return [self.interval(node, args)], kind, tuple(notes.items())

    def interval(self, node: ast.AST, args: Sequence[ast.expr]) -> tuple[int, int]:
        if not 1 <= len(args) <= 2:
            self.fail(node, "a loop takes an extent, or a first value and an end")
        first, end = (
            (0, self.integer(args[0], "extent")) if len(args) == 1 else [self.integer(a, "bound") for a in args]
        )
        if end <= first:
            self.fail(args[-1], f"the loop from {first} to {end} has no iteration", "leave it out, or give it some")
        return first, end - first
