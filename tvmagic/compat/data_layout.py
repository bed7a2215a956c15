"""Layouts of tensors by name, such as `NCHW16c`, and the maps between two of them.

A capital letter is an axis; the small letter with a size in front of it is a part of that axis: `NCHW16c` has the axes
N, C, H, W and, innermost, blocks of 16 of C.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tvmagic.arith import Analyzer
from tvmagic.errors import TVMagicError, WrongIndexError, WrongTypeError
from tvmagic.ir import Identified, IntImm, IterVar, PrimExpr, Range, Var, dtype_of, expr, ops, substitute

__all__ = ["BijectiveLayout", "Layout", "bijective_layout", "layout"]


class Layout(Identified):
    """The axes of a tensor, in order. `axes` are IterVars: the extent of an axis is a variable, that of a part a constant."""

    __slots__ = ("axes", "name")

    def __init__(self, name: str, axes: Sequence[IterVar]) -> None:
        self.name, self.axes = name, tuple(axes)

    def __len__(self) -> int:
        return len(self.axes)

    def __contains__(self, axis: object) -> bool:
        return isinstance(axis, str) and len(axis) == 1 and axis in self.letters

    @property
    def letters(self) -> list[str]:
        """The letters of the axes, outermost first."""
        return [axis.var.name for axis in self.axes]

    def __getitem__(self, index: int) -> str:
        if not -len(self) <= index < len(self):
            raise WrongIndexError(
                f"layout `{self.name}` has {len(self)} axes, and no axis {index}", code="layout.axis_out_of_range"
            )
        return self.letters[index]

    def index_of(self, axis: str) -> int:
        """The place of an axis; -1 if the layout does not have it."""
        return self.letters.index(axis) if axis in self else -1

    def factor_of(self, axis: str) -> int:
        """The size of the parts of an axis, given by either of its letters; -1 if the layout has no parts of it."""
        sizes = [_size(part) for part in self.axes if part.var.name == axis.lower()]
        factor = 1
        for size in sizes:
            factor *= size
        return factor if sizes else -1

    def __repr__(self) -> str:
        return f"Layout({self.name})"

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str, str]]:
        return layout, (self.name, str(self.axes[0].var.dtype) if self.axes else "int32")


def _extent(axis: IterVar) -> PrimExpr:
    assert axis.dom is not None
    return axis.dom.extent


def _size(part: IterVar) -> int:
    extent = _extent(part)
    assert isinstance(extent, IntImm)
    return extent.value


UNDEFINED = "__undef__"  # the name of the layout without axes


def layout(layout_str: str, dtype: str = "int32") -> Layout:
    """The layout of a name such as `NCHW16c`; `dtype`: the type of its sizes."""
    if not dtype_of(dtype).is_int:
        raise WrongTypeError(f"the sizes of a layout are integers, not `{dtype}`", code="layout.wrong_argument")
    axes: list[IterVar] = []
    number = ""
    for letter in "" if layout_str == UNDEFINED else layout_str:
        if letter.isascii() and letter.isdigit():
            number += letter
            continue
        if not (letter.isascii() and letter.isalpha()):
            raise _invalid(layout_str, f"`{letter}` is neither a letter nor a digit", code="layout.wrong_character")
        if letter.isupper() == bool(int(number or 0)):
            wanted = (
                f"no size belongs before the axis `{letter}`"
                if letter.isupper()
                else f"the part `{letter}` has no size"
            )
            raise _invalid(layout_str, wanted, code="layout.wrong_order")
        extent = Var(f"{letter}_shape", dtype) if letter.isupper() else IntImm(dtype, int(number))
        axes.append(IterVar(Range.from_min_extent(IntImm(dtype, 0), extent), Var(letter, dtype), IterVar.DataPar))
        number = ""
    letters = [axis.var.name for axis in axes]
    for letter in letters:
        if letter.upper() not in letters:
            raise _invalid(
                layout_str, f"the part `{letter}` has no axis `{letter.upper()}`", code="layout.missing_axis"
            )
    return Layout(layout_str, axes)


def _invalid(name: str, reason: str, code: str) -> TVMagicError:
    return TVMagicError(f"Invalid layout {name}: {reason}", hint="write axes as in `NCHW16c`", code=code)


class BijectiveLayout(Identified):
    """The map between two layouts of one tensor: `forward` goes from the source's indices or shape to the destination's."""

    __slots__ = ("dst_layout", "index_backward_rule", "index_forward_rule", "src_layout")

    def __init__(self, src_layout: Layout, dst_layout: Layout) -> None:
        self.src_layout, self.dst_layout = src_layout, dst_layout
        self.index_forward_rule = _rules(src_layout, dst_layout, ops.floordiv)
        self.index_backward_rule = _rules(dst_layout, src_layout, ops.floordiv)

    def forward_index(self, index: Sequence[Any]) -> list[PrimExpr]:
        """The destination's indices at the source's."""
        return _indices(index, self.src_layout, self.index_forward_rule)

    def backward_index(self, index: Sequence[Any]) -> list[PrimExpr]:
        """The source's indices at the destination's."""
        return _indices(index, self.dst_layout, self.index_backward_rule)

    def forward_shape(self, shape: Sequence[Any]) -> list[PrimExpr]:
        """The destination's shape for the source's."""
        return _shape(shape, self.src_layout, self.dst_layout)

    def backward_shape(self, shape: Sequence[Any]) -> list[PrimExpr]:
        """The source's shape for the destination's."""
        return _shape(shape, self.dst_layout, self.src_layout)

    def __repr__(self) -> str:
        return f"BijectiveLayout({self.src_layout.name}->{self.dst_layout.name})"


def bijective_layout(src_layout: str | Layout, dst_layout: str | Layout) -> BijectiveLayout | None:
    """The map between two layouts; None, as in TVM, if they do not have the same axes, or one is not defined."""
    source, target = (layout(name) if isinstance(name, str) else name for name in (src_layout, dst_layout))
    return BijectiveLayout(source, target) if _convertible(source, target) else None


def _convertible(source: Layout, target: Layout) -> bool:
    return bool(source.axes) and {a.upper() for a in source.letters} == {a.upper() for a in target.letters}


def _rules(source: Layout, target: Layout, divide: Callable[..., PrimExpr]) -> list[PrimExpr]:
    """Each index of `target` by the variables of `source`."""
    if not _convertible(source, target):
        raise TVMagicError(
            f"layout `{source.name}` cannot be converted to `{target.name}`",
            hint="use the same axes",
            code="layout.not_convertible",
        )
    return [
        _component(_whole_index(source, axis.var.name), target, place, divide) for place, axis in enumerate(target.axes)
    ]


def _whole_index(source: Layout, letter: str) -> PrimExpr:
    """The index along the whole axis of a letter: that of its blocks, and those within blocks."""
    index: PrimExpr | None = None
    for place, axis in enumerate(source.axes):
        if axis.var.name.upper() != letter.upper():
            continue
        inner = max(source.factor_of(letter), 1) if axis.var.name.isupper() else _product_behind(source, place)
        term = axis.var * inner if inner != 1 else axis.var
        index = term if index is None else index + term
    assert index is not None
    return index


def _product_behind(where: Layout, place: int) -> int:
    """The product of the sizes of the parts behind `place` that have the same letter."""
    found = 1
    for part in where.axes[place + 1 :]:
        if part.var.name == where.axes[place].var.name:
            found *= _size(part)
    return found


def _component(index: PrimExpr, target: Layout, place: int, divide: Callable[..., PrimExpr]) -> PrimExpr:
    """What axis `place` of `target` has of the index along the whole axis."""
    axis = target.axes[place]
    if axis.var.name.isupper():
        factor = target.factor_of(axis.var.name)
        return divide(index, factor) if factor > 0 else index
    behind = _product_behind(target, place)
    rest = ops.floormod(index, behind * _size(axis))
    return ops.floordiv(rest, behind) if behind != 1 else rest


def _bound(values: Sequence[Any], where: Layout) -> dict[Var, PrimExpr]:
    if len(values) != len(where):
        raise TVMagicError(
            f"layout `{where.name}` has {len(where)} axes, not {len(values)}", code="layout.wrong_index_count"
        )
    return {axis.var: ops.cast(axis.var.dtype, expr(value)) for axis, value in zip(where.axes, values)}


def _indices(values: Sequence[Any], where: Layout, rules: list[PrimExpr]) -> list[PrimExpr]:
    bound = _bound(values, where)
    return [Analyzer().simplify(substitute(rule, bound)) for rule in rules]


def _shape(shape: Sequence[Any], source: Layout, target: Layout) -> list[PrimExpr]:
    """The sizes of `target`: a part has its own; an axis as many blocks as hold the source's, the last one perhaps not full."""
    bound = _bound(shape, source)
    for part in source.axes:
        if part.var.name.islower():
            given = bound[part.var]
            if isinstance(given, IntImm) and given.value != _size(part):
                raise TVMagicError(
                    f"the part `{part.var.name}` of layout `{source.name}` has size {_size(part)}, not {given}",
                    code="layout.wrong_factor",
                )
            bound[part.var] = IntImm(part.var.dtype, 0)
    sizes = _rules(source, target, ops.ceildiv)
    return [
        _extent(axis) if axis.var.name.islower() else Analyzer().simplify(substitute(size, bound))
        for axis, size in zip(target.axes, sizes)
    ]
