"""Rewrites of programs that several primitives share: copies, layouts, inlined values, and moves of blocks."""
