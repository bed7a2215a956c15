"""What becomes of statements in the steps of a record, seen by other means than their origins.

Inputs and outputs keep their names in every pass, and constants their values. So a statement that loads an input, stores an
output or uses a constant is known in every later program, whatever the passes say of it: `lost` lists those of which the
origins do not lead back to a statement that did so in the first program.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tvmagic import ir, te
from tvmagic.ir.origins import origins_by_statement
from tvmagic.passes import Record

Mark = tuple[str, Any]


@dataclass
class Row:
    """What a step did with the origins of the program before it, and the marks that it lost."""

    step: str
    kept: int = 0
    joined: int = 0
    copied: int = 0
    removed: int = 0
    added: int = 0
    lost: list[str] = field(default_factory=list)


def programs(record: Record) -> Iterator[tuple[str, Any]]:
    """The first program of a record, and that after each step, with the steps' names."""
    first = True
    for step in record:
        for name, value in (("first", step.before), (step.name, step.after)):
            program = _program(value)
            if program is not None and (first or name != "first"):
                yield ("first" if first else name), program
                first = False


def _program(value: Any) -> Any:
    """The IR of what a step holds; None if it is a text, or a schedule that cannot be lowered yet."""
    from tvmagic.operators.schedule_program import program_of_schedule

    if hasattr(value, "stage_map"):
        value = program_of_schedule(value)
    value = getattr(value, "mod", value)
    return value if isinstance(value, (ir.IRModule, ir.Stmt)) or hasattr(value, "buffer_map") else None


class _Marks(ir.Visitor):
    """Collects the marks of one statement."""

    def __init__(self, root: ir.Stmt) -> None:
        self.root, self.found = root, set[Mark]()
        self.visit(root)

    @ir.handles(ir.Stmt)
    def statement(self, node: ir.Stmt) -> None:
        if node is self.root:
            self.visit_children(node)

    @ir.handles(ir.BufferStore, ir.ProducerStore)
    def store(self, node: Any) -> None:
        if node is self.root:
            self.found.add(("store", _name(node)))
            self.visit_children(node)

    @ir.handles(ir.BufferLoad, ir.ProducerLoad)
    def load(self, node: Any) -> None:
        self.found.add(("load", _name(node)))
        self.visit_children(node)

    @ir.handles(ir.Call)
    def call(self, node: ir.Call) -> None:
        if node.op.name != "tir.prefetch":  # which uses no value
            self.visit_children(node)

    @ir.handles(ir.FloatImm)
    def constant(self, node: ir.FloatImm) -> None:
        if node.value * 64 % 1:  # others may come of folding
            self.found.add(("constant", node.value))


def _name(access: Any) -> str:
    producer = getattr(access, "producer", None)
    if producer is not None:
        return producer.op.name
    return access.buffer.data.name


def marked(program: Any) -> list[tuple[ir.Stmt, set[Mark], tuple[int, ...]]]:
    """The statements of a program that access memory, each with its marks and origins."""
    found = []
    for stmt, origins in origins_by_statement(program):
        marks = _Marks(stmt).found
        if any(kind != "constant" for kind, _ in marks):
            found.append((stmt, marks, origins))
    return found


def _arguments(program: Any) -> set[str]:
    """The names of the memory that is an argument in all programs, and that the first one accesses by that name alone."""
    tensors: set[str] = set()
    matched: set[str] = set()

    def look(node: Any) -> None:
        if isinstance(node, ir.ProducerLoad) and isinstance(node.producer.op, te.PlaceholderOp):
            tensors.add(_name(node))
        if isinstance(node, ir.MatchBufferRegion):
            matched.add(node.source.buffer.data.name)

    functions = program.functions.values() if isinstance(program, ir.IRModule) else [program]
    for function in functions:
        ir.post_order_visit(function if isinstance(function, ir.Stmt) else function.body, look)
        tensors |= {buffer.data.name for buffer in getattr(function, "buffer_map", {}).values()}
    return tensors - matched


def family(origins: Any, parents: dict[int, tuple[int, ...]]) -> set[int]:
    """Origins and all that they were made of."""
    found, todo = set(origins), list(origins)
    while todo:
        new = [p for p in parents.get(todo.pop(), ()) if p not in found]
        found.update(new)
        todo += new
    return found


def table(record: Record) -> list[Row]:
    """A row for each step with a program."""
    rows: list[Row] = []
    known: dict[Mark, set[int]] = {}
    before: set[int] = set()
    for name, program in programs(record):
        statements = marked(program)
        after = {o for _, origins in origins_by_statement(program) for o in origins}
        if not rows:
            arguments = _arguments(program)
            for _, marks, origins in statements:
                for mark in marks:
                    if mark[0] == "constant" or mark[1] in arguments:
                        known.setdefault(mark, set()).update(origins)
            rows.append(Row(name, kept=len(after)))
        else:
            new = after - before
            row = Row(name, len(after & before))
            above = {o: [p for p in record.parents.get(o, ()) if p in family(before, record.parents)] for o in new}
            row.joined = sum(len(p) > 1 for p in above.values())
            row.copied = sum(len(p) == 1 for p in above.values())
            row.added = sum(not p for p in above.values())
            row.removed = len(before - family(after, record.parents))
            for stmt, marks, origins in statements:
                led = family(origins, record.parents)
                row.lost += [
                    f"{mark}: {str(stmt)[:80]}"
                    for mark in sorted(marks & known.keys(), key=str)
                    if led.isdisjoint(known[mark])
                ]
            rows.append(row)
        before = after
    return rows


def show(rows: list[Row]) -> str:
    """The table as text, without steps that changed nothing."""
    said = [f"{'step':40} kept joined copied removed added lost"]
    for r in rows:
        if r.joined or r.copied or r.removed or r.added or r.lost:
            said.append(
                f"{r.step[:40]:40} {r.kept:4} {r.joined:6} {r.copied:6} {r.removed:7} {r.added:5} {len(r.lost):4}"
            )
    return "\n".join(said)
