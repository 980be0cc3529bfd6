"""Rewriting programs, from tree to tree: what the primitives do once they have checked."""
