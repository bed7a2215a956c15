"""Primitives that look things up; they change nothing."""

from __future__ import annotations

from tvmagic.errors import did_you_mean
from tvmagic.ir import Block
from tvmagic.ir.query import nodes_of
from tvmagic.tir.blocks.error import FunctionChoiceError, ScheduleError
from tvmagic.tir.blocks.scope import BlockScope
from tvmagic.tir.blocks.sref import StmtSRef
from tvmagic.tir.schedule.instruction import BlockOrLoop, BlockRef, Blocks, Loops, primitive
from tvmagic.tir.schedule.requirements import is_output, scope_root
from tvmagic.tir.schedule.state import ScheduleState


@primitive("GetBlock", pure=True)
def get_block(state: ScheduleState, name: str, func_name: str | None = None) -> BlockRef:
    """The block called `name` in the function `func_name` (the one worked on by default).

    Refused if no block, or more than one, has that name.

    Example
    -------
    >>> sch.get(sch.get_block("B")).name_hint
    'B'
    """
    if func_name is None:
        raise FunctionChoiceError(
            "the schedule does not know which function to be working on: the module has several functions",
            hint="say which one with func_name or work_on",
            code="get_block.several_functions",
        )
    roots = {var.name_hint: sref for sref, var in state.functions.items()}
    if func_name not in roots:
        raise ScheduleError(f"the module has no function `{func_name}` with blocks", code="get_block.unknown_function")
    root = roots[func_name]
    named = [stmt for stmt in state.srefs if isinstance(stmt, Block) and stmt.name_hint == name]
    found = [sref for sref in [state.srefs[stmt] for stmt in named] if state.root_of(sref) is root]
    if len(found) == 1:
        return found[0]
    if found:
        raise ScheduleError(
            f"{len(found)} blocks are called `{name}`",
            *found,
            hint="rename all but one of them",
            code="get_block.ambiguous_name",
        )
    everywhere = nodes_of(root.block.body, Block)
    names = [block.name_hint for block in everywhere if block in state.srefs]
    if any(block.name_hint == name for block in everywhere):
        hint = f"`{name}` is in the init of another block: `decompose_reduction` makes a block of its own of that"
    else:
        hint = did_you_mean(name, names) or "the blocks are " + ", ".join(f"`{n}`" for n in names)
    raise ScheduleError(
        f"Cannot find a block with the name: {name} in `{func_name}`",
        hint=hint,
        fast="Cannot find a block with the specified name",
        code="get_block.unknown_name",
    )


@primitive("GetLoops", pure=True)
def get_loops(state: ScheduleState, block: BlockRef) -> Loops:
    """The loops of a block in its scope, from the outermost in.

    Example
    -------
    >>> i, j = sch.get_loops("B")
    >>> sch.get(i).loop_var.name, sch.get(j).extent
    ('i', 16)
    """
    return state.loops_of(block)


@primitive("GetChildBlocks", pure=True, spelling={"block_or_loop": ""})
def get_child_blocks(state: ScheduleState, block_or_loop: BlockOrLoop) -> Blocks:
    """The blocks directly inside a block's scope or below a loop, in program order.

    Example
    -------
    >>> [sch.get(block).name_hint for block in sch.get_child_blocks("root")]
    ['B', 'C']
    """
    return state.child_blocks(block_or_loop)


@primitive("GetProducers", pure=True)
def get_producers(state: ScheduleState, block: BlockRef) -> Blocks:
    """The blocks of the same scope whose results `block` reads, as the blocks declare it.

    Example
    -------
    >>> [sch.get(block).name_hint for block in sch.get_producers("C")]
    ['B']
    """
    return _declared_scope(state, block).producers(block)


@primitive("GetConsumers", pure=True)
def get_consumers(state: ScheduleState, block: BlockRef) -> Blocks:
    """The blocks of the same scope that read what `block` writes, as the blocks declare it.

    Example
    -------
    >>> [sch.get(block).name_hint for block in sch.get_consumers("B")]
    ['C']
    """
    return _declared_scope(state, block).consumers(block)


def _declared_scope(state: ScheduleState, block: StmtSRef) -> BlockScope:
    return BlockScope(state.child_blocks(scope_root(state, block)), declared=True)


@primitive("GetOutputBlocks", pure=True, spelling={"scope_block": "block"})
def get_output_blocks(state: ScheduleState, scope_block: BlockRef) -> Blocks:
    """The blocks inside `scope_block`, at any depth, that write what is seen outside their own scopes.

    A block comes before those inside it.

    Example
    -------
    >>> [sch.get(block).name_hint for block in sch.get_output_blocks("root")]
    ['C']
    """
    outputs: list[StmtSRef] = []
    stack = list(reversed(state.child_blocks(scope_block)))
    while stack:
        sref = stack.pop()
        stack += reversed(state.child_blocks(sref))
        if is_output(state, sref, state.scope_of(sref)):
            outputs.append(sref)
    return outputs
