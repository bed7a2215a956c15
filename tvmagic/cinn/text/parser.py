"""CINN's text read as a function.

The text names no types, shapes, parameters or kinds of axes: types follow from literals and casts,
shapes from the ranges of the indices, an axis over which a block adds up from the block's store.
A block `B__reduce_init` holds the first values of the reduction `B`.
Tensors that are only read are inputs; those that nobody reads after they are written are outputs;
the rest live inside the function. What the text cannot tell may be given.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tvmagic.cinn.text.reductions import join_inits, name_tensors
from tvmagic.cinn.text.scopes import CinnShapes, finish_function
from tvmagic.cinn.text.syntax import Expr, Statement, Text, parse_statements
from tvmagic.cinn.text.types import CinnTypes, cast_type
from tvmagic.errors import TVMagicError
from tvmagic.ir import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    AssertStmt,
    Block,
    BlockRealize,
    Buffer,
    BufferLoad,
    BufferStore,
    Call,
    Cast,
    Div,
    Evaluate,
    FloatImm,
    FloorDiv,
    FloorMod,
    For,
    ForKind,
    IfThenElse,
    IntImm,
    IterVar,
    Let,
    LetStmt,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    PrimExpr,
    PrimFunc,
    Range,
    Select,
    SeqStmt,
    Stmt,
    StringImm,
    Sub,
    Var,
    While,
    decl_buffer,
    dtype_of,
    post_order_visit,
)
from tvmagic.ir.op import Op

__all__ = ["from_cinn", "is_cinn_text"]

_BEGINNING = re.compile(
    r"\s*(?:\{\s*)*(?:ScheduleBlock\s*\(|(?:serial|parallel|unroll|vectorize\(\d+\)|thread_bind\[[\w.]*\])\s+for\s*\()"
)

_LONGEST = 400  # characters of a number: the digits of the largest float64, and more

_INFIX: dict[str, type] = {
    "+": Add, "-": Sub, "*": Mul, "==": EQ, "!=": NE, "<": LT,
    "<=": LE, ">": GT, ">=": GE, "and": And, "or": Or,
}  # fmt: skip
_KINDS = {
    "serial": ForKind.SERIAL,
    "parallel": ForKind.PARALLEL,
    "unroll": ForKind.UNROLLED,
    "vectorize": ForKind.VECTORIZED,
    "thread_bind": ForKind.THREAD_BINDING,
}


def from_cinn(
    text: str,
    buffers: Mapping[str, Any] | None = None,
    *,
    outputs: Sequence[str] = (),
    params: Sequence[str] | None = None,
    name: str = "main",
    source: str = "<cinn>",
) -> PrimFunc:
    """The function that CINN's text describes.

    Parameters
    ----------
    text: what `cinn_text` prints of a function: a `ScheduleBlock(root)`, or the statements in it.
    buffers: tensors known from elsewhere, by name: a `Buffer`, or a shape and a dtype.
    outputs: tensors that callers see though blocks of the text read them too.
    params: the names of the parameters in order; inputs, then outputs, in the order of the text, unless
        told. A size that is no tensor's dimension is a parameter too, at the end.
    name: what the function is called.
    source: what places in the text are called in spans and errors.

    Raises
    ------
    DiagnosticError: the text cannot be read, or types in it do not fit; the place is given.
    TVMagicError: a tensor's size cannot be told from the text; give it in `buffers`.
    """
    tokens = Text(text, source)
    statements = parse_statements(tokens)
    name_tensors(statements)
    known = {n: _known_buffer(n, b) for n, b in (buffers or {}).items()}
    types = CinnTypes(tokens, {n: b.dtype for n, b in known.items()})
    types.run(statements, {})
    builder = _Builder(tokens, types, known)
    body = join_inits(builder.sequence(statements, {}))
    return finish_function(body, builder.shapes, outputs, params, name)


def is_cinn_text(text: str) -> bool:
    """Whether a text begins as CINN's do: with a schedule block or a loop of one of its kinds."""
    return _BEGINNING.match(text) is not None


def _known_buffer(name: str, value: Any) -> Buffer:
    if isinstance(value, Buffer):
        return value
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], (tuple, list)):
        return decl_buffer(value[0], value[1], name)
    raise TVMagicError(f"`buffers` gives for `{name}` neither a Buffer nor a shape and a dtype")


