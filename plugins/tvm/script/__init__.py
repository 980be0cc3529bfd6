"""`tvm.script`: programs written as Python functions, by TVM's names."""

import pegbox.tir.script

from_source = pegbox.tir.script.from_source
ir, tir = pegbox.tir.script.ir, pegbox.tir.script.tir
ir_module = ir.ir_module
