"""The runtime, which turns LLVM text into object code, kernels in this process, and files."""
