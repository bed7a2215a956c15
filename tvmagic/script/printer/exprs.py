"""How expressions are written in TVMScript."""

from __future__ import annotations

from typing import Any

from tvmagic import ir
from tvmagic.errors import TVMagicError
from tvmagic.ir.fold import FOLDERS
from tvmagic.ir.operators import COMPARISON_SIGNS
from tvmagic.ir.ops import add
from tvmagic.script.printer.core import (
    ADD,
    AND,
    ATOM,
    COMPARE,
    LAMBDA,
    MUL,
    NOT,
    OR,
    Handler,
    Printer,
    Text,
    prints,
)
from tvmagic.script.printer.literals import float_text, quoted

# ---------------------------------------------------------------------------- operators

_OPERATORS: dict[type, tuple[str, int]] = {
    ir.Add: ("+", ADD),
    ir.Sub: ("-", ADD),
    ir.Mul: ("*", MUL),
    ir.Div: ("/", MUL),
    ir.FloorDiv: ("//", MUL),
    ir.FloorMod: ("%", MUL),
    **{op: (sign, COMPARE) for op, sign in COMPARISON_SIGNS.items()},
    ir.And: ("and", AND),
    ir.Or: ("or", OR),
}


def _folds(node: Any) -> bool:
    """Whether writing the operator would fold it away when the text is read."""
    try:
        return FOLDERS[type(node)](node.a, node.b) is not None
    except (TVMagicError, ArithmeticError):
        return True


def _operator(cls: type, symbol: str, level: int) -> Handler:
    middle = f" {symbol} "

    def handler(printer: Printer, node: Any) -> Text:
        a, b = node.a, node.b
        left, left_level = printer.expr(a)
        right, right_level = printer.expr(b)
        if (isinstance(b, ir.ConstExpr) or isinstance(a, ir.ConstExpr)) and _folds(node):
            return f"{printer.tir(cls.__name__)}({left}, {right})", ATOM
        if left_level < level or left_level == level == COMPARE:  # `a < b == c` would be a chain
            left = f"({left})"
        if right_level <= level:
            right = f"({right})"
        return left + middle + right, level

    return handler


for _cls, (_symbol, _level) in _OPERATORS.items():
    prints(_cls)(_operator(_cls, _symbol, _level))


_divide = _operator(ir.Div, "/", MUL)


@prints(ir.Div)
def _div(printer: Printer, node: ir.Div) -> Text:
    if node.a.dtype.is_float:
        return _divide(printer, node)
    return f"{printer.tir('Div')}({printer.text(node.a)}, {printer.text(node.b)})", ATOM


def _function(name: str, *fields: str) -> Handler:
    """A handler that writes `T.name(fields...)`."""

    def handler(printer: Printer, node: Any) -> Text:
        return f"{printer.tir(name)}({', '.join([printer.text(getattr(node, f)) for f in fields])})", ATOM

    return handler


def _folding_function(name: str) -> Handler:
    """A handler that writes `T.name(a, b)`, and the class where the function would fold the node away."""

    def handler(printer: Printer, node: Any) -> Text:
        word = type(node).__name__ if _folds(node) else name
        return f"{printer.tir(word)}({printer.text(node.a)}, {printer.text(node.b)})", ATOM

    return handler


prints(ir.Mod)(_function("truncmod", "a", "b"))
prints(ir.Min)(_folding_function("min"))
prints(ir.Max)(_folding_function("max"))
prints(ir.Select)(_function("Select", "condition", "true_value", "false_value"))


@prints(ir.Not)
def _not(printer: Printer, node: ir.Not) -> Text:
    text, level = printer.expr(node.a)
    return f"not ({text})" if level < NOT else f"not {text}", NOT


# ---------------------------------------------------------------------------- constants


@prints(ir.IntImm)
def _int(printer: Printer, node: ir.IntImm) -> Text:
    dtype = node.dtype
    if dtype == printer.config.int_dtype:
        return str(node.value), ATOM
    return f"{printer.tir(dtype)}({bool(node.value) if dtype.is_bool else node.value})", ATOM


@prints(ir.FloatImm)
def _float(printer: Printer, node: ir.FloatImm) -> Text:
    text = float_text(node.value)
    return (text if node.dtype == printer.config.float_dtype else f"{printer.tir(node.dtype)}({text})"), ATOM


@prints(ir.StringImm)
def _string(printer: Printer, node: ir.StringImm) -> Text:
    if "\n" in node.value:
        return printer.metadata_reference(node), ATOM
    return printer.string(node.value), ATOM


