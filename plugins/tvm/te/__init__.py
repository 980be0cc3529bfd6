"""`tvm.te`: the compute language and TE schedules, by TVM's names."""

from pegbox.te import *  # noqa: F403  # isort: skip  (TVM's names are pegbox's, but for those below)
from pegbox.plugins.tvm.absence import names
from pegbox.plugins.tvm.te import autodiff as autodiff
from pegbox.plugins.tvm.te import hybrid as hybrid
from pegbox.plugins.tvm.te import operation as operation
from pegbox.plugins.tvm.te import schedule as schedule
from pegbox.plugins.tvm.te import tag as tag
from pegbox.plugins.tvm.te import tensor as tensor
from pegbox.plugins.tvm.te import tensor_intrin as tensor_intrin
from pegbox.plugins.tvm.te.autodiff import gradient as gradient
from pegbox.plugins.tvm.te.operation import create_prim_func as create_prim_func  # type: ignore[assignment]
from pegbox.plugins.tvm.te.operation import extern_primfunc as extern_primfunc
from pegbox.plugins.tvm.te.operation import trace as trace
from pegbox.plugins.tvm.te.reduction import comm_reducer as comm_reducer
from pegbox.plugins.tvm.te.reduction import max as max
from pegbox.plugins.tvm.te.reduction import min as min
from pegbox.plugins.tvm.te.reduction import prod as prod
from pegbox.plugins.tvm.te.reduction import sum as sum
from pegbox.plugins.tvm.te.schedule import AXIS_SEPARATOR as AXIS_SEPARATOR
from pegbox.plugins.tvm.te.schedule import Schedule as Schedule
from pegbox.plugins.tvm.te.schedule import SpecializedCondition as SpecializedCondition
from pegbox.plugins.tvm.te.tensor import ComputeOp as ComputeOp
from pegbox.plugins.tvm.te.tensor import ExternOp as ExternOp
from pegbox.plugins.tvm.te.tensor import PlaceholderOp as PlaceholderOp
from pegbox.plugins.tvm.te.tensor import ScanOp as ScanOp

__getattr__ = names(__name__)
