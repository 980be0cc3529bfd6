"""Sweeps: measure a whole space, or a uniform sample of it."""
