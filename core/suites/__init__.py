"""Suites: named collections of problems for comparing tuners, read from folders."""

from pegbox.suites.content import recorded_digest
from pegbox.suites.folder import load_suite, shipped_suites
from pegbox.suites.suite import Missing, Problem, Suite

__all__ = ["Missing", "Problem", "Suite", "load_suite", "recorded_digest", "shipped_suites"]
