"""`tvm.contrib`: a library in kernels, the system's linker and compiler, and temporary folders."""

from pegbox.plugins.tvm.absence import names

__getattr__ = names(__name__, {name: f"{__name__}.{name}" for name in ("cblas", "cc", "clang", "utils")})
