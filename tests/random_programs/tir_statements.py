"""Groups of nests whose blocks have statements of their own: scattered stores, atomic sums, views, loops, lets, no axes.

What such a block does is said twice here: by lines of TVMScript, and by NumPy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import small_language as sl
from random_values import Size, TensorInfo
from small_language import Expr
from tir_idioms import COLUMNS, ROWS, Group, block, loop

SPAN = 64  # of what such blocks compute


def _statements(
    g: Group,
    shape: tuple[int, ...],
    output: TensorInfo,
    lines: list[str],
    meaning: Callable[[dict[str, Any]], Any],
    reads: Iterable[TensorInfo],
    opaque: bool = False,
) -> TensorInfo:
    """A block of axes v0, v1, ... over `shape` that runs `lines` and leaves `meaning(arrays)` in `output`."""
    nest = g.make_nest(f"G{len(g.nests)}", tuple(Size(n) for n in shape))
    nest.own, nest.reads, nest.outputs = lines, {t.name for t in reads}, [output]
    nest.meaning = lambda env: {output.name: meaning(env)}
    nest.opaque = {axis.name for axis in nest.axes} if opaque else set()
    for n, axis in enumerate(nest.axes):
        nest.loops.append((f"i{n}", str(axis.extent)))
        nest.bindings[axis.name] = f"i{n}"
    g.nests.append(nest)
    return output


def _buffer(g: Group, *shape: int) -> TensorInfo:
    """What the next block computes."""
    return TensorInfo(f"G{len(g.nests)}", g.dtype, tuple(Size(n) for n in shape), -SPAN, SPAN)


def _small(g: Group) -> int:
    """A size, often one at which something ends."""
    return g.rng.choice((0, 1, 1, 2, 3, 4, 8, 12))


def _plain_calls(g: Group, n: int, depth: int) -> None:
    """Calls that suit any block in `depth` loops."""
    rng = g.rng
    if not depth:
        return
    last = loop(n, depth - 1)
    g.sometimes(f"sch.split({loop(n, 0)}, [None, {rng.choice((2, 3, 5))}])")
    g.one_of(
        f"sch.parallel({loop(n, 0)})",
        f"sch.vectorize({last})",
        f"sch.unroll({last})",
        f"sch.fuse(*sch.get_loops({block(n)}))",
        f"sch.reorder(*sch.get_loops({block(n)})[::-1])",
        f'sch.bind({loop(n, 0)}, "threadIdx.x")',
        f"sch.add_unit_loop({block(n)})",
        f"sch.blockize({last})",
        f"sch.loop_partition({loop(n, 0)}, [1, None])",
    )
    g.sometimes(f'sch.cache_write({block(n)}, 0, "{rng.choice(("global", "local"))}")')
    g.sometimes(f'sch.cache_read({block(n)}, {rng.choice((0, 1))}, "{rng.choice(("global", "local"))}")')


def _reader(g: Group, tensor: TensorInfo) -> None:
    """A last block that reads all of a buffer, and calls that bring the two together."""
    n = len(g.nests)
    shape = tuple(size.offset for size in tensor.shape)
    g.nest(shape, lambda *v: sl.apply("add", sl.load(tensor, list(v)), g.number(1)))
    if shape:
        g.one_of(
            f"sch.compute_at({block(n - 1)}, {loop(n, 0)})",
            f"sch.reverse_compute_at({block(n)}, {loop(n - 1, 0)})",
            f"sch.reverse_compute_inline({block(n)})",
            f"sch.compute_inline({block(n - 1)})",
        )


def _places(g: Group, count: int, among: int) -> TensorInfo:
    """`count` different numbers in another order if `among` is as many, else some of them several times."""
    step = 5 if count % 5 else 7
    number = lambda i: sl.apply("add", sl.apply("mul", i, sl.constant(step, sl.INDEX)), sl.constant(3, sl.INDEX))  # noqa: E731
    return g.nest((count,), lambda i: sl.cast(sl.apply("floormod", number(i), sl.constant(among, sl.INDEX)), "int32"))


# ---------------------------------------------------------------------- stores


def scatter(g: Group) -> None:
    """Stores at places that an array says: some several times, or each once."""
    count = max(_small(g), 1)
    once = g.rng.random() < 0.5
    among = count if once else g.rng.choice((1, 3, 8))
    source = g.input("X8", count)
    places = _places(g, count, among)
    zero = g.nest((among,), lambda i: g.number(0))
    adds = g.rng.random() < 0.5
    place = f"{zero.name}[{places.name}[v0]]"

    def meaning(env: dict[str, Any]) -> Any:
        result = env[zero.name].copy()
        for to, value in zip(env[places.name], env[source.name]):
            result[to] = result[to] + value if adds else value
        return result

    line = f"{place} = {place} + {source.name}[v0]" if adds else f"{place} = {source.name}[v0]"
    output = zero._replace(low=-SPAN, high=SPAN)
    _statements(g, (count,), output, [line], meaning, (source, places, zero), opaque=not once)
    g.sometimes(f"sch.compute_at({block(0)}, {loop(2, 0)})", f"sch.compute_inline({block(0)})")
    _plain_calls(g, 2, 1)
    if g.rng.random() < 0.5:
        _reader(g, output)


def atomic(g: Group) -> None:
    """Sums at places that an array says, by atomic additions."""
    count, among = max(_small(g), 1), g.rng.choice((1, 3, 8))
    source = g.input("X8", count)
    places = _places(g, count, among)
    zero = g.nest((among,), lambda i: g.number(0))

    def meaning(env: dict[str, Any]) -> Any:
        result = env[zero.name].copy()
        np.add.at(result, env[places.name], env[source.name])
        return result

    lines = [
        f"T.reads({source.name}[v0], {places.name}[v0], {zero.name}[0:{among}])",
        f"T.writes({zero.name}[0:{among}])",
        f"T.evaluate(T.atomic_add(T.address_of({zero.name}[{places.name}[v0]]), {source.name}[v0]))",
    ]
    output = zero._replace(low=-SPAN, high=SPAN)
    _statements(g, (count,), output, lines, meaning, (source, places, zero))
    _plain_calls(g, 2, 1)
    if g.rng.random() < 0.5:
        _reader(g, output)


def in_place(g: Group) -> None:
    """An argument whose elements the function changes."""
    rows, columns = _small(g), _small(g)
    source = g.input("X8", rows, columns)
    changed = source._replace(low=-SPAN, high=SPAN)
    if g.rng.random() < 0.4:
        g.nest((rows, columns), lambda i, j: sl.apply("add", sl.load(source, [i, j]), g.number(2)))
    n = len(g.nests)
    lines = [f"{source.name}[v0, v1] = {source.name}[v0, v1] * T.{g.dtype}(2) + T.{g.dtype}(1)"]
    _statements(g, (rows, columns), changed, lines, lambda env: env[source.name] * 2 + 1, (source,))
    g.sometimes(f'sch.cache_inplace({block(n)}, 0, "{g.rng.choice(("global", "local"))}")')
    _plain_calls(g, n, 2)
    if g.rng.random() < 0.5:
        _reader(g, changed)


# ---------------------------------------------------------------------- views


def _view(g: Group, name: str, of: str, region: str, shape: tuple[int, ...]) -> list[str]:
    """Lines that declare a view of a region, with strides and a place that are read from the buffer, or with neither."""
    if g.rng.random() < 0.5:
        strides = [f"{name}_s{n}" for n in range(len(shape))]
        lines = [f"{s} = T.int32()" for s in (*strides, f"{name}_at")]
        how = f"strides=[{', '.join(strides)}], elem_offset={name}_at"
    else:
        lines, how = [], f"strides=[{', '.join(['T.int32()'] * len(shape))}], offset_factor=1"
    return [*lines, f'{name} = T.match_buffer({of}{region}, ({", ".join(map(str, shape))},), "{g.dtype}", {how})']


def view(g: Group) -> None:
    """Tiles of a buffer under names of their own."""
    a, b = g.rng.choice((1, 2, 4)), g.rng.choice((1, 2, 8))
    source = g.source
    if g.rng.random() < 0.6:
        source = g.nest((ROWS, COLUMNS), lambda i, j: sl.apply("sub", sl.load(g.source, [i, j]), g.number(1)))
    n, output = len(g.nests), _buffer(g, ROWS, COLUMNS)
    region = f"[v0 * {a}:v0 * {a} + {a}, v1 * {b}:v1 * {b} + {b}]"
    shape = (a, b) if a > 1 or g.rng.random() < 0.5 else (b,)  # a dimension of one element may be left out
    names = ("x", "y")[-len(shape) :]
    lines = [f"T.reads({source.name}{region})", f"T.writes({output.name}{region})"]
    lines += _view(g, "V", source.name, region, shape) + _view(g, "W", output.name, region, shape)
    lines.append(f"for {', '.join(names)} in T.grid({', '.join(map(str, shape))}):")
    lines.append(f"    W[{', '.join(names)}] = V[{', '.join(names)}] * T.{g.dtype}(2)")
    _statements(g, (ROWS // a, COLUMNS // b), output, lines, lambda env: env[source.name] * 2, (source,))
    _plain_calls(g, n, 2)
    if n:
        g.sometimes(f"sch.compute_at({block(0)}, {loop(1, 0)})", f"sch.storage_align({block(0)}, 0, 0, 4, 1)")
    if g.rng.random() < 0.5:
        _reader(g, output)


def called(g: Group) -> None:
    """Parts of rows that a library's function copies."""
    b = g.rng.choice((1, 2, 4, 8))
    n, output = len(g.nests), _buffer(g, ROWS, COLUMNS)
    region = f"[v0, v1 * {b}:v1 * {b} + {b}]"
    lines = [f"T.reads({g.source.name}{region})", f"T.writes({output.name}{region})"]
    for name, of in (("V", g.source), ("W", output)):
        lines.append(f'{name} = T.match_buffer({of.name}{region}, ({b},), "{g.dtype}", offset_factor=1)')
    size = b * np.dtype(g.dtype).itemsize
    lines.append(
        f'T.evaluate(T.call_extern("handle", "memcpy", W.access_ptr("w"), V.access_ptr("r"), T.uint64({size})))'
    )
    _statements(g, (ROWS, COLUMNS // b), output, lines, lambda env: env[g.source.name].copy(), (g.source,))
    _plain_calls(g, n, 2)
    if g.rng.random() < 0.5:
        _reader(g, output)


# ---------------------------------------------------------------------- statements


def repeated(g: Group) -> None:
    """Each element is doubled as long as it is small."""
    rows, columns = _small(g), _small(g)
    source, output = g.input("X8", rows, columns), _buffer(g, rows, columns)
    lines = [
        f"T.reads({source.name}[v0, v1])",
        f"T.writes({output.name}[v0, v1])",
        f'c = T.decl_buffer((1,), "{g.dtype}", scope="local")',
        f"c[0] = {source.name}[v0, v1]",
        f"while c[0] < T.{g.dtype}(20):",
        f"    c[0] = c[0] * T.{g.dtype}(2) + T.{g.dtype}(9)",
        f"{output.name}[v0, v1] = c[0]",
    ]

    def meaning(env: dict[str, Any]) -> Any:
        value = env[source.name].copy()
        while (small := value < 20).any():
            value = np.where(small, value * 2 + 9, value).astype(value.dtype)
        return value

    _statements(g, (rows, columns), output, lines, meaning, (source,))
    _plain_calls(g, 0, 2)
    if g.rng.random() < 0.5:
        _reader(g, output)


def shadowed(g: Group) -> None:
    """Values of one name, each inside the block of the one before."""
    rows, columns = _small(g), _small(g)
    source, output = g.input("X8", rows, columns), _buffer(g, rows, columns)
    lines = [
        f"with T.LetStmt({source.name}[v0, v1]) as x:",
        "    with T.LetStmt(x * x) as x:",
        f"        if x > T.{g.dtype}(4):",
        f"            with T.LetStmt(x - T.{g.dtype}(4)) as x:",
        f"                {output.name}[v0, v1] = x",
        "        else:",
        f"            {output.name}[v0, v1] = x",
    ]

    def meaning(env: dict[str, Any]) -> Any:
        square = env[source.name] * env[source.name]
        return np.where(square > 4, square - 4, square).astype(square.dtype)

    _statements(g, (rows, columns), output, lines, meaning, (source,))
    _plain_calls(g, 0, 2)
    if g.rng.random() < 0.5:
        _reader(g, output)


def scalars(g: Group) -> None:
    """Buffers without dimensions: a constant of all elements, and a sum of them."""
    rows, columns = max(_small(g), 1), max(_small(g), 1)
    source = g.input("X8", rows, columns)
    zero = sl.constant(0, sl.INDEX)
    first = g.nest((), lambda: sl.apply("add", sl.load(source, [zero, zero]), g.number(1)))

    def sum_of(e: Expr) -> Expr:
        return sl.apply("sub", sl.load(source, [e, zero]), sl.load(first, []))

    total = g.nest((), sum_of, over=rows)
    last = g.nest((rows, columns), lambda i, j: sl.apply("add", sl.load(source, [i, j]), sl.load(total, [])))
    g.sometimes(
        f"sch.compute_inline({block(0)})",
        f"sch.split({loop(1, 0)}, [None, 4])",
        f"sch.rfactor({loop(1, 0)}, 0)",
        f"sch.compute_at({block(0)}, {loop(1, 0)})",
        f"sch.decompose_reduction({block(1)}, {loop(1, 0)})",
        f'sch.cache_read({block(2)}, {g.rng.choice((0, 1))}, "local")',
        f'sch.cache_write({block(1)}, 0, "local")',
        f"sch.compute_at({block(1)}, {loop(2, 0)})",
        f'sch.set_scope({block(0)}, 0, "{g.rng.choice(("local", "shared"))}")',
    )
    _plain_calls(g, 2, 2)
    if g.rng.random() < 0.3:
        g.nest((), lambda: sl.load(last, [zero, zero]))


STATEMENTS: dict[str, Callable[[Group], None]] = {
    function.__name__: function for function in (scatter, atomic, in_place, view, called, repeated, shadowed, scalars)
}
