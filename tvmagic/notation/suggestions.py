"""What somebody may have meant who wrote a line that is not index notation: what NumPy, einsum, TVM or another language has for it."""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tvmagic.errors import closest
from tvmagic.notation.expressions import BY_OTHERS, DTYPES, FUNCTIONS, OVER, REDUCTIONS, index_items
from tvmagic.notation.syntax import is_number

_INDICES = "ijklmnop"
# What calls that make a tensor of a shape are named elsewhere.
_INPUTS = (
    "placeholder",
    "Placeholder",
    "Tensor",
    "tensor",
    "Buffer",
    "Input",
    "input",
    "Var",
    "zeros",
    "empty",
    "ones",
)
# The decorators, or their modules, of functions that other compilers take.
_OTHER_COMPILERS = (
    "njit",
    "jit",
    "numba",
    "nb",
    "vectorize",
    "guvectorize",
    "cuda",
    "triton",
    "jax",
    "torch",
    "tilelang",
    "cython",
)
# The short and the C names of data types.
COMMON_TYPES = {
    "float": "float32", "int": "int32", "double": "float64", "half": "float16", "long": "int64", "char": "int8", "byte": "uint8",
}  # fmt: skip
_SHORT = re.compile(r"(?P<code>bf|fp?|i|u|s)(?P<bits>8|16|32|64)")
_CODES = {"bf": "bfloat", "f": "float", "fp": "float", "i": "int", "s": "int", "u": "uint"}


# ---------------------------------------------------------------------------- declarations


def dtype_hint(text: str) -> str:
    """A hint for a data type that is not one."""
    known = sorted(DTYPES, key=lambda name: (name != "float32", name))
    inside = next((d for d in known if re.search(rf"\b{d}\b", text)), None)
    if inside is not None:
        return f"write it as `{inside}[...]`, with the sizes in brackets"
    if text.startswith("complex"):
        return "keep the real and the imaginary parts in two tensors of float32"
    short = _SHORT.fullmatch(text)
    spelled = f"{_CODES[short['code']]}{short['bits']}" if short else None
    close = COMMON_TYPES.get(text) or (spelled if spelled in DTYPES else None) or closest(text, known)
    return f"did you mean `{close}`?" if close else "write a name such as float32, int8 or bool"


def declaration_hint(name: str, annotation: ast.expr) -> str:
    """A hint for a declaration `name: annotation` whose data type is not one."""
    sizes = _sizes(annotation)
    if sizes is None:
        return dtype_hint(ast.unparse(annotation.value if isinstance(annotation, ast.Subscript) else annotation))
    return f"write `{name}: {_dtype_in(annotation)}[{', '.join(ast.unparse(s) for s in sizes)}]`"


def _sizes(annotation: ast.expr) -> list[ast.expr] | None:
    """The sizes in `(64, n)`, `float32[64][n]`, `Buffer((64, n), ...)` and `Tensor[(64, n), ...]`."""
    match annotation:
        case ast.Tuple(elts=sizes) if sizes:
            return sizes
        case ast.Subscript(value=ast.Subscript() as rows, slice=size):
            outer = _sizes(rows) if isinstance(rows.value, ast.Subscript) else [rows.slice]
            return [*outer, size] if outer is not None else None
        case ast.Call(args=[ast.Tuple(elts=sizes) | ast.List(elts=sizes), *_]):
            return sizes
        case ast.Subscript(slice=ast.Tuple(elts=[ast.Tuple(elts=sizes) | ast.List(elts=sizes), *_])):
            return sizes
    return None


def _dtype_in(node: ast.AST) -> str:
    """The first data type that is named in `node`, as a name or a text; float32 if there is none."""
    for part in ast.walk(node):
        text = part.id if isinstance(part, ast.Name) else part.attr if isinstance(part, ast.Attribute) else None
        text = part.value if isinstance(part, ast.Constant) else text
        if isinstance(text, str) and text in DTYPES:
            return text
    return "float32"


# ---------------------------------------------------------------------------- statements


