"""The expressions that an iterator map is made of: marks, splits of marks, sums of splits.

An iterator map writes every index as a sum of splits of iterators. They are expressions, so that
they can be inside others; `normalize_iter_map_to_expr` writes them with plain operators again.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Any

from tvmagic.errors import TVMagicError
from tvmagic.ir import (
    Buffer,
    FloatImm,
    IntImm,
    Kind,
    Node,
    PrimExpr,
    StringImm,
    Type,
    Var,
    expr,
)
from tvmagic.ir.derive import node
from tvmagic.ir.prim_expr import TUPLES, class_of


@node
class IterMark(Node):
    """An iterator: the value `source`, which runs from 0 to `extent`, the end left out."""

    source: PrimExpr
    extent: PrimExpr

    def __str__(self) -> str:
        return f"IterMark({self.source}, extent={self.extent})"

    __repr__ = __str__


@node
class IterMapExpr(PrimExpr):
    """A part of an iterator map."""


@node
class IterSplitExpr(IterMapExpr):
    """A part of the iterator `source`: `source // lower_factor % extent * scale`."""

    source: IterMark
    lower_factor: PrimExpr
    extent: PrimExpr
    scale: PrimExpr

    def __init__(self, source: IterMark, lower_factor: Any = None, extent: Any = None, scale: Any = None) -> None:
        self.source = source
        self.dtype = source.source.dtype
        self.lower_factor = int_const(self.dtype, 1) if lower_factor is None else expr(lower_factor)
        self.extent = source.extent if extent is None else expr(extent)
        self.scale = int_const(self.dtype, 1) if scale is None else expr(scale)
        self.span = None

    def retype(self) -> None:
        self.dtype = self.source.source.dtype

    def __str__(self) -> str:
        return f"IterSplit({self.source}, lower_factor={self.lower_factor}, extent={self.extent}, scale={self.scale})"

    __repr__ = __str__


@node
class IterSumExpr(IterMapExpr):
    """The sum of the splits `args` and of `base`."""

    args: tuple[IterSplitExpr, ...]
    base: PrimExpr

    def retype(self) -> None:
        self.dtype = self.base.dtype

    def __str__(self) -> str:
        return f"IterSum([{', '.join(map(str, self.args))}], {self.base})"

    __repr__ = __str__


class IterMapLevel(enum.IntEnum):
    """What is asked of an iterator map.

    `Bijective`: each index value comes from just one point, and all iterators are used;
    `Surjective`: the indices are independent and take every value of their extents;
    `NoCheck`: only the form of the indices matters.
    """

    Bijective = 0
    Surjective = 1
    NoCheck = 3

    @staticmethod
    def from_str(name: object) -> IterMapLevel:
        """The level named `bijective`, `surjective` or `nocheck`, in any case."""
        levels = {level.name.lower(): level for level in IterMapLevel}
        if not isinstance(name, str) or name.lower() not in levels:
            raise ValueError(f"unknown check level `{name}`; write one of {', '.join(levels)}")
        return levels[name.lower()]

    @staticmethod
    def of(value: Any) -> IterMapLevel:
        """A level, its number or name; a bool asks whether to require a bijection."""
        if isinstance(value, str):
            return IterMapLevel.from_str(value)
        if isinstance(value, bool):
            return IterMapLevel.Bijective if value else IterMapLevel.Surjective
        return IterMapLevel(value)


class Report:
    """What was in the way of an iterator map; the texts are made when they are read."""

    def __init__(self) -> None:
        self._entries: list[tuple[str, tuple[Any, ...]]] = []

    def add(self, template: str, *parts: Any) -> None:
        """Note a text; `parts` are in its braces."""
        self._entries.append((template, parts))

    def __bool__(self) -> bool:
        return bool(self._entries)

    def texts(self) -> tuple[str, ...]:
        return tuple([template.format(*parts) for template, parts in self._entries])


class IterMapResult:
    """What `detect_iter_map` found.

    Attributes
    ----------
    indices: a sum for each index; empty if the indices are not an iterator map.
    padding_predicate: holds where the map leaves the domain of the iterators; may hold sums.
    takes_all_values: whether, of a map that was checked to be surjective, every index takes every
        value of its extent without padding too.
    """

    def __init__(
        self,
        indices: Sequence[IterSumExpr],
        report: Report,
        padding_predicate: PrimExpr | None,
        takes_all_values: bool = False,
    ) -> None:
        self.indices = tuple(indices)
        self._report = report
        self.padding_predicate = padding_predicate
        self.takes_all_values = takes_all_values

    @property
    def errors(self) -> tuple[str, ...]:
        """Why the indices are not an iterator map."""
        return self._report.texts()

    def __repr__(self) -> str:
        return f"IterMapResult(indices={list(self.indices)}, errors={list(self.errors)})"


def is_const(value: PrimExpr, number: int) -> bool:
    """Whether `value` is the integer constant `number`."""
    return isinstance(value, IntImm) and value.value == number


def int_const(dtype: Any, number: int) -> IntImm:
    """The constant `number` of the scalar type `dtype`."""
    return IntImm(dtype, number)


def to_iter_sum(value: PrimExpr) -> IterSumExpr:
    """A split, or an expression without iterators, as a sum."""
    if isinstance(value, IterSumExpr):
        return value
    if isinstance(value, IterSplitExpr):
        return IterSumExpr((value,), int_const(value.dtype, 0))
    if isinstance(value, IterMapExpr):
        raise TVMagicError(f"`{type(value).__name__}` is not a part of a sum of iterators", code="iter_map.not_a_term")
    return IterSumExpr((), value)


# ---------------------------------------------------------------------------- keys of tables


_CONSTANTS = frozenset((IntImm, FloatImm, StringImm))


def structure_key(node: Any) -> Any:
    """A key that two expressions share if and only if they are the same tree over the same variables.

    It holds identities of variables, so it is of use only as long as they live.
    """
    kind = class_of(node)
    if kind in _CONSTANTS:
        return (kind, node.dtype, node.value)
    if isinstance(node, (Var, Buffer)):
        return id(node)
    if isinstance(node, TUPLES):
        return tuple(map(structure_key, node))
    if not isinstance(node, Node) or isinstance(node, Type):
        return node if isinstance(node, (str, int, float)) else id(node)
    maker = _KEY_MAKERS.get(kind)
    if maker is None:
        maker = _KEY_MAKERS[kind] = _make_key_maker(kind)
    return maker(node)


_KEY_MAKERS: dict[type, Callable[[Any], Any]] = {}


def _make_key_maker(kind: type[Node]) -> Callable[[Any], Any]:
    names = [f.name for f in kind.FIELDS if f.kind is not Kind.NAME]

    def make(node: Any) -> Any:
        return (kind, *[structure_key(getattr(node, name)) for name in names])

    return make
