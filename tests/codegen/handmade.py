"""Lowered functions built by hand, as the passes leave them."""

from tvmagic import tir
from tvmagic.ir import Buffer, ForKind, IRModule, PrimFunc, Ramp, decl_buffer
from tvmagic.ir.expr import PointerType, PrimType, Var


def flat(buffer: Buffer) -> Buffer:
    """The one-dimensional view of a buffer's memory, as FlattenBuffer declares it."""
    total = 1
    for size in buffer.shape:
        total = total * size
    return decl_buffer((total,), buffer.dtype, buffer.name, data=buffer.data)


def function(body, *buffers, noalias=True, scalars=(), name="main") -> PrimFunc:
    """A function on `buffers` and scalar variables."""
    attrs = {"global_symbol": name, "tir.noalias": noalias}
    return PrimFunc([*buffers, *scalars], body, attrs=attrs)


def module(body, *buffers, **options) -> IRModule:
    return IRModule.from_expr(function(body, *buffers, **options))


def loop(extent, make, kind=ForKind.SERIAL, name="i", dtype="int32"):
    var = Var(name, dtype)
    return tir.For(var, 0, extent, kind, make(var))


def local(name, count, dtype="float32", scope="local"):
    """A pointer and the buffer over it, for an Allocate."""
    pointer = Var(name, PointerType(PrimType(dtype), scope))
    return pointer, decl_buffer((count,), dtype, name, data=pointer)


def allocate(pointer, count, body, dtype="float32"):
    return tir.Allocate(pointer, dtype, [count], True, body)


def matmul(n=1024, rows=8, columns=32) -> IRModule:
    """C = A @ B, float32: B in packed panels, C in local tiles, k outside the tile."""
    a, b, c = (decl_buffer((n, n), "float32", name) for name in "ABC")
    fa, fb, fc = flat(a), flat(b), flat(c)
    packed, panel = local("packed", n * n, scope="global")
    tile, acc = local("C_local", rows * columns)
    zero = tir.Broadcast(tir.FloatImm("float32", 0.0), columns)

    def pack(p):
        def row(k):
            value = fb[Ramp(k * n + p * columns, 1, columns)]
            return tir.BufferStore(panel, value, [Ramp(p * (n * columns) + k * columns, 1, columns)])

        return loop(n, row, name="k")

    def block(io):
        def tiles(jo):
            def clear(i):
                return tir.BufferStore(acc, zero, [Ramp(i * columns, 1, columns)])

            def step(k):
                def update(i):
                    place = Ramp(i * columns, 1, columns)
                    left = tir.Broadcast(fa[(io * rows + i) * n + k], columns)
                    right = panel[Ramp(jo * (n * columns) + k * columns, 1, columns)]
                    return tir.BufferStore(acc, acc[place] + left * right, [place])

                return loop(rows, update, ForKind.UNROLLED)

            def write(i):
                place = Ramp((io * rows + i) * n + jo * columns, 1, columns)
                return tir.BufferStore(fc, acc[Ramp(i * columns, 1, columns)], [place])

            body = [loop(rows, clear, ForKind.UNROLLED), loop(n, step, name="k"), loop(rows, write, ForKind.UNROLLED)]
            return allocate(tile, rows * columns, tir.SeqStmt(body))

        return loop(n // columns, tiles, name="jo")

    first = loop(n // columns, pack, ForKind.PARALLEL, name="p")
    second = loop(n // rows, block, ForKind.PARALLEL, name="io")
    return module(allocate(packed, n * n, tir.SeqStmt([first, second])), a, b, c)