def meant(statement: ast.stmt, tensors: Mapping[str, Any]) -> str | None:
    """What index notation would say where a statement that is not index notation failed as Python."""
    match statement:
        case ast.Import(names=[ast.alias(name=module), *_]) | ast.ImportFrom(module=str() as module):
            if module.split(".")[0] == "tvm":
                return (
                    "a cell has `te`, `tir`, `T` and `tvm` already; elsewhere `import tvmagic as tvm` gives TVM's names"
                )
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Subscript(value=ast.Name(id=dtype)) as declared):
            if dtype in DTYPES:
                return f"declare an input as `{name}: {ast.unparse(declared)}`"
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=ast.Name(id=maker)) as call):
            sizes = _sizes(call)
            if maker in _INPUTS and sizes is not None:
                return f"declare an input as `{name}: {_dtype_in(call)}[{', '.join(ast.unparse(s) for s in sizes)}]`"
        case ast.Expr(value=ast.Compare(left=ast.Subscript() as left, ops=[ast.Eq()], comparators=[right])):
            return f"a tensor is defined by one `=`: `{ast.unparse(left)} = {ast.unparse(right)}`"
        case ast.Assign(targets=[ast.Subscript(value=ast.Name(id=name), slice=place)], value=value) if _constant(place):
            return f"the left side has index names: `{name}[i] = ...`; a single value is `{name}[()] = {ast.unparse(value)}`"
        case ast.Assign(targets=[ast.Subscript(value=ast.Subscript()) as target], value=value):
            return (
                f"an element has its indices in one pair of brackets: `{_in_one_pair(target)} = {_in_one_pair(value)}`"
            )
        case ast.Assign(targets=[ast.Subscript(), *_] | [ast.Tuple(elts=[ast.Subscript(), *_])]):
            return "write a statement for each tensor"
        case ast.For(target=ast.Name(id=name), iter=ast.Call(func=ast.Name(id="xrange"), args=ends)):
            return f"write `for {name} in range({', '.join(map(ast.unparse, ends))}):`"
        case ast.For(target=ast.Tuple(elts=names), iter=ast.Tuple(elts=ranges)) if len(names) == len(ranges):
            return ranges_above([(ast.unparse(n), ast.unparse(r)) for n, r in zip(names, ranges)])
        case ast.If(test=test, body=[ast.Assign(targets=[ast.Subscript() as target], value=then)], orelse=orelse):
            return _choice(target, test, then, orelse)
        case ast.For() if _kept_sum(statement) is not None:
            return f"a sum has no variable of its own: `{_kept_sum(statement)}`"
        case ast.If() | ast.While() | ast.With() | ast.For() | ast.Try():
            if _assigns_elements(statement):
                return "index notation belongs at the top of a cell or in `for i in range(...):`, beside nothing else"
        case ast.FunctionDef(decorator_list=[decorator, *_]) if _root(decorator) in _OTHER_COMPILERS:
            return "a loop over elements is one statement, `B[i] = A[i] + 1` below `A: float32[128]`; how it is run is said by its schedule"
        case ast.AugAssign(target=ast.Name(id=name), value=value):
            if _indexed(name, value, tensors):
                return f"a single value has an empty index: `{ast.unparse(statement).replace(name, f'{name}[()]', 1)}`"
    if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
        return _indexed(statement.targets[0].id, statement.value, tensors)
    return None


def _root(node: ast.expr) -> str:
    """The first name in `numba.njit(parallel=True)`."""
    return re.split(r"[.(]", ast.unparse(node))[0]


def _in_one_pair(node: ast.expr) -> str:
    """The text of an expression with `X[i, j]` for `X[i][j]`."""
    return re.sub(r"(?<=\w)\]\[(?=[^\]])", ", ", ast.unparse(node))


def _kept_sum(loop: ast.For) -> str | None:
    """`Y[i] += X[i, k]` for loops that add to a variable, which an element is set to afterwards."""
    added = {n.target.id: n.value for n in ast.walk(loop) if isinstance(n, ast.AugAssign) and isinstance(n.target, ast.Name)
             and isinstance(n.op, ast.Add)}  # fmt: skip
    for node in ast.walk(loop):
        match node:
            case ast.Assign(targets=[ast.Subscript() as target], value=ast.Name(id=name)) if name in added:
                return f"{ast.unparse(target)} += {ast.unparse(added[name])}"
    return None