class _Builder:
    """Makes IR nodes of the tree; tensors whose shape is not known have a stand-in for now."""

    def __init__(self, source: Text, types: CinnTypes, known: Mapping[str, Buffer]) -> None:
        self.source, self.types = source, types
        self.buffers: dict[str, Buffer] = dict(known)
        self.symbols: dict[str, Var] = {}
        self.shapes = CinnShapes(known)
        self.statements: dict[str, Callable[[Statement, dict[str, Var]], Stmt]] = {
            "for": self.loop,
            "block": lambda node, env: self.block(node, env),
            "store": self.store,
            "if": self.condition,
            "while": lambda node, env: While(self.expr(node.exprs[0], env), self.sequence(node.body, env)),
            "evaluate": lambda node, env: Evaluate(self.expr(node.exprs[0], env)),
        }

    # ------------------------------------------------------------------ statements

    def sequence(self, statements: list[Statement], env: dict[str, Var]) -> Stmt:
        """The statements one after the other; a variable or an assertion holds what follows it."""
        done: list[Stmt] = []
        holders: list[tuple[int, Callable[[Stmt], Stmt]]] = []
        for node in statements:
            if node.kind == "let":
                value = self.expr(node.exprs[0], env)
                var = Var(node.name, value.dtype)
                env = {**env, node.name: var}
                holders.append((len(done), lambda body, v=var, x=value: LetStmt(v, x, body)))
            elif node.kind == "assert":
                given = [self.expr(e, env) for e in node.exprs]
                holders.append((len(done), lambda body, g=given: AssertStmt(g[0], g[1], body)))
            else:
                stmt = self.statements[node.kind](node, env)
                done.append(stmt.replace(span=self.source.span(node.offset)))
        for place, hold in reversed(holders):
            done[place:] = [hold(SeqStmt.flatten(*done[place:]) if done[place:] else Evaluate(0))]
        return SeqStmt.flatten(*done) if done else Evaluate(0)

    def loop(self, node: Statement, env: dict[str, Var]) -> Stmt:
        low, end = [self.expr(e, env) for e in node.exprs]
        var = Var(node.name, self.types.of_variable(node, node.name))
        zero = isinstance(low, IntImm) and low.value == 0
        extent = end if zero else self.shapes.simplify(Sub(end, low))
        with self.shapes.domain(var, Range.from_min_extent(low, extent)):
            body = self.sequence(node.body, {**env, node.name: var})
        binding = None
        if node.word == "thread_bind":
            binding = IterVar(None, Var("", "int32"), IterVar.ThreadIndex, node.thread)
        return For(var, low, extent, _KINDS[node.word], body, binding)

    def block(self, node: Statement, env: dict[str, Var], predicate: Any = True) -> Stmt:
        values = [self.expr(e, env) for e in node.exprs]
        fresh = [Var(n, self.types.of_variable(node, n)) for n in node.variables]
        inside = {**env, **dict(zip(node.variables, fresh))}
        told = {axis[0]: axis for region in node.regions for axis in region.axes if axis[0] is not None}
        axes: list[IterVar] = []
        for var, value in zip(fresh, values):
            if var.name in told:
                _, low, high = told[var.name]
                bounds = self.expr(low, env), self.expr(high, env)
                domain = Range.from_min_extent(bounds[0], self.shapes.simplify(bounds[1] - bounds[0]))
            else:
                domain = self.shapes.range_of(value, predicate)
            axes.append(IterVar(domain, var, IterVar.DataPar))
        with self.shapes.domains([(axis.var, axis.dom) for axis in axes]):
            body = self.sequence(node.body, inside)
            init = self.sequence(node.init, inside) if node.init else None
            self._note_regions(node, inside)
        reduced = _reduced(body, init)
        axes = [a.replace(iter_type=IterVar.CommReduce) if a.var in reduced else a for a in axes]
        attrs = {key: self.expr(value, inside) for key, value in node.attrs}
        return BlockRealize(values, predicate, Block(axes, [], [], node.name, body, init, annotations=attrs))

    def _note_regions(self, node: Statement, env: dict[str, Var]) -> None:
        """Keep how far a tensor is accessed at least, for axes whose indices tell nothing."""
        for region in node.regions:
            self.shapes.note_region(region.buffer, [self.expr(high, env) for _, _, high in region.axes])

    def store(self, node: Statement, env: dict[str, Var]) -> Stmt:
        value, *indices = [self.expr(e, env) for e in node.exprs]
        buffer = self.buffer(node.name, indices, node.offset)
        self.shapes.note_access(buffer, indices, writes=True)
        return BufferStore(buffer, value, indices)

    def condition(self, node: Statement, env: dict[str, Var]) -> Stmt:
        condition = self.expr(node.exprs[0], env)
        alone = not node.otherwise and len(node.body) == 1 and node.body[0].kind == "block"
        if alone:  # CINN guards a block so where its loops run too far: the realize's predicate
            return self.block(node.body[0], env, condition)
        otherwise = self.sequence(node.otherwise, env) if node.otherwise else None
        return IfThenElse(condition, self.sequence(node.body, env), otherwise)

    # ------------------------------------------------------------------ expressions

    def buffer(self, name: str, indices: list[PrimExpr], offset: int) -> Buffer:
        found = self.buffers.get(name)
        if found is None:
            dtype = self.types.tensors[name].result()
            found = self.buffers[name] = decl_buffer([1] * len(indices), dtype, name)
        if len(found.shape) != len(indices):
            raise self.source.error(
                f"`{name}` has {len(found.shape)} dimensions, not {len(indices)}", offset, len(name)
            )
        return found

    def expr(self, node: Expr, env: dict[str, Var]) -> PrimExpr:
        if node.kind in ("int", "float", "bool"):
            return self.literal(node)
        if node.kind == "string":
            return StringImm(node.text[1:-1].replace('\\"', '"').replace("\\\\", "\\"))
        if node.kind == "name":
            return self.named(node, env)
        if node.kind == "let":
            value = self.expr(node.args[0], env)
            var = Var(node.text, value.dtype)
            return Let(var, value, self.expr(node.args[1], {**env, node.text: var}))
        args = [self.expr(a, env) for a in node.args]
        if node.kind == "access":
            buffer = self.buffer(node.text, args, node.offset)
            self.shapes.note_access(buffer, args, writes=False)
            return BufferLoad(buffer, args)
        if node.kind == "not":
            return Not(args[0])
        return self.call(node, args) if node.kind == "call" else self.infix(node, args)

    def literal(self, node: Expr) -> PrimExpr:
        if node.kind == "bool":
            return IntImm("bool", int(node.text == "true"))
        if len(node.text) > _LONGEST:
            raise self.source.error("the number has too many digits", node.offset, len(node.text))
        dtype = self.types.of(node)
        if dtype.is_float:
            if node.kind == "int":
                raise self.source.error(
                    f"`{node.text}` stands where a `{dtype}` must",
                    node.offset,
                    len(node.text),
                    hint="write it with a dot",
                )
            text = node.text.removesuffix("f") if node.text[-4:] != "inf" else node.text
            return FloatImm(dtype, float(text.replace("inff", "inf")))
        return IntImm(dtype, int(node.text.removesuffix("ll")))

    def named(self, node: Expr, env: dict[str, Var]) -> PrimExpr:
        if node.text in env:
            return env[node.text]
        if node.text in self.types.tensors:
            raise self.source.error(f"the tensor `{node.text}` stands without indices", node.offset, len(node.text))
        return self.symbols.setdefault(node.text, Var(node.text, self.types.symbols[node.text].result()))

    def infix(self, node: Expr, args: list[PrimExpr]) -> PrimExpr:
        if node.text in ("/", "%"):
            whole = not args[0].dtype.is_float
            table = (FloorDiv, FloorMod) if whole else (Div, Mod)
            return table[node.text == "%"](args[0], args[1])
        return _INFIX[node.text](args[0], args[1])

    def call(self, node: Expr, args: list[PrimExpr]) -> PrimExpr:
        cast = cast_type(node.text)
        if cast is not None and len(args) == 1:
            return Cast(cast, args[0])
        if node.text in ("cinn_max", "cinn_min") and len(args) == 2:
            return (Max if node.text == "cinn_max" else Min)(args[0], args[1])
        if node.text == "select" and len(args) == 3:
            return Select(args[0], args[1], args[2])
        op = next((op for op in Op.registry.values() if op.script_name == node.text), None)
        if op is None:
            raise self.source.error(
                f"there is no function `{node.text}`", node.offset, len(node.text),
                hint="an external function is called by `call_extern(\"name\", ...)`",
            )  # fmt: skip
        return Call(dtype_of(self.types.of(node)), op, args)


def _reduced(body: Stmt, init: Stmt | None) -> set[Var]:
    """The variables over which a block adds up: they occur in it, but not where it stores.

    A block adds up where it has an init or loads the tensor that it stores.
    """
    stores: list[BufferStore] = []
    loads: list[BufferLoad] = []
    used: set[Var] = set()

    def note(node: Any) -> None:
        if isinstance(node, BufferStore):
            stores.append(node)
        elif isinstance(node, BufferLoad):
            loads.append(node)
        elif isinstance(node, Var):
            used.add(node)

    post_order_visit(body, note)
    stored = {s.buffer for s in stores}
    if init is None and not any(x.buffer in stored for x in loads):
        return set()
    for store in stores:
        for index in store.indices:
            post_order_visit(index, lambda n: used.discard(n) if isinstance(n, Var) else None)
    return used
