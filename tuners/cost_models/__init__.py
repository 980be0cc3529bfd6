"""Built-in cost models."""
