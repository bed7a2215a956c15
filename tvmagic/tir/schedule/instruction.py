"""Primitives and instructions: what a schedule can do, and one call of it.

A primitive is a function on the state, declared once with `@primitive`. Its signature says by
annotation what each argument is; from that follow the method of `Schedule`, how a call appears in
the trace, its Python and JSON forms, and how it is replayed.

    @primitive("Parallel")
    def parallel(state: ScheduleState, loop: Loop) -> None:
        '''Mark a loop ... (becomes the method's docstring)'''

Annotations of inputs (references and sizes): `Loop`, `BlockRef`, `BlockOrLoop`, `Loops` and
`Sizes` (several; at most one such argument), `Lengths` (sizes that may be multiples of `vscale()`),
`BlocksIn` (several blocks, left out of the text where empty), `LoopOrBlocks` (a loop, or a list of blocks as one input) and `Value` (a plain value in which sizes
may be random variables). Every other argument is an
attribute: a plain value (text, number, list, dict, dtype, `IndexMap`). The return annotation
says what comes out: `None`, `Loop`, `Loops`, `BlockRef`, `Blocks`, `Size`, `Sizes`. A primitive
that samples takes `random` and `decision` and returns the result and the decision taken.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import UnionType
from typing import Annotated, Any, ClassVar, Union, get_args, get_origin

from tvmagic.arith.index_map import IndexMap
from tvmagic.errors import TVMagicError
from tvmagic.ir import FloatImm, Identified, IntImm, PrimExpr, StringImm
from tvmagic.tir.blocks.sref import StmtSRef
from tvmagic.tir.schedule.guards import is_list, is_mapping, is_row, is_tuple
from tvmagic.tir.schedule.parameters import with_parameters

# What the arguments of primitives are when they reach the primitive, each with the name of its role.
Loop = Annotated[StmtSRef, "Loop"]
BlockRef = Annotated[StmtSRef, "BlockRef"]
BlockOrLoop = Annotated[StmtSRef, "BlockOrLoop"]
LoopOrBlocks = Annotated[StmtSRef | Sequence[StmtSRef], "LoopOrBlocks"]
Loops = Annotated[Sequence[StmtSRef], "Loops"]
Blocks = Annotated[Sequence[StmtSRef], "Blocks"]
BlocksIn = Annotated[Sequence[StmtSRef], "BlocksIn"]
Size = Annotated[int, "Size"]
Sizes = Annotated[Sequence[int | None], "Sizes"]
Lengths = Annotated[Sequence[int | PrimExpr | None], "Lengths"]
Value = Annotated[Any, "Value"]

_INPUT_ROLES = (
    "Loop",
    "BlockRef",
    "BlockOrLoop",
    "LoopOrBlocks",
    "Loops",
    "BlocksIn",
    "Sizes",
    "Lengths",
    "Size",
    "Value",
)
_MANY_ROLES = ("Loops", "BlocksIn", "Sizes", "Lengths")


class _NamedRV(Identified):
    """What has the name that its block or loop had when it was found, to be read by people."""

    __slots__ = ("__weakref__", "_name")

    def __init__(self, name: str = "") -> None:
        self._name = name

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._name})"


class BlockRV(_NamedRV):
    """A name for a block in a schedule and its trace."""

    __slots__ = ()


class LoopRV(_NamedRV):
    """A name for a loop in a schedule and its trace."""

    __slots__ = ()


ExprRV = PrimExpr


@dataclass(frozen=True)
class Parameter:
    """An argument of a primitive: its name, its role (None for an attribute), its default."""

    name: str
    role: str | None
    default: Any
    variadic: bool
    annotation: str = "Any"

    @property
    def many(self) -> bool:
        return self.role in _MANY_ROLES


class InstructionKind(Identified):
    """A primitive as the trace knows it.

    `name` as in TVM (`ComputeAt`), `method` as users call it (`compute_at`), `is_pure` where
    leaving it out changes nothing, `outputs` the role of what comes out.
    """

    registry: ClassVar[dict[str, InstructionKind]] = {}
    methods: ClassVar[dict[str, InstructionKind]] = {}
    listeners: ClassVar[list[Callable[[InstructionKind], None]]] = []

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        is_pure: bool,
        checked_name: str | None,
        prepare: Callable[..., dict[str, Any]] | None,
        spelling: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.prepare = prepare
        self.spelling = dict(spelling or {})
        self.function = function
        self.method = checked_name or function.__name__
        self.is_pure = is_pure
        signature = inspect.signature(function)
        names = list(signature.parameters)
        self.doc = with_parameters(self.method, inspect.getdoc(function) or "", names)
        self.samples = "random" in names
        self.decision = _annotation_text(signature.parameters["decision"].annotation) if self.samples else ""
        self.parameters = tuple(
            Parameter(
                p.name,
                _role(p.annotation),
                p.default,
                p.kind is inspect.Parameter.VAR_POSITIONAL,
                _annotation_text(p.annotation),
            )
            for p in signature.parameters.values()
            if p.name not in ("state", "random", "decision")
        )
        self.inputs = tuple(p for p in self.parameters if p.role is not None)
        self.attrs = tuple(p for p in self.parameters if p.role is None)
        self.outputs = _output_role(signature.return_annotation)
        self.signature = signature

    @staticmethod
    def get(name: str) -> InstructionKind:
        """The kind called `name`, as in JSON traces."""
        kind = InstructionKind.registry.get(name)
        if kind is None:
            raise TVMagicError(f"there is no schedule instruction `{name}`", code="schedule.unknown_instruction")
        return kind

    def flatten(self, arguments: dict[str, Any]) -> tuple[list[Any], list[Any]]:
        """The inputs and attributes of a call in order, several ones opened."""
        inputs: list[Any] = []
        for p in self.inputs:
            value = arguments[p.name]
            inputs += list(value) if p.many else [value]
        return inputs, [arguments[p.name] for p in self.attrs]

    def gather(self, inputs: Sequence[Any], attrs: Sequence[Any]) -> dict[str, Any]:
        """The arguments by name from inputs and attributes in order."""
        arguments: dict[str, Any] = {}
        for position, p in enumerate(self.inputs):  # several ones come last
            arguments[p.name] = list(inputs[position:]) if p.many else inputs[position]
        # attributes that an older text leaves out have their defaults
        for p, value in zip(self.attrs, [*attrs, *[q.default for q in self.attrs[len(attrs) :]]]):
            arguments[p.name] = value
        return arguments

    def __repr__(self) -> str:
        return f"InstructionKind({self.name})"


def _annotation_text(annotation: Any) -> str:
    """An annotation as it is written, also if the file does not keep annotations as text."""
    if isinstance(annotation, str):
        return annotation
    if hasattr(annotation, "__metadata__"):
        return annotation.__metadata__[0]
    if get_origin(annotation) in (Union, UnionType, tuple):  # a role or None; a result and the decision
        return _annotation_text(get_args(annotation)[0])
    return str(annotation) if get_origin(annotation) else getattr(annotation, "__name__", str(annotation))


def _role(annotation: Any) -> str | None:
    text = _annotation_text(annotation).replace(" | None", "")
    return text if text in _INPUT_ROLES else None


def _output_role(annotation: Any) -> str | None:
    text = _annotation_text(annotation)
    if text.startswith("tuple[") and text.endswith(", Any]"):
        text = text[len("tuple[") : -len(", Any]")]
    known = ("Loop", "BlockRef", "Loops", "Blocks", "Size", "Sizes")
    return text if text in known else None


def primitive(
    name: str,
    *,
    pure: bool = False,
    method: str | None = None,
    prepare: Callable[..., dict[str, Any]] | None = None,
    spelling: Mapping[str, str] | None = None,
) -> Callable[[Any], Any]:
    """Declare a function on the state as the primitive `name`; see the module's text.

    The text of a trace writes the names of arguments as `spelling` has them, as TVM's does: without a name if it is empty.
    Calls may name them so too.

    `prepare(state, arguments)` may bring attributes into the form that the trace keeps: a Python
    function into an `IndexMap`, a buffer's name into its place in the block.
    """

    def register(function: Any) -> Any:
        kind = InstructionKind(name, function, pure, method, prepare, spelling)
        InstructionKind.registry[name] = kind
        InstructionKind.methods[kind.method] = kind
        for tell in InstructionKind.listeners:
            tell(kind)
        return function

    return register


@dataclass(eq=False)
class Instruction(Identified):
    """One call of a primitive: its inputs (random variables, numbers), attributes and outputs."""

    kind: InstructionKind
    inputs: list[Any] = field(default_factory=list[Any])
    attrs: list[Any] = field(default_factory=list[Any])
    outputs: list[Any] = field(default_factory=list[Any])

    def as_python(self, names: Callable[[Any], str], decision: Any = None) -> str:
        """The call as a line of Python; `names` gives the text of a random variable."""
        arguments = self.kind.gather(self.inputs, self.attrs)
        parts: list[str] = []
        for p in self.kind.parameters:
            value = arguments[p.name]
            if p.role == "BlocksIn" and not value:
                continue
            if p.variadic:
                parts += [argument_text(v, names) for v in value]
            else:
                name = self.kind.spelling.get(p.name, p.name)
                parts.append(f"{name}={argument_text(value, names)}" if name else argument_text(value, names))
        if decision is not None:
            parts.append(f"decision={argument_text(decision, names)}")
        call = f"sch.{self.kind.method}({', '.join(parts)})"
        if not self.outputs:
            return call
        targets = ", ".join(names(rv) for rv in self.outputs)
        if self.kind.outputs in ("Loops", "Blocks", "Sizes") and len(self.outputs) == 1:
            targets += ","
        return f"{targets} = {call}"

    def __repr__(self) -> str:
        return self.as_python(lambda rv: "_")


def argument_text(value: Any, names: Callable[[Any], str]) -> str:
    """An argument as it appears in a line of Python."""
    if isinstance(value, (BlockRV, LoopRV)):
        return names(value)
    if isinstance(value, (str, StringImm)):
        return json.dumps(str(value.value if isinstance(value, StringImm) else value))
    if isinstance(value, int):
        return repr(value)
    if isinstance(value, float):
        return _float_text(value)
    if isinstance(value, IntImm):
        return repr(bool(value.value)) if value.dtype.is_bool else repr(value.value)
    if isinstance(value, FloatImm):
        return _float_text(value.value)
    if is_tuple(value):
        inner = ", ".join(argument_text(v, names) for v in value)
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if is_list(value):
        return "[" + ", ".join(argument_text(v, names) for v in value) + "]"
    if is_mapping(value):
        return "{" + ", ".join(f"{json.dumps(k)}: {argument_text(v, names)}" for k, v in value.items()) + "}"
    if isinstance(value, IndexMap):
        sizes = {var: names(var) for var in value.free_variables()}
        return value.to_python_string({var: name for var, name in sizes.items() if name != "_"}.get)
    if isinstance(value, PrimExpr):
        return expression_text(value, names)
    return str(value)


def _float_text(value: float) -> str:
    """A float with the 17 digits that TVM prints; without a fraction, or infinite, as Python writes it."""
    return f"{value:.17g}" if value % 1 > 0 else repr(value)


def expression_text(value: PrimExpr, names: Callable[[Any], str]) -> str:
    """An expression over random variables, with their names in the trace."""
    from tvmagic.ir import Var, substitute
    from tvmagic.ir.query import variables_in

    return str(substitute(value, {v: Var(names(v), v.dtype) for v in variables_in(value)}))


def is_random_variable(value: Any) -> bool:
    """Whether a value in an instruction is a name for something, not the thing itself."""
    return isinstance(value, (BlockRV, LoopRV)) or (isinstance(value, PrimExpr) and not isinstance(value, IntImm))


def flat(values: Iterable[Any]) -> list[Any]:
    """Nested lists and tuples opened."""
    result: list[Any] = []
    for value in values:
        result += flat(value) if is_row(value) else [value]
    return result
