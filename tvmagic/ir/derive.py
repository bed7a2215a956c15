"""What follows from the declared fields of a class of nodes: all code that is generated from them.

`@node` makes slots, `FIELDS` and a constructor of a class's annotations. The other functions here write, for one class,
what walks over its fields, rewrites them, compares and hashes them; `functor.py`, `equal.py` and `hash.py` say when
they are used and what else there is.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, overload

from tvmagic.ir.node import NODE_CLASSES, Field, Kind, Node, Span, new_origin, new_span, slots_of

_C = TypeVar("_C", bound=type[Node])
Function = Callable[..., Any]

# How a constructor converts what it is given for a field, by the field's kind, and by the annotation of a plain value.
CONVERTERS: dict[Kind, Function] = {}
PLAIN_CONVERTERS: dict[str, Function] = {}
# What an annotation says of a field. Other names are those of classes of nodes, or of plain values.
_KINDS = {
    "Var": Kind.VAR_DEF,
    "Buffer": Kind.BUFFER_USE,
    "BufferDef": Kind.BUFFER_DEF,
    "Name": Kind.NAME,
    "Object": Kind.OBJECT,
    "Operands": Kind.EXPRS,
    "dict[str, Any]": Kind.ATTRS,
}
_MANY = {
    Kind.EXPR: Kind.EXPRS,
    Kind.STMT: Kind.STMTS,
    Kind.NODE: Kind.NODES,
    Kind.TYPE: Kind.NODES,
    Kind.VAR_DEF: Kind.VAR_DEFS,
    Kind.BUFFER_DEF: Kind.BUFFER_DEFS,
}
_BASES = (("PrimExpr", Kind.EXPR), ("Stmt", Kind.STMT), ("Type", Kind.TYPE), ("Node", Kind.NODE))
_TUPLE = re.compile(r"tuple\[(.+), \.\.\.\]")


# ---------------------------------------------------------------------------- the declaration


@overload
def node(cls: _C) -> _C: ...
@overload
def node(*, walk: str) -> Callable[[_C], _C]: ...
def node(cls: Any = None, *, walk: str = "") -> Any:
    """Make a class of nodes of a class whose annotations are the fields.

    An annotation says what a field holds: a class of nodes (`PrimExpr`, `Stmt`, `Range`), a tuple of such
    (`tuple[PrimExpr, ...]`), or a plain value (`int`, `str`, `DataType`); `| None` if it may be left out. `Var` and
    `BufferDef` are what the node defines for its inside, `Buffer` is one that it accesses, `Name` a text that is printed
    but not compared, `Object` any attribute value, `dict[str, Any]` attributes, which may be left out. A value in the
    class body is the default.

    The constructor takes the fields in their order and then a `span`; it converts Python values to expressions, and
    calls `retype` and `check` if the class has them. A class with an `__init__` of its own keeps it.

    walk: the names of the fields in the order in which they are walked, if it is not that of the declaration.
    """
    return functools.partial(_declared, walk=walk.split()) if cls is None else _declared(cls, [])


def _declared(cls: _C, walk: list[str]) -> _C:
    fields = [_field(n, a) for n, a in inspect.get_annotations(cls).items() if "ClassVar" not in str(a)]
    own = {f.name: f for f in fields}
    parameters = [*(f for f in getattr(cls, "PARAMETERS", ()) if f.name not in own), *fields]
    space = {k: v for k, v in vars(cls).items() if k not in own and k not in ("__dict__", "__weakref__")}
    inherited = set(slots_of(cls))
    space["__slots__"] = tuple([name for name in own if name not in inherited])
    space["PARAMETERS"] = tuple(parameters)
    space["FIELDS"] = (
        tuple([own[n] for n in walk]) if walk else (*(f for f in cls.FIELDS if f.name not in own), *fields)
    )
    metaclass: Any = type(cls)
    made = metaclass(cls.__name__, cls.__bases__, space)
    made.__qualname__ = cls.__qualname__
    _reach_new_class(space, made)
    if "__init__" not in space and (fields or made.check is not Node.check):
        defaults = {f.name: vars(cls).get(f.name) for f in fields if f.name in vars(cls) or f.kind is Kind.ATTRS}
        type.__setattr__(made, "__init__", _constructor(made, parameters, defaults))
    return made


def _reach_new_class(space: dict[str, Any], made: type) -> None:
    """Let `super()` without arguments, in the methods of the class as it was written, mean the class that was made."""
    for value in space.values():
        function = getattr(value, "__func__", value)
        code = getattr(function, "__code__", None)
        if code is not None and "__class__" in code.co_freevars:
            function.__closure__[code.co_freevars.index("__class__")].cell_contents = made


def _field(name: str, annotation: Any) -> Field:
    text = annotation.__name__ if isinstance(annotation, type) else str(annotation)
    text = re.sub(r"[\w.]+\.(?=\w)", "", text)  # names without their modules
    optional = text.endswith(" | None")
    text = text.removesuffix(" | None")
    many = _TUPLE.fullmatch(text)
    kind = _kind(many[1] if many else text)
    return Field(name, _MANY.get(kind, Kind.VALUE) if many else kind, optional, text)


def _kind(text: str) -> Kind:
    if text in _KINDS:
        return _KINDS[text]
    found = NODE_CLASSES.get(text)
    if found is not None:
        for base, kind in _BASES:
            if base == "Node" or (base in NODE_CLASSES and issubclass(found, NODE_CLASSES[base])):
                return kind
    return Kind.VALUE


def _constructor(cls: type[Node], fields: list[Field], defaults: dict[str, Any]) -> Function:
    """`__init__` with the fields as parameters."""
    names: dict[str, Any] = {"PrimExpr": NODE_CLASSES.get("PrimExpr"), **{f"_{n}": v for n, v in defaults.items()}}
    lines: list[str] = []
    for f in fields:
        converter = PLAIN_CONVERTERS.get(f.annotation) if f.kind is Kind.VALUE else CONVERTERS.get(f.kind)
        value = f.name
        if converter is not None:
            names[f"to_{f.name}"] = converter
            value = f"to_{f.name}({f.name})"
        if f.kind is Kind.EXPR:
            value = f"{f.name} if isinstance({f.name}, PrimExpr) else {value}"
        if f.optional and converter is not None:
            value = f"None if {f.name} is None else ({value})"
        lines.append(f"self.{f.name} = {value}")
    if cls.HAS_ORIGIN:
        names.update(make=new_span, Span=Span, new_origin=new_origin)
        nowhere = 'make(Span, ("", 0, 1, 0, 0, new_origin()))'  # `Span.nowhere()`, without a call
        lines.append(f"self.span = {nowhere} if span is None else span if span.origin else span.born()")
    else:
        lines.append("self.span = span")
    lines += [f"self.{m}()" for m in ("retype", "check") if getattr(cls, m) is not getattr(Node, m)]
    parameters = [f"{f.name}=_{f.name}" if f.name in defaults else f.name for f in fields]
    function = generate("__init__", ["self", *parameters, "span=None"], lines, names)
    function.__qualname__, function.__module__ = f"{cls.__qualname__}.__init__", cls.__module__
    return function


def generate(name: str, parameters: list[str], lines: list[str], names: dict[str, Any]) -> Function:
    """The function of these lines, in which `names` are known."""
    source = f"def {name}({', '.join(parameters)}):\n" + "".join(f"    {line}\n" for line in lines or ["pass"])
    scope = dict(names)
    exec(compile(source, f"<{name}>", "exec"), scope)
    return scope[name]


# ---------------------------------------------------------------------------- walking and rewriting

_WALKED_ONE = (Kind.EXPR, Kind.STMT, Kind.NODE)
_WALKED_MANY = (Kind.EXPRS, Kind.STMTS, Kind.NODES)
_HOOK_OF = {
    Kind.VAR_DEF: "visit_var_def",
    Kind.VAR_DEFS: "visit_var_def",
    Kind.BUFFER_DEF: "visit_buffer_def",
    Kind.BUFFER_DEFS: "visit_buffer_def",
    Kind.BUFFER_USE: "visit_buffer_use",
}
_MANY_HOOKED = (Kind.VAR_DEFS, Kind.BUFFER_DEFS)


def _walked(fields: tuple[Field, ...], hooks: frozenset[str]) -> Iterator[tuple[str, str, bool]]:
    """The fields to walk: the name, the method that walks it, and whether it is a tuple."""
    for f in fields:
        if f.kind in _WALKED_ONE or f.kind in _WALKED_MANY:
            yield f.name, "visit", f.kind in _WALKED_MANY
        elif _HOOK_OF.get(f.kind) in hooks:
            yield f.name, _HOOK_OF[f.kind], f.kind in _MANY_HOOKED


def walker(cls: type, fields: tuple[Field, ...], hooks: frozenset[str]) -> Function:
    """`walk(self, node)`: visits the fields of a node of `cls` in their order."""
    lines: list[str] = []
    for name, method, many in _walked(fields, hooks):
        if many:
            lines += [f"for item in node.{name}:", f"    self.{method}(item)"]
        else:
            lines += [f"item = node.{name}", f"if item is not None: self.{method}(item)"]
    return generate(f"visit_{cls.__name__}", ["self", "node"], lines, {})


def rewriter(cls: type, fields: tuple[Field, ...], hooks: frozenset[str], names: dict[str, Any]) -> Function:
    """`rewrite(self, node)`: the node of the rewritten fields, the same node if none of them changed.

    `names` has `mutate_all`, which rewrites a tuple, and `rebuild` if a class is built in a way of its own from the
    new values of its fields.
    """
    walked = list(_walked(fields, hooks))
    if not walked:
        return generate(f"mutate_{cls.__name__}", ["self", "node"], ["return node"], {})
    lines: list[str] = []
    for i, (name, method, many) in enumerate(walked):
        lines.append(f"old{i} = node.{name}")
        if many:
            lines.append(f"new{i} = mutate_all(self.{method}, old{i}) if old{i} else old{i}")
        else:
            lines.append(f"new{i} = self.{method}(old{i}) if old{i} is not None else None")
    lines.append("if " + " and ".join(f"new{i} is old{i}" for i in range(len(walked))) + ": return node")
    if "rebuild" in names:
        lines.append(f"return rebuild({', '.join(f'new{i}' for i in range(len(walked)))})")
    else:
        changed = {name: f"new{i}" for i, (name, _, _) in enumerate(walked)}
        lines.append("copy = new(cls)")
        lines += [f"copy.{slot} = {changed.get(slot, 'node.' + slot)}" for slot in slots_of(cls)]
        if issubclass(cls, Node) and cls.retype is not Node.retype:
            lines.append("copy.retype()")
        lines.append("return copy")
    return generate(f"mutate_{cls.__name__}", ["self", "node"], lines, {"cls": cls, "new": cls.__new__, **names})


# ---------------------------------------------------------------------------- comparing and hashing

_SEVERAL = frozenset({Kind.EXPRS, Kind.STMTS, Kind.NODES, Kind.BUFFER_DEFS})


def _compared(f: Field) -> list[str]:
    """The lines that compare one field, up to the names of what programs define."""
    differs = f"return state.differs('attr', {f.name!r})"
    lines = [f"x = a.{f.name}; y = b.{f.name}"]
    if f.kind is Kind.VALUE:
        return [*lines, f"if x is not y and not plain(state, x, y): {differs}"]
    if f.kind is Kind.VAR_DEF:
        return [*lines, f"if not state.define(x, y): {differs}"]
    if f.kind is Kind.VAR_DEFS:
        lines += [f"if len(x) != len(y): {differs}", "for p, q in zip(x, y):"]
        return [*lines, f"    if not state.define(p, q): {differs}"]
    if f.kind in _SEVERAL:
        return [*lines, f"if not items(state, x, y): {differs}"]
    return [*lines, f"if type(x) is not type(y) or not compare[type(x)](state, x, y): {differs}"]


def comparison(cls: type[Node], names: dict[str, Any]) -> Function:
    """`same(state, a, b)`: structural equality of two nodes of `cls`; `state` knows which definitions correspond.

    Parts of an expression may be shared: two that were found equal are not compared again, as a walk over all their
    occurrences takes exponential time. So it is with hashes.
    """
    lines = [line for f in cls.FIELDS if f.kind is not Kind.NAME for line in _compared(f)]
    if _has_operands(cls):
        lines = ["pair = id(a), id(b)", "if pair in state.same: return True", *lines, "state.same.add(pair)"]
    return generate(f"same_{cls.__name__}", ["state", "a", "b"], [*lines, "return True"], names)


_BY_VALUE = (Kind.VALUE, Kind.NAME, Kind.OBJECT)


def deep_comparison(cls: type[Node], names: dict[str, Any]) -> Function:
    """`same(a, b)`: whether two nodes of `cls`, not one object, are the same tree over the very same variables."""
    tests = ["a.dtype is b.dtype"] if "dtype" in slots_of(cls) else []
    for f in sorted(cls.FIELDS, key=lambda f: f.kind is not Kind.VALUE):  # plain values are cheap and often differ
        x, y = f"a.{f.name}", f"b.{f.name}"
        if f.name == "dtype":
            continue
        if f.kind in _BY_VALUE:
            tests.append(f"({x} is {y} or {x} == {y})")
        elif f.kind in _WALKED_MANY:
            tests.append(f"all_equal({x}, {y})")
        elif f.kind in _WALKED_ONE:
            tests.append(f"({x} is {y} or deep_equal({x}, {y}))")
        else:
            tests.append(f"{x} is {y}")
    # a class without fields is what it is by identity
    return generate(
        f"same_{cls.__name__}", ["a", "b"], [f"return {' and '.join(tests) if cls.FIELDS else 'False'}"], names
    )


def hasher(cls: type[Node], seed: int, names: dict[str, Any]) -> Function:
    """`hash_node(numbers, node)`: the structural hash of a node of `cls`; `numbers` are those of the variables met."""
    terms = [str(seed)]
    for f in cls.FIELDS:
        if f.kind is Kind.VAR_DEF or f.kind is Kind.VAR_DEFS:
            terms.append(f"definition{'s' if f.kind is Kind.VAR_DEFS else ''}(numbers, node.{f.name})")
        elif f.kind in _SEVERAL:
            terms.append(f"items(numbers, node.{f.name})")
        elif f.kind is not Kind.NAME:
            terms.append(f"table[type(node.{f.name})](numbers, node.{f.name})")
    value = f"hash(({', '.join(terms)},))"
    if not _has_operands(cls):
        return generate("hash_node", ["numbers", "node"], [f"return {value}"], names)
    lines = ["known = numbers.shared.get(id(node))", "if known is None:"]
    lines += [f"    known = numbers.shared[id(node)] = {value}", "return known"]
    return generate("hash_node", ["numbers", "node"], lines, names)


def _has_operands(cls: type[Node]) -> bool:
    return any(f.kind is Kind.EXPR or f.kind is Kind.EXPRS for f in cls.FIELDS)
