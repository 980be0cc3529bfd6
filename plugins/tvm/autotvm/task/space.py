"""`tvm.autotvm.task.space`: spaces and configurations by AutoTVM's names."""

from pegbox.errors import InvalidConfig as InstantiationError
from pegbox.plugins.tvm.absence import names
from pegbox.plugins.tvm.autotvm.task.config import ConfigEntity
from pegbox.plugins.tvm.autotvm.task.config_space import ConfigSpace
from pegbox.plugins.tvm.autotvm.task.entities import (
    AnnotateEntity,
    OtherOptionEntity,
    ReorderEntity,
    SplitEntity,
    VirtualAxis,
)
from pegbox.plugins.tvm.autotvm.task.fallback import FallbackConfigEntity
from pegbox.space.split import divisors as get_factors
from pegbox.space.split import powers_of_two as get_pow2s

__getattr__ = names(__name__)

__all__ = [
    "AnnotateEntity",
    "ConfigEntity",
    "ConfigSpace",
    "FallbackConfigEntity",
    "InstantiationError",
    "OtherOptionEntity",
    "ReorderEntity",
    "SplitEntity",
    "VirtualAxis",
    "get_factors",
    "get_pow2s",
]
