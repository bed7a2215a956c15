"""An operator: a computation on arrays with its schedules, its compiled kernels and its reference."""

from __future__ import annotations

import inspect
import keyword
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tvmagic import te
from tvmagic.codegen import has_llvm, last_program
from tvmagic.errors import TVMagicError, WrongTypeError, a_thing, visible
from tvmagic.ir import IntImm, IRModule, PrimExpr, PrimFunc, Var
from tvmagic.ir.schedulable import Schedulable, notation_of
from tvmagic.ir.views import viewed
from tvmagic.lazy import cached_property
from tvmagic.notation.source import Source, known_sources
from tvmagic.operators.access_bounds import Accesses
from tvmagic.operators.arrays import (
    as_array,
    check_inputs,
    empty_outputs,
    shapes_of,
    size_values,
    symbols_of,
)
from tvmagic.operators.attribute_suggestions import AttributeSuggestions
from tvmagic.operators.codegen_steps import add_code_steps
from tvmagic.operators.partial_pipeline import Edited
from tvmagic.operators.preconditions import Preconditions
from tvmagic.operators.version import Version, arrays_text, function_of
from tvmagic.passes import Record, recording
from tvmagic.te.nonempty_reductions import nonempty_sizes
from tvmagic.te.schedule.graph import create_read_graph, post_dfs_order
from tvmagic.tir.analysis.least_sizes import with_conditions

if TYPE_CHECKING:
    from tvmagic.notation.assertions import Assertion
    from tvmagic.operators.measure import CheckResult
    from tvmagic.prove.proof import Proof

__all__ = ["Operator", "Version", "as_operator", "function_of"]

USUAL_SIZE = 256
MOST_ITERATIONS = 1 << 22


