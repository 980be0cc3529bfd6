"""Matrix product by Strassen's algorithm: seven products of halves instead of eight.

Strassen, "Gaussian elimination is not optimal" (1969), one level of it, in the register tiles of an ordinary product,
as in Huang, Smith, Henry and van de Geijn, "Strassen's algorithm reloaded" (SC16). The template begins here and
continues in these modules:

- `strassen_shape`: the halves, their sums, and the errors
- `strassen_stages`: the computation and the schedule
- `bilinear_products`: the knobs and the schedule of the products, which Winograd's convolutions share
"""

from __future__ import annotations

import pegbox as pb
from pegbox import te
from pegbox.templates import bilinear_products, strassen_stages, threads
from pegbox.templates.matmul_arguments import plain, product_of
from pegbox.templates.strassen_shape import Strassen
from pegbox.templates.weights import packed


@pb.template("matmul_strassen")
def matmul_strassen(
    cfg: pb.TemplateConfig, M: int, K: int, N: int, dtype: str = "float32", weights: str = "plain"
) -> tuple[te.TESchedule, list[te.Tensor]]:
    """Compute C[M, N] = A[M, K] · B[K, N] as in `matmul`, in float32 or float64, by seven products of halves.

    Rows of A and columns of B are scaled to magnitudes near 1, so that a large one adds no error to the others. A
    number that is not finite makes its row or column, and the one that is paired with it, NaN.

    Raises:
        TemplateError: the type or `weights` has another value, or errors exceed the task's accuracy.
    """
    a = te.placeholder((M, K), name="A", dtype=dtype)
    b = te.placeholder((K, N), name="B", dtype=dtype)
    p = product_of(a, b, weights, cfg.target)
    halves = Strassen(p)
    halves.check(cfg.accuracy)
    cfg.add_flop(p.flop)
    if p.packed:  # packed weights are sums, more numbers than the weights, so there is no plain form
        b = te.placeholder(halves.weight_shape, name="B_packed", dtype=dtype)
    else:
        cfg.define_plain(lambda: [plain(p, a, b)])
    bilinear_products.declare(cfg, [halves.products], lambda _: halves.products)
    threads.declare(cfg, p.flop)
    stages = strassen_stages.compute(halves, a, b)
    return strassen_stages.schedule(cfg, halves, stages), [a, b, stages.out]


matmul_strassen.packs("B", weights="packed")(packed)
