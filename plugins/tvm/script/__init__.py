"""`tvm.script`: programs written as Python functions, by TVM's names."""

from pegbox.tir.script import from_source as from_source
from pegbox.tir.script import ir as ir
from pegbox.tir.script import tir as tir
from pegbox.tir.script.ir import ir_module as ir_module