@viewed("operator")
class Operator(AttributeSuggestions):
    """A computation from input arrays to output arrays.

    Made by a `%%tensor` cell or by `tvmagic.operators.operator(name, text)`. Calling it with NumPy arrays (or anything with
    `__dlpack__` or `__array__`) computes with the version that was scheduled last; without any, with the plain loops.

    Attributes
    ----------
    name: its name; also that of the compiled function.
    inputs, outputs: tensors (or buffers, if it was written as a `prim_func`). A buffer that is read and then
        written is both; a call copies its array and gives the updated copy.
    tensors: all tensors of its cell by name.
    axes: the axes of `te.reduce_axis` that its cell names.
    versions: the schedules given so far, by name.
    remarks: what of the cell may be meant otherwise.
    notation: what it was written in, `cinn` for CINN's text, else `tvmscript`: its steps are shown in it.
    attempt: the last schedule tried; if its cell failed, as it was before the failing call.
    assertions: the preconditions of its cell.
    example_inputs: what checks, timings and pages take for random inputs: a dict of arrays by name, a tuple of them in the
        order of `inputs`, or a function of a `np.random.Generator` that returns either. None by default.
    check_bounds: whether assertions are tested and compiled accesses are checked while they run. True unless there is no assertion and all accesses are proved to be inside their tensors; those that depend on data, as in `X[I[i]]`, are not. Set it to False for speed, if
        the arrays are known to be right.
    """

    def __init__(
        self,
        name: str,
        inputs: Sequence[Any],
        outputs: Sequence[Any],
        *,
        source: Source | None = None,
        tensors: Mapping[str, Any] | None = None,
        prim_func: PrimFunc | None = None,
    ) -> None:
        self.name, self.inputs, self.outputs = name, tuple(inputs), tuple(outputs)
        for tensor in self.args:
            if tensor.dtype.is_handle:
                raise TVMagicError(
                    f"`{tensor.name}` of `{name}` holds no numbers, its dtype is `{tensor.dtype}`",
                    code="operator.unsupported_dtype",
                )
        self.source = source
        self.tensors = dict(tensors or {t.name: t for t in (*inputs, *outputs)})
        self.axes: dict[str, Any] = {}
        self.prim_func = prim_func
        self.remarks: list[str] = []
        self.assertions: tuple[Assertion, ...] = ()
        self.example_inputs: Any = None
        self._check_bounds: bool | None = None
        self.notation = notation_of(prim_func)
        self.versions: dict[str, Version] = {}
        self.attempt: Version | None = None
        self._plain: Version | None = None

    def __getstate__(self) -> dict[str, Any]:
        """What a pickle or a copy holds: all but what is found again, by the identity of tensors."""
        return {
            name: value for name, value in self.__dict__.items() if name not in ("accesses", "symbols", "preconditions")
        }

    @staticmethod
    def from_prim_func(name: str, func: PrimFunc, source: Source | None = None) -> Operator:
        """The operator of a TensorIR function: what it only reads are the inputs, the rest outputs.

        What it reads before it writes it is both: a call copies the array that it is given, and updates the copy.
        """
        from tvmagic.operators.analysis import check_loops_end, read_before_written, without_views, written_buffers

        check_loops_end(func)
        bare = without_views(func)
        written = written_buffers(bare)
        buffers = [func.buffer_map[p] for p in func.params if p in func.buffer_map]
        if len(buffers) != len(func.params):
            raise TVMagicError(
                f"`{name}` takes a scalar; an operator takes and gives buffers only", code="operator.scalar_parameter"
            )
        outputs = [b for b in buffers if any(b is w for w in written)]
        if not outputs:
            raise TVMagicError(f"the function `{name}` writes none of its buffers", code="operator.no_output")
        updated = read_before_written(bare, outputs)
        fresh = [b for b in outputs if all(b is not u for u in updated)]
        inputs = [b for b in buffers if all(b is not f for f in fresh)]
        if any(b is not p for b, p in zip(buffers, [*inputs, *fresh])):
            raise TVMagicError(
                f"the function `{name}` takes its outputs after its inputs",
                hint="reorder the parameters",
                code="operator.outputs_not_last",
            )
        func = func.with_attr("global_symbol", name)
        return Operator(name, inputs, outputs, source=source, prim_func=func)

    # ------------------------------------------------------------------------ schedules

    @property
    def args(self) -> list[Any]:
        """The arguments of the compiled function: inputs, then outputs that are not inputs as well."""
        return [*self.inputs, *(t for t in self.outputs if not self.is_input(t))]

    def is_input(self, tensor: Any) -> bool:
        """Whether a tensor or buffer is among the inputs; an output that is one is updated in place."""
        return any(tensor is t for t in self.inputs)

    def fresh_outputs(self, values: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Arrays for the outputs: copies of what is updated, zeros for `left_unwritten`, the others without content."""
        outputs = empty_outputs(self.outputs, size_values(self.inputs, values))
        for output, left in zip(outputs, self.left_unwritten):
            if left:
                output.fill(0)
        self.start(values, outputs)
        return outputs

    @cached_property
    def left_unwritten(self) -> tuple[bool, ...]:
        """For each output, whether elements of it may be left without a value; True of a TensorIR function's alone."""
        from tvmagic.operators.uninitialized_outputs import left_unwritten

        return left_unwritten(self.prim_func, self.inputs, self.outputs)

    def start(self, values: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> None:
        """Copy the inputs that are updated into the arrays of the outputs."""
        for output, array in zip(self.outputs, outputs):
            for tensor, value in zip(self.inputs, values):
                if tensor is output and value is not array:
                    np.copyto(array, value)

    def arguments(self, values: Sequence[Any], outputs: Sequence[Any]) -> list[Any]:
        """The arrays of `args`; what is updated is the array among the outputs."""
        updated = {id(t): a for t, a in zip(self.outputs, outputs)}
        inputs = [updated.get(id(t), value) for t, value in zip(self.inputs, values)]
        return [*inputs, *(a for t, a in zip(self.outputs, outputs) if not self.is_input(t))]

    def te_schedule(self) -> Any:
        """A fresh TE schedule, with every stage at the root.

        Raises `TVMagicError` where the operator was written as a TensorIR function.
        """
        if self.prim_func is not None:
            raise TVMagicError(
                f"`{self.name}` is a TensorIR function and has no TE schedule",
                hint="%graph shows its blocks, and a %%schedule cell has its TensorIR schedule as `sch`",
                code="operator.no_te_schedule",
            )
        return te.create_schedule([t.op for t in self.outputs])

    def to_prim_func(self) -> PrimFunc:
        """The TensorIR function before any scheduling. Raises WrongTypeError for an operator with a scan, which has none."""
        if self.prim_func is not None:
            return self.prim_func
        try:
            return te.create_prim_func(self.args).with_attr("global_symbol", self.name)
        except WrongTypeError as error:
            error.hint = (
                error.hint or f"`{self.name}` has TE schedules alone: `%auto {self.name}`, or `s` in a %%schedule cell"
            )
            raise

    def schedule(self) -> Any:
        """A fresh TensorIR schedule of the function `main`."""
        from tvmagic.tir.schedule import Schedule

        return Schedule(self.to_prim_func())

    # ------------------------------------------------------------------------ compiling

    @cached_property
    def accesses(self) -> Accesses:
        """What is known of the places that the operator reads and writes."""
        return Accesses(self.outputs, self.prim_func)

    @cached_property
    def symbols(self) -> list[Var]:
        """The symbolic sizes, in the order in which the inputs have them."""
        return symbols_of(self.inputs)

    @cached_property
    def computed_reductions(self) -> list[PrimExpr]:
        """Extents of reductions that are neither constant nor a dimension of an input, such as `n - 1`."""
        roots = [] if self.prim_func is not None else [t.op for t in self.outputs]
        dimensions = {size for t in self.inputs for size in t.shape if isinstance(size, Var)}
        graph = post_dfs_order(roots, create_read_graph(roots))
        extents = [axis.dom.extent for op in graph for axis in op.reduce_axis if axis.dom is not None]
        return [e for e in extents if not isinstance(e, IntImm) and not (isinstance(e, Var) and e in dimensions)]

    @cached_property
    def usual_size(self) -> int:
        """The value that symbolic sizes have by default where it is measured or checked: 256, or as many halves of it
        as it takes for no stage, and no input, to have more than 4 million iterations or elements."""
        from tvmagic.operators.analysis import iterations

        size = USUAL_SIZE
        while size > 8 and any(
            count > MOST_ITERATIONS for count in iterations(self, dict.fromkeys(self.symbols, size))
        ):
            size //= 2
        return size if self.symbols else USUAL_SIZE

    @property
    def check_bounds(self) -> bool:
        """Whether assertions are tested, and compiled accesses are checked while they run."""
        return bool(self.accesses.open or self.assertions) if self._check_bounds is None else self._check_bounds

    @check_bounds.setter
    def check_bounds(self, wanted: bool) -> None:
        self._check_bounds = wanted

    @property
    def checks_accesses(self) -> bool:
        """Whether code is compiled with checks of its accesses: not by default if all are proved to be inside."""
        return bool(self.accesses.open) if self._check_bounds is None else self._check_bounds

    @cached_property
    def preconditions(self) -> Preconditions:
        """The test of the cell's assertions."""
        return Preconditions(self.name, self.inputs, self.assertions, Operator.from_prim_func)

    def test_preconditions(self, values: Sequence[np.ndarray]) -> None:
        """Raise a PreconditionError if arrays, which fit the inputs, violate an assertion of the cell."""
        if self.check_bounds:
            self.test_assertions(values)

    def test_assertions(self, values: Sequence[np.ndarray]) -> None:
        """As `test_preconditions`, also if `check_bounds` is False."""
        if self.assertions:
            self.preconditions.test(values)

    def lower(self, schedule: Any = None, **options: Any) -> IRModule:
        """The lowered module of a schedule (TE or TensorIR; the plain loops if left out)."""
        from tvmagic.driver import lower

        if schedule is None:
            schedule = self.te_schedule() if self.prim_func is None else self.prim_func
        if isinstance(schedule, Version):
            schedule = schedule.schedule
        if isinstance(schedule, Edited):
            return schedule.lower()
        if isinstance(schedule, Schedulable) and not schedule.needs_args:
            schedule = schedule.lower()
        if isinstance(schedule, IRModule) and len(schedule.functions) == 1:  # a call keeps its arrays apart
            schedule = next(iter(schedule.functions.values()))
        if isinstance(schedule, (PrimFunc, IRModule)):
            return lower(schedule, name=self.name, **options)
        return lower(schedule, self.args, name=self.name, **options)

    def build(self, schedule: Any = None, target: Any = None) -> Any:
        """The compiled module of a schedule; call it with inputs and outputs."""
        from tvmagic.codegen import compile_module
        from tvmagic.driver import with_checks

        with with_checks(self.checks_accesses):
            lowered = self.lower(schedule)
        return compile_module(self.with_needed_sizes(lowered), target, self.checks_accesses)

    def with_needed_sizes(self, lowered: IRModule) -> IRModule:
        """`lowered` with assertions on the sizes that reductions without a value for no elements need."""
        needed = [] if self.prim_func is not None else nonempty_sizes([t.op for t in self.outputs])
        if not needed:
            return lowered
        return IRModule({var: with_conditions(func, needed) for var, func in lowered.functions.items()})

    def passes(
        self, schedule: Any = None, target: Any = None, code: bool = True, llvm: str = "none", late: bool = False
    ) -> Record:
        """Return the record of lowering and (unless `code` is False) of code generation.

        `schedule` is a version, a schedule or None for the plain loops; the schedule calls that a
        version recorded come first. `late`: also run the late passes if `code` is False. `llvm`: LLVM's own passes that changed the program, too: `loops` (those that change
        loops, with the others between them as one step), `all` or `none`.
        """
        version = schedule if isinstance(schedule, Version) else Version(self, schedule)
        calls = [s for s in version.record if s.kind == "schedule"] if version.record is not None else []
        if isinstance(version.schedule, Edited):
            calls = version.schedule.steps
        record = Record(list(calls), self.name)
        if isinstance(version.schedule, Edited):
            record.parents.update(version.schedule.parents)
        if version.record is not None:
            record.parents.update(version.record.parents)
        with recording(record=record):
            module = self.lower(version.schedule)
            record.lowered = len(record)
            if code:
                add_code_steps(record, module, target, llvm)
            elif late and has_llvm():
                last_program(module, target)
        if version.record is not None:
            record.sources.update(version.record.sources)
        self.add_sources(record)
        return record

    def add_sources(self, record: Record) -> None:
        """Keep the texts of the cells that the record's places are in, and what they are written in."""
        record.notation = self.notation
        names = {self.source.name} if self.source else set()
        names |= {step.span.source for step in record if step.span is not None}
        record.sources.update(known_sources(names))

    def add_version(self, version: Version) -> None:
        """Add a schedule; calls of the operator use it from now on."""
        self.versions.pop(version.name, None)
        self.versions[version.name] = version

    @property
    def current(self) -> Version:
        """The version that a call uses: the one scheduled last, or the plain loops."""
        if self.versions:
            return next(reversed(self.versions.values()))
        return self.plain

    @property
    def plain(self) -> Version:
        """The plain loops."""
        if self._plain is None:
            self._plain = Version(self, None, "plain")
        return self._plain

    def version(self, name: str | None = None) -> Version:
        """The version called `name`; `plain` is the one without a schedule, unless one was given that name."""
        if name is None:
            return self.current
        if name == "plain" and name not in self.versions:
            return self.plain
        if name not in self.versions:
            known = ", ".join(f"`{n}`" for n in ["plain", *self.versions])
            raise TVMagicError(
                f"`{self.name}` has no version `{name}`", hint=f"there are {known}", code="operator.unknown_version"
            )
        return self.versions[name]

    # ------------------------------------------------------------------------ running

    def __call__(self, *arrays: Any, out: Any = None, **named: Any) -> Any:
        """Compute on arrays with the current version.

        Parameters
        ----------
        arrays: one for each of `inputs`, of their shapes and dtypes; also by name.
        out: the array (or a tuple of them) to write into, instead of fresh ones; it may be one of `arrays`, which
            is then updated in place.

        Returns the output array, or a tuple of them if there are several.
        """
        return self.current(*arrays, out=out, **named)

    def reference(self, *arrays: Any, **named: Any) -> Any:
        """The same computation in NumPy, made from the expression and independent of the compiler."""
        values = check_inputs(self.name, self.inputs, self.bind(arrays, named))
        self.test_preconditions(values)
        if self.prim_func is not None:
            from tvmagic.eval.machine import run_function

            outputs = self.fresh_outputs(values)
            for output in (o for t, o in zip(self.outputs, outputs) if not self.is_input(t)):
                output.fill(0)
            run_function(self.prim_func, self.arguments(values, outputs))
            return outputs[0] if len(outputs) == 1 else tuple(outputs)
        from tvmagic.te.reference import evaluate_all

        shapes_of(self.outputs, size_values(self.inputs, values))  # none is below 0
        results = evaluate_all(self.outputs, dict(zip(self.inputs, values)))
        return results[0] if len(results) == 1 else tuple(results)

    def bind(self, arrays: Sequence[Any], named: Mapping[str, Any]) -> list[Any]:
        """The arguments in order, from positions and names."""
        if not named and len(arrays) == len(self.inputs):
            return [as_array(array, t.name) for array, t in zip(arrays, self.inputs)]
        names = [t.name for t in self.inputs]
        for name in named:
            if name not in names:
                raise TVMagicError(
                    f"`{self.name}` has no input `{name}`",
                    hint="its inputs are " + ", ".join(f"`{n}`" for n in names),
                    code="operator.unknown_input",
                )
        values = dict(zip(names, arrays))
        for name in named:
            if name in values:
                raise TVMagicError(
                    f"`{name}` of `{self.name}` is given twice, by its place and by its name",
                    code="operator.input_given_twice",
                )
        values.update(named)
        missing = [n for n in names if n not in values]
        if missing or len(arrays) > len(names):
            count = len(arrays) + len(named)
            raise TVMagicError(
                f"`{self.name}` takes {arrays_text(len(names))}, {count} {'was' if count == 1 else 'were'} given",
                hint=f"call it as `{self.call_text}`",
                code="operator.wrong_input_count",
            )
        return [as_array(values[n], n) for n in names]

    def random_inputs(
        self,
        seed: int = 0,
        sizes: Mapping[str, int] | int = 16,
        coarse: bool = False,
        full_range: Sequence[Any] = (),
    ) -> list[np.ndarray]:
        """Random arrays to try the operator on; symbolic sizes become `sizes`. Indices stay inside, and assertions hold.

        `coarse`: floats of few bits, whose sums are exact. `full_range`: the inputs of integers that cover the whole range of
        their dtype.
        """
        from tvmagic.operators.inputs import random_inputs_of

        return random_inputs_of(self, seed, sizes, coarse, full_range)

    def check(
        self,
        version: str | None = None,
        seed: int = 0,
        sizes: Mapping[str, int] | int = 16,
        target: Any = None,
        against: Callable[..., Any] | tuple[str, Callable[..., Any]] | None = None,
        inputs: Any = None,
    ) -> CheckResult:
        """Compare a version (the last by default) with the reference on random inputs, and look for races in its loops.

        `inputs`: a dict of arrays by name (what is missing is random), a tuple of them, or a function of a
        `np.random.Generator` that returns either; by default `example_inputs`.
        `target`: what to compile it for, such as `aarch64-sve`; it is run by an emulator where this machine cannot
        (docs/targets.md). By default it is this machine.
        `against`: a function of the inputs to compare with instead of the reference, perhaps with its name.
        """
        from tvmagic.operators.measure import check

        return check(self.version(version), seed, sizes, target, against, inputs)

    def prove(
        self,
        version: Version | str | None = None,
        *,
        program: PrimFunc | IRModule | None = None,
        sizes: Mapping[str, int] | int | None = None,
        seconds: float = 60.0,
        points: int = 3,
        seed: int = 0,
    ) -> Proof:
        """Prove that each step of a version (the last by default) computes the same function as the definition.

        docs/prove.md says what is claimed. A program that is wrong raises nothing: the proof says so.

        Parameters
        ----------
        program: prove this program with the operator's arguments, at any stage of lowering, instead of a version's steps.
        sizes: values of symbolic sizes; by default several small ones around the factors of the schedule.
        seconds: time for all steps. If it cannot suffice, some iterations of the outermost loops are sampled.
        points: random points at which terms are compared; more make a wrong `proved` less likely.
        """
        from tvmagic.operators.proving import prove

        return prove(self, version, program=program, sizes=sizes, seconds=seconds, points=points, seed=seed)

    # ------------------------------------------------------------------------ text

    @property
    def __signature__(self) -> inspect.Signature:
        """How it is called, for help and completion: its inputs by name, if these are names."""
        names = [t.name for t in self.inputs]
        if not all(n.isidentifier() and not keyword.iskeyword(n) for n in names) or len({*names, "out"}) <= len(names):
            return inspect.signature(type(self).__call__.__get__(self))
        either, alone = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
        parameters = [inspect.Parameter(t.name, either, annotation=_Shown(tensor_type(t))) for t in self.inputs]
        outputs = _Shown(", ".join(tensor_type(t) for t in self.outputs))
        parameters.append(inspect.Parameter("out", alone, default=None))
        return inspect.Signature(parameters, return_annotation=outputs)

    @property
    def signature(self) -> str:
        """`dense(X: float32[128, 256], b: float32[64]) -> Z: float32[128, 64]`"""
        inputs = ", ".join(f"{t.name}: {tensor_type(t)}" for t in self.inputs)
        outputs = ", ".join(f"{t.name}: {tensor_type(t)}" for t in self.outputs)
        return visible(f"{self.name}({inputs}) -> {outputs}")

    @property
    def call_text(self) -> str:
        """How it is called: `dense(X, W, b)`."""
        return visible(f"{self.name}({', '.join(t.name for t in self.inputs)})")

    def __repr__(self) -> str:
        return f"<Operator {self.signature}>"


class _Shown(str):
    """An annotation that is shown without quotes."""

    def __repr__(self) -> str:
        return str(self)


def as_operator(value: Any, name: str | None = None) -> Operator:
    """An operator as it is, or that of a function, a module, a schedule of TensorIR or CINN, or a tiling of Ascend.

    `name`: what it is called, by default as the function is. `TVMagicError` for anything else.
    """
    if isinstance(value, Operator):
        return value
    func = function_of(value)
    if func is None:
        raise TVMagicError(
            f"{a_thing(value)} is not an operator, and not one function",
            hint="a %%tensor cell makes an operator; a PrimFunc, an IRModule with one, a tir.Schedule, a cinn.IRSchedule and an "
            "ascend.Tiling are taken, too",
            code="operator.not_an_operator",
        )
    return Operator.from_prim_func(name or str(func.attrs.get("global_symbol", "main")), func)


def tensor_type(tensor: Any) -> str:
    """`float32[128, n]` of a tensor or a buffer."""
    sizes = ", ".join(_size_text(s) for s in tensor.shape)
    return f"{tensor.dtype}[{sizes}]" if len(tensor.shape) else str(tensor.dtype)


def _size_text(size: Any) -> str:
    if isinstance(size, IntImm):
        return str(size.value)
    return size.name if isinstance(size, Var) else str(size)
