"""Pictures of what primitives do to loops. Orders and programs in them come from pegbox itself."""

from __future__ import annotations

from collections.abc import Sequence

from canvas import BLUE, GREY, INK, ORANGE, TINTS, Canvas, Point
from visits import Visit, visits

import pegbox as pb
from pegbox import te, tir

CELL = 30.0
_MARGIN, _RIGHT = 24.0, 350.0
"""The beginnings of the left and the right half of a picture."""


def split() -> str:
    """A loop of ten iterations, and the same in parts of four: the last part is a tail."""
    B = te.compute((10,), lambda i: te.const(0.0), name="B")
    before, after = tir.Schedule([B]), tir.Schedule([B])
    after.split(after.get_loops("B")[0], factor=4)
    s = te.create_schedule(B.op)
    canvas = Canvas(820, 240, "split: ten iterations, then three parts of four, of which the last is a tail")
    below = _heading(canvas, _MARGIN, "before", _program(te.create_schedule(B.op), [B]))
    _row(canvas, (_MARGIN, below), visits(before.func))
    s[B].split(s[B].op.axis[0], factor=4)
    below = _heading(canvas, _RIGHT, "split(i, factor=4)", _program(s, [B]))
    for place, part in enumerate(_chunks(visits(after.func), 4)):
        canvas.text((_RIGHT, below + place * (CELL + 6) + 20), f"i.outer = {place}", size=12, fill=GREY)
        _row(canvas, (_RIGHT + 80, below + place * (CELL + 6)), part, tint=TINTS[place])
    canvas.text(
        (_RIGHT + 80 + 4 * CELL + 12, below + 2 * (CELL + 6) + 20), "the tail: 2 of 4 run", size=12, fill=ORANGE
    )
    return canvas.svg()


def reorder() -> str:
    """A matrix by columns, then by rows."""
    B = te.compute((5, 8), lambda i, j: te.const(0.0), name="B")
    columns, rows = te.create_schedule(B.op), te.create_schedule(B.op)
    columns[B].reorder(*reversed(B.op.axis))
    sch = tir.Schedule([B])
    by_rows = visits(sch.func)
    sch.reorder(*reversed(sch.get_loops("B")))
    canvas = Canvas(820, 290, "reorder: the elements of a matrix are visited column by column, then row by row")
    below = _heading(canvas, _MARGIN, "before: each step is a row further on", _program(columns, [B]))
    _grid(canvas, (_MARGIN, below), visits(sch.func))
    below = _heading(canvas, _RIGHT, "reorder(i, j): each step is the next element", _program(rows, [B]))
    _grid(canvas, (_RIGHT, below), by_rows)
    return canvas.svg()


def tile() -> str:
    """A matrix by rows, then tile by tile."""
    B = te.compute((6, 8), lambda i, j: te.const(0.0), name="B")
    rows, tiles = te.create_schedule(B.op), te.create_schedule(B.op)
    tiles[B].tile(*B.op.axis, x_factor=3, y_factor=4)
    sch = tir.Schedule([B])
    by_rows = visits(sch.func)
    (i_0, i_1), (j_0, j_1) = (sch.split(loop, factor=f) for loop, f in zip(sch.get_loops("B"), (3, 4), strict=True))
    sch.reorder(i_0, j_0, i_1, j_1)
    canvas = Canvas(820, 350, "tile: the elements of a matrix are visited row by row, then tile by tile")
    below = _heading(canvas, _MARGIN, "before", _program(rows, [B]))
    _grid(canvas, (_MARGIN, below), by_rows)
    below = _heading(canvas, _RIGHT, "tile(i, j, x_factor=3, y_factor=4)", _program(tiles, [B]))
    _grid(canvas, (_RIGHT, below), visits(sch.func), tile=(3, 4))
    return canvas.svg()


def compute_at() -> str:
    """A producer computed completely before its consumer, then piece by piece inside its loop."""
    A = te.placeholder((18,), name="A")
    B = te.compute((18,), lambda i: A[i] * 2, name="B")
    C = te.compute((16,), lambda i: B[i] + B[i + 2], name="C")
    canvas = Canvas(760, 520, "compute_at: when B and C are computed, and how long values of B are kept")
    for place, inside in enumerate((False, True)):
        s, sch = te.create_schedule(C.op), tir.Schedule([A, C])
        if inside:
            s[B].compute_at(s[C], s[C].split(s[C].op.axis[0], factor=4)[0])
            sch.compute_at("B", sch.split(sch.get_loops("C")[0], factor=4)[0])
        top = 26.0 + place * 240
        words = "compute_at(s[C], i.outer): near its use, six values at a time" if inside else "B completely before C"
        canvas.text((_MARGIN, top), words, bold=True)
        canvas.code((_MARGIN, top + 24), _program(s, [A, C]), size=11)
        _timeline(canvas, (450, top + 12), visits(sch.func))
    _legend(canvas, (410, 506), ((BLUE, "B computed"), (ORANGE, "C computed"), ("#a8cbe4", "a value of B is kept")))
    return canvas.svg()


