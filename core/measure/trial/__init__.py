"""A trial: its lowering, the arrays that candidates run on, the policy of timing, and the checks of results.

Names are imported when they are first used, so that reading a `TimingPolicy` does not load NumPy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pegbox.exports import on_demand

if TYPE_CHECKING:
    from pegbox.measure.trial.trial import CandidateArrays, run_interleaved, run_trial

__all__ = ["CandidateArrays", "run_interleaved", "run_trial"]

__getattr__ = on_demand(__name__)
