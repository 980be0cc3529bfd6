"""Jobs of worker processes (the child side), and their replies, which are checked when they arrive."""
