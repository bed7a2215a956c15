"""Programs as JSON, and back.

`save_json` writes a list of nodes, each once, so that shared parts and variables keep their
identity. `load_json` builds them again field by field; it executes nothing that it reads, and
refuses what does not fit the declared fields.
"""

from __future__ import annotations

import base64
import enum
import json
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from tvmagic.errors import TVMagicError
from tvmagic.ir.attrs import Attrs
from tvmagic.ir.buffer import Buffer
from tvmagic.ir.container import JoinedTuple
from tvmagic.ir.deep_recursion import deep
from tvmagic.ir.dtype import DataType
from tvmagic.ir.expr import GlobalVar, IntImm, PrimExpr, PrimType, StringImm, Type, Var
from tvmagic.ir.hooks import provided, provided_if
from tvmagic.ir.node import NODE_CLASSES, Field, Kind, Node, Span, slots_of
from tvmagic.ir.op import Op
from tvmagic.ir.prim_expr import MAPPINGS, SEQUENCES, TUPLES, class_of
from tvmagic.ir.semantics import Neutral
from tvmagic.ir.stmt import ForKind, Stmt

VERSION = 1
_codecs: dict[str, tuple[type, Callable[[Any], Any], Callable[[Any], Any]]] = {}


def register_json(name: str, cls: type, to_plain: Callable[[Any], Any], from_plain: Callable[[Any], Any]) -> None:
    """Let objects of `cls` that attributes hold be saved, as `name`.

    `to_plain` gives what stands for one: numbers, texts, lists and mappings; `from_plain` makes one
    of it again, and raises if it cannot.
    """
    _codecs[name] = cls, to_plain, from_plain


class _Record(NamedTuple):
    """How objects of a class are saved: as what `parts` gives, and made again by `build`."""

    name: str
    parts: Callable[[Any], dict[str, Any]]
    build: Callable[[dict[str, Any]], Any]


_records: dict[type, _Record] = {}


def register_record(
    name: str, cls: type, parts: Callable[[Any], dict[str, Any]], build: Callable[[dict[str, Any]], Any]
) -> None:
    """Let objects of `cls` be saved like nodes, each once: `parts` gives what they are made of by name (nodes, other
    such objects, numbers, texts, lists, mappings), and `build` makes one of that. No object may be a part of itself."""
    _records[cls] = _Record(name, parts, build)


def _record_of(value: Any) -> _Record | None:
    if class_of(value).__module__.startswith("tvmagic.te.") and not _records:
        provided("te records")()
    return _records.get(class_of(value))


# ---------------------------------------------------------------------------- writing


class _Writer:
    """Numbers the nodes it meets, children first."""

    def __init__(self) -> None:
        self.numbers: dict[int, int] = {}
        self.nodes: list[list[Any]] = []
        self.open: set[int] = set()
        self.contents: dict[int, tuple[str, list[Any]]] = {}
        self.kept: list[Any] = []  # so that no other object gets the identity of one that was written

    def encode(self, value: Any) -> Any:
        encoder = _ENCODERS.get(class_of(value))
        if encoder is not None:
            return encoder(self, value)
        if isinstance(value, Node) or _record_of(value) is not None:
            return {"node": self.number(value)}
        if isinstance(value, enum.IntEnum):
            return int(value)
        if isinstance(value, str):
            return str(value)
        if hasattr(value, "__array__") and hasattr(value, "tobytes"):
            data = base64.b64encode(value.tobytes()).decode()
            return {"array": [str(value.dtype), list(value.shape), data]}
        for name, (cls, to_plain, _) in _codecs.items():
            if isinstance(value, cls):
                return {"object": [name, json.dumps(to_plain(value))]}
        raise TVMagicError(
            f"an object of type `{type(value).__name__}` cannot be saved as JSON", code="json.not_serializable"
        )

    def number(self, root: Any) -> int:
        """The number of a node; it and what it is made of are written first, if they are not yet."""
        stack = [root]
        while stack:
            node = stack[-1]
            if id(node) in self.numbers:
                stack.pop()
                continue
            head, values = self.content(node)
            parts = [p for value in values for p in _nodes_in(value) if id(p) not in self.numbers]
            if parts:
                if id(node) in self.open:
                    raise TVMagicError(f"a `{type(node).__name__}` is a part of itself", code="json.cyclic")
                self.open.add(id(node))
                stack += reversed(parts)
                continue
            self.open.discard(id(node))
            fields = [self.encode(value) for value in values]
            self.numbers[id(node)] = len(self.nodes)
            self.nodes.append([head, *fields])
            self.contents.pop(id(node), None)
            stack.pop()
        return self.numbers[id(root)]

    def content(self, node: Any) -> tuple[str, list[Any]]:
        """What is written of a node: its class and its fields; of another object its name and its parts."""
        record = _record_of(node)
        if record is None:
            cls = class_of(node)
            return cls.__name__, [getattr(node, name) for name in _saved_fields(cls)]
        known = self.contents.get(id(node))
        if known is None:
            known = self.contents[id(node)] = ("@" + record.name, [record.parts(node)])
            self.kept.append(node)
        return known


