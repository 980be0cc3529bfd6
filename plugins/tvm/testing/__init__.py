"""`tvm.testing`: comparisons, for scripts and tests."""

from __future__ import annotations

from pegbox.plugins.tvm.absence import names
from pegbox.plugins.tvm.testing.utils import assert_allclose as assert_allclose
from pegbox.plugins.tvm.testing.utils import device_enabled as device_enabled
from pegbox.plugins.tvm.testing.utils import enabled_targets as enabled_targets
from pegbox.plugins.tvm.testing.utils import main as main
from pegbox.plugins.tvm.testing.utils import parameter as parameter
from pegbox.plugins.tvm.testing.utils import parameters as parameters
from pegbox.plugins.tvm.testing.utils import requires_cuda as requires_cuda
from pegbox.plugins.tvm.testing.utils import requires_gpu as requires_gpu
from pegbox.plugins.tvm.testing.utils import requires_llvm as requires_llvm

__getattr__ = names(__name__)
