"""Index maps: from the indices of one layout to those of another."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any, ClassVar, cast

from tvmagic.arith.enumeration import all_points
from tvmagic.arith.int_set import as_int_set, new_analyzer
from tvmagic.arith.int_set_eval import eval_set
from tvmagic.arith.iter_map import (
    IterMapLevel,
    detect_iter_map,
    inverse_of_injective,
    normalize_iter_map_to_expr,
)
from tvmagic.errors import TVMagicError, WrongTypeError, WrongValueError, a_thing
from tvmagic.ir import (
    BinaryOp,
    DataType,
    ExprOp,
    IntImm,
    Mutator,
    Node,
    PrimExpr,
    Range,
    Select,
    Var,
    expr,
    exprs,
    handles,
    ops,
    post_order_visit,
    substitute,
)
from tvmagic.ir.derive import node
from tvmagic.ir.hooks import provided

if TYPE_CHECKING:
    from tvmagic.arith.analyzer import Analyzer


_MOST_INDICES = 1 << 22  # of a map that is tried out index by index


class _Separator:
    """Marks the border between two groups of axes in the result of a mapping function."""

    def __repr__(self) -> str:
        return "IndexMap.AXIS_SEPARATOR"


class _SubstituteLegalized(Mutator):
    """Substitutes variables by values of another integer type, converting the other operands."""

    def __init__(self, values: Mapping[Var, PrimExpr]) -> None:
        self.values = values

    @handles(Var)
    def var(self, node: Var) -> PrimExpr:
        return self.values.get(node, node)

    @handles(BinaryOp)
    def binary(self, node: BinaryOp) -> PrimExpr:
        a, b = self.visit(node.a), self.visit(node.b)
        if a is node.a and b is node.b:
            return node
        return type(node)(*ops.match_types(a, b), node.span)

    @handles(Select)
    def select(self, node: Select) -> PrimExpr:
        condition, a, b = self.visit(node.condition), self.visit(node.true_value), self.visit(node.false_value)
        if condition is node.condition and a is node.true_value and b is node.false_value:
            return node
        return Select(condition, *ops.match_types(a, b), node.span)


@node
class IndexMap(Node):
    """A function from `initial_indices` to `final_indices`.

    Parameters
    ----------
    initial_indices: the variables that stand for the indices before.
    final_indices: the indices after, as expressions of those.
    inverse_index_map: the map back (a map, or a function to make one of), which is taken to be
        right; without it, `inverse` finds the map back if there is one.
    """

    AXIS_SEPARATOR: ClassVar[_Separator] = _Separator()

    initial_indices: tuple[Var, ...]
    final_indices: tuple[PrimExpr, ...]
    inverse_index_map: IndexMap | None

    def __init__(self, initial_indices: Sequence[Var], final_indices: Any, inverse_index_map: Any = None) -> None:
        self.initial_indices = tuple(initial_indices)
        self.final_indices = exprs(final_indices)
        if inverse_index_map is not None and not isinstance(inverse_index_map, IndexMap):
            inverse_index_map = IndexMap.from_func(inverse_index_map, ndim=len(self.final_indices))
        self.inverse_index_map = inverse_index_map
        self.span = None

    # ------------------------------------------------------------------ from functions

    @staticmethod
    def from_func(
        mapping_function: Callable[..., Any],
        ndim: int | None = None,
        inverse_index_map: Any = None,
        *,
        index_dtype: str = "int32",
    ) -> IndexMap:
        """The map that `mapping_function` computes of variables named as its parameters.

        `ndim` is the number of indices; needed if the function takes `*args`.
        """
        index_map, separators = IndexMap.from_func_with_separators(
            mapping_function, ndim, inverse_index_map, index_dtype=index_dtype
        )
        if separators:
            raise TVMagicError(
                "the mapping function gives axis separators, which have no place here",
                hint="use IndexMap.from_func_with_separators",
                code="index_map.axis_separators",
            )
        return index_map

    @staticmethod
    def from_func_with_separators(
        mapping_function: Callable[..., Any],
        ndim: int | None = None,
        inverse_index_map: Any = None,
        *,
        index_dtype: str = "int32",
    ) -> tuple[IndexMap, list[int]]:
        """As `from_func`; with the places of `IndexMap.AXIS_SEPARATOR` in the result."""
        args, named = _parameters(mapping_function, ndim, index_dtype)
        result: Any = mapping_function(*args, **named)
        single = isinstance(result, (ExprOp, int))
        if isinstance(result, str) or not (single or isinstance(result, Iterable)):
            raise WrongTypeError(
                f"a mapping function must return indices, got {a_thing(result)}", code="index_map.wrong_indices"
            )
        items: list[Any] = [result] if single else list(cast(Any, result))
        final: list[PrimExpr] = []
        separators: list[int] = []
        for item in items:
            if item is IndexMap.AXIS_SEPARATOR:
                separators.append(len(final))
            elif isinstance(item, (ExprOp, int)):
                final.append(expr(item))
            else:
                raise WrongTypeError(
                    "expected expressions and IndexMap.AXIS_SEPARATOR of a mapping function, "
                    f"got `{item!r}` of type {type(item).__name__}",
                    code="index_map.wrong_indices",
                )
        return IndexMap([*args, *named.values()], final, inverse_index_map), separators

    # ------------------------------------------------------------------ application

    def map_indices(self, indices: Sequence[Any], analyzer: Analyzer | None = None) -> list[PrimExpr]:
        """The indices after, for the indices before."""
        values = exprs(list(indices))
        self._check_rank(len(values))
        mutator = _SubstituteLegalized(dict(zip(self.initial_indices, values)))
        analyzer = analyzer or new_analyzer()
        return [analyzer.simplify(mutator.visit(index)) for index in self.final_indices]

    def map_ranges(self, ranges: Sequence[Range], analyzer: Analyzer | None = None) -> list[Range]:
        """The ranges that the indices after lie in, for those of the indices before."""
        self._check_rank(len(ranges))
        analyzer = analyzer or new_analyzer()
        domains = dict(zip(self.initial_indices, ranges))
        sums = detect_iter_map(self.final_indices, domains, True, IterMapLevel.NoCheck, False, analyzer).indices
        result: list[Range] = []
        for total in sums:
            low = total.base
            extents: list[PrimExpr] = []
            for term in total.args:
                if isinstance(term.scale, IntImm) and term.scale.value < 0:  # it counts down to its last value
                    low = analyzer.simplify(low + (term.extent - 1) * term.scale)
                    extents.append(term.extent * -term.scale)
                else:
                    extents.append(term.extent * term.scale)
            # the terms count one through the other: the extent is that of the largest
            extent = reduce(ops.maximum, extents) if extents else IntImm("int32", 1)
            result.append(Range.from_min_extent(low, extent))
        if not sums:
            sets = as_int_set(domains)
            for index in self.final_indices:
                values = eval_set(index, sets)
                if not (values.has_lower_bound() and values.has_upper_bound()):
                    raise TVMagicError(
                        f"the values of `{index}` in `{self}` have no known bounds", code="index_map.unbounded_values"
                    )
                extent = analyzer.simplify(values.max() - values.min() + 1)
                result.append(Range.from_min_extent(analyzer.simplify(values.min()), extent))
        dtype = DataType(f"int{max([r.extent.dtype.bits for r in ranges], default=32)}")
        return [Range.from_min_extent(ops.cast(dtype, r.min), ops.cast(dtype, r.extent)) for r in result]

    def map_shape(self, shape: Sequence[Any], analyzer: Analyzer | None = None) -> list[PrimExpr]:
        """The shape of a buffer after the map, for its shape before."""
        ranges = self.map_ranges(_ranges(shape), analyzer)
        for range_ in ranges:
            if not (isinstance(range_.min, IntImm) and range_.min.value == 0):
                raise TVMagicError(
                    f"`{self}` maps a shape to indices that do not begin at 0", code="index_map.shape_not_from_zero"
                )
        return [range_.extent for range_ in ranges]

    def map_ndarray(self, arr_src: Any) -> Any:
        """An array with the elements of `arr_src` at their new places; padding is 0."""
        import numpy as np

        source = np.asarray(arr_src.numpy() if hasattr(arr_src, "numpy") else arr_src)
        self._check_rank(source.ndim)
        shape = [int(size) for size in self.map_shape(list(source.shape))]  # type: ignore[call-overload]
        target = np.zeros(shape, source.dtype)
        places = dict(zip(self.initial_indices, np.indices(source.shape)))
        # a constant index has no axes of its own
        target[tuple([np.broadcast_to(_evaluate(i, places), source.shape) for i in self.final_indices])] = source
        if isinstance(arr_src, np.ndarray):
            return target
        return provided("array")(target)

    def _check_rank(self, given: int) -> None:
        if given != len(self.initial_indices):
            raise TVMagicError(
                f"`{self}` takes {len(self.initial_indices)} indices, not {given}", code="index_map.wrong_index_count"
            )

    # ------------------------------------------------------------------ inverse

    def inverse(self, shape: Sequence[Any]) -> IndexMap:
        """The map back, for indices before in `shape` (sizes, or ranges); an error unless bijective."""
        result, padding = self._inverse(_ranges(shape), IterMapLevel.Bijective)
        if not new_analyzer().can_prove(ops.logical_not(padding)):
            raise TVMagicError(
                f"`{self}` pads the indices, so it is not a bijection and has no inverse", code="index_map.padding"
            )
        return result

    def non_surjective_inverse(self, shape: Sequence[Any]) -> tuple[IndexMap, PrimExpr]:
        """The map back, and the condition on the indices after under which they are padding."""
        return self._inverse(_ranges(shape), IterMapLevel.NoCheck)

    def _inverse(self, ranges: Sequence[Range], level: IterMapLevel) -> tuple[IndexMap, PrimExpr]:
        if self.inverse_index_map is not None:
            return self.inverse_index_map, IntImm("bool", 0)
        self._check_rank(len(ranges))
        outputs = [Var(f"axis{i}", index.dtype) for i, index in enumerate(self.final_indices)]
        analyzer = new_analyzer()
        domains = dict(zip(self.initial_indices, ranges))
        found = detect_iter_map(self.final_indices, domains, True, level, False, analyzer)
        if found.errors:
            raise TVMagicError(
                f"`{self}` is not a sum of iterators, so its inverse is not known: {found.errors[0]}",
                code="index_map.not_affine",
            )
        values, beyond = inverse_of_injective(found.indices, outputs)
        back: list[PrimExpr] = []
        for var, range_ in domains.items():
            if var not in values and not (isinstance(range_.extent, IntImm) and range_.extent.value == 1):
                raise TVMagicError(
                    f"`{self}` drops the index `{var.name}`, so it has no inverse", code="index_map.drops_index"
                )
            back.append(analyzer.simplify(values.get(var, range_.min)))
        assert found.padding_predicate is not None
        padding = substitute(normalize_iter_map_to_expr(found.padding_predicate), values)
        padding = reduce(ops.logical_or, beyond, padding)
        bound = new_analyzer()
        for var, range_ in zip(outputs, self.map_ranges(ranges)):
            bound.bind(var, range_)
        # nested quotients and remainders take more steps to come apart
        return IndexMap(outputs, back), bound.simplify(padding, 10)

    def check_injective(self, shape: Sequence[Any]) -> None:
        """An error if two indices before, in `shape` (sizes, or ranges), share their place after.

        Proved by the map back, which gives each index again; else, for a constant shape that is not too large,
        decided by the indices themselves. A given `inverse_index_map` is trusted if neither decides.
        """
        ranges = _ranges(shape)
        self._check_rank(len(ranges))
        self._decide_injective(ranges, self._back(ranges))

    def injective_inverse(self, shape: Sequence[Any]) -> tuple[IndexMap, PrimExpr]:
        """`non_surjective_inverse` of a map that `check_injective` accepts; its errors."""
        ranges = _ranges(shape)
        self._check_rank(len(ranges))
        back = self._back(ranges)
        self._decide_injective(ranges, back)
        return self._inverse(ranges, IterMapLevel.NoCheck) if back is None else back

    def _back(self, ranges: Sequence[Range]) -> tuple[IndexMap, PrimExpr] | None:
        """The map back as far as it is known, and where there is padding; it is right if the map is injective."""
        try:
            return self._inverse(ranges, IterMapLevel.NoCheck)
        except TVMagicError:
            return None

    def _decide_injective(self, ranges: Sequence[Range], back: tuple[IndexMap, PrimExpr] | None) -> None:
        """What `check_injective` says, by the map back."""
        if back is not None and self._comes_back(ranges, back[0]):
            return
        clash = self._clash(ranges)
        if clash == () and back is not None and not self._each_comes_back(ranges, back[0]):
            clash = None
        if clash:
            first, second, place = (", ".join(map(str, indices)) for indices in clash)
            raise TVMagicError(
                f"`{self}` is not injective: it maps [{first}] and [{second}] to [{place}]",
                hint="keep what is dropped as an index of its own: (i // 4, i % 4) instead of (i // 4)",
                code="index_map.not_injective",
            )
        if clash is None and self.inverse_index_map is None:
            raise TVMagicError(
                f"`{self}` is not known to be injective: the indices cannot be computed from the new ones",
                code="index_map.injectivity_not_proved",
            )

    def _comes_back(self, ranges: Sequence[Range], back: IndexMap) -> bool:
        """Whether the map back gives each index again."""
        analyzer = new_analyzer()
        for var, range_ in zip(self.initial_indices, ranges):
            analyzer.bind(var, range_)
        again = back.map_indices(self.final_indices, analyzer)
        return all(analyzer.can_prove_equal(index, var) for index, var in zip(again, self.initial_indices))

    def _clash(self, ranges: Sequence[Range]) -> tuple[Any, ...] | None:
        """Two indices with one place, and the place; () if all places differ; None if that is not known."""
        import numpy as np

        before = all_points(ranges, _MOST_INDICES)
        after = None if before is None else self._places(before)
        if before is None or after is None:
            return None
        count = int(before.shape[1])
        order = np.lexsort(after) if after else np.arange(count)
        same = np.ones(max(len(order) - 1, 0), bool)
        for values in after:
            same &= values[order][1:] == values[order][:-1]
        if not same.any():
            return ()
        at = int(np.argmax(same))
        first, second = sorted(order[at : at + 2])
        return before[:, first], before[:, second], [int(values[first]) for values in after]

    def _each_comes_back(self, ranges: Sequence[Range], back: IndexMap) -> bool:
        """Whether the map back gives each index again, tried out; of ranges that are numbers."""
        import numpy as np

        before = all_points(ranges, _MOST_INDICES)
        after = None if before is None else self._places(before)
        again = None if after is None else back._places(np.stack(after))
        return before is not None and again is not None and bool(np.array_equal(np.stack(again), before))

    def _places(self, points: Any) -> list[Any] | None:
        """The indices after, for arrays of indices before; None if there are operators that have no arrays."""
        import numpy as np

        places = dict(zip(self.initial_indices, points))
        try:
            return [np.broadcast_to(_evaluate(index, places), points.shape[1:]) for index in self.final_indices]
        except TVMagicError:
            return None

    def is_equivalent_to(self, other_map: IndexMap) -> bool:
        """Whether both maps are proved to be the same function."""
        if len(self.initial_indices) != len(other_map.initial_indices):
            return False
        if len(self.final_indices) != len(other_map.final_indices):
            return False
        analyzer = new_analyzer()
        others = other_map.map_indices(self.initial_indices)
        return all(analyzer.can_prove_equal(mine, other) for mine, other in zip(self.final_indices, others))

    # ------------------------------------------------------------------ text

    def rename_variables(self, name_of: Callable[[Var], str | None] | None = None) -> IndexMap:
        """The map with `name_of` naming its variables (None: as they are), and names made unique."""
        renamed: dict[Var, Var] = {}
        used: set[str] = set()
        if name_of is not None:
            for var in self._variables():
                name = name_of(var)
                if name is not None:
                    used.add(name)
                    renamed[var] = var.copy_with_name(name)
        for var in self.initial_indices:
            if var in renamed:
                continue
            name, count = var.name, 0
            while name in used:
                count += 1
                name = f"{var.name}_{count}"
            used.add(name)
            if name != var.name:
                renamed[var] = var.copy_with_name(name)
        inverse = self.inverse_index_map
        return self.replace(
            initial_indices=tuple([renamed.get(var, var) for var in self.initial_indices]),
            final_indices=tuple([substitute(index, renamed) for index in self.final_indices]),
            inverse_index_map=None if inverse is None else inverse.rename_variables(name_of),
        )

    def free_variables(self) -> list[Var]:
        """The variables of the map that are none of its indices: sizes that are known elsewhere."""
        own = set(self.initial_indices)
        found = [var for var in self._variables() if var not in own]
        inverse = self.inverse_index_map
        return found if inverse is None else list(dict.fromkeys([*found, *inverse.free_variables()]))

    def with_values(self, values: Mapping[Var, Any]) -> IndexMap:
        """The map with free variables replaced by expressions or numbers."""
        if not any(var in values for var in self.free_variables()):
            return self
        inverse = self.inverse_index_map
        return self.replace(
            final_indices=tuple([substitute(index, values) for index in self.final_indices]),
            inverse_index_map=None if inverse is None else inverse.with_values(values),
        )

    def _variables(self) -> list[Var]:
        found: dict[Var, None] = dict.fromkeys(self.initial_indices)

        def look(node: object) -> None:
            if isinstance(node, Var):
                found.setdefault(node)

        for index in self.final_indices:
            post_order_visit(index, look)
        return list(found)

    def to_python_string(self, name_of: Callable[[Var], str | None] | None = None) -> str:
        """The map as Python text, a lambda (with its inverse, a call of `from_func`)."""
        renamed = self.rename_variables(name_of)
        text = renamed._lambda()
        if renamed.inverse_index_map is None:
            return text
        return f"tvm.tir.IndexMap.from_func({text}, inverse_index_map={renamed.inverse_index_map._lambda()})"

    def _lambda(self) -> str:
        names = ", ".join([var.name for var in self.initial_indices])
        return f"lambda {names}: ({' '.join([f'{part},' for part in self._mapped_items()])})"

    def _mapped_items(self) -> list[Any]:
        """What a mapping function would give for the map."""
        return list(self.final_indices)


@node
class SeparatedIndexMap(IndexMap):
    """An index map whose result is divided into groups of axes.

    Parameters
    ----------
    separators: the places of `IndexMap.AXIS_SEPARATOR`, each counted by the final indices in front of it.
    """

    separators: tuple[int, ...]

    def __init__(
        self, initial_indices: Sequence[Var], final_indices: Any, inverse_index_map: Any, separators: Sequence[int]
    ) -> None:
        super().__init__(initial_indices, final_indices, inverse_index_map)
        self.separators = tuple(separators)

    def _mapped_items(self) -> list[Any]:
        places, count = list(self.separators), len(self.final_indices)
        return [
            part
            for i in range(count + 1)
            for part in (*[IndexMap.AXIS_SEPARATOR] * places.count(i), *self.final_indices[i : i + 1])
        ]


def _evaluate(index: PrimExpr, places: Mapping[Var, Any]) -> Any:
    """The values of an index expression at arrays of values of its variables."""
    from tvmagic.eval.indices import Unevaluated, evaluate

    try:
        return evaluate(index, places)
    except Unevaluated as unknown:
        raise TVMagicError(
            f"`{unknown.node}` cannot be computed to move the elements of an array",
            node=index,
            code="index_map.not_computable",
        ) from None


def _ranges(shape: Sequence[Any]) -> list[Range]:
    return [size if isinstance(size, Range) else Range(0, size) for size in shape]


def _parameters(function: Callable[..., Any], ndim: int | None, dtype: str) -> tuple[list[Var], dict[str, Var]]:
    """Variables for the parameters of a mapping function: by place, and by name."""
    args: list[Var] = []
    named: dict[str, Var] = {}
    rest: str | None = None
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # a builtin class, say
        raise WrongTypeError(
            f"a mapping function must have parameters, got {a_thing(function)}", code="index_map.not_a_function"
        ) from None
    for name, parameter in signature.parameters.items():
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            args.append(Var(name, dtype))
        elif parameter.kind is parameter.VAR_POSITIONAL:
            rest = name
        elif parameter.kind is parameter.KEYWORD_ONLY:
            named[name] = Var(name, dtype)
        else:
            raise WrongValueError("a mapping function must not have **kwargs", code="index_map.keyword_arguments")
    if rest is not None:
        if ndim is None:
            raise TVMagicError(
                "`ndim` must be given for a mapping function that takes `*args`", code="index_map.missing_ndim"
            )
        args += [Var(f"{rest}_{i}", dtype) for i in range(ndim - len(args) - len(named))]
    return args, named
