"""Test suites (contracts) for authors of tuners, cost models, runners, templates and operators."""

from pegbox.search.testing import CostModelContract, TunerContract
from pegbox.testing.operator_contract import OperatorContract
from pegbox.testing.runner_contract import RunnerContract
from pegbox.testing.template_contract import TemplateContract

__all__ = ["CostModelContract", "OperatorContract", "RunnerContract", "TemplateContract", "TunerContract"]
