"""The runtime: LLVM text to object code, to kernels in this process, and to files."""
