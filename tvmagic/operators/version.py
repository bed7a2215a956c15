"""A version of an operator: one schedule, with its compiled code."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tvmagic.errors import TVMagicError, visible
from tvmagic.ir import IRModule, PrimFunc
from tvmagic.ir.schedulable import Schedulable
from tvmagic.ir.views import viewed
from tvmagic.notation.source import Source
from tvmagic.operators.arrays import as_array, check_inputs, evaluate_size, share_memory, size_values
from tvmagic.operators.fast_path import QuickCall, quick_call
from tvmagic.operators.partial_pipeline import Edited
from tvmagic.operators.stage_memory import check_memory_of_stages
from tvmagic.passes import Record

if TYPE_CHECKING:
    from tvmagic.operators.operator import Operator

SLOW_SECONDS = 1.0  # of a call of the plain loops, from which a line says that they can be scheduled at once


@viewed("version")
class Version:
    """An operator with a schedule. Built when it is first called.

    `schedule` is a TE schedule, a TensorIR schedule, None for the plain loops, or a program in the middle of the
    passes (`Edited`); `record` the steps that its cell recorded.
    """

    def __init__(self, operator: Operator, schedule: Any, name: str = "default", record: Record | None = None) -> None:
        self.operator, self.schedule, self.name, self.record = operator, schedule, name, record
        self.modules: dict[bool, Any] = {}
        self.lowered: IRModule | None = None
        self.told = False
        self._quick: QuickCall | None = None
        self.source: Source | None = None  # the `%%schedule` cell that it is from
        self.scope: dict[str, Any] = {}  # what the cell's names are after it ran

    def __getstate__(self) -> dict[str, Any]:
        """What a pickle or a copy holds: all but the cell's names, and compiled code, which is made again when it is called."""
        return {**self.__dict__, "modules": {}, "scope": {}, "_quick": None}

    @property
    def function(self) -> PrimFunc | None:
        """The function that is lowered; None for a TE schedule, and for the plain loops of tensor expressions."""
        schedule = self.operator.prim_func if self.schedule is None else self.schedule
        if isinstance(schedule, Edited):
            schedule = schedule.module
        return function_of(schedule)

    def lower(self) -> IRModule:
        """The lowered module."""
        if self.lowered is None:
            self.lowered = self.operator.lower(self.schedule)
        return self.lowered

    def build(self, target: Any = None) -> Any:
        """The compiled module; kept where it is for this machine."""
        from tvmagic.codegen import compile_module

        checked = self.operator.checks_accesses
        if target is None and not self.modules:
            check_memory_of_stages(self.operator.name, self.operator.outputs, self.schedule)
        if target is not None:
            return compile_module(self._lowered(checked), target, checked)
        if checked not in self.modules:
            self.modules[checked] = compile_module(self._lowered(checked), None, checked)
        return self.modules[checked]

    def _lowered(self, checked: bool) -> IRModule:
        """The lowered module with assertions on sizes, and with checks of indices in it if they are wanted."""
        from tvmagic.driver import with_checks

        if not checked:
            return self.operator.with_needed_sizes(self.lower())
        with with_checks():
            return self.operator.with_needed_sizes(self.operator.lower(self.schedule))

    def __call__(self, *arrays: Any, out: Any = None, **named: Any) -> Any:
        op, quick = self.operator, self._quick
        if op.assertions:
            arrays, named = tuple(check_inputs(op.name, op.inputs, op.bind(arrays, named))), {}
            op.test_preconditions(arrays)
        if quick is not None and quick.checked is op.checks_accesses and not named:
            begin = time.perf_counter()
            given = quick(arrays, out)
            if given is not None:
                self._tell(time.perf_counter() - begin)
                return given
        values = check_inputs(op.name, op.inputs, op.bind(arrays, named))
        if out is None:
            outputs = op.fresh_outputs(values)
            self._run(op.arguments(values, outputs))
        else:
            outputs = list(out) if isinstance(out, (tuple, list)) else [out]
            if len(outputs) != len(op.outputs):
                has = "1 output" if len(op.outputs) == 1 else f"{len(op.outputs)} outputs"
                raise TVMagicError(
                    f"`{op.name}` has {has}, `out` is {arrays_text(len(outputs))}",
                    hint="pass one for each",
                    code="operator.wrong_output",
                )
            self._into(values, outputs)
        if (quick is None or quick.checked is not op.checks_accesses) and op.checks_accesses in self.modules:
            self._quick = quick_call(self, op.checks_accesses)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def _run(self, arguments: list[Any]) -> None:
        """Call the compiled code."""
        built = (self.operator.plain if self._reduces_nothing(arguments) else self).build()
        begin = time.perf_counter()
        built(*arguments)
        self._tell(time.perf_counter() - begin)

    def _tell(self, seconds: float) -> None:
        """After a slow call of plain loops, once: how they may be scheduled at once."""
        if seconds > SLOW_SECONDS and self.schedule is None and not self.told:
            self.told = True
            name = visible(self.operator.name)
            print(
                f"{name} took {seconds:.1f} s with plain loops; `%auto {name}` schedules it for this machine "
                f"(without a notebook: tvmagic.auto.auto({name}))",
                file=sys.stderr,
            )

    def _reduces_nothing(self, arguments: list[Any]) -> bool:
        """Whether a reduction may have no terms: its block of TensorIR runs for no iteration then, not even for its init."""
        if not self.of_blocks:
            return False
        computed, inputs = self.operator.computed_reductions, self.operator.inputs
        sizes = size_values(inputs, arguments[: len(inputs)]) if computed else {}
        return any(np.size(a) == 0 for a in arguments) or any(evaluate_size(size, sizes) <= 0 for size in computed)

    @property
    def of_blocks(self) -> bool:
        """Whether it is a TensorIR schedule of tensor expressions."""
        return self.operator.prim_func is None and self.function is not None

    def _into(self, values: list[np.ndarray], outputs: list[Any]) -> None:
        """Compute into the arrays of the caller; what shares memory with another argument gets its values at the end."""
        op = self.operator
        arrays: list[np.ndarray] | None = None
        if any(map(op.is_input, op.outputs)) or share_memory(values, outputs):
            arrays = [as_array(o, t.name) for o, t in zip(outputs, op.outputs)]
            check_inputs(op.name, [*op.inputs, *op.outputs], [*values, *arrays])
        if arrays is None:
            self._run(op.arguments(values, outputs))
        elif self._is_disjoint(values, arrays):
            op.start(values, arrays)
            self._run(op.arguments(values, arrays))
        else:
            fresh = op.fresh_outputs(values)
            self._run(op.arguments(values, fresh))
            for array, result in zip(arrays, fresh):
                np.copyto(array, result)

    def _is_disjoint(self, values: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> bool:
        """Whether no output shares memory with another argument, other than an input that it is the update of."""
        op = self.operator
        pairs = [(t, a) for t, a in zip(op.outputs, outputs)]
        for number, (tensor, array) in enumerate(pairs):
            others = [v for t, v in zip(op.inputs, values) if not (t is tensor and v is array)]
            others += [a for _, a in pairs[:number]]
            if any(np.may_share_memory(array, other) for other in others):
                return False
        return True

    def __repr__(self) -> str:
        return f"<Version {visible(self.name)} of {self.operator.signature}>"


def function_of(value: Any) -> PrimFunc | None:
    """Return the function of a module, of a schedule of TensorIR or CINN, or of a tiling of Ascend. None unless there is exactly one."""
    if not isinstance(value, (PrimFunc, IRModule)):
        value = value.lower() if isinstance(value, Schedulable) and not value.needs_args else None
    if isinstance(value, IRModule):
        functions = [f for f in value.functions.values() if isinstance(f, PrimFunc)]
        value = functions[0] if len(functions) == 1 else None
    return value


def arrays_text(count: int) -> str:
    """`1 array`, `2 arrays`."""
    return f"{count} array" if count == 1 else f"{count} arrays"
