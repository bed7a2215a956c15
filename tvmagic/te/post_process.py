"""From the statement of ScheduleOps to a function: tensors become buffers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tvmagic import ir
from tvmagic.errors import TVMagicError
from tvmagic.ir.deep_recursion import deep
from tvmagic.te.tensor import Tensor


@deep
def schedule_postproc_to_primfunc(
    arg_list: Sequence[Any], stmt: ir.Stmt, extern_buffer: Mapping[Tensor, ir.Buffer] | None = None
) -> ir.PrimFunc:
    """The function of the arguments `arg_list` with the body that `stmt` is.

    Parameters
    ----------
    arg_list: variables, buffers and tensors, in the order of the parameters.
    extern_buffer: the buffers that hold some of the tensors.
    """
    buffers: dict[Tensor, ir.Buffer] = dict(extern_buffer or {})
    params: list[ir.Var] = []
    buffer_map: dict[ir.Var, ir.Buffer] = {}
    for arg in arg_list:
        if isinstance(arg, (ir.Var, ir.IterVar)):
            params.append(arg.var if isinstance(arg, ir.IterVar) else arg)
            continue
        if isinstance(arg, Tensor):
            if arg in buffers:
                raise TVMagicError(
                    f"tensor `{arg.name}` is an argument twice", code="postproc_to_primfunc.repeated_argument"
                )
            buffers[arg] = arg = _buffer_of(arg)
        if not isinstance(arg, ir.Buffer):
            raise TVMagicError(
                f"`{arg!r}` cannot be an argument",
                hint="give tensors, buffers and variables",
                code="postproc_to_primfunc.wrong_argument",
            )
        pointer = ir.Var(arg.name, ir.PrimType("handle"))
        params.append(pointer)
        buffer_map[pointer] = arg
    mapper = _TensorsToBuffers(buffers)
    body = mapper.visit(stmt)
    func = ir.PrimFunc(params, body, buffer_map=buffer_map, attrs={"from_legacy_te_schedule": True})
    if mapper.separators:
        separate = _SeparateAxes(mapper.separators)
        func = separate.function(func)
        mapper.layouts = {separate.visit_buffer_use(b): maps for b, maps in mapper.layouts.items()}
    if mapper.layouts:  # the keys are buffers, which only this attribute has
        func = func.replace(attrs={**func.attrs, "layout_transform_map": mapper.layouts})
    return func


def _buffer_of(tensor: Tensor, scope: str = "") -> ir.Buffer:
    """The buffer of a tensor; without a scope, StorageFlatten gives it the memory of the threads around it."""
    data = ir.data_pointer(tensor.name, tensor.dtype, scope, tensor.span)
    return ir.decl_buffer(tensor.shape, tensor.dtype, tensor.name, data, span=tensor.span)


class _TensorsToBuffers(ir.Mutator):
    """Tensors become buffers; what is said of a buffer's layout is collected.

    `layouts`: the index maps of a buffer; `separators`: the groups of its axes.
    """

    def __init__(self, buffers: dict[Tensor, ir.Buffer]) -> None:
        self.buffers = buffers
        self.layouts: dict[ir.Buffer, tuple[Any, ...]] = {}
        self.separators: dict[ir.Buffer, tuple[ir.IntImm, ...]] = {}

    def buffer(self, tensor: Tensor, scope: str = "") -> ir.Buffer:
        """The buffer of a tensor; a new one if it has none."""
        found = self.buffers.get(tensor)
        if found is None:
            found = self.buffers[tensor] = _buffer_of(tensor, scope)
        return found

    @ir.handles(ir.ProducerRealize)
    def realize(self, node: ir.ProducerRealize) -> Any:
        buffer = self.buffer(node.producer, node.storage_scope)
        node = self.visit_children(node)
        return ir.BufferRealize(buffer, node.bounds, node.condition, node.body, node.span)

    @ir.handles(ir.ProducerStore)
    def store(self, node: ir.ProducerStore) -> Any:
        node = self.visit_children(node)
        return ir.BufferStore(self.buffer(node.producer), node.value, node.indices, span=node.span)

    @ir.handles(ir.ProducerLoad)
    def load(self, node: ir.ProducerLoad) -> Any:
        node = self.visit_children(node)
        return ir.BufferLoad(self.buffer(node.producer), node.indices, span=node.span)

    @ir.handles(ir.AttrStmt)
    def attr(self, node: ir.AttrStmt) -> Any:
        found = {"layout_transforms": self.layouts, "axis_separators": self.separators}.get(node.attr_key)
        if found is not None:
            tensor, facts = node.node
            body = self.visit(node.body)  # has the realization, which knows the scope
            found[self.buffer(tensor)] = facts
            return body
        node = self.visit_children(node)
        rename = _ATTRS.get(node.attr_key)
        return node if rename is None else node.replace(node=rename(self, node.node))

    def _one(self, tensor: Tensor) -> ir.Buffer:
        return self.buffer(tensor)

    def _pair(self, pair: tuple[Any, Any]) -> tuple[Any, Any]:
        """A buffer and the tensor that it stands for."""
        return pair[0], self.buffer(pair[1])


_ATTRS: dict[str, Callable[[_TensorsToBuffers, Any], Any]] = {
    "double_buffer_scope": _TensorsToBuffers._one,
    "rolling_buffer_scope": _TensorsToBuffers._one,
    "buffer_dim_align": _TensorsToBuffers._one,
    "prefetch_scope": _TensorsToBuffers._one,
    "buffer_bind_scope": _TensorsToBuffers._pair,
}


class _SeparateAxes(ir.BufferRemapper):
    """Buffers with their axes divided into groups."""

    def __init__(self, separators: dict[ir.Buffer, tuple[ir.IntImm, ...]]) -> None:
        super().__init__()
        self.separators = separators

    def remap(self, buffer: ir.Buffer) -> ir.Buffer:
        groups = self.separators.get(buffer)
        return buffer if groups is None else buffer.replace(axis_separators=groups)

    @ir.handles(ir.AttrStmt)
    def attr(self, node: ir.AttrStmt) -> Any:
        new = self.visit_children(node)
        about: Any = node.node
        if isinstance(about, ir.Buffer):
            return new.replace(node=self.visit_buffer_use(about))
        if node.attr_key == "buffer_bind_scope":
            return new.replace(node=(about[0], self.visit_buffer_use(about[1])))
        return new

    def function(self, func: ir.PrimFunc) -> ir.PrimFunc:
        body = self.visit(func.body)
        return func.replace(body=body, buffer_map={v: self.visit_buffer_use(b) for v, b in func.buffer_map.items()})


class _FindBinds(ir.Visitor):
    def __init__(self) -> None:
        self.found = False

    @ir.handles(ir.AttrStmt)
    def attr(self, node: ir.AttrStmt) -> None:
        self.found = self.found or node.attr_key == "buffer_bind_scope"
        self.visit_children(node)


@deep
def verify_compact_buffer(stmt: ir.Stmt) -> bool:
    """Whether `stmt` binds buffers of its own to tensors, so that arguments must be dense."""
    finder = _FindBinds()
    finder.visit(stmt)
    return finder.found
