"""`tvm.te.tensor_intrin`: descriptions of tensor intrinsics."""

from pegbox.te import decl_tensor_intrin as decl_tensor_intrin
