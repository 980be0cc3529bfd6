"""Gaussian processes as surrogate models."""
