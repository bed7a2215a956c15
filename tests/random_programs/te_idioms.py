"""Groups of stages for calls that random schedules do not reach: tensor intrinsics, externs, groups, store predicates,
threads around a scan. Each has one output of its own, and the calls that are meant for it.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
from random_values import Size, TensorInfo

DTYPES = ("int32", "int64", "float32", "float64", "uint8")
HELPERS = '''
def _loop(name, extent, body):
    """A loop whose body is `body` of its variable."""
    variable = tir.Var(name, "int32")
    return tir.For(variable, 0, extent, tir.ForKind.SERIAL, body(variable))


def _map(size, dtype, value):
    """`value` of each element of a vector."""
    def body(ins, outs):
        return _loop("q", size, lambda q: outs[0].vstore([q], value(ins[0].vload([q]))))
    a = te.placeholder((size,), dtype, name="a")
    z = te.compute((size,), lambda i: value(a[i]), name="z")
    return te.decl_tensor_intrin(z.op, body, "map", default_buffer_params={"offset_factor": 1})


def _product(rows, size, dtype, parts):
    """A matrix times a vector; `parts` says which statements there are besides the whole."""
    a, b = te.placeholder((rows, size), dtype, name="a"), te.placeholder((size,), dtype, name="b")
    k = te.reduce_axis((0, size), name="k")
    z = te.compute((rows,), lambda i: te.sum(a[i, k] * b[k], axis=k), name="z")
    stride = te.var("stride")
    matrix = tir.decl_buffer((rows, size), dtype, "a", strides=[stride, 1], offset_factor=1)
    def body(ins, outs):
        def statement(start, update):
            def row(r):
                def add(q):
                    return outs[0].vstore([r], outs[0].vload([r]) + ins[0].vload([r, q]) * ins[1].vload([q]))
                first = [outs[0].vstore([r], tir.const(0, dtype))] if start else []
                return tir.stmt_seq(*first, *([_loop("q", size, add)] if update else []))
            return _loop("r", rows, row)
        init = statement(True, False) if "init" in parts else None
        return statement(True, True), init, statement(False, True) if "update" in parts else None
    return te.decl_tensor_intrin(z.op, body, "product", binds={a: matrix}, default_buffer_params={"offset_factor": 1})


def _doubled(ins, outs):
    """Each element of a matrix twice, as an extern writes it."""
    def store(p, q):
        return outs[0].vstore([p, q], ins[0].vload([p, q]) + ins[0].vload([p, q]))
    return _loop("p", ins[0].shape[0], lambda p: _loop("q", ins[0].shape[1], lambda q: store(p, q)))
'''.strip()


class Group:
    """Stages with one output, `G`.

    Attributes
    ----------
    lines: the program; calls: the schedule; value: what `G` is, from the arrays by name.
    """

    def __init__(self, program: Any, rng: random.Random) -> None:
        self.program, self.rng = program, rng
        self.dtype = rng.choice(DTYPES)
        self.rows, self.columns = rng.choice((1, 4, 5, 6, 12)), rng.choice((4, 8, 12, 16))
        self.lines: list[str] = []
        self.calls: list[str] = []
        self.value: Callable[[dict[str, Any]], Any] = lambda env: None
        self.input("X9", self.rows, self.columns)
        self.shape: tuple[int, ...] = (self.rows, self.columns)
        KINDS[rng.choice(sorted(KINDS))](self)
        self.outputs = [TensorInfo("G", self.dtype, tuple(map(Size, self.shape)), 0, 0)]

    def input(self, name: str, *shape: int) -> None:
        low, high = (0, 3) if self.dtype == "uint8" else (-4, 4)
        self.program.inputs.append(TensorInfo(name, self.dtype, tuple(map(Size, shape)), low, high))

    def compute(self, name: str, body: str, shape: tuple[int, ...] | None = None) -> None:
        shape = shape or self.shape
        names = ", ".join("ij"[: len(shape)])
        self.lines.append(f'{name} = te.compute({shape}, lambda {names}: {body}, name="{name}")')

    def one(self) -> str:
        return f'tir.const(1, "{self.dtype}")'

    def factor(self) -> int:
        """A number of columns; mostly one that divides all of them."""
        return self.rng.choice([n for n in (2, 4, 8) if self.columns % n == 0] * 6 + [self.columns, self.columns, 3])

    def sometimes(self, *lines: str) -> None:
        self.calls += [line for line in lines if self.rng.random() < 0.5]

    def move(self, inner: str, outer: str) -> None:
        """Compute a stage inside another, if at all."""
        if self.rng.random() < 0.6:
            loop = f"s[{outer}].leaf_iter_vars[{self.rng.choice((0, 0, 1))}]"
            self.calls.append(f"s[{inner}].compute_at(s[{outer}], {loop})")
            self.sometimes(f"s[{inner}].double_buffer()")


# ---------------------------------------------------------------------- the groups


def mapped(g: Group) -> None:
    """A stage whose inner loop is a tensor intrinsic."""
    size = g.factor()
    g.lines.append(f'map_one = _map({size}, "{g.dtype}", lambda x: x + {g.one()})')
    g.compute("G_first", "X9[i, j] + X9[i, j]")
    g.compute("G_middle", f"G_first[i, j] + {g.one()}")
    g.compute("G", "G_middle[i, j] + X9[i, j]")
    g.value = lambda env: env["X9"] * 3 + 1
    g.sometimes(f"s[G].split(G.op.axis[0], {g.rng.choice((2, 3, 4))})", "s[G].parallel(s[G].leaf_iter_vars[0])")
    g.move("G_middle", "G")
    g.sometimes("s[G_first].compute_at(s[G_middle], G_middle.op.axis[0])")
    g.calls.append(f"outer, inner = s[G_middle].split(G_middle.op.axis[1], {size})")
    g.sometimes("s[G_middle].reorder(outer, G_middle.op.axis[0], inner)")
    g.calls.append("s[G_middle].tensorize(inner, map_one)")
    g.sometimes('s[G_middle].set_scope("shared")', "s[G_middle].unroll(outer)",
                "s[G_middle].storage_align(G_middle.op.axis[0], 8, 2)")  # fmt: skip


def products(g: Group) -> None:
    """A product of matrices whose inner loops are a tensor intrinsic, with several parts of the sum or one."""
    rng, others = g.rng, g.rng.choice((1, 3, 8))
    size = g.factor()
    rows = rng.choice([n for n in (1, 2, 3, 4) if g.rows % n == 0])
    parts = rng.choice(("init update", "init update", "update") if size < g.columns else ("", "init update", "update"))
    g.input("X8", others, g.columns)
    g.shape = (others, g.rows)
    g.lines.append(f'product = _product({rows}, {size}, "{g.dtype}", "{parts}")')
    g.lines.append(f"k_G = te.reduce_axis((0, {g.columns}))")
    g.compute("G_whole", "te.sum(X9[j, k_G] * X8[i, k_G], axis=k_G)")
    g.compute("G", f"G_whole[i, j] + {g.one()}")
    g.value = lambda env: (np.einsum("jk,ik->ij", env["X9"], env["X8"]) + 1).astype(env["X9"].dtype)
    g.move("G_whole", "G")
    g.calls.append(f"ko, ki = s[G_whole].split(k_G, {size})")
    g.calls.append(f"jo, ji = s[G_whole].split(G_whole.op.axis[1], {rows})")
    g.calls.append(rng.choice(("s[G_whole].reorder(jo, ko, ji, ki)", "s[G_whole].reorder(ko, jo, ji, ki)",
                               "s[G_whole].reorder(ko, G_whole.op.axis[0], jo, ji, ki)")))  # fmt: skip
    g.calls.append("s[G_whole].tensorize(ji, product)")
    g.sometimes("s[G_whole].unroll(ko)", "s[G_whole].parallel(jo)")


def called(g: Group) -> None:
    """A stage made of calls of an intrinsic, between two others."""
    g.lines.append(f'map_one = _map({g.columns}, "{g.dtype}", lambda x: x + {g.one()})')
    g.compute("G_first", "X9[i, j] + X9[i, j]")
    g.lines.append(f'G_call = te.compute({g.shape}, lambda i: map_one(G_first[i, 0:{g.columns}]), name="G_call")')
    g.compute("G", f"G_call[{g.rows} - 1 - i, j] + {g.one()}" if g.rng.random() < 0.4 else f"G_call[i, j] + {g.one()}")
    reverse = "- 1 - i" in g.lines[-1]
    g.value = lambda env: (env["X9"] * 2 + 2)[:: -1 if reverse else 1]
    g.sometimes(
        f"s[G].split(G.op.axis[0], {g.rng.choice((2, 3))})",
        f"s[G_call].split(G_call.op.axis[0], {g.rng.choice((2, 4))})",
    )
    g.move("G_call", "G")
    g.sometimes("s[G_first].compute_at(s[G_call], G_call.op.axis[0])", "s[G].vectorize(s[G].leaf_iter_vars[-1])")


def external(g: Group) -> None:
    """An extern between two stages."""
    g.compute("G_first", f"X9[i, j] + {g.one()}")
    g.lines.append(f'G_extern = te.extern({g.shape}, [G_first], _doubled, name="G_extern", dtype="{g.dtype}")')
    g.compute("G", "G_extern[i, j] + X9[i, j]")
    g.value = lambda env: (env["X9"] + 1) * 2 + env["X9"]
    g.sometimes('G_read = s.cache_read(G_extern, "local", [G])', 'G_own = s.cache_read(X9, "shared", [G_first])')
    g.sometimes("s[G_first].parallel(G_first.op.axis[0])", 's[G_extern].set_scope("global")')
    g.sometimes(f"s[G].tile(*G.op.axis, 3, {g.factor()})", "s[G].fuse(*s[G].leaf_iter_vars[:2])")


def guarded(g: Group) -> None:
    """A stage of which only what is read is stored."""
    rows = max(1, g.rows - 1)
    g.compute("G_first", "X9[i, j] + X9[i, j]")
    g.shape = (rows, g.columns)
    g.compute("G", f"G_first[i, j] + {g.one()}")
    g.value = lambda env: env["X9"][:rows] * 2 + 1
    g.sometimes("s[G_first].reorder(*reversed(G_first.op.axis))", f"s[G_first].split(G_first.op.axis[1], {g.factor()})")
    g.move("G_first", "G")
    g.calls.append(f"s[G_first].set_store_predicate(G_first.op.axis[0] < {rows})")
    g.sometimes(
        "s[G_first].vectorize(s[G_first].leaf_iter_vars[-1])", "s[G_first].parallel(s[G_first].leaf_iter_vars[0])"
    )


def grouped(g: Group) -> None:
    """Stages that are moved as a group."""
    g.compute("G_a", f"X9[i, j] + {g.one()}")
    g.compute("G_b", "G_a[i, j] + G_a[i, j]")
    g.compute("G_c", "G_b[i, j] - X9[i, j]" if g.dtype != "uint8" else "G_b[i, j] + X9[i, j]")
    g.compute("G", "G_c[i, j] + G_c[i, j]")
    sign = 1 if g.dtype == "uint8" else -1
    g.value = lambda env: ((env["X9"] + 1) * 2 + sign * env["X9"]) * 2
    first, last = g.rng.choice((("X9", "G_c"), ("G_a", "G_c"), ("X9", "G_b")))
    g.sometimes(f"s[G].split(G.op.axis[0], {g.rng.choice((2, 3))})", "s[G].reorder(*reversed(s[G].leaf_iter_vars))")
    g.calls.append(f"group = s.create_group({last}, {first}, include_inputs={g.rng.random() < 0.5})")
    target = "G" if last == "G_c" else "G_c"
    g.calls.append(f"group.compute_at(s[{target}], s[{target}].leaf_iter_vars[{g.rng.choice((0, 1))}])")
    g.sometimes(
        "s[G_a].compute_at(s[G_b], s[G_b].leaf_iter_vars[0])", "s[G_b].compute_inline()", "s[G_a].compute_inline()"
    )


def launched(g: Group) -> None:
    """A running sum, with threads around all its steps."""
    steps, threads = g.rows + 1, g.columns
    g.input("X8", steps, g.columns)
    g.shape = (steps, g.columns)
    g.lines.append(f'G_state = te.placeholder({g.shape}, "{g.dtype}", name="G_state")')
    g.lines.append(f'G_start = te.compute((1, {threads}), lambda t, i: X8[0, i], name="G_start")')
    g.lines.append(f'G_step = te.compute({g.shape}, lambda t, i: G_state[t - 1, i] + X8[t, i], name="G_step")')
    g.lines.append('G = te.scan(G_start, G_step, G_state, inputs=[X8], name="G")')
    g.value = lambda env: np.add.accumulate(env["X8"], 0, dtype=env["X8"].dtype)
    size = g.factor()
    g.calls.append(f'thread, other = te.thread_axis((0, {size}), "threadIdx.x"), te.thread_axis("blockIdx.x")')
    for name in ("G_start", "G_step"):
        g.calls.append(f"outer, inner = s[{name}].split(s[{name}].op.axis[1], {size})")
        g.calls.append(f"s[{name}].bind(inner, thread)")
    g.calls.append("s[G].env_threads([thread])")
    g.sometimes("s[G_step].unroll(outer)")


KINDS: dict[str, Callable[[Group], None]] = {
    f.__name__: f for f in (mapped, products, called, external, guarded, grouped, launched)
}
