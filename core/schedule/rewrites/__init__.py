"""Program rewrites that several primitives share: copies, layouts, inlined values, and moves of blocks."""
