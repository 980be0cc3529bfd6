"""Random small loop nests: machine code and interpreter agree."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lowered_programs import PARALLEL, SERIAL, TWO_CORES, UNROLLED, VECTORIZED, check, function, get, put

from pegbox.expr.build import cast, const, maximum, minimum, select
from pegbox.expr.nodes import Buffer, Expr, Var
from pegbox.loops.nodes import Alloc, For, ForKind, Function, If, Stmt, seq

DTYPES = ("float32", "float64", "int32", "int64", "int8", "uint8", "int16")
KINDS = (SERIAL, SERIAL, VECTORIZED, UNROLLED, PARALLEL)


class _Access:
    """A one-dimensional input read at an affine index that stays inside."""

    def __init__(self, draw: st.DrawFn, name: str, dtype: str, extents: dict[Var, int]) -> None:
        self.coefs = {var: draw(st.integers(-3, 3)) for var in extents}
        low = sum(min(0, coef * (extents[var] - 1)) for var, coef in self.coefs.items())
        high = sum(max(0, coef * (extents[var] - 1)) for var, coef in self.coefs.items())
        self.shift = -low
        self.size = high - low + 1
        self.divisor = draw(st.sampled_from((1, 1, 1, 2, 3, 4)))
        self.buffer = Buffer(name, (self.size,), dtype)

    def index(self, values: dict[Var, Expr]) -> Expr:
        total: Expr = const(self.shift)
        for var, coef in self.coefs.items():
            total = total + values[var] * coef
        if self.divisor == 1:
            return total
        return total // self.divisor if self.shift % 2 else total % self.divisor % self.size

    def read(self, values: dict[Var, Expr]) -> Expr:
        return get(self.buffer, self.index(values))

    def guarded(self, values: dict[Var, Expr], by: int) -> Expr:
        """Read `by` elements further on where that exists, else zero."""
        where = self.index(values) + by
        inside = (where >= 0) & (where < self.size)
        return select(inside, get(self.buffer, where), const(0, self.buffer.dtype))


def _split(
    var: Var, extent: int, factor: int, kinds: tuple[ForKind, ForKind]
) -> tuple[Expr, list[tuple[Var, int, ForKind]], Expr | None]:
    outer, inner = Var(var.name + "o"), Var(var.name + "i")
    value = outer * factor + inner
    parts = [(outer, -(-extent // factor), kinds[0]), (inner, factor, kinds[1])]
    return value, parts, (value < extent if extent % factor else None)


@st.composite
def programs(draw: st.DrawFn) -> Function:
    dtype = draw(st.sampled_from(DTYPES))
    i, j, k = Var("i"), Var("j"), Var("k")
    extents = {i: draw(st.integers(1, 6)), j: draw(st.integers(1, 40)), k: draw(st.integers(1, 9))}
    first, second = (_Access(draw, name, dtype, extents) for name in "ab")
    c = Buffer("c", (extents[i], extents[j]), dtype)
    loops: list[tuple[Var, int, ForKind]] = []
    values: dict[Var, Expr] = {}
    guards: list[Expr] = []
    for var, extent in extents.items():
        kinds = (draw(st.sampled_from(KINDS)), draw(st.sampled_from(KINDS)))
        if var is k:
            kinds = tuple(SERIAL if kind is PARALLEL else kind for kind in kinds)  # type: ignore[assignment]
        if draw(st.booleans()):
            values[var], parts, guard = _split(var, extent, draw(st.integers(1, 20)), kinds)
            loops += parts
            guards += [guard] if guard is not None else []
        else:
            values[var] = var
            loops.append((var, extent, kinds[0]))
    loops = draw(st.permutations(loops))
    local = draw(st.booleans())
    target = Buffer("t", c.shape, dtype, "local") if local else c
    term = first.read(values)
    if draw(st.booleans()):
        term = term * second.read(values)
    else:
        term = term - second.guarded(values, draw(st.integers(-2, 2)))
    if draw(st.booleans()):
        term = term + cast(dtype, values[j] - 3)
    combine = draw(st.sampled_from((lambda x, y: x + y, minimum, maximum)))
    update: Stmt = put(target, values[i], values[j], combine(get(target, values[i], values[j]), term))
    for guard in guards:
        update = If(guard, update)
    steps = draw(st.sampled_from((0, 0, 8, 64)))
    explicit = draw(st.booleans())
    for var, extent, kind in reversed(loops):
        update = For(var, extent, update, kind)
    if steps and isinstance(update, For):
        notes = (("pragma_auto_unroll_max_step", steps), ("pragma_unroll_explicit", explicit))
        update = For(update.var, update.extent, update.body, update.kind, notes)
    p, q = Var("p"), Var("q")
    init = For(p, c.shape[0], For(q, c.shape[1], put(target, p, q, const(1, dtype)), draw(st.sampled_from(KINDS))))
    body = seq(init, update)
    if local:
        r, s = Var("r"), Var("s")
        kinds = draw(st.sampled_from(KINDS)), draw(st.sampled_from(KINDS))
        copy = For(r, c.shape[0], For(s, c.shape[1], put(c, r, s, get(target, r, s)), kinds[0]), kinds[1])
        body = Alloc(target, seq(init, update, copy))
    return function([first.buffer, second.buffer, c], [c], body)


@settings(max_examples=45, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
@given(programs())
def test_machine_code_computes_what_the_interpreter_computes(func: Function) -> None:
    check(func, TWO_CORES)
