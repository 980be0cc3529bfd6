"""`tvm.topi`: the operators that TVM's tutorials and templates use, as computations by TVM's names.

Schedules of single processors (`topi.x86`, `topi.cuda`) are not here: pegbox searches them.
"""

from __future__ import annotations

from pegbox.plugins.tvm.topi import generic as generic
from pegbox.plugins.tvm.topi import nn as nn
from pegbox.plugins.tvm.topi import testing as testing
from pegbox.plugins.tvm.topi import utils as utils
from pegbox.plugins.tvm.topi.broadcast import *  # noqa: F403  (names only)
from pegbox.plugins.tvm.topi.math import *  # noqa: F403
from pegbox.plugins.tvm.topi.product import *  # noqa: F403
from pegbox.plugins.tvm.topi.reduction import *  # noqa: F403
from pegbox.plugins.tvm.topi.scan import *  # noqa: F403
from pegbox.plugins.tvm.topi.schedule import Schedules
from pegbox.plugins.tvm.topi.transform import *  # noqa: F403

arm_cpu = Schedules("topi.arm_cpu")
cuda = Schedules("topi.cuda")
x86 = Schedules("topi.x86")
