"""CINN's view of the same programs: schedule blocks, its inliner, its automatic inlining.

`IRSchedule` is a TensorIR schedule in CINN's terms; `AutoInline` and `StaticShapeGroupScheduler`
decide what is inlined; the text is printed by `tvmagic.script.cinn_text` and read by `from_cinn`.
"""

from tvmagic.cinn.auto_inline import AutoInline, AutoInlineType, Verdict
from tvmagic.cinn.block_graph import ScheduleBlockGraph, ScheduleBlockNode
from tvmagic.cinn.conditions import COMPUTE_INLINE, REVERSE_COMPUTE_INLINE, Candidate, Condition
from tvmagic.cinn.group_scheduler import StaticShapeGroupScheduler
from tvmagic.cinn.inliner import (
    BaseInliner,
    ComputeInliner,
    LeafBlockRemovalPlan,
    MappingVarToExprMutator,
    ReverseComputeInliner,
    replace_expr,
)
from tvmagic.cinn.ir_schedule import IRSchedule, ModuleExpr
from tvmagic.cinn.lower import lower
from tvmagic.cinn.rule import AutoGenRule, RuleApplyType
from tvmagic.cinn.rules import AutoBind, AutoUnroll, MultiLevelTiling, SkipRule, TilingConfig
from tvmagic.cinn.search import SearchSpace, SearchState
from tvmagic.cinn.text.printer import cinn_text
from tvmagic.cinn.trace import ScheduleDesc
from tvmagic.errors import ScheduleError

__all__ = [
    "COMPUTE_INLINE",
    "REVERSE_COMPUTE_INLINE",
    "AutoBind",
    "AutoGenRule",
    "AutoInline",
    "AutoInlineType",
    "AutoUnroll",
    "BaseInliner",
    "Candidate",
    "ComputeInliner",
    "Condition",
    "IRSchedule",
    "LeafBlockRemovalPlan",
    "MappingVarToExprMutator",
    "ModuleExpr",
    "MultiLevelTiling",
    "ReverseComputeInliner",
    "RuleApplyType",
    "ScheduleError",
    "ScheduleBlockGraph",
    "ScheduleBlockNode",
    "ScheduleDesc",
    "SearchSpace",
    "SearchState",
    "SkipRule",
    "StaticShapeGroupScheduler",
    "TilingConfig",
    "Verdict",
    "cinn_text",
    "lower",
    "replace_expr",
]
