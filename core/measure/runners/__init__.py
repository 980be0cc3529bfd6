"""Runners, which turn compiled candidates into results, and the calls of those of plugins."""
