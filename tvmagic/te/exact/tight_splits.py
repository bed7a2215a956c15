"""Tight splits: if the factor does not divide, the last block is shorter.

A split of 20 iterations by 16 gives two blocks. Instead of a guard in the innermost loop, the loop
inside a block runs `min(16, 20 - outer * 16)` times.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tvmagic.ir import IterVar, PrimExpr, Range
from tvmagic.ir.ops import make_zero, maximum, minimum
from tvmagic.passes import is_recording, note
from tvmagic.te.schedule.message_passing import BoundProver, pass_up_index
from tvmagic.te.schedule.relations import IterVarRelation, Split, is_const
from tvmagic.te.schedule.stage import Stage


class TightLimits:
    """The extents of the inner loops of a stage's splits."""

    def __init__(self, stage: Stage, ranges: Mapping[IterVar, Range], prover: BoundProver) -> None:
        self.stage, self.ranges, self.prover = stage, ranges, prover
        self.splits = {r.inner: r for r in stage.relations if isinstance(r, Split) and not r.disable_predication}
        for iv in _tensorized(stage):  # an intrinsic computes whole blocks
            self.splits.pop(iv, None)

    def extent(self, iv: IterVar, values: dict[IterVar, PrimExpr]) -> tuple[IterVarRelation, PrimExpr] | None:
        """The split that `iv` is the inner loop of, and how many iterations it has in this block.

        None if the split divides, if the loop must have a constant extent, or where the
        block is not known yet because its loops are inside. `values`: of the loops around.
        """
        split = self.splits.get(iv)
        attr = self.stage.iter_var_attrs.get(iv)
        if split is None or not (attr is None or attr.iter_type in (IterVar.DataPar, IterVar.Parallelized)):
            return None
        ranges, prover = self.ranges, self.prover
        size, extent = ranges[iv].extent, ranges[split.parent].extent
        if is_const(size, 1) or prover.proves((size * ranges[split.outer].extent).equal(extent)):
            return None
        known = dict(values)
        pass_up_index(self.stage, ranges, known, True)
        block = known.get(split.outer)
        if block is None:
            return None
        left = prover.analyzer.simplify(extent - block * size)
        if not prover.proves(left >= 0):
            left = maximum(left, make_zero(left.dtype))
        limit = minimum(size, left)
        if is_recording():
            note("te.tight_split", f"`{iv.var.name}` of `{self.stage.name}` runs `{limit}` times",
                 stage=self.stage.name, loop=iv.var.name, extent=str(limit))  # fmt: skip
        return split, limit


def _tensorized(stage: Stage) -> Sequence[IterVar]:
    """The tensorized loop and those inside, if there is one."""
    leaves, attrs = stage.leaf_iter_vars, stage.iter_var_attrs
    places = [n for n, iv in enumerate(leaves) if iv in attrs and attrs[iv].iter_type == IterVar.Tensorized]
    return leaves[places[0] :] if places else ()