# ---------------------------------------------------------------------------- vectors and casts


@prints(ir.Cast)
def _cast(printer: Printer, node: ir.Cast) -> Text:
    return f'{printer.tir("Cast")}("{node.dtype}", {printer.text(node.value)})', ATOM


def _lanes(printer: Printer, node: ir.Ramp | ir.Broadcast) -> str:
    return printer.text(node.lanes) if node.dtype.is_scalable else str(node.dtype.lanes)


@prints(ir.Ramp)
def _ramp(printer: Printer, node: ir.Ramp) -> Text:
    return (
        f"{printer.tir('Ramp')}({printer.text(node.base)}, {printer.text(node.stride)}, {_lanes(printer, node)})",
        ATOM,
    )


@prints(ir.Broadcast)
def _broadcast(printer: Printer, node: ir.Broadcast) -> Text:
    return f"{printer.tir('Broadcast')}({printer.text(node.value)}, {_lanes(printer, node)})", ATOM


@prints(ir.Shuffle)
def _shuffle(printer: Printer, node: ir.Shuffle) -> Text:
    return f"{printer.tir('Shuffle')}([{printer.values(node.vectors)}], [{printer.values(node.indices)}])", ATOM


# ---------------------------------------------------------------------------- variables


def var_creation(printer: Printer, var: ir.Var) -> str:
    """The text that makes a new variable of the type of `var`."""
    size = "is_size_var=True" if isinstance(var, ir.SizeVar) else ""
    kind = var.type_annotation
    if isinstance(kind, ir.PointerType):
        arguments = _pointer_arguments(printer, kind)
        return f"{printer.tir('handle')}({arguments}{', ' if size else ''}{size})"
    return f"{printer.tir(var.dtype)}({size})"


@prints(ir.Var)
def _var(printer: Printer, var: ir.Var) -> Text:
    return printer.known_or(var, var.name or "v", lambda frame: var_creation(printer, var)), ATOM


ITER_TYPES = (
    "DataPar",
    "ThreadIndex",
    "CommReduce",
    "Ordered",
    "Opaque",
    "Unrolled",
    "Vectorized",
    "Parallelized",
    "Tensorized",
)


@prints(ir.Any)
def _unknown_size(printer: Printer, node: ir.Any) -> Text:
    return f"{printer.tir('Any')}()", ATOM


@prints(ir.IterVar)
def _iter_var(printer: Printer, node: ir.IterVar) -> Text:
    var = printer.text(node.var)
    dom = "None" if node.dom is None else _tir_range(printer, node.dom)
    return f'{printer.tir("iter_var")}({var}, {dom}, "{ITER_TYPES[node.iter_type]}", "{node.thread_tag}")', ATOM


def _tir_range(printer: Printer, node: ir.Range) -> str:
    return f"{printer.tir('Range')}({printer.text(node.min)}, {printer.text(add(node.extent, node.min))})"


@prints(ir.Range)
def _range(printer: Printer, node: ir.Range) -> Text:
    if printer.root is node:
        return f"{printer.ir('Range')}({printer.text(node.min)}, {printer.text(add(node.extent, node.min))})", ATOM
    return _tir_range(printer, node), ATOM


# ---------------------------------------------------------------------------- types


@prints(ir.PrimType)
def _prim_type(printer: Printer, node: ir.PrimType) -> Text:
    return printer.tir(node.dtype), ATOM


def _pointer_arguments(printer: Printer, node: ir.PointerType) -> str:
    element = node.element_type
    text = f'"{element.dtype}"' if isinstance(element, ir.PrimType) else printer.text(element)
    return f'{text}, "{node.storage_scope}"' if node.storage_scope else text


@prints(ir.PointerType)
def _pointer_type(printer: Printer, node: ir.PointerType) -> Text:
    return f"{printer.tir('handle')}({_pointer_arguments(printer, node)})", ATOM


@prints(ir.TupleType)
def _tuple_type(printer: Printer, node: ir.TupleType) -> Text:
    return f"{printer.tir('Tuple')}({printer.values(node.fields)})" if node.fields else "None", ATOM


@prints("Target")
def _target(printer: Printer, target: Any) -> Text:
    return f"{printer.tir('target')}({printer.value(target.export())})", ATOM


@prints(ir.VDevice)
def _vdevice(printer: Printer, node: ir.VDevice) -> Text:
    options = printer.value(None if node.target is None else node.target.export())
    return f"{printer.ir('vdevice')}({options}, {node.vdevice_id}, {quoted(node.memory_scope)})", ATOM


