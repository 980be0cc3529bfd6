"""`tvm.autotvm.task.space`: spaces and configurations by AutoTVM's names."""

from pegbox.errors import InvalidConfig as InstantiationError
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
]