def _nodes_in(value: Any) -> list[Any]:
    """The nodes, and other objects with parts, that a field holds."""
    if isinstance(value, Node):
        return [value]
    if isinstance(value, SEQUENCES):
        return [node for item in value for node in _nodes_in(item)]
    if isinstance(value, MAPPINGS):
        return [node for pair in value.items() for node in _nodes_in(pair)]
    return [] if class_of(value) in _ENCODERS or _record_of(value) is None else [value]


def _encode_float(writer: _Writer, value: float) -> Any:
    return value if math.isfinite(value) else {"float": str(value)}


def _encode_neutral(writer: _Writer, value: Neutral) -> Any:
    return {"neutral": float(value)}


def _encode_items(writer: _Writer, items: Any) -> Any:
    return [writer.encode(item) for item in items]


def _encode_mapping(writer: _Writer, items: Mapping[Any, Any]) -> Any:
    return {"map": [[writer.encode(k), writer.encode(v)] for k, v in items.items()]}


_ENCODERS: dict[type, Callable[[_Writer, Any], Any]] = {
    type(None): lambda writer, value: None,
    bool: lambda writer, value: value,
    int: lambda writer, value: value,
    str: lambda writer, value: value,
    DataType: lambda writer, value: str(value),
    float: _encode_float,
    Neutral: _encode_neutral,
    tuple: _encode_items,
    JoinedTuple: _encode_items,
    list: _encode_items,
    dict: _encode_mapping,
    Op: lambda writer, value: {"op": value.name},
}


def _saved_fields(cls: type[Node]) -> list[str]:
    """The fields that are written: those declared, in their order."""
    names = [f.name for f in cls.FIELDS]
    if not names and cls not in (PrimType,):
        missing = [s for s in slots_of(cls) if s not in ("span", "dtype")]
        if missing:
            raise TVMagicError(f"a `{cls.__name__}` cannot be saved as JSON", code="json.not_serializable")
    return names


@deep
def save_json(node: Any) -> str:
    """A node (or a list or mapping of nodes) as JSON text."""
    writer = _Writer()
    root = writer.encode(node)
    return json.dumps({"tvmagic": VERSION, "root": root, "nodes": writer.nodes}, separators=(",", ":"))


# ---------------------------------------------------------------------------- reading

_EXPECTED: dict[Kind, tuple[type, ...]] = {
    Kind.EXPR: (PrimExpr,),
    Kind.EXPRS: (PrimExpr,),
    Kind.STMT: (Stmt,),
    Kind.STMTS: (Stmt,),
    Kind.NODE: (Node,),
    Kind.NODES: (Node,),
    Kind.VAR_DEF: (Var,),
    Kind.VAR_DEFS: (Var,),
    Kind.BUFFER_USE: (Buffer,),
    Kind.BUFFER_DEF: (Buffer,),
    Kind.BUFFER_DEFS: (Buffer,),
    Kind.NAME: (str,),
    Kind.TYPE: (Type,),
    Kind.ATTRS: (dict,),
}
_MANY = frozenset({Kind.EXPRS, Kind.STMTS, Kind.NODES, Kind.VAR_DEFS, Kind.BUFFER_DEFS})
# what a plain field holds, by the first word of its annotation
_PLAIN: dict[str, tuple[type, ...]] = {
    "int": (int,),
    "float": (float, int),
    "str": (str,),
    "bool": (bool,),
    "DataType": (str,),
    "ForKind": (int,),
    "Op": (Op, GlobalVar),
    "dict": (dict,),
}


