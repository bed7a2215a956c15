"""What LLVM calls where a processor has no instruction is there, on every processor, and computes what it is to."""

from __future__ import annotations

import ctypes
import json
import pathlib
import platform
import random
import struct
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest

from tvmagic.ir.numpy_types import numpy_dtype
from tvmagic.runtime.jit import LoadedObject, builtins_code, builtins_names

HERE = pathlib.Path(__file__).parent
CPUS = ["x86-64-v2", "haswell", "skylake-avx512", ""]


@pytest.mark.skipif(
    platform.machine() != "x86_64" or sys.platform != "linux", reason="processors of x86-64, object files of ELF"
)
@pytest.mark.parametrize("cpu", CPUS)
def test_no_function_that_llvm_calls_is_missing(cpu):
    done = subprocess.run(
        [sys.executable, str(HERE / "llvm_calls.py"), cpu], capture_output=True, text=True, timeout=300, check=True
    )
    needed = set(json.loads(done.stdout)) - {"_GLOBAL_OFFSET_TABLE_"}
    assert {"__udivti3", "__truncdfhf2", "fmod"} <= needed
    own, process = set(builtins_names()), ctypes.CDLL(None)
    assert {name for name in needed if name.startswith("__")} <= own
    assert [name for name in sorted(needed - own) if not hasattr(process, name)] == []


def _function(name: str, result: str, *operands: str):
    """`run(*arrays)`: the function `name` on every element, whose bits are in arrays of uint."""
    import llvmlite.binding as llvm

    assert builtins_code()  # LLVM knows this machine from now on
    loads = "".join(
        f"  %q{n} = getelementptr {t}, ptr %p{n}, i64 %i\n  %x{n} = load {t}, ptr %q{n}, align 1\n"
        for n, t in enumerate(operands)
    )
    values = ", ".join(f"{t} %x{n}" for n, t in enumerate(operands))
    heads = ", ".join(f"ptr %p{n}" for n in range(len(operands)))
    text = f"""target triple = "{llvm.get_process_triple()}"
declare {result} @{name}({", ".join(operands)})
define void @run(ptr %r, i64 %count, {heads}) {{
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %n, %loop ]
{loads}  %y = call {result} @{name}({values})
  %q = getelementptr {result}, ptr %r, i64 %i
  store {result} %y, ptr %q, align 1
  %n = add i64 %i, 1
  %more = icmp ult i64 %n, %count
  br i1 %more, label %loop, label %done
done:
  ret void
}}
"""
    target = llvm.Target.from_triple(llvm.get_process_triple())
    code = target.create_target_machine(opt=2, reloc="pic").emit_object(llvm.parse_assembly(text))
    loaded = LoadedObject(code, ["run"])
    machine = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, *[ctypes.c_void_p] * len(operands))(
        loaded.address("run")
    )

    def run(*arrays: np.ndarray) -> np.ndarray:
        words = 2 if result == "i128" else 1
        size = {"half": 16, "bfloat": 16, "float": 32}.get(result, 64)
        out = np.zeros((len(arrays[0]), words), f"uint{size}")
        held = [np.ascontiguousarray(a) for a in arrays]
        machine(out.ctypes.data, len(out), *[a.ctypes.data for a in held])
        return out if words == 2 else out[:, 0]

    run.loaded = loaded  # type: ignore[attr-defined]
    return run


def _equal_floats(found: np.ndarray, expected: np.ndarray) -> None:
    """Equal bits, or NaN on both sides."""
    kind = found.dtype
    nan = np.isnan(expected)
    bits = expected.view(f"uint{kind.itemsize * 8}")
    np.testing.assert_array_equal(np.isnan(found), nan)
    np.testing.assert_array_equal(found.view(bits.dtype)[~nan], bits[~nan])


def _bits_of_floats(count: int) -> np.ndarray:
    """float32 numbers: random bits, and all that are near a float16 or half way between two."""
    rng = np.random.default_rng(1)
    halves = np.arange(1 << 16, dtype="uint16").view("float16").astype("float32").view("uint32")
    near = [halves + np.uint32(d) for d in (0, 1, 0xFFF, 0x1000, 0x1001, 0x1FFF)]
    return np.concatenate([rng.integers(0, 1 << 32, count, dtype="uint32"), *near])


