"""`topi.nn.utils`: paddings as numbers."""

from pegbox.plugins.tvm.topi.nn.border import get_pad_tuple as get_pad_tuple
