"""Jobs of worker processes (the child side), and their replies, which are checked on arrival."""
