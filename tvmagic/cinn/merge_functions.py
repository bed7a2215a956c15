"""Several functions as one, and other bodies for functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tvmagic import ir
from tvmagic.cinn.cinn_form import listed, parts_of
from tvmagic.cinn.steps.declaration import step
from tvmagic.errors import TVMagicError
from tvmagic.tir.schedule.state import ScheduleState


class _Buffers(ir.Mutator):
    """Other buffers in the places of some."""

    def __init__(self, buffers: Mapping[ir.Buffer, ir.Buffer]) -> None:
        self.buffers = buffers

    def visit_buffer_use(self, buffer: ir.Buffer) -> ir.Buffer:
        return self.buffers.get(buffer, buffer)

    @ir.handles(ir.SeqStmt)
    def sequence(self, node: ir.SeqStmt) -> ir.Stmt:
        return listed(*[self.visit(s) for s in node.seq])


def with_bodies(mod: ir.IRModule, exprs: Sequence[ir.Stmt]) -> ir.IRModule:
    """The module with other bodies, one for each function."""
    functions = [f for f in mod.functions.values() if isinstance(f, ir.PrimFunc)]
    if not isinstance(exprs, (list, tuple)):
        raise TVMagicError(
            "the bodies are given as a list, as `get_module().get_exprs()` has them",
            code="cinn.merge_functions.bodies_not_a_list",
        )
    if len(exprs) != len(functions):
        raise TVMagicError(
            f"the module has {len(functions)} functions; {len(exprs)} bodies are given",
            code="cinn.merge_functions.wrong_body_count",
        )
    if not all(isinstance(body, ir.BlockRealize) for body in exprs):
        raise TVMagicError(
            "a body is the realize of a root block, as `get_module().get_exprs()` has them",
            code="cinn.merge_functions.body_not_a_root",
        )
    new = {var: f.with_body(body) for (var, f), body in zip(mod.functions.items(), exprs)}
    return mod.replace(functions=new)


def merged(mod: ir.IRModule) -> ir.IRModule:
    """The module with one function: the others' bodies come after the first one's, in one list.

    Arguments of one name are one tensor. Raises `TVMagicError` if two of one name differ in shape or type, or tensors
    inside two functions have one name.
    """
    (var, first), *others = mod.functions.items()
    assert isinstance(first, ir.PrimFunc) and isinstance(first.body, ir.BlockRealize)
    known = {b.name: b for b in first.buffer_map.values()}
    params, buffers = list(first.params), dict(first.buffer_map)
    root = first.body.block
    parts, inside = list(parts_of(root.body)), list(root.alloc_buffers)
    for _, function in others:
        assert isinstance(function, ir.PrimFunc) and isinstance(function.body, ir.BlockRealize)
        changes: dict[ir.Buffer, ir.Buffer] = {}
        for param in function.params:
            buffer = function.buffer_map.get(param)
            if buffer is not None and buffer.name in known:
                changes[buffer] = _check_same_type(known[buffer.name], buffer)
            else:
                params.append(param)
                if buffer is not None:
                    buffers[param] = known[buffer.name] = buffer
        own = function.body.block
        for buffer in own.alloc_buffers:
            if any(buffer.name == other.name for other in (*inside, *known.values())):
                raise TVMagicError(
                    f"two functions have a tensor `{buffer.name}`",
                    hint="rename one of them",
                    code="cinn.merge_functions.repeated_tensor",
                )
            inside.append(buffer)
        parts += parts_of(_Buffers(changes).visit(own.body))
    block = root.replace(body=listed(*parts), alloc_buffers=tuple(inside))
    whole = first.replace(params=tuple(params), buffer_map=buffers, body=first.body.replace(block=block))
    return mod.replace(functions={var: whole})


def _check_same_type(first: ir.Buffer, second: ir.Buffer) -> ir.Buffer:
    sizes = [[getattr(s, "value", s) for s in b.shape] for b in (first, second)]
    if first.dtype != second.dtype or sizes[0] != sizes[1]:
        raise TVMagicError(
            f"`{first.name}` of two functions differs in shape or type", code="cinn.merge_functions.tensor_differs"
        )
    return first


@step("MergeExprs")
def merge_exprs(state: ScheduleState) -> None:
    """Make the bodies of all functions one root's list, in their order."""
    if len(state.mod.functions) > 1:
        state.reset(merged(state.mod))
