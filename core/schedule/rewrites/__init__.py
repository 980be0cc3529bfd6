"""Rewrites of the program tree: what primitives do after their checks."""
