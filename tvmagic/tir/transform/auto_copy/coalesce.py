"""Copies between global and shared memory: neighbouring threads access neighbouring vectors."""

from __future__ import annotations

from tvmagic import ir
from tvmagic.arith import Analyzer, detect_iter_map, inverse_affine_iter_map
from tvmagic.errors import TVMagicError
from tvmagic.ir.query import is_one, is_zero
from tvmagic.tir.transform.auto_copy.copies import Copy, loops_around, size_of

_THREADS = ("threadIdx.z", "threadIdx.y", "threadIdx.x")


def coalesced(stmt: ir.Stmt, copy: Copy) -> ir.Stmt:
    """The nest as one loop over all elements, divided among all threads, each with a vector of neighbours."""
    return _divided(*_fused(stmt, copy), copy)


def _fused(stmt: ir.Stmt, copy: Copy) -> tuple[ir.Var, int, ir.Stmt]:
    """The number of an element, how many there are, and what is done with one."""
    loops, body = loops_around(stmt)
    if not loops:
        raise TVMagicError(
            f"the copy `{copy.name}` has no loops to divide among the threads",
            node=stmt,
            hint="`auto_copy` is for blocks whose body is a nest of loops",
            code="auto_copy.no_loops",
        )
    names = "".join(f"_{loop.loop_var.name}" for loop in loops[1:])
    fused = loops[0].loop_var.copy_with_suffix(f"{names}_fused")
    values: dict[ir.Var, ir.PrimExpr] = {}
    rest, total = fused, 1
    for loop in reversed(loops):
        extent = ir.IntImm(fused.dtype, size_of(loop, copy))
        value = ir.ops.floormod(rest, extent)
        values[loop.loop_var] = value if is_zero(loop.min) else value + loop.min
        rest, total = ir.ops.floordiv(rest, extent), total * extent.value
    return fused, total, ir.substitute(body, values)


def _divided(number: ir.Var, total: int, body: ir.Stmt, copy: Copy) -> ir.Stmt:
    """A loop over rounds, in it the threads (z, y, x), in them the lanes of a vector."""
    tags = [tag for tag in _THREADS if tag in copy.threads]
    lanes = max(1, copy.vector_bytes * 8 // copy.data_bits)
    factors = [*(copy.threads[tag] for tag in tags), lanes]
    at_once = 1
    for factor in factors:
        at_once *= factor
    factors.insert(0, -(-total // at_once))

    analyzer, dtype = Analyzer(), number.dtype
    variables = [number.copy_with_suffix(f"_{i}") for i in range(len(factors))]
    element: ir.PrimExpr = variables[0]
    for var, factor in zip(variables, factors):
        analyzer.bind(var, ir.Range.from_min_extent(ir.IntImm(dtype, 0), ir.IntImm(dtype, factor)))
    for var, factor in zip(variables[1:], factors[1:]):
        element = element * factor + var
    body = ir.substitute(body, {number: element})
    inside = element < total
    if not analyzer.can_prove(inside):
        body = ir.IfThenElse(inside, body)

    zero = ir.IntImm(dtype, 0)
    body = ir.For(variables[-1], zero, lanes, ir.ForKind.VECTORIZED, body)
    for var, factor, tag in reversed(list(zip(variables[1:-1], factors[1:-1], tags))):
        thread = ir.IterVar(None, ir.Var(tag, "int32"), ir.IterVar.ThreadIndex, tag)
        body = ir.For(var, zero, factor, ir.ForKind.THREAD_BINDING, body, thread)
    return ir.For(variables[0], zero, factors[0], ir.ForKind.SERIAL, body)


def in_order_of_target(stmt: ir.Stmt, copy: Copy) -> ir.Stmt:
    """Make of `C[f(i, j)] = A[i, j]` the same copy as `C[i, j] = A[g(i, j)]`, so that what is written is contiguous.

    The nest stays if `f` has no inverse, or if the copy is of another form.
    """
    loops, store = loops_around(stmt)
    if not isinstance(store, ir.BufferStore) or not isinstance(store.value, ir.BufferLoad):
        return stmt
    source = [(index, r) for index, r in zip(store.value.indices, copy.read.region) if not is_one(r.extent)]
    target = [(index, r) for index, r in zip(store.indices, copy.written.region) if not is_one(r.extent)]
    variables = [loop.loop_var for loop in loops]
    analyzer = Analyzer()
    if not len(source) == len(target) == len(loops) or not all(
        analyzer.can_prove_equal(index, r.min + var) for (index, r), var in zip(source, variables)
    ):
        return stmt
    places = [analyzer.simplify(index - r.min) for index, r in target]
    domains = {loop.loop_var: ir.Range.from_min_extent(loop.min, loop.extent) for loop in loops}
    sums = detect_iter_map(places, domains, True, "bijective", analyzer=analyzer).indices
    if len(sums) != len(loops):
        return stmt
    inverse = inverse_affine_iter_map(sums, variables)
    new = {var: var.copy_with_suffix("_inverse") for var in variables}
    new_values = [ir.substitute(inverse[var], new) for var in variables]

    def indices(region: tuple[ir.Range, ...], values: list[ir.PrimExpr]) -> list[ir.PrimExpr]:
        left = iter(values)
        return [r.min if is_one(r.extent) else r.min + next(left) for r in region]

    load = ir.BufferLoad(copy.read.buffer, indices(copy.read.region, new_values))
    body = ir.BufferStore(copy.written.buffer, load, indices(copy.written.region, list(new.values())))
    return ir.loop_nest(list(new.values()), [r.extent for _, r in target], body)
