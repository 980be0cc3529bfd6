"""Workloads by name: computations without a schedule, for space generators."""

from __future__ import annotations
