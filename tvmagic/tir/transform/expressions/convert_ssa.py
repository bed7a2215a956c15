"""ConvertSSA: every variable is defined once in a module; a second definition gets a variable of its own."""

from __future__ import annotations

from typing import Any

from tvmagic import ir
from tvmagic.tir.transform.declaration import tir_pass
from tvmagic.tir.transform.use_def import used_vars


class _ConvertSSA(ir.Mutator):
    def __init__(self) -> None:
        self.defined: set[ir.Var] = set()
        self.names: dict[ir.Var, ir.Var] = {}
        self.described_by: dict[ir.Buffer, tuple[ir.Var, ...]] = {}
        self.renewed: dict[tuple[ir.Buffer, tuple[ir.Var, ...]], ir.Buffer] = {}
        self.threads: dict[ir.Var, ir.IterVar] = {}  # of the function that is visited

    def function(self, func: ir.PrimFunc) -> ir.PrimFunc:
        """`func` without variables that functions before it define."""
        self.names, self.threads = {}, {}
        given = dict.fromkeys(func.params)
        for buffer in func.buffer_map.values():
            given.update(dict.fromkeys((buffer.data, *used_vars_of(buffer))))
        for var in given:
            new = self.define(var)
            if new is not var:
                self.names[var] = new
        buffers = {self.var(v): self.visit_buffer_use(b) for v, b in func.buffer_map.items()}
        body = self.visit(func.body)
        params = tuple([self.var(v) for v in func.params])
        if body is func.body and all(self.var(v) is v for v in given):
            return func
        return func.replace(params=params, body=body, buffer_map=buffers)

    @ir.handles(ir.Var)
    def var(self, var: ir.Var) -> ir.Var:
        return self.names.get(var, var)

    def visit_buffer_use(self, buffer: ir.Buffer) -> ir.Buffer:
        if not self.names:
            return buffer
        described = self.described_by.get(buffer)
        if described is None:
            described = (buffer.data, *used_vars_of(buffer))
            self.described_by[buffer] = described
        now = tuple([self.names.get(v, v) for v in described])
        if all(a is b for a, b in zip(now, described)):
            return buffer
        new = self.renewed.get((buffer, now))
        if new is None:
            new = self.renewed[buffer, now] = buffer.replace(
                data=now[0],
                shape=ir.mutate_all(self.visit, buffer.shape),
                strides=ir.mutate_all(self.visit, buffer.strides),
                elem_offset=self.visit(buffer.elem_offset),
            )
        return new

    visit_buffer_def = visit_buffer_use

    def define(self, var: ir.Var) -> ir.Var:
        """The variable to use from here on in place of `var`."""
        if var not in self.defined:
            self.defined.add(var)
            return var
        new = var.copy_with_name(var.name)
        self.defined.add(new)
        return new

    def inside(self, old: ir.Var, new: ir.Var, node: Any) -> Any:
        """`node` visited with `new` standing for `old`."""
        if new is old:
            return self.visit(node)
        before = self.names.get(old)
        self.names[old] = new
        result = self.visit(node)
        if before is None:
            del self.names[old]
        else:
            self.names[old] = before
        return result

    @ir.handles(ir.Let, ir.LetStmt)
    def let(self, node: Any) -> Any:
        value = self.visit(node.value)
        var = self.define(node.var)
        body = self.inside(node.var, var, node.body)
        return node.with_(var=var, value=value, body=body)

    @ir.handles(ir.For)
    def loop(self, node: ir.For) -> ir.Stmt:
        low, extent = self.visit(node.min), self.visit(node.extent)
        var, binding = self.define(node.loop_var), node.thread_binding
        if binding is not None:
            own = self.define(binding.var)
            binding = binding if own is binding.var else binding.replace(var=own)
        body = self.inside(node.loop_var, var, node.body)
        return node.with_(loop_var=var, min=low, extent=extent, thread_binding=binding, body=body)

    @ir.handles(ir.Allocate)
    def allocate(self, node: ir.Allocate) -> ir.Stmt:
        extents, condition = ir.mutate_all(self.visit, node.extents), self.visit(node.condition)
        var = self.define(node.buffer_var)
        body = self.inside(node.buffer_var, var, node.body)
        return node.with_(buffer_var=var, extents=extents, condition=condition, body=body)

    @ir.handles(ir.AllocateConst)
    def allocate_const(self, node: ir.AllocateConst) -> ir.Stmt:
        var = self.define(node.buffer_var)
        body = self.inside(node.buffer_var, var, node.body)
        return node.with_(buffer_var=var, body=body)

    @ir.handles(ir.AttrStmt)
    def attribute(self, node: ir.AttrStmt) -> ir.Stmt:
        thread = self.thread(node)
        new = self.visit_children(node)
        subject = node.node if thread is None else thread
        if isinstance(subject, ir.Var):
            subject = self.names.get(subject, subject)
        elif isinstance(subject, ir.Buffer):
            subject = self.visit_buffer_use(subject)
        return new if subject is node.node else new.replace(node=subject)

    def thread(self, node: ir.AttrStmt) -> ir.IterVar | None:
        """The axis of a launch; its variable is one in the whole function, however often it is launched."""
        axis = node.node
        if node.attr_key not in ("thread_extent", "virtual_thread") or not isinstance(axis, ir.IterVar):
            return None
        known = self.threads.get(axis.var)
        if known is None:
            var = self.define(axis.var)
            known = self.threads[axis.var] = axis if var is axis.var else axis.replace(var=var)
            if var is not axis.var:
                self.names[axis.var] = var
        return axis if known.var is axis.var else known

    @ir.handles(ir.Block)
    def block(self, node: ir.Block) -> ir.Stmt:
        renamed: dict[ir.Var, ir.Var | None] = {}
        iter_vars: list[ir.IterVar] = []
        for iter_var in node.iter_vars:
            var = self.define(iter_var.var)
            if var is not iter_var.var:
                renamed[iter_var.var] = self.names.get(iter_var.var)
                self.names[iter_var.var] = var
                iter_var = iter_var.replace(var=var)
            iter_vars.append(iter_var)
        new = self.visit_children(node)
        for old, before in renamed.items():
            if before is None:
                del self.names[old]
            else:
                self.names[old] = before
        return new.replace(iter_vars=tuple(iter_vars)) if renamed else new


def used_vars_of(buffer: ir.Buffer) -> tuple[ir.Var, ...]:
    """The variables in the shape, strides and offset of a buffer."""
    found: dict[ir.Var, None] = {}
    for expr in (*buffer.shape, *buffer.strides, buffer.elem_offset):
        found.update(used_vars(expr))
    return tuple(found)


def convert_ssa(stmt: ir.Stmt) -> ir.Stmt:
    """`stmt` with every variable defined once."""
    return _ConvertSSA().visit(stmt)


@tir_pass("tir.ConvertSSA")
def ConvertSSA(mod: ir.IRModule) -> ir.IRModule:
    """Give every definition of a variable a variable of its own, in all functions of the module together.

    A parameter, a loop or a buffer that two functions share stays that of the first one. A thread's variable
    is one in a function.
    """
    return mod.map_functions(_ConvertSSA().function)
