"""Rules as text, compiled to Python functions.

A rule is one line:

    pattern | pattern -> result if condition

`->` gives the result as it is, `=>` simplifies it again. In patterns `x`, `y`, ... stand for any
expression, `c1`, `c2`, ... for integer constants, `f1` for a float constant and `lanes` for a
number of lanes; a name that stands twice must match equal expressions twice. `//` and `%` round
down, `truncdiv` and `truncmod` towards zero. Results fold constants. Conditions are Python over
the values of the constants, with the questions of `CONDITIONS` to the analyzer. A line `@name`
calls the function of that name, for what a pattern cannot say.

Rules are tried in order. What stands over them says for which operands they hold (`overflow.py` tells
indices from data):

    [index]    scalar int32 and int64 that are indices and sizes, which do not wrap around
    [integer]  scalar int32 and int64, data that wraps around too
    [ramp]     vectors of indices
    [vector]   vectors
    [other]    all but scalar int32 and int64; floats only with `fast_math`
    [exact]    all; floats only with `fast_math`
    [any]      all, NaN and infinities included

The operands of `and`, `or` and `not` are bools: their rules ask of what the conditions compare by `index(x)` and
`exact(x)`.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tvmagic.arith.constraint import side_effect
from tvmagic.ir import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Broadcast,
    CallEffect,
    DataType,
    Div,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    PrimExpr,
    Ramp,
    Select,
    Sub,
)
from tvmagic.ir.deep_equal import deep_equal
from tvmagic.ir.expr import BOOL
from tvmagic.ir.fold import FOLDERS, truncate_divide, wrap_int
from tvmagic.ir.ops import make_const

RuleFunction = Callable[[Any, Any], "PrimExpr | None"]

_OPERATORS: dict[type, type] = {
    ast.Add: Add,
    ast.Sub: Sub,
    ast.Mult: Mul,
    ast.FloorDiv: FloorDiv,
    ast.Mod: FloorMod,
    ast.And: And,
    ast.Or: Or,
    ast.Eq: EQ,
    ast.NotEq: NE,
    ast.Lt: LT,
    ast.LtE: LE,
    ast.Gt: GT,
    ast.GtE: GE,
}


class _One:
    """`one(x)`: the constant 1 of the type of `x`."""


class _Zero:
    """`zero(x)`: the constant 0 of the type of `x`."""


class _Same:
    """`same(c1, c2)`: whether two constants are equal."""


class _Differ:
    """`differ(c1, c2)`: whether two constants differ."""


_FUNCTIONS: dict[str, type] = {
    "min": Min,
    "max": Max,
    "truncdiv": Div,
    "truncmod": Mod,
    "ramp": Ramp,
    "broadcast": Broadcast,
    "select": Select,
    "one": _One,
    "zero": _Zero,
    "same": _Same,
    "differ": _Differ,
}
_FIELDS: dict[type, tuple[str, ...]] = {
    Ramp: ("base", "stride", "lanes"),
    Broadcast: ("value", "lanes"),
    Select: ("condition", "true_value", "false_value"),
    Not: ("a",),
}
_INT_OPERATORS = {Add: "({} + {})", Sub: "({} - {})", Mul: "({} * {})", FloorDiv: "({} // {})", FloorMod: "({} % {})"}
_INT_FUNCTIONS = {Min: "min({}, {})", Max: "max({}, {})", Div: "truncdiv({}, {})"}


def _builder(cls: type[Any]) -> Callable[[PrimExpr, PrimExpr], PrimExpr]:
    folder = FOLDERS[cls]

    def build(a: PrimExpr, b: PrimExpr) -> PrimExpr:
        folded = folder(a, b)
        return cls(a, b) if folded is None else folded

    return build


_CONSTANTS: dict[type, Callable[[PrimExpr], PrimExpr]] = {
    _One: lambda x: make_const(x.dtype, 1),
    _Zero: lambda x: make_const(x.dtype, 0),
}
_COMPARISONS: dict[type, Callable[[IntImm, IntImm], PrimExpr]] = {
    _Same: lambda a, b: IntImm(BOOL, a.value == b.value),
    _Differ: lambda a, b: IntImm(BOOL, a.value != b.value),
}
BUILDERS: dict[type, Callable[..., PrimExpr]] = {
    **{cls: _builder(cls) for cls in FOLDERS},
    **{cls: cls for cls in (Ramp, Broadcast, Select, Not)},
    **_CONSTANTS,
    **_COMPARISONS,
}


def integer_constant(dtype: DataType, value: int) -> PrimExpr:
    """A constant; an `OverflowError` if the type does not hold it, so that the rule does not fire."""
    if wrap_int(value, dtype) != value:
        raise OverflowError
    return IntImm(dtype, value) if dtype.is_scalar and not dtype.is_float else make_const(dtype, value)


def _reads_only(e: PrimExpr) -> bool:
    return side_effect(e) <= CallEffect.READ_STATE


_SCOPE: dict[str, Any] = {
    "equal": deep_equal,
    "constant": integer_constant,
    "truncdiv": truncate_divide,
    "reads_only": _reads_only,
    "IntImm": IntImm,
    "FloatImm": FloatImm,
    "make_const": make_const,
    **{cls.__name__: cls for cls in BUILDERS},
    **{f"build_{cls.__name__}": build for cls, build in BUILDERS.items()},
}

# questions to the analyzer in conditions; the first argument is an expression, others are ints
CONDITIONS: dict[str, str] = {
    "ge": "S.prove_greater_equal({}, {})",
    "lt": "S.prove_less({}, {})",
    "iszero": "S.is_zero({})",
    "stays": "S.stays_in_type({})",
    "reads_only": "reads_only({})",
    "index": "S.is_index({})",
    "exact": "S.is_exact({})",
}


def _is_int(name: str) -> bool:
    return name[0] == "c" and name[1:].isdigit()


class _Shape:
    """A parsed pattern or result: a class with parts, a name, or a number."""

    __slots__ = ("cls", "name", "parts", "value")

    def __init__(
        self, cls: type | None = None, parts: tuple[_Shape, ...] = (), name: str = "", value: int | bool | None = None
    ) -> None:
        self.cls, self.parts, self.name, self.value = cls, parts, name, value

    def top(self) -> type | None:
        """The class that a matched expression must have; None if any fits."""
        if self.cls is not None:
            return self.cls
        if self.value is not None or _is_int(self.name):
            return IntImm
        return FloatImm if self.name == "f1" else None

    def is_int(self) -> bool:
        """Whether it is made of integer constants only, so that its value is computed at once."""
        if self.cls is None:
            return self.value is not None or _is_int(self.name)
        return (self.cls in _INT_OPERATORS or self.cls in _INT_FUNCTIONS) and all(p.is_int() for p in self.parts)

    def names(self) -> list[str]:
        """The names in it, from left to right."""
        return [self.name] if self.name else [n for p in self.parts for n in p.names()]


def shape_of(node: ast.expr) -> _Shape:
    """A pattern or a result, from its Python syntax."""
    if isinstance(node, ast.BinOp):
        return _Shape(_OPERATORS[type(node.op)], (shape_of(node.left), shape_of(node.right)))
    if isinstance(node, ast.Compare):
        return _Shape(_OPERATORS[type(node.ops[0])], (shape_of(node.left), shape_of(node.comparators[0])))
    if isinstance(node, ast.BoolOp):
        result = shape_of(node.values[0])
        for value in node.values[1:]:
            result = _Shape(_OPERATORS[type(node.op)], (result, shape_of(value)))
        return result
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return _Shape(Not, (shape_of(node.operand),))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return _Shape(_FUNCTIONS[node.func.id], tuple(shape_of(a) for a in node.args))
    if isinstance(node, ast.Name):
        return _Shape(name=node.id)
    if isinstance(node, ast.Constant):
        return _Shape(value=node.value)  # type: ignore[arg-type]
    raise ValueError(f"a rule cannot hold {ast.dump(node)}")


def parse_expression(text: str) -> ast.expr:
    """The Python syntax of a pattern, a result or a condition."""
    return ast.parse(text.strip(), mode="eval").body


class _Generator:
    """Writes the function of one pattern: tests, then the condition, then the result."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.bound: set[str] = set()
        self.temporaries = 0

    def match(self, shape: _Shape, place: str, known: bool) -> None:
        """Test that the expression at `place` has `shape`; its class is `known` already, or not."""
        if shape.cls is not None:
            if not known:
                self.fail_unless(f"type({place}) is {shape.cls.__name__}")
            self.match_parts(shape, place)
        elif shape.value is not None:
            test = f"{place}.value == {int(shape.value)}"
            self.fail_unless(test if known else f"type({place}) is IntImm and {test}")
        elif shape.name == "lanes":
            self.bind("lanes", place, "(lanes is {0} or equal(lanes, {0}))")
        elif _is_int(shape.name):
            if not known:
                self.fail_unless(f"type({place}) is IntImm")
            self.bind(shape.name, f"{place}.value", f"{shape.name} == {{}}", f"node_{shape.name} = {place}")
        elif shape.name == "f1":
            self.fail_unless(f"type({place}) is FloatImm")
            self.bind("f1", f"{place}.value", "f1 == {}", f"node_f1 = {place}")
        else:
            self.bind(shape.name, place, f"({shape.name} is {{0}} or equal({shape.name}, {{0}}))")

    def match_parts(self, shape: _Shape, place: str) -> None:
        """Test the parts of the expression at `place`."""
        assert shape.cls is not None
        fields = _FIELDS.get(shape.cls, ("a", "b"))
        places: list[tuple[_Shape, str]] = []
        for part, name in zip(shape.parts, fields):
            place_of_part = f"{place}.{name}"
            if part.name != "lanes":
                self.temporaries += 1
                self.lines.append(f"t{self.temporaries} = {place_of_part}")
                place_of_part = f"t{self.temporaries}"
            places.append((part, place_of_part))
        for part, place_of_part in places:
            self.match(part, place_of_part, False)

    def bind(self, name: str, value: str, test: str, extra: str | None = None) -> None:
        """Give `value` a name, or test it against what has that name."""
        if name in self.bound:
            self.fail_unless(test.format(value))
            return
        self.bound.add(name)
        self.lines.append(f"{name} = {value}")
        if extra:
            self.lines.append(extra)

    def fail_unless(self, test: str) -> None:
        """Leave the function if `test` does not hold."""
        self.lines.append(f"if not ({test}): return None")

    # ------------------------------------------------------------------ values

    def integer(self, shape: _Shape) -> str:
        """Text of the value of a part that is made of integer constants."""
        if shape.value is not None:
            return str(int(shape.value))
        if shape.name:
            return shape.name
        assert shape.cls is not None
        template = _INT_OPERATORS.get(shape.cls) or _INT_FUNCTIONS[shape.cls]
        return template.format(*map(self.integer, shape.parts))

    def dtype_source(self, shape: _Shape) -> str | None:
        """Text for the dtype of a part of a result, from the first name in it."""
        for name in shape.names():
            if name != "lanes":
                return f"node_{name}.dtype" if _is_int(name) or name == "f1" else f"{name}.dtype"
        return None

    def build(self, shape: _Shape, dtype: str) -> str:
        """Text that builds the value; `dtype` is the type of numbers without other operands."""
        if isinstance(shape.value, bool):
            return f"make_const(e.dtype, {int(shape.value)})"
        if shape.is_int():
            if shape.name:
                return f"node_{shape.name}"
            return f"constant({dtype}, {self.integer(shape)})"
        if shape.name:
            return f"node_{shape.name}" if shape.name == "f1" else shape.name
        assert shape.cls is not None
        if shape.cls is Not or shape.cls in (And, Or):
            inner = [self.build(p, dtype) for p in shape.parts]
        else:
            inner = self.operands(shape, dtype)
        return f"build_{shape.cls.__name__}({', '.join(inner)})"

    def operands(self, shape: _Shape, dtype: str) -> list[str]:
        """Text of the operands of a result; numbers among them take the type of the others."""
        named = [s for p in shape.parts if not p.is_int() and (s := self.dtype_source(p))]
        constants = [s for p in shape.parts if (s := self.dtype_source(p))]
        mine = (named or constants or [dtype])[0]
        return [self.build(p, mine) for p in shape.parts]

    def condition(self, node: ast.expr) -> str:
        """Text of a condition: Python, with the analyzer's questions put in their form."""
        asked: dict[str, str] = {}
        generator = self

        class Replace(ast.NodeTransformer):
            def visit_Call(self, node: ast.Call) -> ast.expr:
                name = node.func.id if isinstance(node.func, ast.Name) else ""
                if name not in CONDITIONS:
                    self.generic_visit(node)
                    return node
                first = generator.build(shape_of(node.args[0]), "e.a.dtype")
                others = [ast.unparse(a) for a in node.args[1:]]
                key = f"question_{len(asked)}"
                asked[key] = CONDITIONS[name].format(first, *others)
                return ast.Name(key)

        text = ast.unparse(Replace().visit(node))
        return re.sub(r"\bquestion_\d+\b", lambda found: asked[found[0]], text)


