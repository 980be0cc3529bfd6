"""`tvm.autotvm.task`: templates, tasks and their spaces."""

from pegbox.plugins.tvm.autotvm.task import space as space
from pegbox.plugins.tvm.autotvm.task import task as task
from pegbox.plugins.tvm.autotvm.task.space import ConfigSpace as ConfigSpace
from pegbox.plugins.tvm.autotvm.task.task import Task as Task
from pegbox.plugins.tvm.autotvm.task.task import create as create
from pegbox.plugins.tvm.autotvm.task.task import get_config as get_config
from pegbox.plugins.tvm.autotvm.task.task import template as template
