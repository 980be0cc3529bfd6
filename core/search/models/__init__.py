"""Inputs of cost models, experience, and reports on the quality of predictions."""
