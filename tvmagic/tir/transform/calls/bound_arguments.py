"""A function's parameters as they arrive: variables get their values once, everything else becomes a check."""

from __future__ import annotations

from tvmagic.arith.analyzer import Analyzer
from tvmagic.errors import TVMagicError
from tvmagic.ir import (
    AssertStmt,
    AttrStmt,
    Buffer,
    BufferLoad,
    Call,
    Cast,
    DataType,
    IfThenElse,
    IntImm,
    LetStmt,
    Not,
    PointerType,
    PrimExpr,
    PrimType,
    Stmt,
    StringImm,
    Var,
    decl_buffer,
)
from tvmagic.ir.ops import cast, equal, floordiv, if_then_else, isnullptr, logical_and, logical_or, truncmod
from tvmagic.tir.transform.calls.nest import NOTHING, Nest, asserted, before, declared

# The fields of a DLTensor, by the numbers that `tvm_struct_get` has for them.
DATA, SHAPE, STRIDES, NDIM, TYPE_CODE, TYPE_BITS, TYPE_LANES, BYTE_OFFSET, DEVICE_ID, DEVICE_TYPE = range(1, 11)
ADDRESS, CONTENT = 0, 12

# of DLPack, as TVM has them
TYPE_CODES = {"int": 0, "uint": 1, "bool": 1, "float": 2, "handle": 3, "bfloat": 4, "e4m3_float": 6, "e5m2_float": 7}


def type_fields(dtype: DataType) -> tuple[tuple[int, IntImm], ...]:
    """Code, bits and lanes of a type as a DLTensor holds them, with the number of each field."""
    return (
        (TYPE_CODE, IntImm("uint8", TYPE_CODES[dtype.code])),
        (TYPE_BITS, IntImm("uint8", 1 if dtype.is_bool else dtype.bits)),
        (TYPE_LANES, IntImm("uint16", dtype.lanes)),
    )


def field_of(array: Var, field: int, dtype: str | DataType, index: int = 0) -> Call:
    """One field of a descriptor."""
    return Call(dtype, "tir.tvm_struct_get", (array, IntImm("int32", index), IntImm("int32", field)))


def buffer_on(pointer: Var, shape: tuple[int | IntImm, ...], dtype: str) -> Buffer:
    """A buffer on memory that is there, under the name of the pointer to it."""
    return decl_buffer(shape, dtype, pointer.name, data=pointer)