def _constant(place: ast.expr) -> bool:
    """Whether an index is made of numbers alone."""
    items = place.elts if isinstance(place, ast.Tuple) else [place]
    return bool(items) and all(isinstance(i, ast.Constant) for i in items)


def ranges_above(loops: list[tuple[str, str]]) -> str:
    """Where the ranges of several indices, each with its text, are written."""
    return f"write {' and '.join(f'`{name}: {within}`' for name, within in loops)}, each on a line above"


def meant_function(statements: list[ast.stmt]) -> ast.FunctionDef | None:
    """The function of a cell whose lines would be index notation outside it."""
    return next((s for s in statements if isinstance(s, ast.FunctionDef) and _assigns_elements(s)), None)


def _assigns_elements(statement: ast.stmt) -> bool:
    return any(isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Store) for n in ast.walk(statement))


def _choice(target: ast.Subscript, test: ast.expr, then: ast.expr, orelse: list[ast.stmt]) -> str:
    """`if c: Y[i] = a` and perhaps `else: Y[i] = b`, as one value with a condition."""
    left, other = ast.unparse(target), "0"
    match orelse:
        case [ast.Assign(targets=[ast.Subscript() as again], value=value)] if ast.unparse(again) == left:
            other = ast.unparse(value)
    return f"a condition is within the value: `{left} = {ast.unparse(then)} if {ast.unparse(test)} else {other}`"


# ---------------------------------------------------------------------------- values


def reduction_hint(names: list[str], value: ast.expr) -> str:
    """A hint for index `names` that are in `value` only: what reduces over them."""
    for node in ast.walk(value):
        if isinstance(node, ast.Call) and _called(node) in {*REDUCTIONS, *OVER}:
            reduced = [a for a in node.args if _names(a, names[0]) and not isinstance(a, ast.Name)]
            if reduced:
                over = [
                    ast.unparse(n)
                    for k in node.keywords
                    if k.arg == "over"
                    for n in getattr(k.value, "elts", [k.value])
                ]
                over += [n for n in names if _names(reduced[0], n) and n not in over]
                return f"say over what, as in `{_called(node)}({ast.unparse(reduced[0])}, over={_over(over)})`"
    pronoun = "it, " if len(names) == 1 else "them, "
    return f"write `+=` to sum over {pronoun}`max(..., over={_over(names)})`, or put {pronoun[:-2]} on the left"


def _over(names: list[str]) -> str:
    """What follows `over=`."""
    return names[0] if len(names) == 1 else f"({', '.join(names)})"


def gathered(target: ast.Subscript, value: ast.expr, tensors: Mapping[str, Any]) -> str | None:
    """`Y[2 * t + r] += X[t] * W[r]`, which says where a value goes, as a sum at each place over what comes there."""
    text, conditions, left = ast.unparse(value), [], []
    free = iter([n for n in "pquvw" if not _names(target, n) and not _names(value, n)])
    for item in target.slice.elts if isinstance(target.slice, ast.Tuple) else [target.slice]:
        if isinstance(item, ast.Name):
            left.append(item.id)
            continue
        found, place = _window(item), next(free, None)
        size = _dimension(found[0], value, tensors) if found else None
        if found is None or place is None or size is None:
            return None
        name, factor, rest = found
        distance = f"{place} - {rest}"
        inner = f"({distance}) // {factor}" if factor != 1 else distance
        text = re.sub(
            rf"\b{name}\b", inner if re.search(rf"\[([^\[\]]*, )?{name}(, [^\[\]]*)?\]", text) else f"({inner})", text
        )
        conditions += [f"({distance}) % {factor} == 0"] if factor != 1 else []
        conditions.append(f"0 <= {inner} < {size}")
        left.append(place)
    written = f"{ast.unparse(target.value)}[{', '.join(left)}] += {text} if {' and '.join(conditions)} else 0"
    return f"say which values come to a place, and how far the places run: `{written}`"


