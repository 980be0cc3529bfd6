"""`tvm.te.tag`: tags of operations."""

from pegbox.te import tag_scope as tag_scope
