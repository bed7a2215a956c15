"""CINN's text read as a function.

The text names no types, shapes or kinds of axes: types follow from literals and casts,
shapes from the ranges of the indices, an axis over which a block adds up from the block's store.
`/` and `%` of whole numbers are C's, which round towards zero; `floordiv(a, b)` and `floormod(a, b)` round down.
A block `B__reduce_init` holds the first values of the reduction `B`; it stays a block of its own.
Without a line `function NAME (_A, _B)` the parameters are found too:
Tensors that are only read are inputs; those that nobody reads after they are written are outputs;
the rest live inside the function. What the text cannot tell may be given.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tvmagic import ir
from tvmagic.cinn.cinn_form import BARE, FOR_TYPE, FORM, VECTOR_LENGTH, accesses_in_order, listed
from tvmagic.cinn.text.functions import EXTERNAL, OP_NAMES
from tvmagic.cinn.text.hints import foreign_hint
from tvmagic.cinn.text.non_negative import never_negative
from tvmagic.cinn.text.numbers import number_value
from tvmagic.cinn.text.reductions import name_tensors, ranks_in
from tvmagic.cinn.text.scopes import CinnShapes, finish_function
from tvmagic.cinn.text.syntax import Expr, Program, Statement, Text, parse_programs
from tvmagic.cinn.text.types import CinnTypes, cast_type
from tvmagic.errors import TVMagicError, did_you_mean
from tvmagic.ir.operators import COMPARISON_SIGNS
from tvmagic.ir.query import is_zero
from tvmagic.ir.semantics import round_float

__all__ = ["from_cinn", "is_cinn_text"]

_BEGINNING = re.compile(
    r"(?:\s|//[^\n]*\n)*(?:Expr\s+\d+\s*\{|function\s+\w+\s*\(|(?:\{\s*)*(?:ScheduleBlock\s*\(|(?:serial|parallel|unroll|default"
    r"|vectorize\s*[\[(]\d+[\])]|thread_bind\[[\w. ]*\])\s+for\s*\())"
)

_LONGEST = 400  # characters of a number: the digits of the largest float64, and more

_INFIX: dict[str, type] = {
    "+": ir.Add, "-": ir.Sub, "*": ir.Mul, "and": ir.And, "or": ir.Or,
    **{sign: op for op, sign in COMPARISON_SIGNS.items()},
}  # fmt: skip
_KINDS = {
    "serial": ir.ForKind.SERIAL,
    "parallel": ir.ForKind.PARALLEL,
    "unroll": ir.ForKind.UNROLLED,
    "vectorize": ir.ForKind.VECTORIZED,
    "thread_bind": ir.ForKind.THREAD_BINDING,
}
# loops of kinds that only CINN has, which run as serial ones
_FOR_TYPES = {"default": "Default", "for": "GPULane", "invalid info": "Invalid"}


def from_cinn(
    text: str,
    buffers: Mapping[str, Any] | None = None,
    *,
    outputs: Sequence[str] = (),
    params: Sequence[str] | None = None,
    name: str = "main",
    source: str = "<cinn>",
) -> Any:
    """The function that CINN's text describes; of a text with several the module.

    Parameters
    ----------
    text: what `cinn_text` prints of a function or module: a `ScheduleBlock(root)`, or the statements in it; several begin
        each with a line `function NAME (_A, _B)`, with `Expr 0 {`, or with a root of their own.
    buffers: tensors known from elsewhere, by name: a `Buffer`, or a shape and a dtype.
    outputs: tensors that callers see though blocks of the text read them too.
    params: the names of the parameters in order; by default those of the text's head, and without one inputs, then
        outputs, in the order of the text. A size that is not a tensor's dimension is a parameter too, at the end.
    name: what the function is called, if the text has no head; of several the next ones `NAME_0`, `NAME_1`, ...
    source: what places in the text are called in spans and errors.

    Raises
    ------
    DiagnosticError: the text cannot be read, or types in it do not fit; the place is given.
    TVMagicError: a tensor's size cannot be told from the text; give it in `buffers`. Two functions have one name;
        `outputs` or `params` are given for several functions.
    """
    tokens = Text(text, source)
    programs = parse_programs(tokens)
    if len(programs) == 1:
        return _function(tokens, programs[0], buffers or {}, outputs, params, name)
    if outputs or params is not None:
        raise TVMagicError(
            f"the text has {len(programs)} functions, so `outputs` and `params` do not say of which",
            hint="begin each with a line `function NAME (_A, _B)`, which says what its arguments are",
            code="cinn.text.several_functions",
        )
    functions: dict[str, ir.PrimFunc] = {}
    for number, program in enumerate(programs):
        called = program.name or (name if number == 0 else f"{name}_{number - 1}")
        if called in functions:
            raise TVMagicError(f"two functions of the text are called `{called}`", code="cinn.text.repeated_function")
        functions[called] = _function(tokens, program, buffers or {}, (), None, called)
    return ir.IRModule(functions)


def _function(
    tokens: Text,
    program: Program,
    buffers: Mapping[str, Any],
    outputs: Sequence[str],
    params: Sequence[str] | None,
    name: str,
) -> ir.PrimFunc:
    """One function of a text."""
    name_tensors(program.statements)
    known = {n: _known_buffer(n, b) for n, b in buffers.items()}
    types = CinnTypes(tokens, {n: b.dtype for n, b in known.items()})
    types.run(program.statements, {})
    builder = _Builder(tokens, types, known, ranks_in(program.statements))
    body = builder.sequence(program.statements, {})
    if params is None and program.arguments is not None:
        params = builder.parameters_of(program.arguments)
    func = finish_function(body, builder.shapes, outputs, params, program.name or name, builder.symbols)
    func = func.with_attr(FORM, True)
    return func if program.braces else func.with_attr(BARE, True)


def is_cinn_text(text: str) -> bool:
    """Whether a text begins as CINN's do: with a schedule block or a loop of one of its kinds."""
    return _BEGINNING.match(text) is not None


