"""What a schedule holds: the program, handles to its blocks and loops, and the trace of its steps."""
