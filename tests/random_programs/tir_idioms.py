"""Groups of nests that rarely arise by chance, each with calls that are meant for it.

Without them some primitives are refused on nearly every random function: `rolling_buffer` needs windows that overlap,
`decompose_padding` a padding, `merge` two nests of the same loops. A group reads one input of its own.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import small_language as sl
from random_values import Size, TensorInfo
from small_language import Expr
from tir_schedules import copy_intrinsic

DTYPES = ("int32", "int64", "float32", "float64")  # which hold all sums and products here
ROWS, COLUMNS = 12, 8
WIDER = {"int32": "int64", "float32": "float64"}


class Group:
    """Nests added to a program, and calls on their blocks.

    Attributes
    ----------
    nests: the nests in order; calls: lines to try one after another; later ones may be refused. Which of `kinds` it is
    is chosen at random.
    """

    def __init__(
        self,
        program: Any,
        make_nest: Callable[..., Any],
        rng: random.Random,
        kinds: dict[str, Callable[[Group], None]],
    ) -> None:
        self.program, self.rng, self.make_nest = program, rng, make_nest
        self.nests: list[Any] = []
        self.calls: list[str] = []
        self.dtype = rng.choice(DTYPES)
        self.source = self.input("X9", ROWS, COLUMNS)
        self.kind = rng.choice((*kinds, "chain", "chain"))
        kinds[self.kind](self)

    def input(self, name: str, *shape: int) -> TensorInfo:
        info = TensorInfo(name, self.dtype, tuple(Size(n) for n in shape), -4, 4)
        self.program.inputs.append(info)
        return info

    def nest(self, shape: tuple[int, ...], body: Callable[..., Expr], over: int = 0, name: str = "") -> TensorInfo:
        """A nest of plain loops that stores `body(*variables)`, or its sum over one more variable of extent `over`."""
        nest = self.make_nest(f"G{len(self.nests)}", tuple(Size(n) for n in shape))
        if over:
            self.program.add_reduced(nest, f"k{nest.name}_0", Size(over))
            nest.reducer = "sum"
        axes = nest.axes + nest.reduced
        e = body(*[axis.var({}) for axis in axes])
        self.program.finish(nest, [e._replace(low=e.low * (over or 1), high=e.high * (over or 1))])
        if name:
            nest.outputs = [nest.outputs[0]._replace(name=name)]
        for n, axis in enumerate(axes):
            nest.loops.append((f"i{n}", str(axis.extent)))
            nest.bindings[axis.name] = f"i{n}"
        self.nests.append(nest)
        return nest.outputs[0]

    def number(self, value: int) -> Expr:
        return sl.constant(float(value) if self.dtype.startswith("float") else value, self.dtype)

    def sometimes(self, *lines: str) -> None:
        self.calls += [line for line in lines if self.rng.random() < 0.6]

    def one_of(self, *lines: str) -> None:
        self.calls.append(self.rng.choice(lines))


def _index(value: int) -> Expr:
    return sl.constant(value, sl.INDEX)


def block(n: int) -> str:
    """A reference to the block of nest `n` of the group."""
    return f'sch.get_block("G{n}")'


def loop(n: int, k: int) -> str:
    return f"sch.get_loops({block(n)})[{k}]"


# ---------------------------------------------------------------------- the groups


def padding(g: Group) -> None:
    """A padded copy, and what reads it."""

    def padded(i: Expr, j: Expr) -> Expr:
        inside = sl.apply("and", sl.apply("ge", i, _index(1)), sl.apply("lt", i, _index(ROWS + 1)))
        place = sl.apply("sub", i, _index(1))
        return sl.apply("if", inside, sl.load(g.source, [place, j]), g.number(0))

    pad = g.nest((ROWS + 2, COLUMNS), padded)
    g.nest(
        (ROWS, COLUMNS),
        lambda i, j: sl.apply("add", sl.load(pad, [i, j]), sl.load(pad, [sl.apply("add", i, _index(2)), j])),
    )
    g.sometimes(f"sch.split({loop(0, 0)}, [None, {g.rng.choice((2, 4, 7))}])")
    g.calls.append(f"sch.decompose_padding({block(0)}, {loop(0, g.rng.choice((0, 0, 1)))})")
    g.sometimes(f"sch.compute_at({block(0)}, {loop(1, 0)})", f'sch.set_scope({block(0)}, 0, "local")')


def windows(g: Group) -> None:
    """A maximum of three elements of what is computed before."""
    first = g.nest((ROWS, COLUMNS), lambda i, j: sl.apply("add", sl.load(g.source, [i, j]), g.number(1)))

    def largest(i: Expr, j: Expr) -> Expr:
        rows = [sl.load(first, [sl.apply("add", i, _index(n)) if n else i, j]) for n in range(3)]
        return sl.apply("max", sl.apply("max", rows[0], rows[1]), rows[2])

    last = g.nest((ROWS - 2, COLUMNS), largest)
    if g.rng.random() < 0.4:
        g.nest(
            (ROWS - 4, COLUMNS),
            lambda i, j: sl.apply("sub", sl.load(last, [i, j]), sl.load(last, [sl.apply("add", i, _index(2)), j])),
        )
        g.sometimes(f"sch.compute_at({block(1)}, {loop(2, 0)})", f"sch.rolling_buffer({block(1)}, 0)")
    g.sometimes(f"sch.split({loop(1, 0)}, [None, {g.rng.choice((2, 3, 5))}])")
    g.calls.append(f"sch.compute_at({block(0)}, {loop(1, g.rng.choice((0, 0, 1)))})")
    g.calls.append(f"sch.rolling_buffer({block(0)}, 0)")
    g.sometimes(f"sch.storage_align({block(0)}, 0, 0, 4, 1)", f'sch.set_scope({block(0)}, 0, "local")')


def pair(g: Group) -> None:
    """Two nests of the same loops, the second one with a condition."""

    def second(i: Expr, j: Expr) -> Expr:
        read = sl.load(g.source, [i, j])
        return sl.apply("if", sl.apply("lt", j, _index(3)), sl.apply("sub", read, g.number(2)), read)

    g.nest((ROWS, COLUMNS), lambda i, j: sl.apply("add", sl.load(g.source, [i, j]), g.number(2)))
    g.nest((ROWS, COLUMNS), second)
    g.sometimes(f"sch.annotate({loop(0, 0)}, 'note', 1)", f"sch.unannotate({loop(0, 0)}, 'note')")
    depth = g.rng.choice((0, 0, 1))
    if depth or g.rng.random() < 0.3:
        g.calls += [f"sch.split({loop(n, depth)}, [None, 4])" for n in range(2)]
    g.calls.append(f"sch.merge({loop(0, depth)}, {loop(1, depth)})")
    g.sometimes(f"sch.parallel({loop(0, 0)})", f"sch.vectorize({loop(0, 1)})")
    g.calls.append(f"sch.select_branches({block(1)})")


def update(g: Group) -> None:
    """A buffer that is written again from itself."""
    first = g.nest((ROWS, COLUMNS), lambda i, j: sl.apply("add", sl.load(g.source, [i, j]), g.number(1)))
    g.nest((ROWS, COLUMNS), lambda i, j: sl.apply("mul", sl.load(first, [i, j]), g.number(2)), name=first.name)
    g.calls.append(f'sch.cache_inplace({block(1)}, {g.rng.choice((0, 0, 1))}, "{g.rng.choice(("global", "local"))}")')
    g.sometimes(f"sch.split({loop(1, 0)}, [None, 5])", f"sch.parallel({loop(1, 0)})")


def chain(g: Group) -> None:
    """A copy, and two computations of each element one after another."""
    rng = g.rng
    copy = g.nest((ROWS, COLUMNS), lambda i, j: sl.load(g.source, [i, j]))
    twice = g.nest((ROWS, COLUMNS), lambda i, j: sl.apply("mul", sl.load(copy, [i, j]), g.number(2)))
    g.nest((COLUMNS, ROWS), lambda i, j: sl.apply("sub", sl.load(twice, [j, i]), g.number(1)))
    n, scope = rng.choice((0, 1)), rng.choice(("global", "local", "shared"))
    order = rng.choice(("lambda i, j: (j, i)", "lambda i, j: (i, j)", "lambda i, j: (i, j // 4, j % 4)"))
    if rng.random() < 0.3:
        size = rng.choice((2, 4))
        name, register = copy_intrinsic(g.dtype, size)
        g.calls += [register, f"sch.split({loop(0, 1)}, [None, {size}])", f"sch.tensorize({loop(0, 2)}, {name!r})"]
    g.one_of(
        f"sch.reverse_compute_inline({block(1)})",
        f"sch.reverse_compute_inline({block(2)})",
        f"sch.compute_inline({block(1)})",
        f'sch.unsafe_set_dtype({block(0)}, 0, "{WIDER.get(g.dtype, g.dtype)}")',
        f'sch.reindex_cache_read({block(1)}, 0, "{scope}", {order})',
        f'sch.reindex_cache_write({block(1)}, 0, "{scope}", {order})',
        f'sch.read_at({loop(2, rng.choice((0, 1)))}, {block(2)}, 0, "{scope}")',
        f'sch.write_at({loop(n, rng.choice((0, 1)))}, {block(n)}, 0, "{scope}")',
        f"sch.compute_at({block(0)}, {loop(1, 0)})",
    )
    g.one_of(
        f"sch.reverse_compute_inline({block(1)})",
        f"sch.reverse_compute_at({block(2)}, {loop(1, 0)})",
        f'sch.write_at({loop(n, 0)}, {block(n)}, 0, "{scope}")',
        f'sch.reindex_cache_write({block(0)}, 0, "{scope}", {order})',
        f'sch.reindex_cache_read({block(2)}, 0, "{scope}", {order})',
        f"sch.compute_at({block(0)}, {loop(1, 0)})",
        f"sch.set_axis_separator({block(1)}, ('write', 0), [1])",
        f"sch.pad_einsum({block(1)}, [5, 3])",
        f"sch.unroll({loop(0, 1)})",
    )
    g.sometimes(
        f"sch.vectorize({loop(0, 1)})", f"sch.parallel({loop(1, 0)})", f"sch.loop_partition({loop(1, 0)}, [3, None])"
    )


def pipeline(g: Group) -> None:
    """Stages of each row that are told to overlap with those of other rows."""
    rng = g.rng
    copy = g.nest((ROWS, COLUMNS), lambda i, j: sl.load(g.source, [i, j]))
    twice = g.nest((ROWS, COLUMNS), lambda i, j: sl.apply("mul", sl.load(copy, [i, j]), g.number(2)))
    g.nest((ROWS, COLUMNS), lambda i, j: sl.apply("sub", sl.load(twice, [i, j]), g.number(1)))
    scope = rng.choice(("global", "local", "shared"))
    g.calls += [f"sch.compute_at({block(n)}, {loop(2, 0)})" for n in (1, 0)]
    g.sometimes(f'sch.set_scope({block(0)}, 0, "{scope}")', f'sch.set_scope({block(1)}, 0, "{scope}")')
    stages = rng.choice(([0, 0, 1], [0, 1, 1], [0, 1, 2], [0, 0, 0]))
    order = rng.choice(([0, 1, 2], [0, 1, 2], [2, 1, 0], [1, 0, 2], [0, 2, 1]))
    g.calls.append(f"sch.annotate({loop(2, 0)}, 'software_pipeline_stage', {stages})")
    g.calls.append(f"sch.annotate({loop(2, 0)}, 'software_pipeline_order', {order})")
    g.sometimes(f"sch.annotate({block(0)}, 'double_buffer_scope', 0)")
    g.sometimes(f"sch.unannotate({block(0)}, 'double_buffer_scope')")


def product(g: Group) -> None:
    """A product of matrices."""
    rng = g.rng
    other = g.input("X8", COLUMNS, 6)
    whole = g.nest(
        (ROWS, 6), lambda i, j, k: sl.apply("mul", sl.load(g.source, [i, k]), sl.load(other, [k, j])), over=COLUMNS
    )
    g.nest((ROWS, 6), lambda i, j: sl.apply("add", sl.load(whole, [i, j]), g.number(1)))
    if g.dtype in ("float32", "int64"):
        g.calls.append(f'sch.cache_factor({block(0)}, {int(g.dtype == "int64")}, "global")')
    g.sometimes(
        f"sch.split({loop(0, 2)}, [None, {rng.choice((2, 3, 4))}])",
        f"sch.split({loop(0, 0)}, [None, {rng.choice((4, 5))}])",
    )
    g.one_of(
        f"sch.rfactor({loop(0, 2)}, {rng.choice((0, 1, 2))})",
        f"sch.rfactor(sch.get_loops({block(0)})[-1], 0)",
        f"sch.decompose_reduction({block(0)}, {loop(0, rng.choice((0, 1, 2)))})",
        f"sch.pad_einsum({block(0)}, [{rng.choice((1, 5))}, 4, {rng.choice((1, 3))}])",
        f"sch.reorder({loop(0, 2)}, {loop(0, 0)})\nsch.decompose_reduction({block(0)}, {loop(0, 0)})",
        f"sch.blockize({loop(0, rng.choice((1, 2)))})",
    )
    g.one_of(
        f"sch.reverse_compute_at({block(1)}, {loop(0, 0)})",
        f"sch.reverse_compute_inline({block(1)})",
        f"sch.compute_at({block(0)}, {loop(1, rng.choice((0, 1)))})",
        f"sch.compute_inline({block(0)})",
        f'sch.cache_write({block(0)}, 0, "local")',
    )
    g.sometimes(f"sch.decompose_reduction({block(0)}, {loop(0, 1)})", f'sch.cache_read({block(0)}, 1, "shared")')


KINDS: dict[str, Callable[[Group], None]] = {
    function.__name__: function for function in (padding, windows, pair, update, chain, pipeline, product)
}