class Bindings:
    """The variables that are bound so far, in order, and the checks that follow them."""

    def __init__(self) -> None:
        self.values: dict[Var, PrimExpr] = {}
        self.bound: list[Nest] = []
        self.checks: list[Nest] = []
        self.analyzer = Analyzer()

    def bind(self, what: PrimExpr, value: PrimExpr, name: str) -> bool:
        """Let `what` be `value` if it is a variable that has none yet (gives True), else check that they are equal.

        Raises `TVMagicError` if they cannot be.
        """
        if isinstance(what, Var) and what not in self.values:
            self.values[what] = what
            self.bound.append(lambda body: LetStmt(what, value, body))
            return True
        self.check(equal(what, value), name)
        return False

    def check(self, condition: PrimExpr, name: str) -> None:
        """Let `condition` be checked, unless it is known."""
        condition = self.analyzer.simplify(condition)
        if not isinstance(condition, IntImm):
            self.checks.append(asserted(condition, f"Argument {name} has an unsatisfied constraint: {condition}"))
        elif not condition.value:
            raise TVMagicError(f"argument `{name}` can never be as it is declared")

    def bind_array(self, buffer: Buffer, device_type: IntImm, device_id: Var, handle: Var, name: str) -> None:
        """Let `handle` be a DLTensor for `buffer`: its pointer, sizes, strides, offset and device."""
        self.bound.append(asserted(Not(isnullptr(handle)), f"{name} is expected to have non-NULL DLTensor* pointer"))
        ndim = equal(IntImm("int32", buffer.ndim), field_of(handle, NDIM, "int32"))
        self.bound.append(asserted(ndim, f"{name}.ndim is expected to equal {buffer.ndim}"))
        self._check_type(buffer, handle, name)
        sizes = self._declare(handle, SHAPE, buffer.ndim, f"{name}.shape")
        if str(buffer.dtype) not in ("int4", "uint4", "int1"):  # packed: the sizes count bytes
            for k, size in enumerate(buffer.shape):
                self.bind(size, cast(size.dtype, BufferLoad(sizes, [k])), f"{name}.shape[{k}]")
        self._bind_strides(buffer, sizes, handle, name)
        self._bind_offset(buffer, handle, name)
        self.bind(device_type, field_of(handle, DEVICE_TYPE, "int32"), f"{name}.device_type")
        self.bind(device_id, field_of(handle, DEVICE_ID, "int32"), f"{name}.device_id")
        self._bind_data(buffer, handle, name)

    def _check_type(self, buffer: Buffer, handle: Var, name: str) -> None:
        if str(buffer.dtype) in ("int4", "uint4", "int1"):
            return
        fits: PrimExpr | None = None
        for field, value in type_fields(buffer.dtype):
            same = equal(field_of(handle, field, value.dtype), value)
            fits = same if fits is None else logical_and(fits, same)
        assert fits is not None
        self.checks.append(asserted(fits, f"{name}.dtype is expected to be {buffer.dtype}"))

    def _declare(self, handle: Var, field: int, count: int, name: str) -> Buffer:
        """The array of sizes or strides behind a descriptor, as a buffer."""
        buffer = buffer_on(Var(name, PointerType(PrimType("int64"))), (count,), "int64")
        self.bound.append(lambda body: LetStmt(buffer.data, field_of(handle, field, "handle"), body))
        self.bound.append(declared(buffer))
        return buffer

    def _bind_strides(self, buffer: Buffer, sizes: Buffer, handle: Var, name: str) -> None:
        strides = self._declare(handle, STRIDES, len(buffer.strides), f"{name}.strides")
        missing = isnullptr(strides.data)
        if not buffer.strides:
            self._check_dense(buffer, strides, missing, name)
            return
        stride: PrimExpr = IntImm(buffer.shape[-1].dtype, 1)
        for k in reversed(range(buffer.ndim)):
            dtype = buffer.shape[k].dtype
            value = if_then_else(missing, stride, cast(dtype, BufferLoad(strides, [k])))
            size = cast(dtype, BufferLoad(sizes, [k]))
            if buffer.buffer_type == "auto":
                value = if_then_else(equal(size, 1), IntImm(dtype, 0), value)
            self.bind(buffer.strides[k], value, f"{name}.strides[{k}]")
            stride = self.analyzer.simplify(stride * size)

    def _check_dense(self, buffer: Buffer, strides: Buffer, missing: PrimExpr, name: str) -> None:
        if not buffer.shape:
            return
        dtype = buffer.shape[0].dtype
        dense: PrimExpr | None = None
        expected: PrimExpr = IntImm(dtype, 1)
        for k in reversed(range(buffer.ndim)):
            fits = logical_or(equal(buffer.shape[k], 1), equal(expected, cast(dtype, BufferLoad(strides, [k]))))
            dense = fits if dense is None else logical_and(dense, fits)
            expected = expected * buffer.shape[k]
        assert dense is not None
        message = StringImm(f"{name}.strides: expected to be compact array")
        check: Stmt = IfThenElse(Not(missing), AssertStmt(self.analyzer.simplify(dense), message, NOTHING))
        self.checks.append(before(check))

    def _bind_offset(self, buffer: Buffer, handle: Var, name: str) -> None:
        size = buffer.dtype.bytes
        given = field_of(handle, BYTE_OFFSET, "uint64")
        if isinstance(buffer.elem_offset, IntImm):
            self.bind(IntImm("uint64", buffer.elem_offset.value * size), given, f"{name}.byte_offset")
            return
        offset = cast(buffer.elem_offset.dtype, floordiv(given, IntImm("uint64", size)))
        if self.bind(buffer.elem_offset, offset, f"{name}.elem_offset"):
            self.check(equal(truncmod(buffer.elem_offset, buffer.offset_factor), 0), f"{name}.elem_offset")

    def _bind_data(self, buffer: Buffer, handle: Var, name: str) -> None:
        if not self.bind(buffer.data, field_of(handle, DATA, "handle"), f"{name}.data"):
            return
        elements: PrimExpr = IntImm(buffer.shape[0].dtype if buffer.shape else "int32", 1)
        for size in buffer.shape:
            elements = elements * size
        there = logical_or(equal(elements, 0), Not(isnullptr(buffer.data)))  # an empty array may have no memory
        self.checks.append(asserted(there, f"{name} is expected to have non-NULL data pointer"))
        alignment = IntImm("int32", buffer.data_alignment)
        self.bound.append(lambda body: AttrStmt(buffer.data, "storage_alignment", alignment, body))


def converted(dtype: DataType, value: PrimExpr) -> PrimExpr:
    """`value` as `dtype`: a cast that stays where it is, or nothing if it has that type."""
    return value if value.dtype == dtype else Cast(dtype, value)
