"""What the operators of `Call` take, checked before code is made of them.

LLVM may end the process for a call without a meaning, such as the number of zero bits of a float.
"""

from __future__ import annotations

from collections.abc import Callable

from tvmagic.codegen.text.rules import LIBRARY, OF_TWO
from tvmagic.errors import BuildError
from tvmagic.ir import Call, DataType, IntImm

Check = Callable[[Call], str | None]  # what the operator takes, if the call has something else
_CHECKS: dict[str, tuple[int, Check]] = {}  # with the number of arguments


def check_call(call: Call) -> None:
    """Raise `BuildError` if an operator gets arguments, or gives a result, of types that it does not have."""
    known = _CHECKS.get(call.op.name)  # type: ignore[union-attr]
    if known is None:
        return
    count, check = known
    wanted = check(call) if len(call.args) == count else f"{count} argument{'s' if count != 1 else ''}"
    if wanted is not None:
        name, given = call.op.name.removeprefix("tir."), ", ".join(f"`{arg.dtype}`" for arg in call.args)  # type: ignore[union-attr]
        raise BuildError(
            f"`{name}` takes {wanted}; here it makes `{call.dtype}` of {given or 'nothing'}",
            node=call,
            hint="convert with astype",
            code="codegen.call_differs",
        )


def _declare(names: str, count: int, check: Check) -> None:
    _CHECKS.update({f"tir.{name}": (count, check) for name in names.split()})


def _is_integer(dtype: DataType) -> bool:
    return dtype.is_int or dtype.is_uint or dtype.is_bool


def _unlike_types(call: Call) -> str | None:
    same = all(arg.dtype is call.dtype for arg in call.args)
    return None if same else "values of the type of its result"


def _same_floats(call: Call) -> str | None:
    return _unlike_types(call) if call.dtype.is_float else "a float"


def _scaled(call: Call) -> str | None:
    number, power = call.args
    return (
        None
        if number.dtype is call.dtype and power.dtype.is_int
        else "a float of the type of its result and an integer"
    )


def _same_integers(call: Call) -> str | None:
    return _unlike_types(call) if _is_integer(call.dtype) else "integers"


def _test(call: Call) -> str | None:
    return None if call.args[0].dtype.is_float and call.dtype.is_bool else "a float and gives a bool"


def _of_integer(call: Call) -> str | None:
    return None if _is_integer(call.args[0].dtype) else "an integer"


def _of_number_of_bits(call: Call) -> str | None:
    dtype = call.args[0].dtype
    return None if _is_integer(dtype) and dtype.bits > 1 else "an integer"


def _branches(call: Call) -> str | None:
    _, then, other = call.args
    return None if then.dtype is call.dtype and other.dtype is call.dtype else "two values of the type of its result"


def _of_pointer(call: Call) -> str | None:
    return None if call.args[0].dtype.is_handle and call.dtype.is_bool else "a pointer and gives a bool"


def _gives_pointer(call: Call) -> str | None:
    return None if call.dtype.is_handle else "an element and gives a pointer"


def _of_vectors(call: Call) -> str | None:
    first = call.args[0].dtype
    same = all(arg.dtype is first and arg.dtype.is_vector for arg in call.args)
    return (
        None
        if same and first.element_of is call.dtype.element_of
        else "vectors with elements of the type of its result"
    )


def _lane_mask(call: Call) -> str | None:
    numbers = all(_is_integer(arg.dtype) and arg.dtype.is_scalar for arg in call.args)
    return (
        None if numbers and call.dtype.is_bool and call.dtype.is_vector else "two integers and gives a vector of bools"
    )


def _atomic(call: Call) -> str | None:
    pointer, value = call.args
    return (
        None
        if pointer.dtype.is_handle and value.dtype is call.dtype
        else "a pointer and a value of the type of its result"
    )


def _condition(call: Call) -> str | None:
    return None if call.args[0].dtype.is_bool else "a bool"


def _constants(call: Call) -> str | None:
    return None if all(isinstance(arg, IntImm) for arg in call.args) else "two constants"


_declare("rsqrt", 1, _same_floats)
_declare("sigmoid sqrt floor ceil trunc round nearbyint fabs likely tvm_thread_invariant", 1, _unlike_types)
_declare(" ".join(name for name in LIBRARY if name not in {*OF_TWO, "ldexp"}), 1, _unlike_types)
_declare(" ".join(["copysign", *OF_TWO]), 2, _unlike_types)
_declare("ldexp", 2, _scaled)
_declare("fma", 3, _unlike_types)
_declare("bitwise_not", 1, _same_integers)
_declare("bitwise_and bitwise_or bitwise_xor shift_left shift_right", 2, _same_integers)
_declare("isnan isinf isfinite", 1, _test)
_declare("popcount", 1, _of_integer)
_declare("clz", 1, _of_number_of_bits)
_declare("if_then_else", 3, _branches)
_declare("isnullptr", 1, _of_pointer)
_declare("address_of", 1, _gives_pointer)
_declare("vectorlow vectorhigh", 1, _of_vectors)
_declare("vectorcombine", 2, _of_vectors)
_declare("get_active_lane_mask", 2, _lane_mask)
_declare("atomic_add", 2, _atomic)
_declare("assume", 1, _condition)
_declare("large_uint_imm", 2, _constants)
