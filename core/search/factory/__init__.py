"""From names and options to tuners and cost models."""
