"""`tvm.autotvm.task`: templates, tasks, their spaces, and the contexts that choose configurations."""

from pegbox.plugins.tvm.absence import names
from pegbox.plugins.tvm.autotvm.task import dispatcher as dispatcher
from pegbox.plugins.tvm.autotvm.task import space as space
from pegbox.plugins.tvm.autotvm.task import task as task
from pegbox.plugins.tvm.autotvm.task.dispatcher import ApplyConfig as ApplyConfig
from pegbox.plugins.tvm.autotvm.task.dispatcher import DispatchContext as DispatchContext
from pegbox.plugins.tvm.autotvm.task.dispatcher import FallbackContext as FallbackContext
from pegbox.plugins.tvm.autotvm.task.dispatcher import clear_fallback_cache as clear_fallback_cache
from pegbox.plugins.tvm.autotvm.task.space import ConfigEntity as ConfigEntity
from pegbox.plugins.tvm.autotvm.task.space import ConfigSpace as ConfigSpace
from pegbox.plugins.tvm.autotvm.task.space import FallbackConfigEntity as FallbackConfigEntity
from pegbox.plugins.tvm.autotvm.task.task import Task as Task
from pegbox.plugins.tvm.autotvm.task.task import args_to_workload as args_to_workload
from pegbox.plugins.tvm.autotvm.task.task import create as create
from pegbox.plugins.tvm.autotvm.task.task import deserialize_args as deserialize_args
from pegbox.plugins.tvm.autotvm.task.task import get_config as get_config
from pegbox.plugins.tvm.autotvm.task.task import register_topi_compute as register_topi_compute
from pegbox.plugins.tvm.autotvm.task.task import register_topi_schedule as register_topi_schedule
from pegbox.plugins.tvm.autotvm.task.task import serialize_args as serialize_args
from pegbox.plugins.tvm.autotvm.task.task import template as template

_HISTORY = "pegbox.plugins.tvm.autotvm.history"
__getattr__ = names(__name__, {"ApplyHistoryBest": _HISTORY, "apply_history_best": _HISTORY})
