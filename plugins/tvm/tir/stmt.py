"""`tvm.tir.stmt`: the statements, with pegbox's fields."""

from __future__ import annotations

from pegbox.loops.nodes import Alloc, If, Region, Seq, Store
from pegbox.loops.nodes import Block as Block
from pegbox.loops.nodes import BlockRealize as BlockRealize
from pegbox.loops.nodes import Evaluate as Evaluate
from pegbox.loops.nodes import For as For
from pegbox.loops.nodes import ForKind as ForKind
from pegbox.loops.nodes import Stmt as Stmt

Allocate = Alloc
BufferRegion = Region
BufferStore = Store
IfThenElse = If
SeqStmt = Seq