# for a dtype, whether integers wrap around, and whether the laws of rings hold
_HOLDS: dict[str, Callable[[DataType, bool, bool], bool]] = {
    "index": lambda dtype, wraps, laws: dtype.is_index and not wraps,
    "integer": lambda dtype, wraps, laws: dtype.is_index,
    "ramp": lambda dtype, wraps, laws: dtype.is_vector and not wraps,
    "vector": lambda dtype, wraps, laws: dtype.is_vector,
    "other": lambda dtype, wraps, laws: not dtype.is_index and laws,
    "exact": lambda dtype, wraps, laws: laws,
    "any": lambda dtype, wraps, laws: True,
}


@dataclass(eq=False)
class Rule:
    """One line of a table: `patterns -> result if condition`, or a function that does the step."""

    root: type
    section: str
    text: str
    patterns: tuple[str, ...] = ()
    result: str = ""
    condition: str | None = None
    recursive: bool = False
    function: Callable[..., Any] | None = None

    @property
    def name(self) -> str:
        """What notes call the rule."""
        return f"{self.root.__name__}: {self.text}"

    def holds_for(self, dtype: DataType, wraps: bool, fast_math: bool) -> bool:
        """Whether the rule is for operands of this type; `wraps`: that are data."""
        return _HOLDS[self.section](dtype, wraps, fast_math or not dtype.is_float)

    def compiled(self, classes: tuple[type, ...]) -> list[RuleFunction]:
        """The functions of the patterns that may fit operands of the given classes."""
        if self.function is not None:
            return [self.function]
        return [f for i, p in enumerate(self.patterns) if (f := self.compile_pattern(i, p, classes)) is not None]

    def compile_pattern(self, index: int, pattern: str, classes: tuple[type, ...]) -> RuleFunction | None:
        """The function of one pattern; None if operands of these classes cannot fit."""
        shape = _pattern_shape(self.root, pattern)
        for part, cls in zip(shape.parts, classes):
            top = part.top()
            if top is not None and top is not cls:
                return None
        key = (pattern, self.text, self.root)
        function = _COMPILED.get(key)
        if function is None:
            function = _COMPILED[key] = self._generate(shape)
        return function

    def _generate(self, shape: _Shape) -> RuleFunction:
        generator = _Generator()
        fields = _FIELDS.get(self.root, ("a", "b"))
        generator.lines += [f"{name} = e.{name}" for name in fields]
        for part, name in zip(shape.parts, fields):
            generator.match(part, name, part.top() is not None)
        if self.condition:
            generator.fail_unless(generator.condition(parse_expression(self.condition)))
        value = generator.build(shape_of(parse_expression(self.result)), f"e.{fields[0]}.dtype")
        generator.lines.append(f"return S.again({value})" if self.recursive else f"return {value}")
        source = "def rule(S, e):\n" + "".join(f"    {line}\n" for line in generator.lines)
        scope = dict(_SCOPE)
        exec(compile(source, f"<rule {self.text}>", "exec"), scope)
        return scope["rule"]


