"""For authors of plugins: the contracts of tuners, cost models, runners and templates as test suites."""

from pegbox.search.testing import CostModelContract, TunerContract
from pegbox.testing.runner_contract import RunnerContract
from pegbox.testing.template_contract import TemplateContract

__all__ = ["CostModelContract", "RunnerContract", "TemplateContract", "TunerContract"]