def _known_buffer(name: str, value: Any) -> ir.Buffer:
    if isinstance(value, ir.Buffer):
        return value
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], (tuple, list)):
        return ir.decl_buffer(value[0], value[1], name)
    raise TVMagicError(
        f"`buffers` gives for `{name}` neither a Buffer nor a shape and a dtype", code="cinn.text.wrong_buffer"
    )


class _Builder:
    """Makes IR nodes of the tree; tensors whose shape is not known have a stand-in for now."""

    def __init__(
        self, source: Text, types: CinnTypes, known: Mapping[str, ir.Buffer], ranks: Mapping[str, int]
    ) -> None:
        self.source, self.types, self.ranks = source, types, ranks
        self.buffers: dict[str, ir.Buffer] = dict(known)
        self.symbols: dict[str, ir.Var] = {}
        self.shapes = CinnShapes(known)
        self.statements: dict[str, Callable[[Statement, dict[str, ir.Var]], ir.Stmt]] = {
            "for": self.loop,
            "block": lambda node, env: self.block(node, env),
            "store": self.store,
            "if": self.condition,
            "while": lambda node, env: ir.While(self.expr(node.exprs[0], env), self.sequence(node.body, env)),
            "evaluate": lambda node, env: ir.Evaluate(self.expr(node.exprs[0], env)),
            "list": lambda node, env: self.part([node], env),
            "alloc": self.memory,
            "free": self.memory,
        }

    def parameters_of(self, arguments: Sequence[str]) -> list[str]:
        """The parameters that a head's arguments name: tensors by their buffers, and sizes."""
        by_buffer = {buffer: tensor for tensor, buffer in self.shapes.buffer_names.items()}
        found: list[str] = []
        for argument in arguments:
            name = by_buffer.get(argument) or argument.removeprefix("_")
            if name in self.buffers or argument in self.buffers:
                found.append(name if name in self.buffers else argument)
            elif argument.startswith("_"):  # it is not used; nothing tells its type and size
                self.shapes.known[name] = ir.decl_buffer((1,), "float32", name)
                found.append(name)
            else:
                self.symbol(argument, ir.dtype_of("int32"))
                found.append(argument)
        return found

    # ------------------------------------------------------------------ statements

    def part(self, statements: list[Statement], env: dict[str, ir.Var]) -> ir.Stmt:
        """A body that may be a list in braces of its own, which then stays a list."""
        if len(statements) == 1 and statements[0].kind == "list":
            return listed(self.sequence(statements[0].body, env))
        return self.sequence(statements, env)

    def memory(self, node: Statement, env: dict[str, ir.Var]) -> ir.Stmt:
        sizes = [self.expr(e, env) for e in node.exprs]
        call = ir.Call("int32", "tir.call_pure_extern", [ir.StringImm(node.kind), ir.StringImm(node.name), *sizes])
        return ir.Evaluate(call)

    def sequence(self, statements: list[Statement], env: dict[str, ir.Var]) -> ir.Stmt:
        """The statements one after the other; a variable or an assertion holds what follows it."""
        done: list[ir.Stmt] = []
        holders: list[tuple[int, Callable[[ir.Stmt], ir.Stmt]]] = []
        for node in statements:
            if node.kind == "let":
                value = self.expr(node.exprs[0], env) if node.exprs else _no_value(node.word)
                var = ir.Var(node.name, value.dtype)
                self.shapes.assigned(var, value)
                env = {**env, node.name: var}
                holders.append((len(done), lambda body, v=var, x=value: ir.LetStmt(v, x, body)))
            elif node.kind == "assert":
                given = [self.expr(e, env) for e in node.exprs]
                holders.append((len(done), lambda body, g=given: ir.AssertStmt(g[0], g[1], body)))
            else:
                stmt = self.statements[node.kind](node, env)
                done.append(stmt.replace(span=self.source.span(node.offset)))
        for place, hold in reversed(holders):
            done[place:] = [hold(ir.SeqStmt.flatten(*done[place:]) if done[place:] else ir.Evaluate(0))]
        return ir.SeqStmt.flatten(*done) if done else ir.Evaluate(0)

    def loop(self, node: Statement, env: dict[str, ir.Var]) -> ir.Stmt:
        low, extent = [self.expr(e, env) for e in node.exprs]
        var = ir.Var(node.name, self.types.of_variable(node, node.name))
        with self.shapes.domain(var, ir.Range.from_min_extent(low, extent)):
            body = self.sequence(node.body, {**env, node.name: var})
        word = node.thread if node.word == "thread_bind" and node.thread == "invalid info" else node.word
        if word in _FOR_TYPES:
            return ir.For(var, low, extent, ir.ForKind.SERIAL, body, annotations={FOR_TYPE: _FOR_TYPES[word]})
        binding, notes = None, {}
        if word == "thread_bind":
            binding = ir.IterVar(None, ir.Var("", "int32"), ir.IterVar.ThreadIndex, node.thread)
        elif word == "vectorize" and node.factor is not None:
            length = self.expr(node.factor, env)
            if not (isinstance(length, ir.IntImm) and isinstance(extent, ir.IntImm) and length.value == extent.value):
                notes = {VECTOR_LENGTH: length}
        return ir.For(var, low, extent, _KINDS[word], body, binding, annotations=notes)

    def block(self, node: Statement, env: dict[str, ir.Var]) -> ir.Stmt:
        values = [self.expr(e, env) for e in node.exprs]
        fresh = [ir.Var(n, self.types.of_variable(node, n)) for n in node.variables]
        inside = {**env, **dict(zip(node.variables, fresh))}
        told = {n: (low, high) for region in node.regions for n, low, high in region.axes if low is not None}
        axes: list[ir.IterVar] = []
        for var, value, bound in zip(fresh, values, node.exprs):
            low, high = told.get(var.name, (None, None))
            if low is not None and high is not None:
                bounds = self.expr(low, env), self.expr(high, env)
                domain = ir.Range.from_min_extent(bounds[0], self.shapes.simplify(bounds[1] - bounds[0]))
            else:
                domain = self._range_of(var, value, bound.offset)
            axes.append(ir.IterVar(domain, var, ir.IterVar.DataPar))
        self.shapes.bind(fresh, values)
        with self.shapes.domains([(axis.var, axis.dom) for axis in axes]):
            body = self.part(node.body, inside)
            init = self.sequence(node.init, inside) if node.init else None
            self._note_regions(node, inside)
        reduced = _reduced(body, init)
        axes = [a.replace(iter_type=ir.IterVar.CommReduce) if a.var in reduced else a for a in axes]
        attrs = {key: _attribute(value) for key, value in node.attrs}
        made = ir.Block(axes, [], [], node.name, body, init, annotations=attrs)
        self._note_names(node, made)
        return ir.BlockRealize(values, True, made)

    def _range_of(self, var: ir.Var, value: ir.PrimExpr, offset: int) -> ir.Range:
        """The values of a block variable, from what it is bound to."""
        found = self.shapes.range_of(value)
        if found is None:
            raise self.source.error(
                f"which values `{var.name}` has cannot be told from what it is bound to", offset,
                hint=f"say it in a region of the block: `read_buffers(_A[{var.name}(0:8)])`", code="cinn.text.range_not_known",
            )  # fmt: skip
        return found

    def _note_regions(self, node: Statement, env: dict[str, ir.Var]) -> None:
        """Keep how far a tensor is accessed at least, for axes whose indices tell nothing."""
        for region in node.regions:
            ends = [self.expr(high, env) for _, _, high in region.axes if high is not None]
            self.shapes.note_region(region.buffer.removeprefix("_"), ends)

    def _note_names(self, node: Statement, block: ir.Block) -> None:
        """Keep what the text calls the buffers of the tensors: its regions are the accesses in order."""
        loads, stores = accesses_in_order(block)
        if len(node.regions) == len(loads) + len(stores):
            for region, access in zip(node.regions, [*loads, *stores]):
                if region.buffer != f"_{access.buffer.name}" and region.buffer.count("_"):
                    self.shapes.buffer_names[access.buffer.name] = region.buffer

    def store(self, node: Statement, env: dict[str, ir.Var]) -> ir.Stmt:
        value, *indices = [self.expr(e, env) for e in node.exprs]
        buffer, indices = self.access(node.name, indices, node.offset, env, writes=True)
        return ir.BufferStore(buffer, value, indices)

    def condition(self, node: Statement, env: dict[str, ir.Var]) -> ir.Stmt:
        condition = self.expr(node.exprs[0], env)
        with self.shapes.under(condition):
            then_case = self.part(node.body, env)
        if not node.otherwise:
            return ir.IfThenElse(condition, then_case, None)
        with self.shapes.under(ir.Not(condition)):
            return ir.IfThenElse(condition, then_case, self.part(node.otherwise, env))

    # ------------------------------------------------------------------ expressions

    def access(
        self, name: str, indices: list[ir.PrimExpr], offset: int, env: dict[str, ir.Var], *, writes: bool
    ) -> tuple[ir.Buffer, list[ir.PrimExpr]]:
        """A tensor and the indices by dimension; a flat index, as FlattenLoops makes them, is taken apart."""
        rank = len(self.buffers[name].shape) if name in self.buffers else self.ranks.get(name, 1)
        if len(indices) == 1 < rank and "_flat_i" in env:
            places = self.shapes.digits(name, rank, indices[0])
            buffer = self.buffer(name, places, offset)
            self.shapes.note_use(buffer, writes)
            return buffer, places
        buffer = self.buffer(name, indices, offset)
        self.shapes.note_access(buffer, indices, writes)
        return buffer, indices

    def buffer(self, name: str, indices: list[ir.PrimExpr], offset: int) -> ir.Buffer:
        found = self.buffers.get(name)
        if found is None:
            dtype = self.types.tensors[name].result()
            found = self.buffers[name] = ir.decl_buffer([1] * len(indices), dtype, name)
        if len(found.shape) != len(indices):
            raise self.source.error(
                f"`{name}` has {len(found.shape)} dimensions, not {len(indices)}",
                offset,
                len(name),
                code="cinn.text.wrong_index_count",
            )
        return found

    def expr(self, node: Expr, env: dict[str, ir.Var]) -> ir.PrimExpr:
        if node.kind in ("number", "bool"):
            return self.literal(node)
        if node.kind == "string":
            return ir.StringImm(node.text[1:-1].replace('\\"', '"').replace("\\\\", "\\"))
        if node.kind == "name":
            return self.named(node, env)
        if node.kind == "let":
            value = self.expr(node.args[0], env)
            var = ir.Var(node.text, value.dtype)
            self.shapes.assigned(var, value)
            return ir.Let(var, value, self.expr(node.args[1], {**env, node.text: var}))
        args = self.choice(node, env) if _chooses(node) else [self.expr(a, env) for a in node.args]
        if node.kind == "access":
            buffer, args = self.access(node.text, args, node.offset, env, writes=False)
            return ir.BufferLoad(buffer, args)
        if node.kind == "not":
            return ir.Not(args[0])
        if node.kind == "minus":
            return _negated(args[0])
        if node.kind == "reduce":
            return _reduction(node.text, args[0], args[1])
        return self.call(node, args) if node.kind == "call" else self.infix(node, args)

    def choice(self, node: Expr, env: dict[str, ir.Var]) -> list[ir.PrimExpr]:
        """The condition and the values of a `select`, of which only one is evaluated."""
        condition = self.expr(node.args[0], env)
        with self.shapes.under(condition, choice=True):
            value = self.expr(node.args[1], env)
        with self.shapes.under(ir.Not(condition), choice=True):
            return [condition, value, self.expr(node.args[2], env)]

    def literal(self, node: Expr) -> ir.PrimExpr:
        if node.kind == "bool":
            return ir.IntImm("bool", int(node.text == "true"))
        if len(node.text) > _LONGEST:
            raise self.source.error(
                "the number has too many digits", node.offset, len(node.text), code="cinn.text.number_too_long"
            )
        dtype, value = self.types.of(node), number_value(node.text)
        if dtype.is_float:
            if isinstance(value, int):
                raise self.source.error(
                    f"`{node.text}` is in the place of a `{dtype}`",
                    node.offset,
                    len(node.text),
                    hint="write it with a dot",
                    code="cinn.text.literal_type",
                )
            return ir.FloatImm(dtype, round_float(value, dtype) if math.isfinite(value) else value)
        if isinstance(value, float):
            raise self.source.error(
                f"`{node.text}` is in the place of a `{dtype}`",
                node.offset,
                len(node.text),
                code="cinn.text.literal_type",
            )
        return ir.IntImm(dtype, value)

    def named(self, node: Expr, env: dict[str, ir.Var]) -> ir.PrimExpr:
        if node.text in env:
            return env[node.text]
        if node.text in self.types.tensors:
            raise self.source.error(
                f"the tensor `{node.text}` has no indices here",
                node.offset,
                len(node.text),
                code="cinn.text.tensor_without_indices",
            )
        return self.symbol(node.text, self.types.symbols[node.text].result())

    def symbol(self, name: str, dtype: ir.DataType) -> ir.Var:
        """The variable of a size; a size is at least 0."""
        if name not in self.symbols:
            self.symbols[name] = ir.Var(name, dtype)
            self.shapes.analyzer.mark_global_non_neg_value(self.symbols[name])
        return self.symbols[name]

    def infix(self, node: Expr, args: list[ir.PrimExpr]) -> ir.PrimExpr:
        if node.text in ("/", "%"):
            floored = not args[0].dtype.is_float and all(never_negative(a, self.shapes.scope) for a in args)
            table = (ir.FloorDiv, ir.FloorMod) if floored else (ir.Div, ir.Mod)
            return table[node.text == "%"](args[0], args[1])
        if node.text == "-" and is_zero(args[0]):  # its place tells that it is in the text: `(0 - x)` is no `-(x)`
            return ir.Sub(args[0].replace(span=self.source.span(node.args[0].offset)), args[1])
        return _INFIX[node.text](args[0], args[1])

    def call(self, node: Expr, args: list[ir.PrimExpr]) -> ir.PrimExpr:
        cast = cast_type(node.text)
        if cast is not None and len(args) == 1:
            return ir.Cast(cast, args[0])
        if (known := _NODES.get(node.text)) is not None:
            count, build = known
            if len(args) == count and (build not in (ir.Ramp, ir.Broadcast) or isinstance(args[-1], ir.IntImm)):
                return build(*args)
        name = OP_NAMES.get(node.text, node.text)
        lanes = max((a.dtype.lanes for a in args), default=1)
        dtype = ir.dtype_of(self.types.of(node)).with_lanes(lanes)
        op = next((op for op in ir.Op.registry.values() if op.script_name == name), None)
        if op is None and node.text.startswith(EXTERNAL):  # CINN's own functions at run time
            return ir.Call(dtype, "tir.call_pure_extern", [ir.StringImm(node.text), *args])
        if op is None:
            known = [*OP_NAMES, *(op.script_name for op in ir.Op.registry.values())]
            raise self.source.error(
                f"there is no function `{node.text}`", node.offset, len(node.text),
                hint=foreign_hint(self.source.text, node.offset) or did_you_mean(node.text, known) or "an external function is called by `call_extern(\"name\", ...)`", code="cinn.text.unknown_function",
            )  # fmt: skip
        return ir.Call(dtype, op, args)


