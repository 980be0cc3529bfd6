"""`tvm.autotvm.measure`: how candidates are built and run."""

from pegbox.plugins.tvm.absence import names
from pegbox.plugins.tvm.autotvm.measure.measure import Builder as Builder
from pegbox.plugins.tvm.autotvm.measure.measure import MeasureErrorNo as MeasureErrorNo
from pegbox.plugins.tvm.autotvm.measure.measure import MeasureInput as MeasureInput
from pegbox.plugins.tvm.autotvm.measure.measure import MeasureResult as MeasureResult
from pegbox.plugins.tvm.autotvm.measure.measure import Runner as Runner
from pegbox.plugins.tvm.autotvm.measure.measure_methods import BuildResult as BuildResult
from pegbox.plugins.tvm.autotvm.measure.measure_methods import LocalBuilder as LocalBuilder
from pegbox.plugins.tvm.autotvm.measure.measure_methods import LocalRunner as LocalRunner
from pegbox.plugins.tvm.autotvm.measure.measure_methods import RPCRunner as RPCRunner
from pegbox.plugins.tvm.autotvm.measure.measure_methods import create_measure_batch as create_measure_batch
from pegbox.plugins.tvm.autotvm.measure.measure_methods import default_module_loader as default_module_loader
from pegbox.plugins.tvm.autotvm.measure.measure_methods import measure_option as measure_option
from pegbox.plugins.tvm.autotvm.measure.measure_methods import request_remote as request_remote

__getattr__ = names(__name__)
