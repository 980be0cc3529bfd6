"""`tvm.script`: programs written as Python functions, by TVM's names."""

from pegbox.tir.script import ir as ir
from pegbox.tir.script import tir as tir
