"""How a step of a CINN schedule is declared: one function on the state, by its signature and docstring.

    @step("Split")
    def split(state: ScheduleState, loop: Loop, factors: Sizes) -> Loops:
        '''Split a loop ...'''

The annotations are those of TensorIR's primitives. `STEPS` has what is declared, by CINN's names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvmagic.tir.schedule.instruction import InstructionKind

STEPS: dict[str, InstructionKind] = {}


def step(name: str, *, pure: bool = False) -> Callable[[Any], Any]:
    """Declare a function on the state as the step `name`; `pure` if it changes nothing."""

    def register(function: Any) -> Any:
        STEPS[name] = InstructionKind(name, function, pure, None, None)
        return function

    return register
