"""`tvm._ffi`: functions by name, which older scripts take from here."""

from pegbox.plugins.tvm.registry import get_global_func as get_global_func
from pegbox.plugins.tvm.registry import register_func as register_func
