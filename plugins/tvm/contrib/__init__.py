"""`tvm.contrib`: temporary folders, and the system's linker."""
