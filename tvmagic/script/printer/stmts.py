"""How statements are written in TVMScript."""

from __future__ import annotations

from typing import Any

from tvmagic import ir
from tvmagic.ir.ops import add
from tvmagic.script.printer.buffers import declaration, producer_name, region_text
from tvmagic.script.printer.core import Opened, Printer, Suite, opens, prints
from tvmagic.script.printer.literals import float_text, quoted
from tvmagic.script.printer.scope import Frame

_RET = ir.Op.get("tir.ret")


def is_constant(node: Any, value: int) -> bool:
    """Whether `node` is the integer constant `value`."""
    return isinstance(node, ir.IntImm) and node.value == value


def same_expr(a: Any, b: Any) -> bool:
    """Whether two expressions are the same, variable for variable."""
    if a is b:
        return True
    if isinstance(a, ir.IntImm) and isinstance(b, ir.IntImm):
        return a.value == b.value and a.dtype is b.dtype
    from tvmagic.ir.deep_equal import expr_deep_equal

    return expr_deep_equal(a, b)


# ---------------------------------------------------------------------------- simple statements


@prints(ir.Evaluate)
def _evaluate(printer: Printer, node: ir.Evaluate) -> str:
    value = node.value
    if not isinstance(value, ir.Call):
        return f"{printer.tir('evaluate')}({printer.text(value)})"
    if value.op is _RET and len(value.args) == 1 and printer.sugar:
        return f"return {printer.text(value.args[0])}"
    return printer.text(value)


@prints(ir.IfThenElse)
def _if(printer: Printer, node: ir.IfThenElse) -> Suite:
    header = f"if {printer.text(node.condition)}:"
    parts = [(header, _branch(printer, node.then_case))]
    if node.else_case is not None:
        parts.append(("else:", _branch(printer, node.else_case)))
    return Suite(*parts)


@prints(ir.SeqStmt)
def _branch(printer: Printer, node: Any) -> list[Any]:
    with printer.frame(node) as frame:
        printer.body(node, frame)
    return frame.items


@prints(ir.While)
def _while(printer: Printer, node: ir.While) -> Suite:
    header = f"while {printer.text(node.condition)}:"
    with printer.frame(node) as frame:
        printer.body(node.body, frame)
    return Suite((header, frame.items))


# ---------------------------------------------------------------------------- scopes


@opens(ir.LetStmt)
def _let(printer: Printer, node: ir.LetStmt) -> Opened:
    concise = printer.concise(node)
    var, kind = node.var, node.var.type_annotation
    kind_text = printer.text(kind)
    value = printer.text(node.value)
    frame = printer.push(node)
    defined = printer.is_defined(var)
    name = printer.define_var(var, frame)
    if defined:
        return Opened(False, "", f"with {printer.tir('LetStmt')}({value}, var={name}):", node.body)
    untyped = isinstance(kind, ir.TupleType) and not kind.fields
    line = f"{name} = {value}" if untyped else f"{name}: {kind_text} = {value}"
    typed = not untyped and not isinstance(kind, ir.PrimType)
    header = f"with {printer.tir('LetStmt')}({value}{', ' + kind_text if typed else ''}) as {name}:"
    return Opened(concise, line, header, node.body)


@opens(ir.AssertStmt)
def _assert(printer: Printer, node: ir.AssertStmt) -> Opened:
    concise = printer.concise(node)
    condition, message = printer.text(node.condition), printer.text(node.message)
    printer.push(node)
    header = f"with {printer.tir('Assert')}({condition}, {message}):"
    return Opened(concise, f"assert {condition}, {message}", header, node.body)


@opens(ir.DeclBuffer)
def _decl_buffer(printer: Printer, node: ir.DeclBuffer) -> Opened:
    return _declared(printer, node, printer.concise(node), False)


def _declared(printer: Printer, node: ir.DeclBuffer, concise: bool, defines_data: bool) -> Opened:
    right = declaration(printer, node.buffer, "decl_buffer", printer.frames[-1], defines_data=defines_data)
    name = printer.define_buffer(node.buffer, printer.push(node))
    return _named(concise, name, right, node.body)


def _named(concise: bool, name: str | None, right: str, body: Any) -> Opened:
    """A scope that gives a name to the value of a call, or none."""
    if name is None:
        return Opened(concise, right, f"with {right}:", body)
    return Opened(concise, f"{name} = {right}", f"with {right} as {name}:", body)


