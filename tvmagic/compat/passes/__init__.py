"""Passes of TVM that no pipeline here runs, at the names of `tir.transform`."""

from tvmagic.compat.passes.functions import AnnotateEntryFunc, Apply, BindTarget, Filter
from tvmagic.compat.passes.print_ir import PrintIR
from tvmagic.compat.passes.rolling_buffer import InjectRollingBuffer

__all__ = ["AnnotateEntryFunc", "Apply", "BindTarget", "Filter", "InjectRollingBuffer", "PrintIR"]