def with_first_values(
    name: str, assignments: Sequence[ast.Assign], declared: tuple[Sequence[Any], str] | None
) -> str | None:
    """`F[0] = 1` beside `F[t] = F[t - 1] * t`, the first value of a recurrence, as a case of it.

    `declared`: the shape and type that `F` is declared with, as if it were an input.
    """
    made = [(a.targets[0], a.value) for a in assignments]
    cases = [(index_items(t), v) for t, v in made if isinstance(t, ast.Subscript) and ast.unparse(t.value) == name]
    of_all = [case for case in cases if all(isinstance(item, ast.Name) for item in case[0])]
    if len(of_all) != 1 or not of_all[0][0]:
        return None
    axes, value = of_all[0]
    for items, first in reversed([case for case in cases if case is not of_all[0]]):
        tests = [
            f"{ast.unparse(axis)} == {item.value}"
            for axis, item in zip(axes, items)
            if isinstance(item, ast.Constant) and isinstance(item.value, int)
        ]
        others = [(a, i) for a, i in zip(axes, items) if not isinstance(i, ast.Constant)]
        if len(items) != len(axes) or not tests or any(ast.dump(a) != ast.dump(i) for a, i in others):
            return None
        if declared is not None and "float" in declared[1] and is_number(first):
            first = ast.Constant(float(ast.literal_eval(first)))
        value = ast.IfExp(ast.parse(" and ".join(tests), mode="eval").body, first, value)
    names = [ast.unparse(axis) for axis in axes]
    written = f"`{name}[{', '.join(names)}] = {ast.unparse(value)}`"
    if declared is not None and len(declared[0]) == len(names):
        ranges = ", ".join(f"`{axis}: range({size})`" for axis, size in zip(names, declared[0]))
        written = f"{ranges} in place of the line that declares `{name}`, then {written}"
    return f"the first values of a recurrence are cases of it: {written}"


def _window(item: ast.expr) -> tuple[str, int, str] | None:
    """The name, its factor and the other term in `2 * t + r` and `t + r`."""
    match item:
        case ast.BinOp(left=ast.Name(id=name), op=ast.Add(), right=ast.Name(id=rest)):
            return name, 1, rest
        case (
            ast.BinOp(left=ast.BinOp(left=ast.Constant(value=int(factor)), op=ast.Mult(), right=ast.Name(id=name)), op=ast.Add(), right=ast.Name(id=rest))
            | ast.BinOp(left=ast.BinOp(left=ast.Name(id=name), op=ast.Mult(), right=ast.Constant(value=int(factor))), op=ast.Add(), right=ast.Name(id=rest))
        ):  # fmt: skip
            return name, factor, rest
    return None


def _dimension(name: str, value: ast.expr, tensors: Mapping[str, Any]) -> Any:
    """The size of the dimension over which the index `name` alone runs in `value`."""
    for access in ast.walk(value):
        if isinstance(access, ast.Subscript) and isinstance(access.value, ast.Name) and access.value.id in tensors:
            items = access.slice.elts if isinstance(access.slice, ast.Tuple) else [access.slice]
            for item, size in zip(items, tensors[access.value.id].shape):
                if isinstance(item, ast.Name) and item.id == name:
                    return size
    return None


