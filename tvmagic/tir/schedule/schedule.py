"""`Schedule`: what users call. Each primitive is a method; each call goes into the trace."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tvmagic import ir, passes
from tvmagic.arith.analyzer import Analyzer
from tvmagic.arith.index_map import IndexMap
from tvmagic.arith.scalable import ContainsVscale
from tvmagic.errors import DefectError, TVMagicError, WrongIndexError, WrongTypeError, a_thing, parameters_text
from tvmagic.ir.node import new_origin
from tvmagic.ir.numpy_types import as_flag, as_integer
from tvmagic.ir.prim_expr import check_64_bits
from tvmagic.ir.schedulable import Schedulable
from tvmagic.ir.views import viewed
from tvmagic.tir.blocks.error import ScheduleError
from tvmagic.tir.blocks.sref import StmtSRef
from tvmagic.tir.schedule.guards import is_list, is_mapping, is_row, is_tuple
from tvmagic.tir.schedule.instruction import (
    BlockRV,
    Instruction,
    InstructionKind,
    LoopRV,
    Parameter,
    flat,
)
from tvmagic.tir.schedule.new_origins import record_new_origins
from tvmagic.tir.schedule.random import LinearCongruentialEngine, check_seed
from tvmagic.tir.schedule.state import ScheduleState
from tvmagic.tir.schedule.trace import Trace

_EXPECTED: dict[str, tuple[type, ...]] = {
    "BlockRef": (BlockRV,),
    "BlocksIn": (BlockRV,),
    "Loop": (LoopRV,),
    "Loops": (LoopRV,),
    "LoopOrBlocks": (LoopRV,),
}


def _is_int(value: Any) -> bool:
    return as_integer(value) is not None


def _is_number(value: Any) -> bool:
    return isinstance(value, (float, ir.FloatImm)) or _is_int(value)


def _list_of(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: is_row(value) and all(fits(v) for v in value)


# what an attribute of a primitive may be, by its annotation
_ATTRIBUTE_KINDS: dict[str, Callable[[Any], bool]] = {
    "bool": lambda value: as_flag(value) is not None,
    "int": _is_int,
    "float": _is_number,
    "str": lambda value: isinstance(value, (str, ir.StringImm)),
    "list[int]": _list_of(_is_int),
    "list[float]": _list_of(_is_number),
}


@viewed("tir schedule")
class Schedule(ir.Identified, Schedulable):
    """A program, and the calls that transform it step by step.

    Parameters
    ----------
    mod: the function or module to schedule; it is not changed.
    seed: where random samples start; the system's choice by default.
    debug_mask: `all` verifies references and flags after each step.
    error_render_level: `detail` shows errors in the program, `fast` only the sentence, `none` less.
    enable_check: without it `parallel`, `vectorize` and `bind` take blocks that are neither complete nor
        reductions, as in TVM: those of a reduction that is decomposed already. That they may run in any order is then
        yours to know. Other requirements are always checked.

    A call that fails raises `ScheduleError` and leaves the schedule as it was. The program as it is
    now is `mod`, the calls so far `trace`. `sealed_by` names the version that the schedule belongs to; a schedule of a
    version is not changed any more.
    """

    sealed_by = ""

    def __init__(
        self,
        mod: ir.PrimFunc | ir.IRModule,
        *,
        seed: int | None = None,
        debug_mask: str | int = "none",
        error_render_level: str = "detail",
        enable_check: bool = True,
    ) -> None:
        if str(error_render_level) not in ("detail", "fast", "none"):
            raise TVMagicError(
                f"`{error_render_level}` is not a level: write detail, fast or none",
                code="schedule.unknown_error_level",
            )
        if as_flag(enable_check) is None:
            raise WrongTypeError(
                f"`enable_check` must be a bool, got {a_thing(enable_check)}", code="schedule.wrong_argument_type"
            )
        self.state = ScheduleState(mod, debug_mask=debug_mask, enable_check=enable_check)
        self.trace = Trace()
        self.error_render_level = error_render_level
        check_seed(seed)
        self._random = LinearCongruentialEngine(seed)
        self._values: dict[Any, Any] = {}
        self._working_on = self._first_function()

    def _first_function(self) -> ir.GlobalVar | None:
        functions = self.mod.functions
        if len(functions) == 1:
            return next(iter(functions))
        return next((var for var in functions if var.name_hint == "main"), None)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """The primitives, which `install` adds as methods."""

    # ------------------------------------------------------------------ what it holds

    @property
    def mod(self) -> ir.IRModule:
        """The program as it is now."""
        return self.state.mod

    @property
    def func_working_on(self) -> ir.GlobalVar | None:
        """The function in which blocks are looked up."""
        return self._working_on

    def work_on(self, func_name: str) -> None:
        """Look blocks up in the function called `func_name` from now on."""
        self._working_on = self.mod.get_global_var(func_name)

    def copy(self) -> Schedule:
        """A schedule of its own at the same point; the random variables are valid in both."""
        new = type(self).__new__(type(self))
        new.state, mapping = self.state.copy()
        new.trace = self.trace.copy()
        new.error_render_level = self.error_render_level
        new._random = LinearCongruentialEngine(self.fork_seed())
        new._values = {rv: mapping.get(v, v) if isinstance(v, StmtSRef) else v for rv, v in self._values.items()}
        new._working_on = self._working_on
        return new

    def seed(self, seed: int) -> None:
        """Start the random samples again."""
        check_seed(seed)
        self._random.seed(seed)

    def fork_seed(self) -> int:
        """A seed for another schedule."""
        return self._random.fork_seed()

    def lower(self) -> ir.IRModule:
        """Return the program as it is now, `mod`."""
        return self.mod

    def script(self, **options: Any) -> str:
        """The program as TVMScript."""
        return self.mod.script(**options)

    def show(self, *args: Any, **kwargs: Any) -> None:
        """Print the program and the trace."""
        self.mod.show(*args, **kwargs)
        self.trace.show()

    def __repr__(self) -> str:
        return f"Schedule of {', '.join(v.name_hint for v in self.mod.functions)} after {len(self.trace.insts)} calls"

    # ------------------------------------------------------------------ random variables

    def get(self, rand_var_or_sref: Any) -> Any:
        """The block, loop or number that a random variable or a reference stands for now."""
        if isinstance(rand_var_or_sref, StmtSRef):
            return self._own_sref(rand_var_or_sref).stmt
        if isinstance(rand_var_or_sref, (BlockRV, LoopRV)):
            return self.get_sref(rand_var_or_sref).stmt
        return self._number(rand_var_or_sref)

    def get_sref(self, rand_var_or_stmt: Any) -> StmtSRef:
        """The reference that a random variable, a block or a loop has."""
        if isinstance(rand_var_or_stmt, StmtSRef):
            return self._own_sref(rand_var_or_stmt)
        if isinstance(rand_var_or_stmt, (ir.Block, ir.For)):
            own = self.state.get_sref(rand_var_or_stmt)
            return self._own_sref(own or StmtSRef(rand_var_or_stmt))
        if not isinstance(rand_var_or_stmt, (BlockRV, LoopRV)):
            raise WrongTypeError(
                f"expected a block or a loop, got {a_thing(rand_var_or_stmt)}", code="schedule.wrong_argument_type"
            )
        sref = self._values.get(rand_var_or_stmt)
        if sref is None:
            raise WrongIndexError(
                "the random variable does not belong to this schedule", code="schedule.variable_of_other_schedule"
            )
        if sref.stmt is None and sref not in (StmtSRef.inline_mark(), StmtSRef.root_mark()):
            raise ScheduleError(
                "the block or loop that the random variable named is gone", code="schedule.removed_statement"
            )
        return sref

    def _own_sref(self, sref: StmtSRef) -> StmtSRef:
        """Return the reference if it is a mark or in this program as it is now."""
        if sref in (StmtSRef.inline_mark(), StmtSRef.root_mark()):
            return sref
        if sref.stmt is None or self.state.get_sref(sref.stmt) is not sref:
            raise ScheduleError(
                f"cannot use {sref.label}: it does not belong to this schedule as it is now",
                code="schedule.statement_of_other_schedule",
            )
        return sref

    def remove_rv(self, rand_var: Any) -> None:
        """Forget a random variable."""
        if not isinstance(rand_var, (BlockRV, LoopRV, ir.Var)):
            raise WrongTypeError(
                f"expected a random variable, got {a_thing(rand_var)}", code="schedule.wrong_argument_type"
            )
        if self._values.pop(rand_var, None) is None:
            raise WrongIndexError(
                "the random variable does not belong to this schedule", code="schedule.variable_of_other_schedule"
            )

    def _length(self, value: Any) -> int | ir.PrimExpr | None:
        """A size as `_number` gives it, or an expression with `vscale()`."""
        if not isinstance(value, ir.PrimExpr) or not ContainsVscale()(value):
            return self._number(value)
        known = {v: n for v, n in self._values.items() if isinstance(v, ir.Var)}
        return Analyzer().canonical_simplify(ir.substitute(value, known))  # keeps `(n + m) // n`

    def _number(self, value: Any) -> int | None:
        """A size given as a number, a random variable or an expression of those."""
        if isinstance(value, int):
            check_64_bits(value)
        if value is None or isinstance(value, int):
            return value
        if isinstance(value, ir.IntImm):
            return value.value
        if isinstance(value, ir.Var) and value in self._values:
            return int(self._values[value])
        if isinstance(value, ir.PrimExpr):
            known = {v: n for v, n in self._values.items() if isinstance(v, ir.Var)}
            result = Analyzer().simplify(ir.substitute(value, known))
            if isinstance(result, ir.IntImm):
                return result.value
        raise TVMagicError(f"`{value}` is not a number in this schedule", code="schedule.number_of_other_schedule")

    def _plain_value(self, value: Any) -> Any:
        """A value with numbers in the place of random variables, also those in lists and mappings."""
        if is_row(value):
            return [self._plain_value(v) for v in value]
        if is_mapping(value):
            return {k: self._plain_value(v) for k, v in value.items()}
        if isinstance(value, ir.PrimExpr) and not isinstance(value, (ir.IntImm, ir.FloatImm, ir.StringImm)):
            return self._number(value)
        if isinstance(value, IndexMap):
            known = {var: self._values[var] for var in value.free_variables() if var in self._values}
            return value.with_values({var: ir.IntImm(var.dtype, int(size)) for var, size in known.items()})
        return value

    def can_decompose_padding(self, block: Any, loop: Any) -> bool:
        """Whether `decompose_padding(block, loop)` would be accepted."""
        kind = InstructionKind.get("DecomposePadding")
        if isinstance(block, str):
            block = self.run_primitive(InstructionKind.get("GetBlock"), {"name": block, "func_name": None})
        given = {"block": block, "loop": loop}
        values = {p.name: self._value(p, self._argument(kind, p, given[p.name])) for p in kind.parameters}
        return self.state.accepts(lambda: kind.function(self.state, **values))

    # ------------------------------------------------------------------ running

    def run_instruction(
        self, kind: InstructionKind, inputs: Sequence[Any], attrs: Sequence[Any], decision: Any = None
    ) -> list[Any]:
        """Run one instruction and add it to the trace; the random variables of its outputs."""
        if not is_row(inputs) or not is_row(attrs):
            raise WrongTypeError(
                "the inputs and attributes of an instruction must be lists", code="schedule.wrong_argument_type"
            )
        _check_kind(kind)
        single = sum(not p.many for p in kind.inputs)
        if (
            len(inputs) < single
            or len(attrs) > len(kind.attrs)
            or (len(inputs) > single and single == len(kind.inputs))
        ):
            raise TVMagicError(
                f"`{kind.name}` must have {len(kind.inputs)} inputs and {len(kind.attrs)} attributes, "
                f"got {len(inputs)} and {len(attrs)}",
                code="schedule.wrong_arguments",
            )
        result = self.run_primitive(kind, kind.gather(inputs, attrs), decision)
        return [] if result is None else flat([result])

    def run_primitive(self, kind: InstructionKind, arguments: dict[str, Any], decision: Any = None) -> Any:
        """Run a primitive on arguments by name and add the call to the trace; what its method gives back."""
        _check_kind(kind)
        if not is_mapping(arguments) or any(p.name not in arguments for p in kind.parameters):
            names = ", ".join(f"`{p.name}`" for p in kind.parameters)
            raise WrongTypeError(
                f"the arguments of `{kind.method}` must be a dict of {names}", code="schedule.wrong_arguments"
            )
        try:
            return self._run_and_record(kind, arguments, decision)
        except ScheduleError as error:
            if error.primitive is None:
                error.primitive = kind.method
                error.mod, error.level = self.mod, self.error_render_level
                error.args = (str(error),)
            raise

    def _run_and_record(self, kind: InstructionKind, arguments: dict[str, Any], decision: Any) -> Any:
        if self.sealed_by and not kind.is_pure:
            raise ScheduleError(
                f"cannot {kind.method}: the schedule belongs to {self.sealed_by}",
                hint="`SCHEDULE.copy()` is one to go on with",
                code="schedule.sealed",
            )
        if arguments.get("func_name", ...) is None and self._working_on is not None:
            arguments = {**arguments, "func_name": self._working_on.name_hint}
        prepared = {p.name: self._argument(kind, p, arguments[p.name]) for p in kind.parameters}
        values = {p.name: self._value(p, prepared[p.name]) for p in kind.parameters}
        if kind.prepare is not None:
            try:
                changes = kind.prepare(self.state, values)
            except (TypeError, ValueError, AttributeError, IndexError) as error:  # raised by a user's function
                raise TVMagicError(
                    f"`{kind.method}` cannot take these arguments: {error}", code="schedule.wrong_arguments"
                ) from error
            changes = {name: value for name, value in changes.items() if value is not values[name]}
            prepared.update(changes)
            values.update({p.name: self._value(p, changes[p.name]) for p in kind.parameters if p.name in changes})
        if kind.samples:
            decision = _attribute(decision)
            _check_type(kind, "decision", kind.decision, decision)
            values["random"], values["decision"] = self._random, decision
        result = self._perform(kind, values)
        if kind.samples:
            result, decision = result  # what was drawn, to be kept in the trace
        outputs, shaped = self._name_outputs(kind, result)
        inputs, attrs = kind.flatten(prepared)
        self.trace.append(Instruction(kind, inputs, attrs, outputs), decision if kind.samples else None)
        return shaped

    def _perform(self, kind: InstructionKind, values: dict[str, Any]) -> Any:
        variadic = next((p for p in kind.parameters if p.variadic), None)
        keywords = {k: v for k, v in values.items() if variadic is None or k != variadic.name}
        positional = values[variadic.name] if variadic is not None else ()

        def run() -> Any:
            with self.state.transaction():
                result = kind.function(self.state, *positional, **keywords)
                self.state.verify()
                return result

        def run_recorded() -> Any:
            before, start = self.mod, new_origin()
            result = run()
            record_new_origins(before, self.mod, start)
            return result

        if kind.is_pure or not passes.is_watched():
            return run()
        return passes.run_step(
            kind.method,
            run_recorded,
            kind="schedule",
            before=self.mod,
            after=lambda _: self.mod,
            options={p.name: _shown(values[p.name]) for p in kind.parameters if not _is_default(p, values[p.name])},
            span=passes.user_call(),
        )

    def _argument(self, kind: InstructionKind, p: Parameter, value: Any) -> Any:
        """An argument as the trace keeps it: names of blocks looked up, expressions converted."""
        if p.role is None:
            value = _attribute(value)
            if isinstance(value, ir.StringImm):
                value = value.value
            _check_type(kind, p.name, p.annotation, value)
            return value
        if p.role == "BlocksIn" and value is None:
            return []
        if p.many:
            return [self._one_input(kind, p, v) for v in (value if is_row(value) else [value])]
        return self._one_input(kind, p, value)

    def _one_input(self, kind: InstructionKind, p: Parameter, value: Any) -> Any:
        if p.role == "Value":
            return _attribute(value)
        if p.role in ("Sizes", "Lengths", "Size"):
            return ir.convert(value) if isinstance(value, bool) or hasattr(value, "asobject") else value
        if p.role == "LoopOrBlocks" and is_row(value):
            return [self._one_input(kind, replace(p, role="BlocksIn"), v) for v in value]
        if isinstance(value, str) and p.role in ("BlockRef", "BlocksIn", "BlockOrLoop"):
            return self.run_primitive(InstructionKind.get("GetBlock"), {"name": value, "func_name": None})
        expected = _EXPECTED.get(p.role or "", (BlockRV, LoopRV))
        if not isinstance(value, expected):
            wanted = " or ".join({BlockRV: "a block", LoopRV: "a loop"}[c] for c in expected)
            hint = "`get_loops(BLOCK)` gives the loops around a block" if isinstance(value, (str, int)) else None
            raise TVMagicError(
                f"`{kind.method}` takes {wanted} as `{p.name}`, not {type(value).__name__}",
                hint=hint,
                code="schedule.wrong_argument_type",
            )
        return value

    def _value(self, p: Parameter, value: Any) -> Any:
        """An argument as the primitive takes it: references and numbers."""
        if p.role is None:
            return value
        if p.many:
            return [self._one_value(p, v) for v in value]
        return self._one_value(p, value)

    def _one_value(self, p: Parameter, value: Any) -> Any:
        if p.role in ("Sizes", "Size"):
            return self._number(value)
        if p.role == "Lengths":
            return self._length(value)
        if p.role == "Value":
            return self._plain_value(value)
        if is_list(value):
            return [self.get_sref(v) for v in value]
        return self.get_sref(value)

    def _name_outputs(self, kind: InstructionKind, result: Any) -> tuple[list[Any], Any]:
        """New random variables for what came out, in a list and in the shape that users get."""
        if kind.outputs is None:
            return [], None
        if kind.outputs in ("Loops", "Blocks", "Sizes"):
            named = [self._new_variable(kind, value) for value in result]
            return named, list(named)  # the caller's list is not the trace's
        one = self._new_variable(kind, result)
        return [one], one

    def _new_variable(self, kind: InstructionKind, value: Any) -> Any:
        if value is None:  # a size to be worked out
            return None
        if kind.outputs in ("Size", "Sizes"):
            rv: Any = ir.Var(f"v{len(self._values)}", "int32")
            self._values[rv] = int(value)
            return rv
        if not isinstance(value, StmtSRef):
            raise DefectError(f"`{kind.method}` gave no reference", code="schedule.no_reference_returned")
        name = value.stmt.loop_var.name if isinstance(value.stmt, ir.For) else getattr(value.stmt, "name_hint", "")
        rv = LoopRV(name) if kind.outputs in ("Loop", "Loops") else BlockRV(name)
        self._values[rv] = value
        return rv


def _check_kind(kind: Any) -> None:
    if not isinstance(kind, InstructionKind):
        raise WrongTypeError(
            f"expected an InstructionKind, got {a_thing(kind)}",
            hint='write `InstructionKind.get("Split")`',
            code="schedule.wrong_argument_type",
        )


def _check_type(kind: InstructionKind, name: str, annotation: str, value: Any) -> None:
    """Refuse a value that is none of an argument's annotation."""
    wanted = annotation.removesuffix(" | None")
    fits = _ATTRIBUTE_KINDS.get(wanted)
    if fits is None or fits(value) or (value is None and wanted != annotation):
        return
    raise TVMagicError(
        f"`{kind.method}` takes {wanted} as `{name}`, not {type(value).__name__}", code="schedule.wrong_argument_type"
    )


