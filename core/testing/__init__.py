"""Test suites (contracts) for authors of tuners, cost models, runners and templates."""

from pegbox.search.testing import CostModelContract, TunerContract
from pegbox.testing.runner_contract import RunnerContract
from pegbox.testing.template_contract import TemplateContract

__all__ = ["CostModelContract", "RunnerContract", "TemplateContract", "TunerContract"]
