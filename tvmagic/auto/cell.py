"""Print a rule-based schedule as a `%%schedule` cell: readable calls, with a comment for each decision."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvmagic.ir import Block, IRModule, PrimFunc, Var
from tvmagic.tir.schedule import BlockRV, InstructionKind, LoopRV, Schedule, Trace
from tvmagic.tir.schedule.instruction import argument_text

# Calls that ask for blocks near another one; in a cell a block is named, unless several have the name.
_NEARBY = ("get_child_blocks", "get_consumers", "get_producers", "get_output_blocks")


def cell_text(program: PrimFunc | IRModule, trace: Trace, decisions: Sequence[tuple[int, str]]) -> str:
    """The trace of a program's schedule as a cell; `decisions` have the number of calls in the trace before each."""
    writer = _Writer(program)
    trace.apply_to_schedule(writer)
    asked = [inputs for kind, inputs, _, outputs, _ in writer.calls if writer.asks(kind, outputs)]
    used = {rv for inputs in asked for value in inputs for rv in _variables(value)}
    lines: list[str] = []
    for number, call in enumerate(writer.calls):
        lines += [f"# {text}" for place, text in decisions if place == number]
        lines += writer.lines(*call, used)
    lines += [f"# {text}" for place, text in decisions if place >= len(writer.calls)]
    return "\n".join(lines)


def _variables(value: Any) -> list[Any]:
    if isinstance(value, (list, tuple)):
        return [rv for item in value for rv in _variables(item)]
    return [value] if isinstance(value, (BlockRV, LoopRV, Var)) else []


class _Writer(Schedule):
    """A schedule that keeps each instruction that runs on it, and a name for each block and loop that comes out."""

    def __init__(self, program: PrimFunc | IRModule) -> None:
        super().__init__(program, error_render_level="none")
        self.calls: list[tuple[InstructionKind, Sequence[Any], Sequence[Any], list[Any], Any]] = []
        self.names: dict[Any, str] = {}
        self.blocks: dict[Any, str] = {}
        self.taken: dict[str, Any] = {"sch": None}
        self.written: set[str] = set()  # names that a line above has given
        self.shared: set[Any] = set()  # blocks that have the name of another one

    def run_instruction(
        self, kind: InstructionKind, inputs: Sequence[Any], attrs: Sequence[Any], decision: Any = None
    ) -> list[Any]:
        """Run it, keep it and name what comes out."""
        outputs = super().run_instruction(kind, inputs, attrs, decision)
        for rv in outputs:
            if not isinstance(rv, (BlockRV, LoopRV)):  # a number that was drawn
                self.names[rv] = self._free("size", rv)
                continue
            sref = self.get_sref(rv)
            if isinstance(rv, BlockRV):
                self.blocks[rv] = sref.block.name_hint
                if kind.method in _NEARBY and not self._is_only(sref.block.name_hint):
                    self.shared.add(rv)
                wanted = f"block_{sref.block.name_hint}"
            else:
                wanted = sref.loop.loop_var.name
            self.names[rv] = self._free(wanted, sref)
        self.calls.append((kind, inputs, attrs, outputs, decision))
        return outputs

    def _is_only(self, name: str) -> bool:
        return sum(isinstance(stmt, Block) and stmt.name_hint == name for stmt in self.state.srefs) == 1

    def asks(self, kind: InstructionKind, outputs: Sequence[Any]) -> bool:
        """Whether the call is written with its arguments."""
        return kind.method not in _NEARBY or any(rv in self.shared for rv in outputs)

    def _free(self, wanted: str, sref: Any) -> str:
        """A name that no other block or loop has."""
        wanted = "".join(c if c.isalnum() else "_" for c in wanted)
        wanted = wanted if wanted.isidentifier() else f"_{wanted}"
        number, name = 0, wanted
        while self.taken.setdefault(name, sref) is not sref:
            number += 1
            name = f"{wanted}_{'abcdefgh'[number - 1] if number <= 8 else number}"
        return name

    def lines(
        self, kind: InstructionKind, inputs: Sequence[Any], attrs: Sequence[Any], outputs: list[Any], decision: Any,
        used: set[Any],
    ) -> list[str]:  # fmt: skip
        """An instruction as lines of the cell; none if it only finds what has its name already, or what nothing uses."""
        wanted = {self.names[rv] for rv in outputs if rv in used}
        if kind.is_pure and not kind.samples and wanted <= self.written:
            return []
        new = {rv for rv in outputs if rv in used and self.names[rv] not in self.written}
        self.written |= wanted
        if not self.asks(kind, outputs):
            return [f'{self.names[rv]} = sch.get_block("{self.blocks[rv]}")' for rv in outputs if rv in new]
        drawn = [] if decision is None else [f"decision={argument_text(decision, self.names.__getitem__)}"]
        call = f"sch.{kind.method}({', '.join([*self._arguments(kind, inputs, attrs), *drawn])})"
        if not outputs or not any(rv in used for rv in outputs):
            return [call]
        names = [self.names[rv] if rv in used else "_" for rv in outputs]
        comma = "," if kind.outputs in ("Loops", "Blocks", "Sizes") and len(names) == 1 else ""
        return [f"{', '.join(names)}{comma} = {call}"]

    def _arguments(self, kind: InstructionKind, inputs: Sequence[Any], attrs: Sequence[Any]) -> list[str]:
        """The arguments of a call: by place as long as that works, those that have their defaults left out."""
        given = kind.gather(inputs, attrs)
        parts: list[str] = []
        skipped = False
        for p in kind.parameters:
            value = given[p.name]
            if p.variadic:
                parts += [argument_text(v, self.names.__getitem__) for v in value]
            elif p.name == "func_name" or _is_default(value, p.default):
                skipped = True
            else:
                text = argument_text(value, self.names.__getitem__)
                parts.append(f"{p.name}={text}" if skipped or p.role is None and isinstance(value, bool) else text)
        return parts


def _is_default(value: Any, default: Any) -> bool:
    return type(value) is type(default) and not isinstance(value, (BlockRV, LoopRV)) and value == default
