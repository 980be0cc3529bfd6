"""Comparing tuners: the runs, what follows from them, and the report."""

from pegbox.search.comparison.conduct import ComparisonInterrupted, compare
from pegbox.search.comparison.contenders import TunerLike
from pegbox.search.comparison.report import Comparison
from pegbox.search.comparison.runs import Run, Setup, TaskInfo
from pegbox.search.comparison.summary import Reach, Summary
from pegbox.search.comparison.verdicts import Question, Verdict

__all__ = [
    "Comparison",
    "ComparisonInterrupted",
    "Question",
    "Reach",
    "Run",
    "Setup",
    "Summary",
    "TaskInfo",
    "TunerLike",
    "Verdict",
    "compare",
]