def _declares_all_of(node: ir.Allocate) -> bool:
    """Whether the body just declares a buffer over the whole allocation."""
    decl = node.body
    if not isinstance(decl, ir.DeclBuffer) or decl.buffer.data is not node.buffer_var or node.annotations:
        return False
    shape = decl.buffer.shape
    if node.dtype is not decl.buffer.dtype or not is_constant(node.condition, 1) or len(shape) != len(node.extents):
        return False
    return all(same_expr(a, b) for a, b in zip(node.extents, shape))


def _storage_scope(var: ir.Var) -> str:
    kind = var.type_annotation
    return kind.storage_scope if isinstance(kind, ir.PointerType) else ""


@opens(ir.Allocate)
def _allocate(printer: Printer, node: ir.Allocate) -> Opened:
    concise = printer.concise(node)
    if printer.sugar and _declares_all_of(node):
        assert isinstance(node.body, ir.DeclBuffer)
        printer.stands_in(node.body, node)
        return _declared(printer, node.body, concise, True)
    texts = [f"[{printer.values(node.extents)}]", quoted(node.dtype), quoted(_storage_scope(node.buffer_var))]
    if not is_constant(node.condition, 1):
        texts.append(printer.text(node.condition))
    if node.annotations:
        texts.append(f"annotations={printer.value(node.annotations)}")
    name = printer.define_var(node.buffer_var, printer.frames[-1])
    printer.push(node)
    return _named(concise, name, f"{printer.tir('allocate')}({', '.join(texts)})", node.body)


@opens(ir.AllocateConst)
def _allocate_const(printer: Printer, node: ir.AllocateConst) -> Opened:
    concise = printer.concise(node)
    arguments = f"{_array_text(node.data.numpy().tolist())}, {quoted(node.dtype)}, [{printer.values(node.extents)}]"
    name = printer.define_var(node.buffer_var, printer.push(node))
    return _named(concise, name, f"{printer.tir('allocate_const')}({arguments})", node.body)


def _array_text(data: Any) -> str:
    """A flat list of the elements of nested lists."""
    texts: list[str] = []
    stack = [data]
    while stack:
        item = stack.pop()
        if isinstance(item, (list, tuple)):
            stack.extend(reversed(item))
        else:
            texts.append(float_text(item) if isinstance(item, float) else str(item))
    return f"[{', '.join(texts)}]"


@opens(ir.BufferRealize)
def _buffer_realize(printer: Printer, node: ir.BufferRealize) -> Opened:
    concise = printer.concise(node)
    right = _realize_text(printer, node, None)
    printer.push(node)
    return _named(concise, None, right, node.body)


def _realize_text(printer: Printer, node: ir.BufferRealize, scope: ir.PrimExpr | None) -> str:
    buffer = printer.text(node.buffer)
    bounds = [f"{printer.text(r.min)}:{printer.text(add(r.min, r.extent))}" for r in node.bounds]
    texts = [f"{buffer}[{', '.join(bounds) or '()'}]"]
    if scope is not None:
        texts.append(printer.text(scope))
    if not is_constant(node.condition, 1):
        texts.append(f"condition={printer.text(node.condition)}")
    return f"{printer.tir('realize')}({', '.join(texts)})"


@opens(ir.ProducerRealize)
def _producer_realize(printer: Printer, node: ir.ProducerRealize) -> Opened:
    region = f"{producer_name(node.producer)}[{region_text(printer, node.bounds)}]"
    right = f"{printer.tir('ProducerRealize')}({region}, {printer.text(node.condition)})"
    printer.push(node)
    return _named(False, None, right, node.body)


@opens(ir.AttrStmt)
def _attr(printer: Printer, node: ir.AttrStmt) -> Opened:
    concise = printer.concise(node)
    body, key, subject = node.body, node.attr_key, node.node
    defined: ir.Var | None = None
    if key in ("thread_extent", "virtual_thread") and isinstance(subject, ir.IterVar):
        thread, defined = _thread(printer, node, subject)
        right = f"{printer.tir('launch_thread')}({thread}, {printer.text(node.value)})"
    elif key == "realize_scope" and isinstance(body, ir.BufferRealize) and body.buffer is subject:
        right = _realize_text(printer, body, node.value)
        printer.stands_in(body, node)
        body = body.body
    else:
        right = f"{printer.tir('attr')}({printer.value(subject)}, {quoted(key)}, {printer.value(node.value)})"
    frame = printer.push(node)
    name = None if defined is None else printer.define_var(defined, frame)
    return _named(concise, name, right, body)


