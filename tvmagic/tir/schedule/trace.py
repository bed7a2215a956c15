"""The trace of a schedule: its instructions in order, and the decisions that sampling took."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tvmagic.arith.index_map import IndexMap
from tvmagic.errors import TVMagicError, WrongTypeError, a_thing
from tvmagic.ir import Identified, IntImm, PrimExpr, Var, substitute
from tvmagic.ir.query import variables_in
from tvmagic.ir.views import viewed
from tvmagic.script.printer.show import show_text
from tvmagic.tir.schedule.guards import is_list, is_mapping, is_row, is_tuple
from tvmagic.tir.schedule.instruction import (
    BlockRV,
    Instruction,
    InstructionKind,
    LoopRV,
    is_random_variable,
)


@viewed("trace")
class Trace(Identified):
    """Instructions (`insts`), and the `decisions` of those that sample."""

    def __init__(self, insts: list[Instruction] | None = None, decisions: dict[Instruction, Any] | None = None) -> None:
        self.insts: list[Instruction] = list(insts or [])
        self.decisions: dict[Instruction, Any] = dict(decisions or {})

    def get_decision(self, inst: Instruction) -> Any:
        """What was decided at an instruction that samples, or None."""
        return self.decisions.get(inst)

    def append(self, inst: Instruction, decision: Any = None) -> None:
        """Add an instruction at the end."""
        self.insts.append(inst)
        if decision is not None:
            self.decisions[inst] = decision

    def pop(self) -> Instruction | None:
        """Take the last instruction away."""
        if not self.insts:
            return None
        inst = self.insts.pop()
        self.decisions.pop(inst, None)
        return inst

    def copy(self) -> Trace:
        """The same calls and decisions, to go on from."""
        new = Trace(self.insts)
        new.decisions = dict(self.decisions)
        return new

    def with_decision(self, inst: Instruction, decision: Any, remove_postproc: bool) -> Trace:
        """The trace with another decision at `inst`."""
        new = self._before_postproc() if remove_postproc else self.copy()
        new.decisions[inst] = decision
        return new

    def _before_postproc(self) -> Trace:
        end = next((i for i, inst in enumerate(self.insts) if inst.kind.name == "EnterPostproc"), len(self.insts))
        new = Trace(self.insts[:end])
        new.decisions = {i: self.decisions[i] for i in new.insts if i in self.decisions}
        return new

    def simplified(self, remove_postproc: bool) -> Trace:
        """The trace without instructions that change nothing and whose results nobody uses."""
        source = self._before_postproc() if remove_postproc else self
        used: set[int] = set()
        kept: list[Instruction] = []
        for inst in reversed(source.insts):
            if inst.kind.is_pure and not any(id(rv) in used for rv in inst.outputs):
                continue
            kept.append(inst)
            for value in inst.inputs:
                used |= {id(rv) for rv in _variables(value)}
        kept.reverse()
        new = Trace(kept)
        new.decisions = {i: source.decisions[i] for i in kept if i in source.decisions}
        return new

    def apply_to_schedule(
        self,
        sch: Any,
        remove_postproc: bool = False,
        decision_provider: Callable[[Instruction, list[Any], list[Any], Any], Any] | None = None,
    ) -> None:
        """Run the instructions on another schedule.

        `decision_provider(inst, inputs, attrs, decision)` may give other decisions.
        """
        _check_schedule(sch)
        mapping: dict[Any, Any] = {}
        source = self._before_postproc() if remove_postproc else self
        for inst in source.insts:
            inputs = [_translate(value, mapping) for value in inst.inputs]
            decision = self.decisions.get(inst)
            if decision_provider is not None:
                decision = decision_provider(inst, inputs, inst.attrs, decision)
            outputs = sch.run_instruction(inst.kind, inputs, inst.attrs, decision)
            mapping.update(_results(inst.kind, inst.outputs, outputs))

    # ------------------------------------------------------------------ text

    def _names(self) -> dict[Any, str]:
        names: dict[Any, str] = {}
        for inst in self.insts:
            for rv in inst.outputs:
                letter = "b" if isinstance(rv, BlockRV) else "l" if isinstance(rv, LoopRV) else "v"
                names[rv] = f"{letter}{len(names)}"
        return names

    def as_python(self, remove_postproc: bool = False) -> list[str]:
        """The instructions as lines of Python."""
        source = self._before_postproc() if remove_postproc else self
        names = source._names()
        return [inst.as_python(lambda rv: names.get(rv, "_"), self.decisions.get(inst)) for inst in source.insts]

    def __str__(self) -> str:
        lines = [
            "# from tvm import tir",
            "def apply_trace(sch: tir.Schedule) -> None:",
            *(f"  {line}" for line in self.as_python() or ["pass"]),
        ]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return str(self)

    def script(self) -> str:
        """The trace as the Python function that applies it."""
        return str(self)

    def show(self, *args: Any, **kwargs: Any) -> None:
        """Print the trace, coloured if the output can show colours."""
        show_text(str(self))

    def as_json(self, remove_postproc: bool = False) -> list[Any]:
        """The trace as plain lists: instructions, and decisions with their places."""
        source = self._before_postproc() if remove_postproc else self
        names = source._names()
        insts: list[Any] = []
        decisions: list[Any] = []
        for index, inst in enumerate(source.insts):
            insts.append(
                [
                    inst.kind.name,
                    [_input_json(v, names) for v in inst.inputs],
                    [_attr_json(v) for v in inst.attrs],
                    [names[rv] for rv in inst.outputs],
                ]
            )
            if inst in self.decisions:
                decisions.append([index, _attr_json(self.decisions[inst])])
        return [insts, decisions]

    @staticmethod
    def apply_json_to_schedule(json_obj: Any, sch: Any) -> None:
        """Run a trace given as `as_json` gives it (or as its JSON text) on a schedule."""
        _check_schedule(sch)
        try:
            if isinstance(json_obj, str):
                json_obj = json.loads(json_obj)
            insts, decisions = json_obj
            by_index = {int(index): decision for index, decision in decisions}
            named = _Named()
            for index, (kind_name, inputs, attrs, outputs) in enumerate(insts):
                kind = InstructionKind.get(kind_name)
                values = [_input_from_json(v, named) for v in inputs]
                results = sch.run_instruction(kind, values, [_attr_from_json(a) for a in attrs], by_index.get(index))
                named.update(_results(kind, outputs, results))
        except (TypeError, ValueError, KeyError) as error:
            raise TVMagicError(f"the JSON is not a trace: {error}", code="trace.not_a_trace") from error


def _check_schedule(sch: Any) -> None:
    if not hasattr(sch, "run_instruction"):
        raise WrongTypeError(f"expected a tir.Schedule, got {a_thing(sch)}", code="trace.not_a_schedule")


class _Named(dict[str, Any]):
    """What the instructions so far gave, by the names in JSON."""

    def __missing__(self, name: str) -> Any:
        raise TVMagicError(
            f"the JSON is not a trace: it uses `{name}`, which no call before gives", code="trace.not_a_trace"
        )


def _results(kind: InstructionKind, expected: Sequence[Any], given: Sequence[Any]) -> Iterable[tuple[Any, Any]]:
    """What the trace calls the results of an instruction, with what it gave on this program."""
    if len(given) != len(expected):
        raise TVMagicError(
            f"`{kind.method}` gave {len(given)} results here, {len(expected)} in the trace",
            code="trace.wrong_result_count",
        )
    return zip(expected, given)


def _variables(value: Any) -> list[Any]:
    if isinstance(value, (BlockRV, LoopRV)):
        return [value]
    if is_row(value):
        return [rv for v in value for rv in _variables(v)]
    if is_mapping(value):
        return _variables(list(value.values()))
    if isinstance(value, IndexMap):
        return list(value.free_variables())
    return list(variables_in(value)) if isinstance(value, PrimExpr) else []


def _translate(value: Any, mapping: dict[Any, Any]) -> Any:
    if isinstance(value, (BlockRV, LoopRV)):
        return mapping.get(value, value)
    if is_list(value):
        return [_translate(v, mapping) for v in value]
    if is_tuple(value):
        return tuple([_translate(v, mapping) for v in value])
    if is_mapping(value):
        return {k: _translate(v, mapping) for k, v in value.items()}
    if isinstance(value, PrimExpr) and is_random_variable(value):
        return substitute(value, {v: mapping[v] for v in _variables(value) if v in mapping})
    if isinstance(value, IndexMap):
        return value.with_values(mapping)
    return value


def _input_json(value: Any, names: dict[Any, str]) -> Any:
    if isinstance(value, (BlockRV, LoopRV)) or (isinstance(value, Var) and value in names):
        return names[value]
    if is_row(value):
        items = [_input_json(v, names) for v in value]
        return {"tuple": items} if is_tuple(value) else items
    if is_mapping(value):
        return {"dict": {k: _input_json(v, names) for k, v in value.items()}}
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, IntImm):
        return value.value
    if isinstance(value, PrimExpr):
        from tvmagic.ir import save_json

        renamed = substitute(value, {v: Var(names[v], v.dtype) for v in _variables(value)})
        return {"expr": save_json(renamed)}
    if isinstance(value, IndexMap):
        from tvmagic.ir import save_json

        return {"map": save_json(value.rename_variables(names.get))}
    return value


def _input_from_json(value: Any, named: dict[str, Any]) -> Any:
    if isinstance(value, str):
        return json.loads(value) if value.startswith('"') else named[value]
    if is_list(value):
        return [_input_from_json(v, named) for v in value]
    if is_mapping(value):
        if "tuple" in value:
            return tuple([_input_from_json(v, named) for v in value["tuple"]])
        if "dict" in value:
            return {k: _input_from_json(v, named) for k, v in value["dict"].items()}
        from tvmagic.ir import load_json

        if "map" in value:
            index_map = load_json(value["map"])
            return index_map.with_values({v: named[v.name] for v in index_map.free_variables() if v.name in named})
        expression = load_json(value["expr"])
        return substitute(expression, {v: named[v.name] for v in _variables(expression)})
    return value


def _attr_json(value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, IntImm):
        return bool(value.value) if value.dtype.is_bool else value.value
    if is_row(value):
        items = [_attr_json(v) for v in value]
        return {"tuple": items} if isinstance(value, tuple) else items
    if is_mapping(value):
        return {"dict": {k: _attr_json(v) for k, v in value.items()}}
    from tvmagic.ir import save_json

    return {"node": save_json(value)}


def _attr_from_json(value: Any) -> Any:
    if is_list(value):
        return [_attr_from_json(v) for v in value]
    if is_mapping(value):
        if "tuple" in value:
            return tuple([_attr_from_json(v) for v in value["tuple"]])
        if "dict" in value:
            return {k: _attr_from_json(v) for k, v in value["dict"].items()}
        from tvmagic.ir import load_json

        return load_json(value["node"])
    return value
