"""The operations of tensor expressions as JavaScript: loops over their axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tvmagic import ir
from tvmagic.errors import TVMagicError
from tvmagic.operators.arrays import evaluate_size
from tvmagic.operators.javascript.expressions import EXACT, ExpressionWriter, Value, as_big, check_type
from tvmagic.te.reference import simple_combiner
from tvmagic.te.schedule.graph import create_read_graph, post_dfs_order, scan_get_body
from tvmagic.te.tensor import ComputeOp, ConstantOp, ExternOp, PlaceholderOp, ScanOp, Tensor

_ARRAYS = {
    "bool": "Uint8Array", "int8": "Int8Array", "uint8": "Uint8Array", "int16": "Int16Array", "uint16": "Uint16Array",
    "int32": "Int32Array", "uint32": "Uint32Array", "int64": "BigInt64Array", "uint64": "BigUint64Array",
    "float16": "Float32Array", "bfloat16": "Float32Array", "float32": "Float32Array", "float64": "Float64Array",
}  # fmt: skip


def array_type(dtype: ir.DataType) -> str:
    """The array in JavaScript that holds values of a type; 16-bit floats are held in 32 bits."""
    check_type(dtype, None)
    return _ARRAYS[str(dtype)]


class ProgramWriter(ExpressionWriter):
    """Writes the operations of tensor expressions, each as loops over its axes."""

    def __init__(self, bounds: bool, sizes: Mapping[ir.Var, int]) -> None:
        super().__init__(bounds)
        self.sizes = dict(sizes)
        for var, size in sizes.items():
            self.env[var] = Value(str(size))
            self.intervals.known[var] = (size, size)
        self.arrays: dict[Any, str] = {}  # of tensors and of the pointers of buffers
        self.errors: dict[str, str] = {}  # the arrays of errors by the name of the array
        self.may_be_open = False  # whether rounding may decide what runs: the variable `open` says whether it did

    # ------------------------------------------------------------------ arrays

    def size(self, value: Any) -> int:
        """A dimension as a number."""
        return evaluate_size(value, self.sizes)

    def ends(self, domain: ir.Range | None) -> tuple[int, int]:
        """The first value of a range and the one after its last; a negative size is no iteration."""
        assert domain is not None
        low = self.size(domain.min)
        return low, low + max(self.size(domain.extent), 0)

    def shape(self, tensor: Any) -> list[int]:
        return [self.size(s) for s in tensor.shape]

    def declare(self, tensor: Any, text: str = "", key: Any = None) -> str:
        """A new array for a tensor or buffer, or a name for the array `text`."""
        count = 1
        for size in self.shape(tensor):
            count *= size
        name = self.name("a")
        self.lines.append(f"const {name} = {text or f'new {array_type(tensor.dtype)}({count})'};")
        self.arrays[key if key is not None else tensor] = name
        return name

    def declare_errors(self, array: str) -> str:
        """The array of the errors of an array, made at its first use."""
        if array not in self.errors:
            self.errors[array] = f"e{array}"
        return self.errors[array]

    def result(self, tensor: Any) -> str:
        name = self.arrays[tensor]
        if not self.bounds:
            return name
        error = self.errors.get(name, "null")
        if self.may_be_open:
            error = f"open ? new Float32Array({name}.length).fill(Infinity) : {error}"
        return f"{{ value: {name}, error: {error} }}"

    def flat(self, tensor: Any, indices: Sequence[str]) -> str:
        """The place of an element, row by row."""
        text = ""
        for size, index in zip(self.shape(tensor), indices):
            text = index if not text else f"({text}) * {size} + {index}"
        return text or "0"

    def element(self, array: str, place: str, dtype: ir.DataType) -> Value:
        """The element of an array at a place."""
        at = self.name("p")
        self.lines.append(f"const {at} = {place};")
        if dtype.is_bool:
            value = self.bind(dtype, f"{array}[{at}] !== 0")
        else:
            name = self.name()
            self.lines.append(f"const {name} = {array}[{at}];")
            value = Value(name, EXACT, dtype.bits == 64 and not dtype.is_float)
        errors = self.errors.get(array)
        return self.with_error(value, f"{errors}[{at}]") if errors else value

    @ir.handles(ir.ProducerLoad)
    def load(self, node: ir.ProducerLoad) -> Value:
        tensor: Any = node.producer
        if tensor not in self.arrays:
            raise TVMagicError(f"`{tensor.name}` has no array", node=node, code="javascript.missing_array")
        place = self.flat(tensor, [self.number(i) for i in node.indices])
        return self.element(self.arrays[tensor], place, tensor.dtype)

    def stored(self, value: Value, dtype: ir.DataType) -> str:
        """A value as it is stored in an array."""
        if dtype.is_bool:
            return f"{value.text} ? 1 : 0"
        if dtype.bits == 64 and not dtype.is_float and not value.big:
            return f"BigInt({value.text})"
        return value.text

    # ------------------------------------------------------------------ operations

    def operations(self, roots: Sequence[Any]) -> None:
        """All operations that `roots` need, in order."""
        graph = create_read_graph(roots)
        inside = {op for op in graph if isinstance(op, ScanOp) for op in scan_get_body(op)}
        for op in post_dfs_order(roots, graph):
            if isinstance(op, PlaceholderOp) or op in inside and op not in roots or op.outputs[0] in self.arrays:
                continue
            if isinstance(op, ComputeOp):
                self.compute(op)
            elif isinstance(op, ScanOp):
                self.scan(op)
            elif isinstance(op, ExternOp) and not isinstance(op, ConstantOp):
                self.extern(op)
            else:
                raise TVMagicError(
                    f"`{op.name}` is a {op.kind}, which has no form in JavaScript",
                    code="javascript.unsupported_operation",
                )

    def extern(self, op: ExternOp) -> None:
        """An operation that is a statement (`statements.py`)."""
        raise NotImplementedError

    def loop(self, var: ir.Var, low: str, high: str, known: tuple[int, int]) -> str:
        """Open a loop of `var` from `low` to before `high`."""
        name = self.name("i")
        self.env[var] = Value(name)
        self.intervals.known[var] = known
        self.lines.append(f"for (let {name} = {low}; {name} < {high}; {name}++) {{")
        return name

    def loops(self, axes: Sequence[Any], first: tuple[str, str, tuple[int, int]] | None = None) -> list[str]:
        """Open loops over axes; `first` is the range of the first one, if that is another than its own."""
        names: list[str] = []
        for number, axis in enumerate(axes):
            low, high = self.ends(axis.dom)
            bounds = (str(low), str(high), (low, max(high - 1, low)))
            names.append(self.loop(axis.var, *(first if number == 0 and first else bounds)))
        return names

    def compute(
        self, op: ComputeOp, first: tuple[str, str, tuple[int, int]] | None = None, head: int | None = None
    ) -> None:
        """A computation: loops over its axes, and one over the reduced axes inside.

        Memory for errors is declared at the line `head`, or before the loops.
        """
        names = [self.arrays[t] if t in self.arrays else self.declare(t) for t in op.outputs]
        head = len(self.lines) if head is None else head
        with self.scope():
            indices = self.loops(op.axis, first)
            shape = op.outputs[0]
            lows = [self.ends(axis.dom)[0] for axis in op.axis]
            place = self.flat(shape, [f"({i} - {low})" if low else i for i, low in zip(indices, lows)])
            at = self.name("p")
            self.lines.append(f"const {at} = {place};")
            reduce = op.body[0]
            values = self.reduction(reduce) if isinstance(reduce, ir.Reduce) else [self.value(b) for b in op.body]
            for name, value, tensor in zip(names, values, op.outputs):
                self.lines.append(f"{name}[{at}] = {self.stored(value, tensor.dtype)};")
                if self.bounds and value.error != EXACT:
                    self.lines.append(f"{self.declare_errors(name)}[{at}] = {value.error};")
            self.lines.append("}" * len(indices))
        new = [f"const e{n} = new Float32Array({n}.length);" for n in names if n in self.errors]
        self.lines[head:head] = [line for line in new if line not in self.lines]

    # ------------------------------------------------------------------ reductions

    def reduction(self, reduce: ir.Reduce) -> list[Value]:
        """The values of a reduction, each in a variable. Integers are exact unless a comparison of floats chooses them."""
        mark, known, errors = len(self.lines), dict(self._known), dict(self.errors)
        values = self._reduction(reduce, exact=True)
        if values is None:
            del self.lines[mark:]
            self._known, self.errors = known, errors
            values = self._reduction(reduce, exact=False)
        assert values is not None
        return values

    def _reduction(self, reduce: ir.Reduce, exact: bool) -> list[Value] | None:
        """`exact`: take integers to have no errors; None if they have some."""
        combiner = reduce.combiner
        starts = [self.value(i) for i in (reduce.init or combiner.identity_element)]
        slots = [self._slot(source.dtype, exact) for source in reduce.source]
        sums = self.bounds and simple_combiner(combiner) is np.add and reduce.source[0].dtype.is_float
        for slot, start in zip(slots, starts):
            self.lines.append(
                f"let {slot.text} = {as_big(start) if slot.big else start.text}, e{slot.text} = {start.error};"
            )
        if sums:
            self.lines.append(f"let m{slots[0].text} = Math.abs({slots[0].text});")
        with self.scope():
            count = len(self.loops(reduce.axis))
            always = isinstance(reduce.condition, ir.IntImm) and reduce.condition.value
            if not always:
                condition = self.value(reduce.condition)
                if condition.error != EXACT:
                    raise TVMagicError(
                        "a reduction over what floats choose has no form in JavaScript",
                        node=reduce,
                        code="javascript.choice_by_float",
                    )
                self.lines.append(f"if ({condition.text}) {{")
            good = self._combine(combiner, slots, [self.value(s) for s in reduce.source], sums)
            self.lines.append("}" * (count + (not always)))
        if sums:
            steps = 1
            for axis in reduce.axis:
                low, high = self.ends(axis.dom)
                steps *= high - low
            slot, dtype = slots[0].text, reduce.source[0].dtype
            self.lines.append(f"e{slot} += err(m{slot}, {self.unit(dtype, 1.01 * (steps + 2))});")
            if dtype.bits < 64:
                self.lines.append(f"[{slot}, e{slot}] = summed({slot}, m{slot}, e{slot}, {self.edge(dtype)});")
        return (
            slots if good and all(s.error == EXACT or slots[n].error != EXACT for n, s in enumerate(starts)) else None
        )

    def _slot(self, dtype: ir.DataType, exact: bool) -> Value:
        """A new variable for a value that is being reduced."""
        name = self.name("s")
        open_ = self.bounds and (dtype.is_float or not exact)
        return Value(name, f"e{name}" if open_ else EXACT, dtype.bits == 64 and not dtype.is_float)

    def _combine(self, combiner: ir.CommReducer, slots: list[Value], sources: list[Value], sums: bool) -> bool:
        """One step of a reduction; gives whether what was taken to be exact is."""
        if sums:  # any order: the error follows from the sizes of all terms, at the end
            slot, term = slots[0].text, sources[0]
            error = f"e{slot} += {term.error};" if term.error != EXACT else ""
            self.lines.append(f"{slot} += {term.text}; m{slot} += Math.abs({term.text}); {error}")
            return True
        self.env.update(zip(combiner.lhs, slots))
        self.env.update(zip(combiner.rhs, sources))
        for result in combiner.result:
            self._known.pop(id(result), None)
        made = [self.value(r) for r in combiner.result]
        for slot, value in zip(slots, made):
            text = as_big(value) if slot.big else value.text
            self.lines.append(f"{slot.text} = {text};" + (f" e{slot.text} = {value.error};" if self.bounds else ""))
        return all(slot.error != EXACT or value.error == EXACT for slot, value in zip(slots, made))

    # ------------------------------------------------------------------ recurrences

    def scan(self, op: ScanOp) -> None:
        """A recurrence, step by step: all updates of a step read the states of those before.

        States that are not floats are exact unless a comparison of floats chooses them.
        """
        for tensor, first, state in zip(op.outputs, op.init, op.state_placeholder):
            if first not in self.arrays:
                self.operations([first.op])
            self.arrays[state] = self.declare(tensor)
            self.lines.append(f"{self.arrays[tensor]}.set({self.arrays[first]});")
        mark, known, errors, arrays = len(self.lines), dict(self._known), dict(self.errors), dict(self.arrays)
        inexact = {t for t in op.outputs if self.bounds and t.dtype.is_float}
        while found := self._scan(op, inexact):
            del self.lines[mark:]
            self._known, self.errors, self.arrays = known.copy(), errors.copy(), arrays.copy()
            inexact |= found

    def _scan(self, op: ScanOp, inexact: set[Tensor]) -> set[Tensor]:
        """The steps, with errors of the states `inexact`; the other states that turn out to have some."""
        for tensor, first in zip(op.outputs, op.init):
            name = self.arrays[tensor]
            if tensor in inexact:
                self.lines.append(f"const {self.declare_errors(name)} = new Float32Array({name}.length);")
                if self.arrays[first] in self.errors:
                    self.lines.append(f"{self.errors[name]}.set({self.errors[self.arrays[first]]});")
        low, high = self.ends(op.scan_axis.dom)
        known = (low, max(high - 1, low))
        body = scan_get_body(op)
        for tensor in [t for inner in body for t in inner.outputs]:
            self.declare(tensor)  # once, and not in each step
        head = len(self.lines)
        with self.scope():
            step = self.loop(op.scan_axis.var, str(low), str(high), known)
            updates = {t.op for t in op.update}
            for inner in body:
                if not isinstance(inner, ComputeOp):
                    raise TVMagicError(
                        f"`{inner.name}` inside a scan is a {inner.kind}, which has no form in JavaScript",
                        code="javascript.unsupported_operation",
                    )
                self.compute(inner, (step, f"{step} + 1", known) if inner in updates else None, head)
            found = {
                tensor
                for tensor, *parts in zip(op.outputs, op.init, op.update)
                if tensor not in inexact and any(self.arrays[part] in self.errors for part in parts)
            }
            for tensor, update in zip(op.outputs, op.update) if not found else ():
                self._take_step(tensor, update, step)
            self.lines.append("}")
        return found

    def _take_step(self, tensor: Tensor, update: Tensor, step: str) -> None:
        """Take a row of an update over into the state."""
        row = 1
        for size in self.shape(tensor)[1:]:
            row *= size
        target, source = self.arrays[tensor], self.arrays[update]
        part = f"subarray({step} * {row}, ({step} + 1) * {row}), {step} * {row}"
        self.lines.append(f"{target}.set({source}.{part});")
        if source in self.errors:
            self.lines.append(f"{self.errors[target]}.set({self.errors[source]}.{part});")
