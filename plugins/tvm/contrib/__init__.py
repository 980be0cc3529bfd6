"""`tvm.contrib`: a library in kernels, the system's linker and compiler, and temporary folders."""

from pegbox.plugins.tvm.absence import names

__getattr__ = names(__name__, {"cblas": "cblas", "cc": "cc", "clang": "clang", "utils": "utils"})