def _thread(printer: Printer, node: ir.AttrStmt, thread: ir.IterVar) -> tuple[str, ir.Var | None]:
    """How the thread is named, and the variable to define for it here."""
    var = thread.var
    if not printer.is_defined(var):
        if printer.holds_all_uses(node, var):
            return quoted(thread.thread_tag), var
        frame = printer.lowest_frame(var)
        name = printer.define_var(var, frame)
        frame.items.append(f"{name} = {printer.tir('env_thread')}({quoted(thread.thread_tag)})")
    return printer.text(var), None


# ---------------------------------------------------------------------------- loops

_KINDS = {
    ir.ForKind.SERIAL: "serial",
    ir.ForKind.PARALLEL: "parallel",
    ir.ForKind.VECTORIZED: "vectorized",
    ir.ForKind.UNROLLED: "unroll",
    ir.ForKind.THREAD_BINDING: "thread_binding",
}


def _grid(printer: Printer, loop: ir.For) -> list[ir.For]:
    """The loops that `T.grid` folds into one line: serial from 0, with independent extents."""
    found: list[ir.For] = []
    inside: set[int] = set()
    if not printer.sugar:
        return found
    node: Any = loop
    while isinstance(node, ir.For):
        simple = node.kind is ir.ForKind.SERIAL and not node.annotations and is_constant(node.min, 0)
        if not simple or (inside and not isinstance(node.extent, ir.IntImm) and _uses_any(node.extent, inside)):
            break
        found.append(node)
        inside.add(id(node.loop_var))
        node = node.body
    return found


def _uses_any(expr: ir.PrimExpr, variables: set[int]) -> bool:
    from tvmagic.ir import post_order_visit

    found = False

    def look(node: Any) -> None:
        nonlocal found
        found = found or id(node) in variables

    post_order_visit(expr, look)
    return found


@prints(ir.For)
def _for(printer: Printer, loop: ir.For) -> Suite:
    grid = _grid(printer, loop)
    loops = grid if len(grid) > 1 else [loop]
    with printer.frame(loop) as frame:
        names: list[str] = []
        extents: list[str] = []
        frame.in_header = True
        for inner in loops:
            names.append(printer.define_var(inner.loop_var, frame))
            printer.loops.setdefault(id(inner.loop_var), inner)
            if len(grid) > 1:
                extents.append(printer.text(inner.extent))
                if inner is not loop:
                    printer.stands_in(inner, loop)
        right = f"{printer.tir('grid')}({', '.join(extents)})" if extents else _loop_text(printer, loop)
        frame.in_header = False
        printer.body(loops[-1].body, frame)
        for inner in loops:
            printer.loops.pop(id(inner.loop_var), None)
    return Suite((f"for {', '.join(names)} in {right}:", frame.items))


def _loop_text(printer: Printer, loop: ir.For) -> str:
    if is_constant(loop.min, 0):
        texts = [printer.text(loop.extent)]
    else:
        texts = [printer.text(loop.min), printer.text(add(loop.min, loop.extent))]
    if loop.kind is ir.ForKind.THREAD_BINDING and loop.thread_binding is not None:
        texts.append(f"thread={quoted(loop.thread_binding.thread_tag)}")
    if loop.annotations:
        texts.append(f"annotations={printer.value(loop.annotations)}")
    plain = loop.kind is ir.ForKind.SERIAL and not loop.annotations
    return f"{'range' if plain else printer.tir(_KINDS[loop.kind])}({', '.join(texts)})"


# ---------------------------------------------------------------------------- blocks

_AXES = {
    ir.IterVar.DataPar: "spatial",
    ir.IterVar.CommReduce: "reduce",
    ir.IterVar.Ordered: "scan",
    ir.IterVar.Opaque: "opaque",
}


@prints(ir.BlockRealize)
def _block_realize(printer: Printer, node: ir.BlockRealize) -> Suite:
    item = _block(printer, node.block, node)
    printer.stands_in(node.block, node)
    if id(node.block) in printer.annotated:
        item.comment = printer.annotated[id(node.block)]
    return item


