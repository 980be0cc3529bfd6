"""Every built-in template keeps the contract of templates; tests/templates has more cases of each."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pegbox import te
from pegbox.hooks import registry
from pegbox.testing import TemplateContract

CASES: dict[str, tuple[tuple[Any, ...], ...]] = {
    "matmul": (
        (8, 16, 32),
        (7, 13, 37),
        (1, 1, 1),
        (1, 17, 33),
        (19, 1, 5),
        (5, 9, 1),
        (3, 5, 17, "float64"),
        (33, 34, 35, "float64"),
        (64, 64, 64),
    ),
    "batch_matmul": (
        (3, 8, 16, 32),
        (1, 7, 13, 17),
        (9, 2, 3, 5),
        (8, 1, 9, 11),
        (2, 5, 6, 7, "float64"),
        (2, 5, 6, 37, "float32", "packed"),
    ),
    "matmul_strassen": ((33, 21, 50), (5, 7, 3, "float64")),
    "attention": (
        (1, 2, 7, 33, 16),
        (2, 4, 9, 40, 9, 2, True),
        (1, 4, 1, 70, 8, 2),
        (1, 1, 1, 1, 1),
        (1, 2, 33, 65, 16, 1, True, 0.5, 7, "float64"),
    ),
    "conv2d": (
        (1, 4, 6, 6, 17, 3, 3, 1, 1),
        (2, 3, 9, 11, 5, 5, 3, (2, 1), (2, 1)),
        (1, 1, 1, 1, 1, 1, 1),
    ),
    "conv2d_im2col": ((1, 4, 6, 6, 17, 3, 3, 1, 1), (2, 3, 9, 11, 5, 5, 3, (2, 1), (2, 1), 1, "NHWC")),
    "conv2d_winograd": ((1, 4, 8, 9, 17, 3, 3, 1, 1),),
    "depthwise_conv2d": (
        (1, 6, 8, 9, 3, 3, 1, 1),
        (2, 9, 7, 7, 5, 5, 2, 2),
        (1, 17, 7, 6, 3, 3, 2, 1, 1, "NHWC"),
        (1, 1, 1, 1, 1, 1),
    ),
    "separable_conv2d": (
        (1, 6, 8, 9, 10, 3, 3, 1, 1),
        (2, 9, 7, 7, 20, 5, 5, 2, 2, 1, "relu", True),
        (1, 17, 7, 6, 20, 3, 3, 2, 1, 1, "relu6", True, "NHWC"),
        (1, 1, 1, 1, 1, 1, 1),
    ),
    "group_conv2d": (
        (1, 16, 8, 9, 16, 3, 3, 2, 1, 1),
        (2, 12, 7, 7, 24, 3, 3, 3, 2, 1),
        (1, 2, 1, 1, 2, 1, 1, 2),
        (1, 6, 5, 7, 20, 3, 3, 2, 1, 1, 1, "NHWC", "packed"),
    ),
    **dict.fromkeys(("softmax", "log_softmax"), ((5, 37), (1, 1), (9, 64, "float64"), (3, 50, "bfloat16"))),
    **dict.fromkeys(("layer_norm", "rms_norm"), ((5, 37), (9, 64, 1e-3, "float64"), (3, 50, 1e-5, "float16"))),
}

BUILT_IN = [
    name for plugin in registry.plugins() if plugin.source == "built in" for name in plugin.provides.get("template", ())
]

# Taken from the registry, so that no template can be left out; pytest collects classes that are called Test...
for _name in BUILT_IN:
    _body = {"template": _name, "cases": CASES[_name], "__module__": __name__}
    globals()[f"Test[{_name}]"] = type(f"Test[{_name}]", (TemplateContract,), _body)


def test_every_template_with_cases_is_built_in() -> None:
    assert set(CASES) == set(BUILT_IN)


def broken(cfg: Any, n: int, fault: str) -> Any:
    """Sums rows in an order of loops, wrongly in one way."""
    a = te.placeholder((n, n, n), name="A")
    b = te.compute((n, n, n), lambda i, j, k: a[i, j, k] * 2, name="B")
    s = te.create_schedule(b.op)
    i, j, k = s[b].op.axis
    cfg.define_knob("order", ["ijk", "jik", "kij"])
    cfg.define_knob("unroll", [1, 2, 4])
    order = cfg["order"].val
    second = [j, i, k] if order == "jik" or fault == "duplicates" else [k, i, j]
    s[b].reorder(*([i, j, k] if order == "ijk" else second))
    if fault != "dead knob":
        s[b].unroll(s[b].split(k, factor=cfg["unroll"].val)[1])
    if fault == "number as text":
        s[b].split(i, factor=int(json.dumps(cfg["unroll"].val)))
    return s, [a, b]


@pytest.mark.parametrize(
    ("fault", "checks"),
    [
        ("", ()),
        ("duplicates", ("test_every_value_of_every_knob_changes_the_program",)),
        (
            "dead knob",
            ("test_every_value_of_every_knob_changes_the_program", "test_every_knob_changes_the_program"),
        ),
        ("number as text", ("test_the_numbers_of_its_knobs_can_be_traced",)),
    ],
)
def test_the_contract_catches_a_template_that_breaks_it(fault: str, checks: tuple[str, ...]) -> None:
    class Broken(TemplateContract):
        template = staticmethod(broken)
        cases = ((6, fault),)
        configs = 9

    for check in dir(TemplateContract):
        if not check.startswith("test_") or "another_process" in check or "pickled" in check:
            continue
        if check in checks:
            with pytest.raises(AssertionError):
                getattr(Broken(), check)()
        else:
            getattr(Broken(), check)()
