"""Built-in runners."""
