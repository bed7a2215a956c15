"""Loops and the axes of blocks: `T.grid`, `T.serial`, `T.axis.remap`, ..."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tvmagic.errors import TVMagicError
from tvmagic.ir import Add, DataType, For, ForKind, IntImm, IterVar, Range, Stmt, Var, expr, ops, structural_equal
from tvmagic.script.ir_builder.base import current_builder
from tvmagic.script.ir_builder.tir import frame as frames
from tvmagic.script.ir_builder.tir.common import as_mapping, the_block
from tvmagic.script.ir_builder.tir.extent import difference
from tvmagic.script.ir_builder.tir.values import as_tuple, as_value, dtype_from, make_shape


def as_domain(dom: Any) -> Range:
    if isinstance(dom, Range):
        return dom
    if isinstance(dom, (list, tuple)):
        if len(dom) != 2:
            raise TVMagicError(
                "the domain of an axis is an extent, a pair of ends or a Range", code="script.wrong_axis_domain"
            )
        begin, end = make_shape(dom, "domain")
        if isinstance(begin, IntImm) and isinstance(end, IntImm):
            wide = begin.dtype if begin.dtype.bits > end.dtype.bits else end.dtype
            return Range.from_min_extent(IntImm(wide, begin.value), IntImm(wide, end.value - begin.value))
        if isinstance(end, Add) and structural_equal(end.a, begin):  # as printed, so that the extent stays as it was
            return Range.from_min_extent(begin, end.b)
        extent = difference(end, begin)
        return Range.from_min_extent(begin, extent) if isinstance(extent, IntImm) else Range(begin, end)
    (extent,) = make_shape(dom, "domain")
    return Range.from_min_extent(IntImm(extent.dtype, 0), extent)


def _push(dom: Range, binding: Any, dtype: DataType, kind: int, name: str) -> Var:
    target = the_block(name)
    binding = expr(as_value(binding))
    if not (binding.dtype.is_int or binding.dtype.is_uint):
        raise TVMagicError(
            f"an axis is bound to an integer, not to `{binding.dtype}`", code="script.binding_not_integer"
        )
    if not dtype.is_int and not dtype.is_uint:
        raise TVMagicError(
            f"the type of an axis is an integer type, not `{dtype}`", code="script.axis_dtype_not_integer"
        )
    var = Var("", dtype, current_builder().span)
    if dom.extent.dtype is not dtype:
        dom = Range.from_min_extent(ops.cast(dtype, dom.min), ops.cast(dtype, dom.extent))
    target.iter_vars.append(IterVar(dom, var, kind, "", current_builder().span))
    target.iter_values.append(binding)
    return var


def _axis(kind: int, name: str, doc: str) -> Any:
    def build(dom: Any, binding: Any, dtype: Any = "int32") -> Var:
        domain, wide = as_domain(dom), dtype_from(dtype)
        for part in (domain.min.dtype, domain.extent.dtype):
            wide = part if part.bits > wide.bits else wide
        return _push(domain, binding, wide, kind, f"T.axis.{name}")

    build.__name__ = build.__qualname__ = name
    build.__doc__ = doc
    return staticmethod(build)


_REMAP_KINDS = {"S": IterVar.DataPar, "R": IterVar.CommReduce}


class axis:
    """The axes of a block: `T.axis.spatial(128, i)`, `T.axis.remap("SR", [i, k])`."""

    spatial = _axis(IterVar.DataPar, "spatial", "An axis whose iterations are independent.")
    reduce = _axis(IterVar.CommReduce, "reduce", "An axis that is reduced over.")
    scan = _axis(IterVar.Ordered, "scan", "An axis whose iterations run in order.")
    opaque = _axis(IterVar.Opaque, "opaque", "An axis of which nothing is known.")
    S = spatial
    R = reduce

    @staticmethod
    def remap(kinds: str, bindings: Any, dtype: Any = "int32") -> Any:
        """Axes bound to loop variables, with the domains of the loops; one letter S or R each."""
        bindings = as_tuple(bindings)
        if not isinstance(kinds, str) or len(kinds) != len(bindings):
            raise TVMagicError(
                f"`T.axis.remap` takes one letter for each of the {len(bindings)} loop variables",
                hint='such as `T.axis.remap("SR", [i, k])`',
                code="script.wrong_remap_count",
            )
        results = []
        for letter, binding in zip(kinds, bindings):
            if letter not in _REMAP_KINDS:
                raise TVMagicError(
                    f"`{letter}` is not a kind of axis", hint="the letters are S and R", code="script.unknown_axis_kind"
                )
            if not isinstance(binding, Var):
                raise TVMagicError(
                    "`T.axis.remap` takes loop variables only",
                    hint="bind an expression with `T.axis.spatial(extent, value)`",
                    code="script.remap_not_loop_variables",
                )
            dom = _loopas_domain(binding)
            results.append(_push(dom, binding, binding.dtype, _REMAP_KINDS[letter], "T.axis.remap"))
        return results[0] if len(results) == 1 else results


def _loopas_domain(var: Var) -> Range:
    for frame in reversed(current_builder().frames):
        if isinstance(frame, frames.ForFrame):
            for known, dom in zip(frame.vars, frame.doms):
                if known is var:
                    return dom
    raise TVMagicError(
        f"`{var.name}` is not the variable of a loop around the block", code="script.not_a_loop_variable"
    )


# ---------------------------------------------------------------------------- loops


def _bounds(start: Any, stop: Any) -> tuple[DataType, Range]:
    start = as_value(start)
    if stop is None:
        (extent,) = make_shape(start, "loop's extent")
        return extent.dtype, Range.from_min_extent(IntImm(extent.dtype, 0), extent)
    first, last = make_shape((start, as_value(stop)), "loop's range")
    extent = difference(last, first)
    wide = first.dtype if first.dtype.bits > extent.dtype.bits else extent.dtype
    if isinstance(first, IntImm):
        first = IntImm(wide, first.value)
    if isinstance(extent, IntImm):
        extent = IntImm(wide, extent.value)
    return DataType(f"int{wide.bits}") if wide.is_int else wide, Range.from_min_extent(first, extent)


def _frame(
    start: Any, stop: Any, kind: ForKind, annotations: Mapping[str, Any] | None, thread: str | None = None
) -> frames.ForFrame:
    """The frame of a loop from `start` to `stop`, or of `start` iterations, on the axis `thread` if it is given."""
    dtype, dom = _bounds(start, stop)
    values = as_mapping(annotations, "annotations") if annotations else None

    def make(variables: Sequence[Var], doms: Sequence[Range], body: Stmt, span: Any) -> Stmt:
        axis = None if thread is None else IterVar(None, Var("iter", dtype), IterVar.ThreadIndex, thread)
        return For(variables[0], doms[0].min, doms[0].extent, kind, body, axis, values, span)

    return frames.ForFrame([Var("v", dtype, current_builder().span)], [dom], make)


def _loop(kind: ForKind, doc: str) -> Any:
    def build(start: Any, stop: Any = None, *, annotations: Mapping[str, Any] | None = None) -> frames.ForFrame:
        return _frame(start, stop, kind, annotations)

    build.__name__ = build.__qualname__ = "unroll" if kind is ForKind.UNROLLED else kind.name.lower()
    build.__doc__ = doc
    return build


serial = _loop(ForKind.SERIAL, "A loop whose iterations run in order.")
parallel = _loop(ForKind.PARALLEL, "A loop whose iterations run in several threads.")
vectorized = _loop(ForKind.VECTORIZED, "A loop that becomes vector operations.")
unroll = _loop(ForKind.UNROLLED, "A loop whose body is repeated in the program.")


def thread_binding(
    start: Any, stop: Any = None, thread: str | None = None, *, annotations: Mapping[str, Any] | None = None
) -> frames.ForFrame:
    """A loop whose iterations are the threads of an axis such as `threadIdx.x`."""
    if thread is None:
        if not isinstance(stop, str):
            raise TVMagicError(
                "`T.thread_binding` names a thread axis",
                hint='such as thread="threadIdx.x"',
                code="script.missing_thread",
            )
        stop, thread = None, stop
    if not isinstance(thread, str):
        raise TVMagicError(
            "the thread axis of `T.thread_binding` is a text",
            hint='such as "threadIdx.x"',
            code="script.thread_not_a_text",
        )
    return _frame(start, stop, ForKind.THREAD_BINDING, annotations, thread)


def grid(*extents: Any) -> frames.ForFrame:
    """A nest of loops, one for each extent."""
    if len(extents) == 1 and isinstance(extents[0], (list, tuple)):
        extents = tuple(extents[0])
    if not extents:
        raise TVMagicError("`T.grid` takes one extent or more", code="script.grid_without_extents")
    span = current_builder().span
    sizes = make_shape(extents, "grid")
    variables = [Var("v", size.dtype, span) for size in sizes]
    doms = [Range.from_min_extent(IntImm(size.dtype, 0), size) for size in sizes]
    return frames.ForFrame(variables, doms, _make_nest)


def _make_nest(variables: Sequence[Var], doms: Sequence[Range], body: Stmt, span: Any) -> Stmt:
    for var, dom in zip(reversed(variables), reversed(doms)):
        body = For(var, dom.min, dom.extent, ForKind.SERIAL, body, None, None, span)
    return body
