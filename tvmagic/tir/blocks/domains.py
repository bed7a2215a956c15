"""The ranges of variables at a place of the program: of blocks, of loops, of all that stands above."""

from __future__ import annotations

from collections.abc import Iterable

from tvmagic.arith.analyzer import Analyzer
from tvmagic.ir import IterVar, Range, Var
from tvmagic.tir.blocks.sref import StmtSRef

__all__ = ["analyzer_at", "iter_domains", "loop_domains"]


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


def analyzer_at(sref: StmtSRef) -> Analyzer:
    """What is known of the variables at a block or loop: its own, and those of all above it."""
    domains: dict[Var, Range] = {}
    for above in [sref, *sref.ancestors()]:
        domains |= loop_domains([above]) if above.is_loop else iter_domains(above.block.iter_vars)
    return Analyzer(domains)
