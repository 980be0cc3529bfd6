"""The emitter: lowered functions to LLVM assembly text."""