def _attribute(value: Any) -> Any:
    """An attribute as the trace keeps it: what the caller may still change is copied."""
    if isinstance(value, int):
        check_64_bits(value)
    if isinstance(value, range):
        return list(value)
    if is_list(value):
        return [_attribute(v) for v in value]
    if is_tuple(value):
        return tuple([_attribute(v) for v in value])
    if is_mapping(value):
        return {k: _attribute(v) for k, v in value.items()}
    return value


def _method(kind: InstructionKind) -> Callable[..., Any]:
    """The method of `Schedule` that calls a primitive."""
    parameters = [p for p in kind.signature.parameters.values() if p.name not in ("state", "random")]
    receiver = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    signature = kind.signature.replace(parameters=[receiver, *parameters])
    known = {written: name for name, written in kind.spelling.items()}

    def method(self: Schedule, *args: Any, **kwargs: Any) -> Any:
        try:
            bound = signature.bind(self, *args, **{known.get(name, name): value for name, value in kwargs.items()})
        except TypeError as error:
            form = f"`{kind.method}{parameters_text(signature)}`"
            raise TVMagicError(
                f"`{kind.method}`: {error}", hint=f"it is called as {form}", code="schedule.wrong_arguments"
            ) from None
        bound.apply_defaults()
        arguments = dict(bound.arguments)
        arguments.pop("self")
        return self.run_primitive(kind, arguments, arguments.pop("decision", None))

    method.__name__ = method.__qualname__ = kind.method
    method.__doc__ = kind.doc
    method.__signature__ = signature  # type: ignore[attr-defined]
    return method


def install(cls: type) -> None:
    """Give a class a method for each primitive: those declared so far, and those declared later."""

    def add(kind: InstructionKind) -> None:
        setattr(cls, kind.method, _method(kind))

    for kind in InstructionKind.methods.values():
        add(kind)
    InstructionKind.listeners.append(add)


def _shown(value: Any) -> Any:
    """An argument as a record shows it: blocks and loops by their names."""
    if isinstance(value, StmtSRef):
        if value.stmt is None:
            return "inlined" if value is StmtSRef.inline_mark() else "the root"
        return value.stmt.name_hint if isinstance(value.stmt, ir.Block) else value.stmt.loop_var.name
    return f"[{', '.join(str(_shown(v)) for v in value)}]" if is_row(value) else value


def _is_default(p: Parameter, value: Any) -> bool:
    """Whether an argument is what it is without being named."""
    return value is None or (isinstance(value, (bool, int, str)) and value == p.default)
