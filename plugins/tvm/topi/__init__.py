"""`tvm.topi`: the operators that TVM's tutorials use, as computations."""
