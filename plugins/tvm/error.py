"""`tvm.error`: TVM's names of errors; each catches what pegbox raises in its place."""

from __future__ import annotations

from pegbox.errors import PegboxError

TVMError = InternalError = RPCError = DiagnosticError = PegboxError
OpError = OpNotImplemented = OpAttributeRequired = PegboxError
