"""Templates made of sketches keep the contract of templates."""

from __future__ import annotations

from pegbox.plugins.sketch.generator import SketchGenerator
from pegbox.task.workload import generated_template
from pegbox.testing import TemplateContract


class SketchContract(TemplateContract):
    """The levels of tiles overlap: a tile of one iteration in this level or in that one is the same program."""

    unchanged = 0.6
    values = 2
    configs = 3


class TestSketchesOfMatmul(SketchContract):
    template = generated_template("matmul_bias_relu", "sketch")
    cases = ((6, 16, 32), (5, 7, 11))


class TestSketchesOfMatmulOnOneCore(SketchContract):
    template = generated_template("matmul", "sketch")
    cases = ((16, 8, 32), (4, 4, 4, "float64"))
    target = "llvm -num-cores 1"


class TestSketchesOfReductions(SketchContract):
    template = generated_template("softmax", "sketch")
    cases = ((6, 32), (5, 7))


class TestSketchesOfAConvolution(SketchContract):
    template = generated_template("conv2d_bn_relu", "sketch")
    cases = ((1, 4, 6, 6, 4, 3, 1, 1),)


class TestSketchesByAnsorsRules(SketchContract):
    template = generated_template("matmul", SketchGenerator(rules="ansor"))
    cases = ((6, 16, 32),)
