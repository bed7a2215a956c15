"""DefaultGPUSchedule: a schedule with which any function runs on a GPU."""

from __future__ import annotations

from typing import Any

from tvmagic.arith.scalable import current_target
from tvmagic.errors import TVMagicError
from tvmagic.ir import BlockRealize, For, IntImm, IRModule, IterVar, PrimFunc, SeqStmt
from tvmagic.ir.query import variables_in
from tvmagic.passes import note
from tvmagic.tir.transform.declaration import tir_pass

MOST_BLOCKS = 256  # more iterations than these blocks have threads become a loop inside each thread


def _threads_of(func: PrimFunc) -> int | None:
    """How many threads a block of the function's target may have; None if it is not for a GPU."""
    target: Any = func.attrs.get("target") or current_target()
    if target is None:
        raise TVMagicError(
            "DefaultGPUSchedule needs a target",
            node=func,
            hint='run it inside `with Target("cuda"):`, or give the function the attribute `target`',
        )
    if "gpu" not in target.keys:
        return None
    for name in ("max_threads_per_block", "max_num_threads"):
        if name in target.attrs:
            return int(target.attrs[name])
    raise TVMagicError(
        f"the target `{target}` does not say how many threads a block has", hint="add -max_num_threads=256"
    )


def _leaves(sch: Any, block: Any) -> list[Any]:
    children = sch.get_child_blocks(block)
    return [leaf for child in children for leaf in _leaves(sch, child)] if children else [block]


def _is_parallel(loop: For, realize: BlockRealize) -> bool:
    """Whether the iterations of a loop are independent: no variable of the block but spatial ones uses it."""
    kinds = [
        axis.iter_type
        for axis, value in zip(realize.block.iter_vars, realize.iter_values)
        if loop.loop_var in variables_in(value)
    ]
    return all(kind == IterVar.DataPar for kind in kinds)


def _realize_of(sch: Any, block: Any, loops: list[Any]) -> BlockRealize:
    body = sch.get(loops[-1]).body
    children = body.seq if isinstance(body, SeqStmt) else (body,)
    return next(c for c in children if isinstance(c, BlockRealize) and c.block is sch.get(block))


def _own(sch: Any, loops: list[Any]) -> list[Any]:
    """The loops down to the first one that holds more than the block."""
    for position, loop in enumerate(loops):
        if isinstance(sch.get(loop).body, SeqStmt):
            return loops[: position + 1]
    return loops


def _bind(sch: Any, block: Any, most_threads: int) -> None:
    """Fuse the parallel loops of a block, and let blocks and threads run them."""
    loops = sch.get_loops(block) or [sch.add_unit_loop(block)]
    if any(sch.get(loop).thread_binding is not None for loop in loops):
        return  # scheduled already
    realize = _realize_of(sch, block, loops)
    own = _own(sch, loops)
    parallel = [loop for loop in own if _is_parallel(sch.get(loop), realize)]
    if not parallel:
        parallel = [sch.add_unit_loop(loops[0])]
    elif parallel != loops[: len(parallel)]:
        sch.reorder(*parallel, *[loop for loop in own if loop not in parallel])
    fused = sch.fuse(*parallel, preserve_unit_iters=False)
    extent = sch.get(fused).extent
    count = extent.value if isinstance(extent, IntImm) else None
    if count is None or count > most_threads * MOST_BLOCKS:
        rest, blocks, threads = sch.split(fused, [None, MOST_BLOCKS, most_threads])
        sch.reorder(blocks, threads, rest)
    else:
        blocks, threads = sch.split(fused, [None, min(count, most_threads)])
    sch.bind(blocks, "blockIdx.x")
    sch.bind(threads, "threadIdx.x")


@tir_pass("tir.DefaultGPUSchedule")
def DefaultGPUSchedule(mod: IRModule) -> IRModule:
    """Bind each block that is not scheduled to the blocks and threads of a GPU: correct, and rarely fast.

    The spatial loops of a block are fused and split; a reduction runs in each thread. Functions for other targets,
    and those with the attribute `tir.is_scheduled`, stay. The target is the function's, or the one in force.
    """
    from tvmagic.tir.schedule import Schedule

    changed: dict[Any, PrimFunc] = {}
    for var, func in mod.functions.items():
        most = None if func.attrs.get("tir.is_scheduled") else _threads_of(func)
        if most is None or not isinstance(func.body, BlockRealize):
            continue
        sch = Schedule(func)
        for block in _leaves(sch, sch.get_block(func.body.block.name_hint)):
            _bind(sch, block, most)
        note("threads", f"the loops of `{var.name_hint}` are bound to blocks and threads", node=func.body)
        changed[var] = func.with_body(sch.mod["main"].body)
    return mod.with_functions(changed) if changed else mod
