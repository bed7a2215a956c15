"""The inverse of an iterator map: the iterators as expressions of the indices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

from tvmagic.arith.int_set import new_analyzer
from tvmagic.arith.iter_map.expr import IterMapExpr, IterMark, IterSplitExpr, IterSumExpr, int_const, is_const
from tvmagic.arith.iter_map.normalize import Prover, normalize_iter_map_to_expr
from tvmagic.errors import TVMagicError
from tvmagic.ir import PrimExpr, Sub, Var, exprs, ops, substitute


class _Inverter:
    """Sends the values of the outputs back through sums and splits to the iterators."""

    def __init__(self, rings: Mapping[IterSumExpr, PrimExpr]) -> None:
        self.prover = Prover(new_analyzer())
        self.values: dict[IterMapExpr, PrimExpr] = {}
        self.inverse: dict[Var, PrimExpr] = {}
        self.rings = rings

    def add_value(self, node: IterMapExpr, value: PrimExpr) -> None:
        known = self.values.get(node)
        self.values[node] = (int_const("int32", 0) if known is None else known) + value

    def through_sum(self, total: IterSumExpr) -> None:
        value = self.values[total] - total.base
        if total in self.rings:
            value = ops.floormod(value, self.rings[total])
        if len(total.args) == 1:
            split = total.args[0]
            if not self.prover.equal(ops.abs(split.scale), int_const(split.dtype, 1)):
                raise TVMagicError(
                    f"`{_written(total)}` leaves gaps between its values, so the map has no inverse",
                    code="iter_map.not_surjective",
                )
            known = self.values.get(split, int_const("int32", 0))
            self.values[split] = (known + value) * split.scale
            return
        self._check_scales(total)
        for place, split in enumerate(total.args):
            part = ops.floordiv(value, split.scale)
            # the outermost part needs no remainder: its extent is that of the sum
            self.add_value(split, part if place == 0 else ops.floormod(part, split.extent))

    def _check_scales(self, total: IterSumExpr) -> None:
        """Every scale must be the product of the extents further in."""
        if not total.args:
            return
        expected = total.args[-1].scale
        for split in reversed(total.args):
            if not self.prover.equal(split.scale, expected):
                raise TVMagicError(
                    f"the parts of `{_written(total)}` overlap or leave gaps, so the map has no inverse",
                    code="iter_map.overlapping_terms",
                )
            expected = expected * split.extent

    def beyond(self, total: IterSumExpr) -> PrimExpr | None:
        """The condition under which outputs give a padded iterator no value, unless its variables, put in, say so."""
        (split,) = total.args
        value = self.values[split]
        put_in = substitute(
            normalize_iter_map_to_expr(IterSumExpr(total.args, int_const(split.dtype, 0))), self.inverse
        )
        if total not in self.rings and self.prover.equal(put_in, value):
            return None
        return ops.logical_or(ops.less(value, 0), ops.greater_equal(value, split.extent))

    def through_split(self, split: IterSplitExpr) -> None:
        value = self.values[split] * split.lower_factor
        source = split.source.source
        if isinstance(source, IterSumExpr):
            self.add_value(source, value)
            return
        var, first = _counted(source)
        known = self.inverse.get(var, first)
        self.inverse[var] = value if known is None else known + value


def _counted(source: PrimExpr) -> tuple[Var, PrimExpr | None]:
    """The variable that an iterator counts, and the beginning of its domain, None for 0: the source is `var` or `var - first`."""
    if isinstance(source, Var):
        return source, None
    if isinstance(source, Sub) and isinstance(source.a, Var):
        return source.a, source.b
    raise TVMagicError(
        f"`{source}` is not a variable counted from where it begins, so the map has no inverse here",
        code="iter_map.variable_not_from_start",
    )


def _written(total: IterSumExpr) -> PrimExpr:
    """A sum as the index that it was found in."""
    return new_analyzer().simplify(normalize_iter_map_to_expr(total))


def _outputs_first(sums: Sequence[IterSumExpr]) -> list[IterMapExpr]:
    """All sums and splits, each before those that it is made of."""
    order: list[IterMapExpr] = []
    seen: set[IterMapExpr] = set()

    def visit(node: IterMapExpr) -> None:
        if node in seen:
            return
        seen.add(node)
        if isinstance(node, IterSumExpr):
            for split in node.args:
                visit(split)
        elif isinstance(node, IterSplitExpr) and isinstance(node.source.source, IterMapExpr):
            visit(node.source.source)
        order.append(node)

    for total in sums:
        visit(total)
    return order[::-1]


def _padded(order: Sequence[IterMapExpr]) -> dict[IterSumExpr, IterMark]:
    """The sums that are an iterator with padding, and the iterators that they are then."""
    found: dict[IterSumExpr, IterMark] = {}
    for mark in [node.source for node in order if isinstance(node, IterSplitExpr)]:
        total = mark.source
        if isinstance(total, IterSumExpr) and len(total.args) == 1 and total.args[0].extent is not mark.extent:
            found[total] = mark
    return found


def _rings(
    order: Sequence[IterMapExpr], padded: Mapping[IterSumExpr, IterMark], prover: Prover
) -> dict[IterSumExpr, PrimExpr]:
    """The shifted iterators that the splits show as remainders alone, with the divisor: `i + 5` of `(i + 5) % 10`."""
    found: dict[IterSumExpr, PrimExpr] = {}
    for total, mark in padded.items():
        ends = [s.lower_factor * s.extent for s in order if isinstance(s, IterSplitExpr) and s.source is mark]
        if not is_const(total.base, 0) and not any(prover.equal(end, mark.extent) for end in ends):
            found[total] = reduce(ops.maximum, ends)
    return found


def _invert(iter_map: Sequence[IterSumExpr], outputs: Sequence[Any]) -> tuple[_Inverter, dict[IterSumExpr, IterMark]]:
    values = exprs(list(outputs))
    if len(iter_map) != len(values):
        raise TVMagicError(
            f"{len(iter_map)} indices cannot take {len(values)} outputs", code="iter_map.wrong_output_count"
        )
    order = _outputs_first(iter_map)
    padded = _padded(order)
    inverter = _Inverter(_rings(order, padded, Prover(new_analyzer())))
    for node in order:
        inverter.values[node] = int_const("int32", 0)
    inverter.values.update(zip(iter_map, values))
    for node in order:
        if isinstance(node, IterSumExpr):
            inverter.through_sum(node)
        else:
            assert isinstance(node, IterSplitExpr)
            inverter.through_split(node)
    return inverter, padded


def inverse_affine_iter_map(iter_map: Sequence[IterSumExpr], outputs: Sequence[Any]) -> dict[Var, PrimExpr]:
    """For each iterator its value, given the values `outputs` of the sums of `iter_map`.

    The map is to be one that `detect_iter_map` found to be a bijection.
    """
    return _invert(iter_map, outputs)[0].inverse


def inverse_of_injective(
    iter_map: Sequence[IterSumExpr], outputs: Sequence[Any]
) -> tuple[dict[Var, PrimExpr], list[PrimExpr]]:
    """The values of the iterators of an injective map, given `outputs`, and conditions under which no values give these.

    The conditions go beyond those that the map's padding predicate says with these values.
    """
    inverter, padded = _invert(iter_map, outputs)
    beyond = [inverter.beyond(total) for total in padded]
    return inverter.inverse, [condition for condition in beyond if condition is not None]
