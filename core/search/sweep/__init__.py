"""Measuring a whole space, or a fair sample of it."""