@prints(ir.Block)
def _bare_block(printer: Printer, node: ir.Block) -> Suite:
    return _block(printer, node, None)


def _block(printer: Printer, block: ir.Block, realize: ir.BlockRealize | None) -> Suite:
    with printer.frame(block) as frame:
        values = realize.iter_values if realize is not None else ()
        _bindings(printer, block, values, frame)
        items = frame.items
        if realize is not None and not is_constant(realize.predicate, 1):
            items.append(f"{printer.tir('where')}({printer.text(realize.predicate)})")
        items.append(f"{printer.tir('reads')}({printer.values(block.reads)})")
        items.append(f"{printer.tir('writes')}({printer.values(block.writes)})")
        if block.annotations:
            items.append(f"{printer.tir('block_attr')}({printer.value(block.annotations)})")
        for buffer in block.alloc_buffers:
            items.append(alloc_buffer(printer, buffer, frame))
        for match in block.match_buffers:
            items.append(printer.stmt(match))
        if block.init is not None:
            with printer.frame(block.init) as init:
                printer.body(block.init, init)
            items.append(Suite((f"with {printer.tir('init')}():", init.items)))
        printer.body(block.body, frame)
    bare = "" if realize is not None else ", no_realize=True"
    header = f"with {printer.tir('block')}({quoted(block.name_hint)}{bare}):"
    return Suite((header, frame.items))


def alloc_buffer(printer: Printer, buffer: ir.Buffer, frame: Frame) -> str:
    """The line that allocates a buffer of a block."""
    name = printer.define_buffer(buffer, frame)
    return f"{name} = {declaration(printer, buffer, 'alloc_buffer', frame)}"


def _bindings(printer: Printer, block: ir.Block, values: tuple[ir.PrimExpr, ...], frame: Frame) -> None:
    """The lines that bind the block's variables; neighbours bound to whole loops share one."""
    remapped: list[int] = []
    for i, axis in enumerate(block.iter_vars):
        if i < len(values) and _is_whole_loop(printer, axis, values[i]):
            remapped.append(i)
            continue
        _remap(printer, block, values, remapped, frame)
        remapped = []
        frame.items.append(_axis(printer, axis, values[i : i + 1], frame))
    _remap(printer, block, values, remapped, frame)


def _is_whole_loop(printer: Printer, axis: ir.IterVar, value: ir.PrimExpr) -> bool:
    if not printer.sugar or axis.iter_type not in (ir.IterVar.DataPar, ir.IterVar.CommReduce) or axis.dom is None:
        return False
    loop = printer.loops.get(id(value))
    return loop is not None and same_expr(loop.min, axis.dom.min) and same_expr(loop.extent, axis.dom.extent)


def _remap(
    printer: Printer, block: ir.Block, values: tuple[ir.PrimExpr, ...], indices: list[int], frame: Frame
) -> None:
    axes = [block.iter_vars[i] for i in indices]
    if len(axes) == 1:
        frame.items.append(_axis(printer, axes[0], values[indices[0] : indices[0] + 1], frame))
    elif axes:
        names: list[str] = []
        loops: list[str] = []
        for i, axis in zip(indices, axes):
            names.append(printer.define_var(axis.var, frame))
            loops.append(printer.text(values[i]))
        kinds = "".join(["S" if axis.iter_type == ir.IterVar.DataPar else "R" for axis in axes])
        frame.items.append(f'{", ".join(names)} = {printer.tir("axis")}.remap("{kinds}", [{", ".join(loops)}])')


def _axis(printer: Printer, axis: ir.IterVar, value: tuple[ir.PrimExpr, ...], frame: Frame) -> str:
    """The line that binds one variable; `value` is empty if the block is not realized."""
    assert axis.dom is not None
    if is_constant(axis.dom.min, 0):
        texts = [printer.text(axis.dom.extent)]
    else:
        end = printer.text(add(axis.dom.min, axis.dom.extent))
        texts = [f"({printer.text(axis.dom.min)}, {end})"]
    texts += [printer.text(v) for v in value]
    name = printer.define_var(axis.var, frame)
    return f"{name} = {printer.tir('axis')}.{_AXES[axis.iter_type]}({', '.join(texts)})"