def panels() -> str:
    """Draw the places of a matrix's elements in memory: row by row, and in panels of four columns."""
    rows, columns, width, cell = 6, 12, 4, 27.0
    canvas = Canvas(760, 260, "panels: places in memory of a matrix, row by row and in panels of four columns")
    canvas.text((_MARGIN, 30), "B[k, j], row by row", bold=True)
    canvas.text((400, 30), "panels[p, k, j] = B[k, p * 4 + j]", bold=True)
    for k in range(rows):
        for j in range(columns):
            panel, inside = divmod(j, width)
            tint, y = TINTS[panel], 44 + k * CELL
            _cell(canvas, (_MARGIN + j * cell, y), str(k * columns + j), tint, cell)
            packed = (panel * rows + k) * width + inside
            _cell(canvas, (400 + j * cell + panel * 10, y), str(packed), tint, cell)
    canvas.text((_MARGIN, 246), "the numbers are places in memory", size=12, fill=GREY)
    canvas.text((400, 246), "a tile reads one colour from top to bottom", size=12, fill=GREY)
    return canvas.svg()


# Parts of pictures ------------------------------------------------------------------------------------------------


def _program(s: te.TESchedule, tensors: Sequence[te.Tensor]) -> list[str]:
    """The loops of a schedule as text, without the line that names the function."""
    lines = str(pb.lower(s, tensors, simple_mode=True)).rstrip().splitlines()
    return [line.removeprefix("    ") for line in lines[1:]]


def _heading(canvas: Canvas, x: float, words: str, program: Sequence[str]) -> float:
    """Words and a program below them; gives the y for what follows."""
    canvas.text((x, 30), words, bold=True)
    return canvas.code((x, 54), program, size=11) + 6


def _row(canvas: Canvas, at: Point, part: Sequence[Visit], *, tint: str = TINTS[0]) -> None:
    for place, visit in enumerate(part):
        corner = (at[0] + place * CELL, at[1])
        if visit.real:
            _cell(canvas, corner, str(visit.at[0]), tint)
        else:
            canvas.rect(corner, (CELL - 3, CELL - 3), stroke=ORANGE, dashed=True)


def _grid(canvas: Canvas, at: Point, order: Sequence[Visit], *, tile: tuple[int, int] | None = None) -> None:
    """The elements of a matrix, numbered in the order of visits, and a line through them."""
    corners = [(at[0] + visit.at[1] * CELL, at[1] + visit.at[0] * CELL) for visit in order]
    for corner, visit in zip(corners, order, strict=True):
        i, j = visit.at
        tint = TINTS[(i // tile[0] * 2 + j // tile[1]) % len(TINTS)] if tile else TINTS[0]
        canvas.rect(corner, (CELL - 3, CELL - 3), fill=tint)
    middle = (CELL - 3) / 2
    canvas.path([(x + middle, y + middle) for x, y in corners], stroke=BLUE, width=2, opacity=0.35)
    for number, (x, y) in enumerate(corners):
        canvas.text((x + middle, y + 18), str(number), size=11, anchor="middle")


def _cell(canvas: Canvas, corner: Point, words: str, tint: str, width: float = CELL) -> None:
    canvas.rect(corner, (width - 3, CELL - 3), fill=tint)
    canvas.text((corner[0] + (width - 3) / 2, corner[1] + 18), words, size=11, anchor="middle")


def _timeline(canvas: Canvas, at: Point, order: Sequence[Visit]) -> None:
    """Time to the right, elements downwards: when each is computed, and how long a value of B is kept."""
    step, row = 7.0, 10.0
    x0, y0 = at[0] + 10, at[1] + 6
    canvas.path([(at[0], at[1]), (at[0], y0 + 18 * row), (at[0] + 41 * step, y0 + 18 * row)], stroke=INK, width=1)
    canvas.text((at[0] + 41 * step, y0 + 18 * row + 14), "time", size=11, fill=GREY, anchor="end")
    canvas.text((at[0] - 6, y0 + 4), "element", size=11, fill=GREY, anchor="end")
    written: dict[int, int] = {}
    kept: dict[tuple[int, int], int] = {}
    for time, visit in enumerate(order):
        if visit.block.name == "B":
            written[visit.at[0]] = time
        else:
            kept |= {(place, written[place]): time for _, (place,) in visit.reads()}
    for (place, since), until in kept.items():
        y = y0 + place * row
        canvas.path([(x0 + since * step, y), (x0 + until * step, y)], stroke="#a8cbe4", width=3)
    for time, visit in enumerate(order):
        fill = BLUE if visit.block.name == "B" else ORANGE
        canvas.circle((x0 + time * step, y0 + visit.at[0] * row), 3.2, fill=fill)


def _legend(canvas: Canvas, at: Point, entries: Sequence[tuple[str, str]]) -> None:
    x = at[0]
    for colour, words in entries:
        canvas.circle((x, at[1] - 4), 4, fill=colour)
        canvas.text((x + 9, at[1]), words, size=12)
        x += 24 + 6.6 * len(words)


def _chunks(items: Sequence[Visit], size: int) -> list[Sequence[Visit]]:
    return [items[start : start + size] for start in range(0, len(items), size)]