# The functions of the text that are nodes of their own, with the number of their arguments.
_NODES: dict[str, tuple[int, Callable[..., ir.PrimExpr]]] = {
    "cinn_max": (2, ir.Max),
    "cinn_min": (2, ir.Min),
    "floordiv": (2, ir.FloorDiv),
    "floormod": (2, ir.FloorMod),
    "select": (3, ir.Select),
    "Ramp": (3, ir.Ramp),
    "Broadcast": (2, ir.Broadcast),
    "__syncthreads": (0, lambda: ir.Call("int32", "tir.tvm_storage_sync", [ir.StringImm("shared")])),
}


def _chooses(node: Expr) -> bool:
    return node.kind == "call" and node.text in ("select", "if_then_else") and len(node.args) == 3


def _negated(value: ir.PrimExpr) -> ir.PrimExpr:
    """`-(x)`: zero without x; of a float from -0.0, so that its value is -x to the bit."""
    zero = (
        ir.FloatImm(value.dtype.with_lanes(1), -0.0)
        if value.dtype.is_float
        else ir.IntImm(value.dtype.with_lanes(1), 0)
    )
    return ir.Sub(zero if value.dtype.lanes == 1 else ir.Broadcast(zero, value.dtype.lanes), value)


def _no_value(dtype: str) -> ir.PrimExpr:
    """What a variable without a value is bound to."""
    return ir.Call(dtype, "tir.undef", ())