def test_float16():
    halves = np.arange(1 << 16, dtype="uint16")
    found = _function("__extendhfsf2", "float", "half")(halves).view("float32")
    _equal_floats(found, halves.view("float16").astype("float32"))
    singles = _bits_of_floats(200_000)
    with np.errstate(all="ignore"):
        wanted = singles.view("float32").astype("float16")
    _equal_floats(_function("__truncsfhf2", "half", "float")(singles).view("float16"), wanted)
    rng = np.random.default_rng(2)
    with np.errstate(all="ignore"):
        doubles = singles.view("float32").astype("float64")
    doubles = np.concatenate([doubles, doubles * (1 + 2.0**-40), doubles * (1 - 2.0**-40), rng.standard_normal(9999)])
    with np.errstate(all="ignore"):
        wanted = doubles.astype("float16")
    _equal_floats(_function("__truncdfhf2", "half", "double")(doubles.view("uint64")).view("float16"), wanted)


def test_bfloat16():
    kind = numpy_dtype("bfloat16")
    shorts = np.arange(1 << 16, dtype="uint16")
    found = _function("__extendbfsf2", "float", "bfloat")(shorts)
    np.testing.assert_array_equal(found, shorts.astype("uint32") << 16)
    singles = _bits_of_floats(200_000)
    found = _function("__truncsfbf2", "bfloat", "float")(singles).view(kind).astype("float32")
    with np.errstate(all="ignore"):
        wanted = singles.view("float32").astype(kind).astype("float32")
    _equal_floats(found, wanted)
    # ml_dtypes rounds float64 twice, so fractions say what is nearest
    random.seed(3)
    doubles = [struct.unpack("<d", struct.pack("<Q", random.getrandbits(64)))[0] for _ in range(500)]
    doubles += [
        sign * (1 + random.getrandbits(7) / 128 + 2.0**-8 + d) * 2.0 ** random.randint(-140, 120)
        for _ in range(500)
        for sign in (1, -1)
        for d in (0.0, 2.0**-45, -(2.0**-45))
    ]
    doubles = [d for d in doubles if abs(d) < 3.38e38]
    bits = _function("__truncdfbf2", "bfloat", "double")(np.array(doubles).view("uint64"))
    found = bits.view(kind).astype("float64")
    for value, near in zip(doubles, found):
        distance = abs(Fraction(value) - Fraction(float(near)))
        scale = max(Fraction(2) ** (int(np.frexp(value)[1]) - 9), Fraction(2) ** -134)
        assert distance <= scale, (value, near)
        if distance == scale:
            place = np.array([near]).astype(kind).view("uint16")[0]
            assert place % 2 == 0, (value, near)


def _numbers(count: int) -> list[int]:
    random.seed(4)
    found = [random.getrandbits(random.randint(1, 128)) for _ in range(count)]
    found += [1, 2, 3, (1 << 64) - 1, 1 << 64, (1 << 64) + 1, (1 << 127), (1 << 128) - 1, (1 << 127) - 1]
    return found


def _words(values: list[int]) -> np.ndarray:
    return np.array([[v & (1 << 64) - 1, v >> 64 & (1 << 64) - 1] for v in values], dtype="uint64")


def _unsigned(words: np.ndarray) -> list[int]:
    return [int(low) | int(high) << 64 for low, high in words]


def _signed(value: int) -> int:
    return value - (1 << 128) if value >> 127 else value


