"""TensorIR schedules: the state, the primitives, the trace."""

from __future__ import annotations

import importlib
from typing import Any as _Any

from tvmagic import find_name as _find_name
from tvmagic.tir.blocks.error import ScheduleError
from tvmagic.tir.blocks.flags import CachedFlags
from tvmagic.tir.blocks.scope import BlockScope, Dependency, DepKind
from tvmagic.tir.blocks.sref import StmtSRef
from tvmagic.tir.schedule import primitives
from tvmagic.tir.schedule.instruction import BlockRV, ExprRV, Instruction, InstructionKind, LoopRV
from tvmagic.tir.schedule.schedule import Schedule, install
from tvmagic.tir.schedule.state import ScheduleDebugMask, ScheduleState
from tvmagic.tir.schedule.trace import Trace

install(Schedule)

_PACKAGES = ("analysis", "testing", "transform")


def __getattr__(name: str) -> _Any:
    if name in _PACKAGES:  # loaded when first asked for
        return importlib.import_module(f"tvmagic.tir.schedule.{name}")
    return _find_name("tvmagic.tir.schedule", name)


__all__ = [
    "BlockRV",
    "BlockScope",
    "CachedFlags",
    "DepKind",
    "Dependency",
    "ExprRV",
    "Instruction",
    "InstructionKind",
    "LoopRV",
    "Schedule",
    "ScheduleDebugMask",
    "ScheduleError",
    "ScheduleState",
    "StmtSRef",
    "Trace",
    "primitives",
]
