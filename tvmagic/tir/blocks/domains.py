"""The ranges of variables at a place of the program: of blocks, of loops, of all that is above."""

from __future__ import annotations

from collections.abc import Iterable

from tvmagic.arith.analyzer import Analyzer
from tvmagic.ir import IterVar, Range, Var
from tvmagic.tir.blocks.sref import StmtSRef


def loop_domains(loops: Iterable[StmtSRef]) -> dict[Var, Range]:
    """The range of each loop's variable; `Analyzer(loop_domains(loops))` knows them."""
    domains: dict[Var, Range] = {}
    for sref in loops:
        loop = sref.loop
        domains[loop.loop_var] = Range.from_min_extent(loop.min, loop.extent)
    return domains


def iter_domains(iter_vars: Iterable[IterVar]) -> dict[Var, Range]:
    """The range of each variable of a block, which always has one."""
    domains: dict[Var, Range] = {}
    for var in iter_vars:
        assert var.dom is not None
        domains[var.var] = var.dom
    return domains


def domains_at(sref: StmtSRef) -> dict[Var, Range]:
    """The ranges of the variables at a block or loop: its own, and those of all above it."""
    domains: dict[Var, Range] = {}
    for above in [sref, *sref.ancestors()]:
        domains |= loop_domains([above]) if above.is_loop else iter_domains(above.block.iter_vars)
    return domains


def analyzer_at(sref: StmtSRef) -> Analyzer:
    """What is known of the variables at a block or loop: its own, and those of all above it."""
    return Analyzer(domains_at(sref))


_SCOPE_RANK = {"global": 0, "shared": 1, "warp": 2, "local": 3}


def relaxed_by_thread(storage_scope: str, thread_tag: str) -> bool:
    """Whether all threads of `thread_tag` share one copy of memory in `storage_scope`."""
    rank = _SCOPE_RANK.get(storage_scope.split(".")[0], 3)
    thread_rank = 0 if thread_tag.startswith("blockIdx") else 1
    if rank == 2:
        return thread_tag == "threadIdx.x"
    return rank <= thread_rank


def domains_between(low: StmtSRef | None, high: StmtSRef | None, storage_scope: str = "global") -> dict[Var, Range]:
    """The domains of the loops from `low` up to `high`, `high` left out.

    Loops above `high` that are bound to threads which share `storage_scope` count too.
    """
    domains: dict[Var, Range] = {}
    sref = low
    while sref is not None and sref is not high and sref.is_loop:
        loop = sref.loop
        domains[loop.loop_var] = Range.from_min_extent(loop.min, loop.extent)
        sref = sref.parent
    if storage_scope != "global":
        while sref is not None:
            binding = sref.loop.thread_binding if sref.is_loop else None
            if binding is not None and relaxed_by_thread(storage_scope, binding.thread_tag):
                loop = sref.loop
                domains[loop.loop_var] = Range.from_min_extent(loop.min, loop.extent)
            sref = sref.parent
    return domains
