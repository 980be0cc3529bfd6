"""`tvm.autotvm.tuner`: tuners by AutoTVM's names, and callbacks."""

from pegbox.plugins.tvm.absence import names
from pegbox.plugins.tvm.autotvm.tuner import callback as callback
from pegbox.plugins.tvm.autotvm.tuner.droplet_tuner import DropletTuner as DropletTuner
from pegbox.plugins.tvm.autotvm.tuner.ga_tuner import GATuner as GATuner
from pegbox.plugins.tvm.autotvm.tuner.index_based_tuner import GridSearchTuner as GridSearchTuner
from pegbox.plugins.tvm.autotvm.tuner.index_based_tuner import RandomTuner as RandomTuner
from pegbox.plugins.tvm.autotvm.tuner.tuner import Tuner as Tuner
from pegbox.plugins.tvm.autotvm.tuner.xgboost_tuner import XGBTuner as XGBTuner

__getattr__ = names(__name__)
