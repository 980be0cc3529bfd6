"""From lowered functions to LLVM assembly text."""