def _toward_zero(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def test_integers_of_128_bits():
    left, right = _numbers(3000), [v or 1 for v in _numbers(3000)]
    random.shuffle(right)
    a, b, mask = _words(left), _words(right), (1 << 128) - 1
    rules = {
        "__multi3": lambda x, y: x * y,
        "__udivti3": lambda x, y: x // y,
        "__umodti3": lambda x, y: x % y,
        "__divti3": lambda x, y: _toward_zero(_signed(x), _signed(y)),
        "__modti3": lambda x, y: _signed(x) - _toward_zero(_signed(x), _signed(y)) * _signed(y),
    }
    for name, rule in rules.items():
        found = _unsigned(_function(name, "i128", "i128", "i128")(a, b))
        assert found == [rule(x, y) & mask for x, y in zip(left, right)], name


def test_shifts_of_128_bits():
    left = _numbers(300)
    amounts = np.array([i % 128 for i in range(len(left))], dtype="uint32")
    rules = {
        "__ashlti3": lambda x, n: x << n,
        "__lshrti3": lambda x, n: x >> n,
        "__ashrti3": lambda x, n: _signed(x) >> n,
    }
    for name, rule in rules.items():
        found = _unsigned(_function(name, "i128", "i128", "i32")(_words(left), amounts))
        assert found == [rule(x, int(n)) & (1 << 128) - 1 for x, n in zip(left, amounts)], name


@pytest.mark.parametrize(
    ("kind", "letters", "digits", "largest"),
    [("double", "df", 53, None), ("float", "sf", 24, None), ("half", "hf", 11, 65504)],
)
@pytest.mark.parametrize("sign", ["", "un"])
def test_integers_of_128_bits_as_floats(kind, letters, digits, largest, sign):
    values = [*_numbers(3000), *range(100), *[(1 << n) + d for n in (24, 25, 53, 54, 90) for d in (-3, -1, 1, 3)]]
    bits = _function(f"__float{sign}ti{letters}", kind, "i128")(_words(values))
    found = bits.view(f"float{bits.dtype.itemsize * 8}").astype("float64")
    for value, near in zip(values, found):
        value = value if sign else _signed(value)
        rounded = _rounded(abs(value), digits)
        if largest is not None and rounded > largest or kind == "float" and rounded >= 1 << 128:
            assert near == (np.inf if value > 0 else -np.inf)
        else:
            assert int(near) == (rounded if value >= 0 else -rounded)


def _rounded(value: int, digits: int) -> int:
    """`value` to so many binary digits, to even on a tie."""
    shift = max(value.bit_length() - digits, 0)
    kept, rest = value >> shift, value & (1 << shift) - 1
    half = (1 << shift) >> 1
    return (kept + (shift > 0 and (rest > half or rest == half and kept & 1))) << shift


@pytest.mark.parametrize(("kind", "letters"), [("double", "df"), ("float", "sf"), ("half", "hf")])
@pytest.mark.parametrize("sign", ["", "uns"])
def test_floats_as_integers_of_128_bits(kind, letters, sign):
    rng = np.random.default_rng(5)
    with np.errstate(over="ignore"):
        values = (rng.uniform(1, 2, 4000) * 2.0 ** rng.integers(-3, 127, 4000)).astype(f"float{_BITS[kind]}")
    values = values[np.isfinite(values)]
    if not sign:
        values = values * rng.choice(np.array([-1, 1], values.dtype), len(values))
    found = _unsigned(_function(f"__fix{sign}{letters}ti", "i128", kind)(values.view(f"uint{_BITS[kind]}")))
    assert [x if sign else _signed(x) for x in found] == [int(v) for v in values.astype("float64")]


_BITS = {"double": 64, "float": 32, "half": 16}


@pytest.mark.parametrize(("kind", "name"), [("double", "__powidf2"), ("float", "__powisf2")])
def test_integer_powers(kind, name):
    values = np.array([1.5, -1.25, 0.0, 2.0, -3.0, np.inf, 1.0001], f"float{_BITS[kind]}").repeat(9)
    powers = np.tile(np.array([0, 1, 2, 3, 7, 20, -1, -2, -5], "int32"), 7)
    bits = _function(name, kind, kind, "i32")(values.view(f"uint{_BITS[kind]}"), powers.view("uint32"))
    with np.errstate(all="ignore"):
        wanted = np.power(values.astype("float64"), powers.astype("float64"))
    np.testing.assert_allclose(bits.view(values.dtype), wanted, rtol=1e-5 if kind == "float" else 1e-14)


def test_quotient_and_remainder_at_once():
    left, right = _numbers(200), [v or 1 for v in _numbers(200)[::-1]]
    # the address for the remainder is passed as a number: one array holds it for each element
    rests = np.zeros((len(left), 2), "uint64")
    places = np.array([rests.ctypes.data + 16 * i for i in range(len(left))], "uint64")
    for name, wanted in (
        ("__udivmodti4", lambda x, y: (x // y, x % y)),
        ("__divmodti4", lambda x, y: (_toward_zero(x, y), x - _toward_zero(x, y) * y)),
    ):
        found = _unsigned(_function(name, "i128", "i128", "i128", "ptr")(_words(left), _words(right), places))
        signed = name == "__divmodti4"
        for x, y, q, r in zip(left, right, found, _unsigned(rests)):
            x, y, q, r = (_signed(v) if signed else v for v in (x, y, q, r))
            assert (q, r) == wanted(x, y)


def test_values_with_a_tag() -> None:
    import copy
    import pickle

    from tvmagic.runtime.container import ADT, tuple_object

    value = ADT(3, [1, "two"])
    assert (value.tag, value[1], len(value), list(value)) == (3, "two", 2, [1, "two"])
    assert value != ADT(2, [1, "two"]) and value != (1, "two") and tuple_object([1]) == ADT(0, [1])
    assert copy.copy(value) == pickle.loads(pickle.dumps(value)) == value and hash(copy.copy(value)) == hash(value)
    with pytest.raises(IndexError):
        value[2]
