"""Proofs about scalable vectors: what holds for every value of `vscale()` that the target's machines have.

On AArch64 with SVE a vector register has 128 to 2048 bits, so `vscale` is 1, 2, 4, 8 or 16. For other targets nothing is
known of it.
"""

from __future__ import annotations

import sys
from typing import Any

from tvmagic.arith.overflow import FromParts
from tvmagic.ir import Call, DataType, IntImm, Mutator, PrimExpr, handles
from tvmagic.ir.query import is_call

SVE_VALUES = (1, 2, 4, 8, 16)


def current_target() -> Any:
    """The innermost target entered with `with`, or None."""
    from tvmagic.target import Target

    return Target.current()


def known_vscale_values() -> tuple[int, ...]:
    """What `vscale()` may be for the current target; empty if that is not known."""
    target = current_target()
    return SVE_VALUES if target is not None and target.has_sve else ()


def is_vscale(e: object) -> bool:
    """Whether `e` is the call `vscale()`."""
    return is_call(e, "tir.vscale")


def most_lanes(dtype: DataType) -> int:
    """The number of lanes of a vector type; of a scalable one, that on the machine with the longest vectors."""
    return dtype.vscale_factor * SVE_VALUES[-1] if dtype.is_scalable else dtype.lanes


class ContainsVscale(FromParts):
    """`contains_vscale(e)`: whether the value of `e` depends on `vscale()`."""

    def has(self, node: PrimExpr) -> bool:
        """Whether `node` is that call."""
        return is_vscale(node)


class _Vscale(Mutator):
    """Puts a number in the place of `vscale()`."""

    def __init__(self, value: int) -> None:
        self.value = value

    @handles(Call)
    def call(self, node: Call) -> PrimExpr:
        return IntImm(node.dtype, self.value) if is_vscale(node) else self.visit_children(node)


def prove_for_each_vscale(analyzer: Any, condition: PrimExpr) -> bool:
    """Whether `condition` simplifies to true for each value that `vscale()` may have on the current target."""
    values = known_vscale_values()
    simplify, ask = analyzer.simplify, analyzer.for_proof
    return bool(values) and all(_is_true(ask(simplify, _Vscale(v).visit(condition))) for v in values)


def _is_true(e: PrimExpr) -> bool:
    return isinstance(e, IntImm) and e.value != 0


def warn_of_unknown_vscale() -> None:
    """Say on stderr that a proof failed because the target says nothing of `vscale()`."""
    target = current_target()
    print(
        "Warning: The expression contains scalable values. An attempt to prove by substituting with known values of "
        "vscale was not performed. This proof currently only supports AArch64 SVE targets, but the target was "
        f"{'(nullptr)' if target is None else target}",
        file=sys.stderr,
    )
