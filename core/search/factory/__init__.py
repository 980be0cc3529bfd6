"""Factories: make tuners and cost models from names and options."""
