"""`tvm.te.tensor`: tensors, and the operations that make them."""

from pegbox.compute.scan_op import ScanOp as ScanOp
from pegbox.compute.tensor import ComputeOp as ComputeOp
from pegbox.compute.tensor import ExternOp as ExternOp
from pegbox.compute.tensor import Operation as Operation
from pegbox.compute.tensor import PlaceholderOp as PlaceholderOp
from pegbox.plugins.tvm.absence import names
from pegbox.te import Tensor as Tensor
from pegbox.te import TensorSlice as TensorSlice

__getattr__ = names(__name__)