def tensor_hint(tensor: ast.Name, value: ast.expr, tensors: Mapping[str, Any]) -> str:
    """A hint for a whole tensor in `value`, if a number belongs there."""
    shape = tensors[tensor.id].shape
    for node in ast.walk(value):
        match node:
            case ast.Call(func=ast.Name(id=called), args=args) if tensor in args and called in BY_OTHERS:
                return BY_OTHERS[called]
            case ast.Call(func=ast.Attribute(value=owner, attr=called)) if owner is tensor and called in (
                *REDUCTIONS,
                *OVER,
            ):
                over = _over([_INDICES[axis] for axis in _axes(node, len(shape))])
                return f"write `{called}({tensor.id}[{', '.join(_INDICES[: len(shape)])}], over={over})`"
            case ast.BinOp(left=left, op=ast.MatMult(), right=right) if tensor in (left, right):
                factors = _factor(left, ("i", "k"), tensors), _factor(right, ("k", "j"), tensors)
                if factors[0] and factors[1]:
                    return f"a product of matrices is a sum over an index of both, below `+=`: `{factors[0][0]} * {factors[1][0]}`"
            case ast.Subscript(value=ast.Attribute(value=owner, attr="T"), slice=ast.Tuple(elts=items)) if (
                owner is tensor
            ):
                return f"write `{tensor.id}[{', '.join(ast.unparse(item) for item in reversed(items))}]`"
            case ast.Attribute(value=owner, attr="shape") if owner is tensor:
                return f"write the size itself, a number or a name: `{tensor.id}` has the sizes {', '.join(map(str, shape))}"
    return f"write `{tensor.id}[{', '.join(_INDICES[: len(shape)])}]`"


def _axes(call: ast.Call, dimensions: int) -> list[int]:
    """The axes that a reduction of NumPy or PyTorch names by numbers; the last one if it names none."""
    values = [*call.args, *(k.value for k in call.keywords if k.arg in ("axis", "dim"))]
    found = [n.value for value in values for n in ast.walk(value) if isinstance(n, ast.Constant)]
    return [n for n in found if isinstance(n, int) and 0 <= n < dimensions] or [dimensions - 1]


def slice_hint(part: ast.Slice) -> str:
    """What a slice as an index would be."""
    if part.step is not None:
        step = ast.unparse(part.step)
        if step == "-1":
            return BY_OTHERS["flip"]
        return f"every n-th element is `X[{step} * i]`"
    if part.lower is not None and part.upper is not None and any(isinstance(n, ast.Name) for n in ast.walk(part)):
        return f"a window is an index more: `X[{ast.unparse(part.lower)} + r]` below `r: range(2)`, for two elements"
    return "index names run over a dimension by themselves, as in `Y[i] = max(X[i, k], over=k)`"


def _names(node: ast.AST, name: str) -> bool:
    return any(isinstance(n, ast.Name) and n.id == name for n in ast.walk(node))


def _indexed(name: str, value: ast.expr, tensors: Mapping[str, Any]) -> str | None:
    """`Y = X[i] + 1` with the indices on its left side too; a call or a product of whole tensors with their indices."""
    outside = {id(n) for f in ast.walk(value) if isinstance(f, (ast.Lambda, ast.comprehension)) for n in ast.walk(f)}
    accesses = [n for n in ast.walk(value) if isinstance(n, ast.Subscript) and id(n) not in outside]
    accesses = [n for n in accesses if isinstance(n.value, ast.Name) and n.value.id in tensors]
    indices = dict.fromkeys(n.id for a in accesses for n in ast.walk(a.slice) if isinstance(n, ast.Name))
    over = {n.id for c in ast.walk(value) if isinstance(c, ast.keyword) for n in ast.walk(c) if isinstance(n, ast.Name)}
    if accesses:
        if (
            isinstance(value, ast.Call)
            and _called(value) in ("sum", "max", "min", "prod", "mean")
            and not value.keywords
        ):
            all_of = next(iter(indices)) if len(indices) == 1 else f"({', '.join(indices)})"
            inside = ", ".join(map(ast.unparse, value.args))
            return f"a reduction says over what: `{name}[()] = {ast.unparse(value.func)}({inside}, over={all_of})` of all elements"
        left = ", ".join(n for n in indices if n not in over) or "()"
        return f"index notation has the indices on the left too: `{name}[{left}] = {ast.unparse(value)}`"
    if isinstance(value, ast.Call):
        found = _einsum(name, value, tensors) or _whole_reduction(name, value, tensors) or BY_OTHERS.get(_called(value))
        if found is not None:
            return found
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.MatMult):
        left, right = _factor(value.left, ("i", "k"), tensors), _factor(value.right, ("k", "j"), tensors)
        if left and right:
            place = ", ".join([index for index in ("i", "j") if index in left[1] + right[1]]) or "()"
            return f"a product of matrices is a sum with an index for each dimension: `{name}[{place}] += {left[0]} * {right[0]}`"
    match value:
        case ast.Attribute(value=ast.Name(id=whole), attr="T") if whole in tensors:
            indices = list(_INDICES[: len(tensors[whole].shape)])
            return f"the indices say it: `{name}[{', '.join(reversed(indices))}] = {whole}[{', '.join(indices)}]`"
        case ast.Call(func=ast.Attribute(value=ast.Name(id=whole), attr="reshape" | "view" | "flatten" | "ravel")):
            if whole in tensors and len(tensors[whole].shape) == 2:
                columns = tensors[whole].shape[1]
                return f"each element says where it comes from: `{name}[i] = {whole}[i // {columns}, i % {columns}]` is flat"
    inner = (_whole_reduction("M", c, tensors) for c in ast.walk(value) if isinstance(c, ast.Call) and c is not value)
    return next((hint for hint in inner if hint), None) or _elementwise(name, value, tensors)