class _Reader:
    """Builds the nodes of a list, each from those before it."""

    def __init__(self, nodes: list[Any]) -> None:
        self.built: list[Node] = []
        for i, entry in enumerate(nodes):
            self.built.append(self.build(i, entry))

    def decode(self, value: Any) -> Any:
        if isinstance(value, SEQUENCES):
            return tuple([self.decode(v) for v in value])
        if not isinstance(value, MAPPINGS):
            return value
        if len(value) != 1:
            raise TVMagicError("the JSON text holds an object that is not a node", code="json.not_a_node")
        ((kind, content),) = value.items()
        decoder = _DECODERS.get(kind)
        if decoder is None:
            raise TVMagicError(f"the JSON text holds an object of the unknown kind `{kind}`", code="json.unknown_kind")
        return decoder(self, content)

    def build(self, number: int, entry: Any) -> Node:
        if not isinstance(entry, SEQUENCES) or not entry or not isinstance(entry[0], str):
            raise TVMagicError(
                f"node {number} of the JSON text is not a list that begins with a class", code="json.wrong_node"
            )
        if entry[0].startswith("@"):
            return self.build_record(number, entry)
        cls = _class_named(entry[0])
        if cls is None:
            raise TVMagicError(
                f"node {number} of the JSON text is of the unknown class `{entry[0]}`", code="json.unknown_class"
            )
        if len(entry) == len(cls.FIELDS) and cls.FIELDS[-1].kind is Kind.ATTRS:
            entry = [*entry, {"map": []}]  # saved before this mapping was a field
        if len(entry) != len(cls.FIELDS) + 1:
            raise TVMagicError(
                f"node {number} of the JSON text, a `{entry[0]}`, has {len(entry) - 1} fields, not {len(cls.FIELDS)}",
                code="json.wrong_field_count",
            )
        return _built(cls, [self.decode(raw) for raw in entry[1:]])

    def build_record(self, number: int, entry: Any) -> Any:
        provided("te records")()
        record = next((r for r in _records.values() if "@" + r.name == entry[0]), None)
        parts: Any = self.decode(entry[1]) if len(entry) == 2 else None
        if record is None or not isinstance(parts, MAPPINGS):
            raise TVMagicError(
                f"entry {number} of the JSON text is of the unknown class `{entry[0]}`", code="json.unknown_class"
            )
        return record.build({str(key): value for key, value in parts.items()})


def _class_named(name: str) -> type[Node] | None:
    """The class of nodes of that name, those of compat included."""
    if name not in NODE_CLASSES:
        provided_if("graph types")
    return NODE_CLASSES.get(name)


def _built(cls: type[Node], values: list[Any]) -> Node:
    """A node of a class with these fields, each of which is checked."""
    new = cls.__new__(cls)
    new.span = Span.nowhere() if cls.HAS_ORIGIN else None
    for field, value in zip(cls.FIELDS, values):
        _check(cls, field, value)
        setattr(new, field.name, _converted(field, value))
    _finish(new)
    return new


def make_node(type_key: str, **fields: Any) -> Node:
    """A node by the name of its class (`IntImm`, `tir.Add`) and its fields."""
    cls = _class_named(type_key.rsplit(".", 1)[-1])
    if cls is None:
        raise TVMagicError(f"there is no class of nodes `{type_key}`", code="json.unknown_class")
    if cls.__module__.startswith("tvmagic.te.") and not _records:
        provided("te records")()
    if (record := _records.get(cls)) is not None:  # an object of te, made of the parts that are saved of it
        try:
            return record.build(fields)
        except KeyError as error:
            raise TVMagicError(f"a `{cls.__name__}` needs {error}", code="json.missing_field") from error
    if issubclass(cls, Attrs):  # takes any names
        fields = {"values_by_name": fields}
    names = [f.name for f in cls.FIELDS]
    span = fields.pop("span", None)
    for name in {*names} ^ {*fields}:
        raise TVMagicError(
            f"a `{cls.__name__}` has the fields {', '.join(f'`{n}`' for n in names)}, not `{name}`",
            code="json.unknown_field",
        )
    node = _built(cls, [fields[name] for name in names])
    if span is not None:
        node.span = span.of(node)
    return node


def _node_at(reader: _Reader, number: Any) -> Node:
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < len(reader.built):
        raise TVMagicError(
            f"the JSON text refers to node `{number}`, which is not before its use", code="json.forward_reference"
        )
    return reader.built[number]


def _mapping(reader: _Reader, items: Any) -> dict[Any, Any]:
    pairs = reader.decode(items)
    if not isinstance(pairs, TUPLES) or not all(isinstance(p, TUPLES) and len(p) == 2 for p in pairs):
        raise TVMagicError("a mapping in the JSON text is not a list of pairs", code="json.wrong_mapping")
    for key, _ in pairs:
        if not isinstance(key, (str, Node)):
            raise TVMagicError(
                "a key of a mapping in the JSON text is neither a text nor a node", code="json.wrong_mapping"
            )
    return dict(pairs)