@prints(ir.DummyGlobalInfo)
def _dummy_global_info(printer: Printer, node: ir.DummyGlobalInfo) -> Text:
    return f"{printer.ir('dummy_global_info')}()", ATOM


# ---------------------------------------------------------------------------- calls

_DTYPE_FIRST = frozenset(
    f"tir.{name}"
    for name in """call_extern call_pure_extern call_llvm_intrin call_llvm_pure_intrin call_spirv_pure_glsl450
    reinterpret masked_load mma_store mma_fill vectorhigh vectorlow vectorcombine dp4a ptx_mma ptx_ldmatrix ptx_ldg32
    ptx_cp_async type_annotation get_active_lane_mask large_uint_imm""".split()
)
_DTYPE_LAST = frozenset({"tir.tvm_struct_get"})


@prints(ir.Call)
def _call(printer: Printer, node: ir.Call) -> Text:
    op = node.op
    if isinstance(op, ir.GlobalVar):
        return f"{printer.text(op)}({printer.values(node.args)})", ATOM
    arguments = [printer.text(a) for a in node.args]
    if op.is_of_user:  # its results may be of any type
        name = op.name.removeprefix("tir.")
        if op.script_name == name and node.args and node.args[0].dtype == node.dtype:
            return f"{printer.tir(name)}({', '.join(arguments)})", ATOM
        told = ", ".join([f'"{node.dtype}"', f'"{op.name}"', *arguments])
        return f"{printer.tir('call_intrin')}({told})", ATOM
    if op.name in _DTYPE_FIRST:
        arguments.insert(0, f'"{node.dtype}"')
    elif op.name in _DTYPE_LAST:
        arguments.append(f'"{node.dtype}"')
    return f"{printer.tir(op.script_name)}({', '.join(arguments)})", ATOM


@prints(ir.GlobalVar)
def _global_var(printer: Printer, node: ir.GlobalVar) -> Text:
    if printer.is_defined(node):
        return printer.name_of(node), ATOM
    if printer.root is node:
        return f'{printer.ir("GlobalVar")}("{node.name_hint}")', ATOM
    return node.name_hint, ATOM


@prints(ir.Let)
def _let(printer: Printer, node: ir.Let) -> Text:
    var, value = printer.text(node.var), printer.text(node.value)
    return f"{printer.tir('Let')}({printer.text(node.body)}, where={{{var}: {value}}})", ATOM


# ---------------------------------------------------------------------------- reductions and maps


def _lambda(names: list[str], body: str) -> str:
    return f"lambda {', '.join(names)}: {body}"


@prints(ir.CommReducer)
def _comm_reducer(printer: Printer, node: ir.CommReducer) -> Text:
    with printer.frame(node) as frame:
        names = [printer.define_var(v, frame) for v in (*node.lhs, *node.rhs)]
        results = node.result
        if len(results) == 1:
            text, level = printer.expr(results[0])
            body = f"({text})" if level < LAMBDA else text
        else:
            body = printer.tuple_of(results)
    return f"{printer.tir('comm_reducer')}({_lambda(names, body)}, [{printer.values(node.identity_element)}])", ATOM


@prints(ir.Reduce)
def _reduce(printer: Printer, node: ir.Reduce) -> Text:
    combiner = printer.text(node.combiner)
    source, init, axis = printer.values(node.source), printer.values(node.init), printer.values(node.axis)
    condition = printer.text(node.condition)
    return (
        f"{printer.tir('reduce')}({combiner}, source=[{source}], init=[{init}], axis=[{axis}], "
        f"condition={condition}, value_index={node.value_index})"
    ), ATOM


@prints("IndexMap")
def _index_map(printer: Printer, node: Any) -> Text:
    text = _map_text(printer, node)
    inverse = getattr(node, "inverse_index_map", None)
    if inverse is not None:
        text += f", inverse_index_map={_map_text(printer, inverse)}"
    return f"{printer.tir('index_map')}({text})", ATOM


def _map_text(printer: Printer, node: Any) -> str:
    with printer.frame(node) as frame:
        names = [printer.define_var(v, frame) for v in node.initial_indices]
        return _lambda(names, printer.tuple_of(node.final_indices))


def slice_text(printer: Printer, begin: Any, extent: Any) -> str:
    """`begin`, or `begin:end` where the extent is not 1."""
    low = printer.text(begin)
    if isinstance(extent, ir.IntImm) and extent.value == 1:
        return low
    return f"{low}:{printer.text(add(begin, extent))}"