class _Plain(ast.NodeTransformer):
    """`np.exp(X)` and `torch.relu(X)` as `exp(X)` and `relu(X)`: functions without the module that they are of."""

    def __init__(self, tensors: Mapping[str, Any]) -> None:
        self.tensors = tensors

    def visit_Call(self, node: ast.Call) -> ast.AST:
        owner = node.func
        while isinstance(owner, ast.Attribute):
            owner = owner.value
        if isinstance(node.func, ast.Attribute) and isinstance(owner, ast.Name) and owner.id not in self.tensors:
            node.func = ast.copy_location(ast.Name(node.func.attr, ast.Load()), node.func)
        return self.generic_visit(node)


def _elementwise(name: str, value: ast.expr, tensors: Mapping[str, Any]) -> str | None:
    """`Z = X + b` or `Z = np.exp(X)` with the indices that NumPy's broadcasting gives, counted from the last dimension."""
    value = _Plain(tensors).visit(copy.deepcopy(value))
    whole = [n for n in ast.walk(value) if isinstance(n, ast.Name) and n.id in tensors]
    calls = [_called(c) for c in ast.walk(value) if isinstance(c, ast.Call)]
    if not whole or not isinstance(value, (ast.BinOp, ast.UnaryOp, ast.Compare, ast.Call)):
        return None
    others = any(isinstance(n, (ast.MatMult, ast.Attribute, ast.In, ast.NotIn)) for n in ast.walk(value))
    reduced = [c for c in ast.walk(value) if isinstance(c, ast.Call) and _reduces(c)]
    if reduced and not others and all(call in {*FUNCTIONS, *REDUCTIONS, *OVER} for call in calls):
        return _reduced_above(reduced[0], tensors)
    if others or not all(call in FUNCTIONS for call in calls):
        return f"index notation has indices on both sides, such as `{name}[i] = X[i] + 1`" if not calls else None
    indices, written = _with_indices(value, tensors)
    return f"index notation has indices on both sides: `{name}[{', '.join(indices) or '()'}] = {written}`"


def _with_indices(value: ast.expr, tensors: Mapping[str, Any]) -> tuple[str, str]:
    """The indices of an expression of whole tensors, and its text with them."""
    whole = [n.id for n in ast.walk(value) if isinstance(n, ast.Name) and n.id in tensors]
    ranks = {name: len(getattr(tensors[name], "shape", ())) for name in whole}
    indices = _INDICES[: max(ranks.values(), default=0)]
    text = {t: f"{t}[{', '.join(indices[len(indices) - rank :]) or '()'}]" for t, rank in ranks.items()}
    return indices, re.sub(r"\b\w+\b", lambda word: text.get(word[0], word[0]), ast.unparse(value))


def _reduces(call: ast.Call) -> bool:
    return _called(call) in {*REDUCTIONS, *OVER} and len(call.args) == 1