_REDUCED: dict[str, type] = {
    "sum": ir.Add, "sub": ir.Sub, "Div": ir.Div, "Mul": ir.Mul, "Max": ir.Max, "Min": ir.Min, "&&": ir.And, "||": ir.Or
}  # fmt: skip


def _reduction(name: str, body: ir.PrimExpr, init: ir.PrimExpr) -> ir.Reduce:
    """`Reduce(sum, body,init)`: the text names no axes, so that it can be read and printed alone."""
    a, b = ir.Var("a", body.dtype), ir.Var("b", body.dtype)
    combiner = ir.CommReducer([a], [b], [_REDUCED[name](a, b)], [init])
    return ir.Reduce(combiner, [body], [], ir.IntImm("bool", 1), 0, [init])


def _attribute(text: str) -> Any:
    """The value of an attribute: a number if it is written as one."""
    if re.fullmatch(r"-?\d+", text):
        return int(text)
    if re.fullmatch(r"-?(\d+\.\d*|\.\d+)(e[+-]?\d+)?|-?\d+e[+-]?\d+", text):
        return float(text)
    return text


def _reduced(body: ir.Stmt, init: ir.Stmt | None) -> set[ir.Var]:
    """The variables over which a block adds up: they occur in it, but not where it stores.

    A block adds up where it has an init or loads the tensor that it stores.
    """
    stores: list[ir.BufferStore] = []
    loads: list[ir.BufferLoad] = []
    used: set[ir.Var] = set()

    def note(node: Any) -> None:
        if isinstance(node, ir.BufferStore):
            stores.append(node)
        elif isinstance(node, ir.BufferLoad):
            loads.append(node)
        elif isinstance(node, ir.Var):
            used.add(node)

    ir.post_order_visit(body, note)
    stored = {s.buffer for s in stores}
    if init is None and not any(x.buffer in stored for x in loads):
        return set()
    for store in stores:
        for index in store.indices:
            ir.post_order_visit(index, lambda n: used.discard(n) if isinstance(n, ir.Var) else None)
    return used
