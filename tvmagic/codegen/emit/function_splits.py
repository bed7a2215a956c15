"""Split the code of long programs into several LLVM functions.

For each loop LLVM visits all loops before it, whose conditions may bound this one. llvmlite's LLVM also verifies the
whole function after each loop that it vectorizes. The time to compile a function therefore grows with the square of its
loops: of 8 s for 600 loops these two steps took 7. So the statements of a long program are grouped into functions of
about `_LOOPS` loops. They take the values that they use as arguments, and return a status as every function does.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from tvmagic.codegen.text.writer import FunctionText
from tvmagic.ir import For, Stmt
from tvmagic.ir.query import has_node

if TYPE_CHECKING:
    from tvmagic.codegen.emit.statements import FunctionEmitter

# Loops of each function of a program that is split, and the fewest that are worth a call.
_LOOPS, _FEWEST_LOOPS = 64, 16
# Accesses of an array from which on it pays to copy the array at the function's begin and end.
_FEWEST_ACCESSES = 32
_POINTER = re.compile(r"ptr (%c\d+)\b")


def _count_loops(stmt: Stmt, most: int) -> int:
    """Return the number of loops in a statement, or `most` if there are more."""
    numbers, last = itertools.count(1), 0

    def look(node: object) -> bool:
        nonlocal last
        if isinstance(node, For):
            last = next(numbers)
        return last >= most

    has_node(stmt, look)
    return last


def function_parts(emitter: FunctionEmitter, stmts: Sequence[Stmt]) -> Iterator[tuple[list[Stmt], bool]]:
    """Yield the statements in groups, each with whether it becomes a function.

    The next group is asked for when the last one has been emitted.
    """
    position = 0
    while position < len(stmts):
        group, loops = [stmts[position]], 0
        if emitter.loops >= _LOOPS or emitter.parent is None:
            loops = _count_loops(stmts[position], _LOOPS)
            for stmt in stmts[position + 1 :]:
                if loops >= _LOOPS:
                    break
                group.append(stmt)
                loops += _count_loops(stmt, _LOOPS)
        yield group, loops >= _FEWEST_LOOPS
        position += len(group)


def call_as_function(emitter: FunctionEmitter, stmts: Sequence[Stmt]) -> None:
    """Emit statements as a function `i32 part(i32 worker, ...)`, and the call of it.

    LLVM must not inline the function, although only one call of it exists.
    """
    context = emitter.context
    name = context.new_name(re.sub("[^A-Za-z0-9_]|^(?=[0-9])", "_", context.function_name) + ".part")
    before, after = f"define internal i32 @{name}(i32 %worker", f") noinline {context.attributes()}"
    after += context.subprogram(stmts[0], name)
    child = emitter.child(FunctionText(context.text, before + after), by_value=True)
    context.at(child, stmts[0])
    child.statements(stmts)
    copied = _copy_arrays(child, emitter.stack_bytes)
    child.leave("0")
    child.scopes.finish()
    names = (f"{'from' if slot in copied else 'c'}{slot}" for slot in itertools.count())
    child.out.head = before + "".join(f", {kind} %{name}" for (kind, _), name in zip(child.captured, names)) + after
    context.text.functions.append(child.out.text())
    arguments = "".join(f", {kind} {value}" for kind, value in child.captured)
    emitter.leave_if(emitter.out.op(f"call i32 @{name}(i32 {emitter.worker}{arguments})"))


def _copy_arrays(child: FunctionEmitter, stack_bytes: Mapping[str, int]) -> set[int]:
    """Give a function its own copies of small arrays of the caller's stack that it uses often, and return their slots.

    LLVM keeps an array in registers from one unrolled loop to the next only if it is on the function's own stack.
    """
    machine, out = child.context.target.machine, child.out
    if not child.context.family.calls_process:  # there is no C library for the copies that LLVM makes calls of
        return set()
    most = machine.vector_registers * machine.vector_bits // 8
    pointers = Counter(found for line in out.lines for found in _POINTER.findall(line))
    slots = {
        slot: stack_bytes[value]
        for slot, (kind, value) in enumerate(child.captured)
        if stack_bytes.get(value, most + 1) <= most and pointers[f"%c{slot}"] >= _FEWEST_ACCESSES
    }
    for slot, size in slots.items():
        out.entry.append(f"  %c{slot} = alloca [{size} x i8], align 64")
        _copy(child, out.entry, f"%c{slot}", f"%from{slot}", size)
    for slot, size in slots.items():
        _copy(child, out.lines, f"%from{slot}", f"%c{slot}", size)
    return set(slots)


def _copy(child: FunctionEmitter, lines: list[str], to: str, source: str, size: int) -> None:
    name = child.context.text.declare("llvm.memcpy.p0.p0.i64", "void", "ptr, ptr, i64, i1")
    lines.append(
        f"  call void {name}(ptr align 64 {to}, ptr align 64 {source}, i64 {size}, i1 false){child.out.location}"
    )