def _reduced_above(call: ast.Call, tensors: Mapping[str, Any]) -> str:
    """`mean(X ** 2)` inside a value as a line of its own, over the last dimension."""
    indices, written = _with_indices(call.args[0], tensors)
    left, last = indices[:-1], indices[-1:] or "i"
    line = f"M[{', '.join(left) or '()'}] = {_called(call)}({written}, over={last})"
    return f"a reduction is a line of its own and names its indices, as in `{line}`"


def _called(call: ast.Call) -> str:
    """The name of a function that is called, without what it belongs to."""
    return ast.unparse(call.func).rsplit(".", 1)[-1]


def _factor(
    operand: ast.expr, indices: tuple[str, str], tensors: Mapping[str, Any]
) -> tuple[str, tuple[str, ...]] | None:
    """A matrix, its transpose or a vector, which has the index `k` alone, with its indices; None for what is none of them."""
    match operand:
        case ast.Name(id=name) | ast.Attribute(value=ast.Name(id=name), attr="T") if (
            name in tensors and len(tensors[name].shape) == 1
        ):
            return f"{name}[k]", ("k",)
        case ast.Name(id=name) if name in tensors:
            return f"{name}[{', '.join(indices)}]", indices
        case ast.Attribute(value=ast.Name(id=name), attr="T") if name in tensors:
            return f"{name}[{', '.join(reversed(indices))}]", indices
    return None


def _einsum(name: str, call: ast.Call, tensors: Mapping[str, Any]) -> str | None:
    """`einsum("ij,jk->ik", A, B)` in the index notation."""
    called = _called(call)
    if called != "einsum" or not call.args or not isinstance(call.args[0], ast.Constant):
        return None
    taken, arrow, given = str(call.args[0].value).replace(" ", "").partition("->")
    operands = [a.id for a in call.args[1:] if isinstance(a, ast.Name) and a.id in tensors]
    letters = taken.split(",")
    if not arrow or len(operands) != len(letters) or not (taken + given).replace(",", "").isalpha():
        return None
    product = " * ".join(f"{t}[{', '.join(i)}]" for t, i in zip(operands, letters))
    sign = "+=" if set("".join(letters)) - set(given) else "="
    return f"einsum's letters are the indices here: `{name}[{', '.join(given) or '()'}] {sign} {product}`"


def _whole_reduction(name: str, call: ast.Call, tensors: Mapping[str, Any]) -> str | None:
    """`sum(X)`, `X.max(axis=1)`, `np.mean(X, axis=0)` with the indices that they reduce."""
    called = _called(call)
    whole = next(_whole_tensors(call, tensors), None)
    if whole is None or called not in {*REDUCTIONS, *OVER}:
        return None
    if isinstance(call.func, ast.Name) and len(call.args) > 1:
        return None  # `max(X, 0)` is of each element
    rank = len(tensors[whole].shape)
    indices = list(_INDICES[:rank])
    axis = next((k.value for k in call.keywords if k.arg in ("axis", "dim")), None)
    try:
        given = ast.literal_eval(axis) if axis is not None else -1 if called in OVER and called != "mean" else None
        axes = range(rank) if given is None else [a % rank for a in (given if isinstance(given, tuple) else (given,))]
    except (ValueError, TypeError, ZeroDivisionError):
        axes = range(rank)
    over = [indices[a] for a in axes]
    keeps = called in ("softmax", "cumsum", "cumprod", "cummax", "cummin")
    left = ", ".join(i for i in indices if keeps or i not in over) or "()"
    names = over[0] if len(over) == 1 else f"({', '.join(over)})"
    return f"a reduction names its indices: `{name}[{left}] = {called}({whole}[{', '.join(indices)}], over={names})`"


def _whole_tensors(call: ast.Call, tensors: Mapping[str, Any]) -> Iterator[str]:
    """The tensors that a call takes, or whose method it is."""
    owner = [call.func.value] if isinstance(call.func, ast.Attribute) else []
    for part in [*owner, *call.args]:
        if isinstance(part, ast.Name) and part.id in tensors:
            yield part.id
