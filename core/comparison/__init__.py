"""Comparison of tuners: the runs, the statistics, and the report."""

from pegbox.comparison.aggregate.aggregate import Aggregate
from pegbox.comparison.arguments import TunerLike
from pegbox.comparison.experiment import RunSpec
from pegbox.comparison.jsonform import REPORT
from pegbox.comparison.landscape import Landscape
from pegbox.comparison.pool import LocalPool, RunPool
from pegbox.comparison.progress import ComparisonInterrupted, compare
from pegbox.comparison.report import Comparison
from pegbox.comparison.runs import BrokenRun, Run, Setup, TaskInfo
from pegbox.comparison.summary import Reach, Summary
from pegbox.comparison.verdicts import Question, Verdict

__all__ = [
    "REPORT",
    "Aggregate",
    "BrokenRun",
    "Comparison",
    "ComparisonInterrupted",
    "Landscape",
    "LocalPool",
    "Question",
    "Reach",
    "Run",
    "RunPool",
    "RunSpec",
    "Setup",
    "Summary",
    "TaskInfo",
    "TunerLike",
    "Verdict",
    "compare",
]
