"""Ascend's view of a fused operator: HintGraph, Auto Schedule, ImplGraph, tiling.

An `AscGraph` is built by calls (`ops`) or of tensor expressions (`hint_graph`), checked (`check_hint`), scheduled into ImplGraphs, and
lowered to the IR of the other packages. After the user's guide of CANN's graph engine.
"""

from tvmagic.ascend import ops
from tvmagic.ascend.autoschedule import (
    ImplGraph,
    ScheduleGroup,
    ScheduleResult,
    TilingGroups,
    auto_schedule,
    merge_axes,
    tiling_groups,
)
from tvmagic.ascend.dump_parser import parse_graph
from tvmagic.ascend.dump_printer import graph_text
from tvmagic.ascend.evaluate import evaluate
from tvmagic.ascend.from_te import hint_graph
from tvmagic.ascend.graph import (
    AscendError,
    AscGraph,
    AscNode,
    AscTensor,
    Axis,
    AxisType,
    GraphType,
    Memory,
    Queue,
    Sched,
    TmpBuffer,
)
from tvmagic.ascend.lower import lower_graph, lower_graphs
from tvmagic.ascend.machine import NPUS, Machine, Npu, machine_of, this_machine
from tvmagic.ascend.pseudo import pseudo_code
from tvmagic.ascend.sizes import Size, ceiling, parse_size
from tvmagic.ascend.tiling import Choice, Tiling, auto_tiling, compile_graph
from tvmagic.ascend.tiling_data import TilingData
from tvmagic.ascend.transforms import (
    apply_merge,
    apply_reorder,
    apply_sched_merge,
    apply_sched_reorder,
    apply_sched_split,
    apply_split,
    apply_tensor_merge,
    apply_tensor_reorder,
    apply_tensor_split,
    are_neighbours,
    block_split,
    merge_axis,
    tile_split,
)
from tvmagic.ascend.verifier import check_graph, check_hint, check_impl

__all__ = [name for name in dir() if not name.startswith("_")]