_COMPILED: dict[tuple[str, str, type], RuleFunction] = {}


@functools.cache
def _pattern_shape(root: type, pattern: str) -> _Shape:
    shape = shape_of(parse_expression(pattern))
    if shape.cls is not root:
        raise ValueError(f"`{pattern}` is not a pattern of {root.__name__}")
    return shape


def parse_rules(root: type, text: str, functions: Mapping[str, Callable[..., Any]] | None = None) -> list[Rule]:
    """The rules of a table for expressions of class `root`."""
    rules: list[Rule] = []
    section = "any"
    for line in re.sub(r"\\\n\s*", " ", text).splitlines():
        line = line.split("#", 1)[0].strip()
        if not line:
            continue
        if line.startswith("["):
            section = line.strip("[]")
        elif line.startswith("@"):
            assert functions is not None
            rules.append(Rule(root, section, line[1:], function=functions[line[1:]]))
        else:
            rules.append(_parse_rule(root, section, " ".join(line.split())))
    return rules


def _parse_rule(root: type, section: str, line: str) -> Rule:
    recursive = " => " in line
    patterns, result = line.split(" => " if recursive else " -> ")
    result, _, condition = result.partition(" if ")
    parts = tuple(p.strip() for p in patterns.split(" | "))
    return Rule(root, section, line, parts, result.strip(), condition.strip() or None, recursive)


class RuleSet:
    """The rules for one class of expressions, found by the classes of the operands."""

    def __init__(self, root: type, text: str, functions: Mapping[str, Callable[..., Any]] | None = None) -> None:
        self.root, self.text, self.functions = root, text, functions
        self._rules: list[Rule] | None = None
        self._index: tuple[dict[tuple[Any, ...], tuple[tuple[RuleFunction, Rule], ...]], ...] = ({}, {}, {}, {})

    @property
    def rules(self) -> list[Rule]:
        """All rules in the order in which they are tried."""
        if self._rules is None:
            self._rules = parse_rules(self.root, self.text, self.functions)
        return self._rules

    def lookup(self, key: tuple[Any, ...], wraps: bool, fast_math: bool) -> tuple[tuple[RuleFunction, Rule], ...]:
        """The rules to try, with their functions, for `(dtype of the operands, their classes...)`."""
        index = self._index[2 * wraps + fast_math]
        found = index.get(key)
        if found is None:
            dtype, classes = key[0], key[1:]
            found = index[key] = tuple(
                (function, rule)
                for rule in self.rules
                if rule.holds_for(dtype, wraps, fast_math)
                for function in rule.compiled(classes)
            )
        return found
