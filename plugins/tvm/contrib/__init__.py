"""`tvm.contrib`: temporary folders, and the system's linker."""

from pegbox.plugins.tvm.absence import names

__getattr__ = names(__name__)