def _float(reader: _Reader, text: Any) -> float:
    if text not in ("inf", "-inf", "nan"):
        raise TVMagicError(f"`{text}` is not a float in the JSON text", code="json.wrong_float")
    return float(text)


def _neutral(reader: _Reader, number: Any) -> Neutral:
    if not isinstance(number, float):
        raise TVMagicError(f"`{number}` is not a float in the JSON text", code="json.wrong_float")
    return Neutral(number)


def _array(reader: _Reader, parts: Any) -> Any:
    import numpy

    try:
        dtype, shape, data = parts
        array = numpy.frombuffer(base64.b64decode(data, validate=True), dtype=numpy.dtype(str(dtype)))
        if array.dtype.hasobject:
            raise ValueError("objects")
        return provided("array")(array.reshape([int(n) for n in shape]))
    except (ValueError, TypeError) as error:
        raise TVMagicError("an array in the JSON text cannot be read", code="json.wrong_array") from error


def _object(reader: _Reader, content: Any) -> Any:
    try:
        name, text = content
        if name == "Target":
            provided("target")  # its module says how one is read
        _, _, from_plain = _codecs[name]
        return from_plain(json.loads(text))
    except TVMagicError:
        raise
    except Exception as error:
        raise TVMagicError("an object in the JSON text cannot be read", code="json.wrong_object") from error


_DECODERS: dict[str, Callable[[_Reader, Any], Any]] = {
    "object": _object,
    "node": _node_at,
    "map": _mapping,
    "float": _float,
    "neutral": _neutral,
    "array": _array,
    "op": lambda reader, name: Op.get(name if isinstance(name, str) else str(name)),
}


def _check(cls: type[Node], field: Field, value: Any) -> None:
    expected = _EXPECTED.get(field.kind)
    if expected is None and field.kind is Kind.VALUE:
        expected = _PLAIN.get(_first_word(field))
    if expected is None:
        return
    if field.kind in _MANY:
        right = isinstance(value, TUPLES) and all(isinstance(v, expected) for v in value)
    elif value is None:
        right = field.optional
    else:
        right = isinstance(value, expected) and not (isinstance(value, bool) and bool not in expected)
    if not right:
        raise TVMagicError(
            f"the JSON text gives `{value!r}` as the field `{field.name}` of a `{cls.__name__}`",
            code="json.wrong_field_value",
        )


def _first_word(field: Field) -> str:
    return field.annotation.split(" ")[0].split("[")[0]


def _converted(field: Field, value: Any) -> Any:
    annotation = field.annotation
    if annotation == "DataType":
        return DataType(value)
    if annotation == "ForKind":
        try:
            return ForKind(value)
        except ValueError as error:
            raise TVMagicError(
                f"the JSON text gives `{value}` as the kind of a loop", code="json.wrong_loop_kind"
            ) from error
    if annotation == "float":
        return value if isinstance(value, float) else float(value)  # `Neutral` stays what it is
    return value


def _finish(node: Node) -> None:
    """Set what follows from the fields."""
    if isinstance(node, Var):
        kind = node.type_annotation
        node.dtype = kind.dtype if isinstance(kind, PrimType) else DataType("handle")
    elif isinstance(node, StringImm):
        node.dtype = DataType("handle")
    elif isinstance(node, PrimExpr):
        node.retype()
        if isinstance(node, IntImm):
            IntImm(node.dtype, node.value)  # refuses what does not fit


@deep
def load_json(json_str: str) -> Any:
    """The node (or list or mapping of nodes) that `save_json` wrote."""
    try:
        data = json.loads(json_str)
    except (ValueError, RecursionError) as error:
        raise TVMagicError("the text is not JSON", code="json.not_json") from error
    if not isinstance(data, MAPPINGS) or not isinstance(data.get("nodes"), list) or "root" not in data:
        raise TVMagicError(
            "the JSON text does not hold a program", hint="it is written by save_json", code="json.not_a_program"
        )
    try:
        return _Reader(data["nodes"]).decode(data["root"])
    except (AttributeError, TypeError, LookupError, ValueError) as error:
        raise TVMagicError(
            "the JSON text does not hold a program whose parts fit together", code="json.inconsistent_program"
        ) from error
