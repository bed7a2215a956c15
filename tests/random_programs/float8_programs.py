"""Random tensor expressions on floats of 8 bits, computed in a wider type by FP8ComputeLegalize and FP8StorageLegalize.

A value is rounded where it is stored, and nowhere else. Expressions are a nested tuple: an operator with operands, the
number of a tensor that is read at the element's place, or a constant.
"""

from __future__ import annotations

import random
from typing import Any

import ml_dtypes
import numpy as np
from outcomes import TARGETS, Argument, Source, check_call, guarded_call

SMALL = {"e4m3_float8": np.dtype(ml_dtypes.float8_e4m3fn), "e5m2_float8": np.dtype(ml_dtypes.float8_e5m2)}
NAN = 0x7F  # of both kinds, one of several
NEGATIVE_ZERO = 0x80
DTYPES = (*SMALL, *SMALL, "float32", "int8")
TEXTS = {
    "add": "({} + {})", "sub": "({} - {})", "mul": "({} * {})", "max": "tir.max({}, {})", "min": "tir.min({}, {})",
    "abs": "tir.abs({})", "pick": "tir.Select({} < {}, {}, {})",
}  # fmt: skip
MEANINGS: dict[str, Any] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "max": np.maximum, "min": np.minimum, "abs": np.abs,
    "pick": lambda a, b, x, y: np.where(a < b, x, y),
}  # fmt: skip
ARITIES = {"abs": 1, "pick": 4}


def kind_of(dtype: str) -> np.dtype[Any]:
    return SMALL[dtype] if dtype in SMALL else np.dtype(dtype)


def _places(e: Any) -> list[int]:
    """The numbers of the tensors that an expression reads."""
    if isinstance(e, tuple):
        return [place for part in e[1:] for place in _places(part)]
    return [e] if isinstance(e, int) else []


class Stage:
    """A tensor with its elements' expression; summed along its last axis, one after the other, if `summed`."""

    def __init__(self, name: str, dtype: str, shape: tuple[int, ...], body: Any, summed: bool) -> None:
        self.name, self.dtype, self.shape, self.body, self.summed = name, dtype, shape, body, summed


class Case:
    """The program of a seed."""

    def __init__(self, seed: int, without: frozenset[str] = frozenset()) -> None:
        rng = self.rng = random.Random(seed)
        self.seed, self.calls = seed, list[str]()
        self.shape = tuple(rng.choice((1, 3, 4, 8, 13)) for _ in range(rng.choice((1, 2, 2))))
        self.inputs = [(f"X{n}", rng.choice(DTYPES)) for n in range(rng.randint(1, 3))]
        if not any(dtype in SMALL for _, dtype in self.inputs):
            self.inputs[0] = ("X0", "e4m3_float8")
        self.tensors = list(self.inputs)
        self.stages: list[Stage] = []
        for n in range(rng.choice((1, 1, 2, 3))):
            dtype = rng.choice(DTYPES[:5])
            body = self.body(rng.choice((1, 2, 3)))
            last = len(self.shape) == 2 and rng.random() < 0.3
            shape = self.shape[:1] if last else self.shape
            self.stages.append(Stage(f"S{n}", dtype, shape, body, last))
            if last:
                break
            self.tensors.append((f"S{n}", dtype))
        self.target, self.wide = rng.choice(TARGETS), rng.choice(("float32", "float32", "float16"))
        self.bounds = rng.random() < 0.5

    def body(self, depth: int) -> Any:
        rng = self.rng
        if depth == 0 or rng.random() < 0.15:
            return rng.randrange(len(self.tensors)) if rng.random() < 0.8 else float(rng.randint(-3, 3))
        name = rng.choice([*TEXTS])
        return (name, *[self.body(depth - 1) for _ in range(ARITIES.get(name, 2))])

    # ------------------------------------------------------------------ the text

    def text_of(self, e: Any, dtype: str, place: str) -> str:
        if isinstance(e, float):
            return f"tir.const({e}, '{dtype}')"
        if isinstance(e, int):
            name, own = self.tensors[e]
            return f"{name}[{place}]" if own == dtype else f"tir.Cast('{dtype}', {name}[{place}])"
        return TEXTS[e[0]].format(*[self.text_of(part, dtype, place) for part in e[1:]])

    def make(self) -> None:
        """Build the expressions and schedule them."""
        source, rng = Source(), self.rng
        self.source = source
        for name, dtype in self.inputs:
            source.run(f"{name} = te.placeholder({self.shape}, '{dtype}', name='{name}')")
        axes = ", ".join("ij"[: len(self.shape)])
        for stage in self.stages:
            value = self.text_of(stage.body, stage.dtype, axes)
            if stage.summed:
                source.run(f"k = te.reduce_axis((0, {self.shape[1]}), 'k')")
                value = f"te.sum({value.replace(f'[{axes}]', '[i, k]')}, axis=k)"
            outer = "i" if stage.summed else axes
            source.run(f"{stage.name} = te.compute({stage.shape}, lambda {outer}: {value}, name='{stage.name}')")
        last = self.stages[-1].name
        source.run(f"s = te.create_schedule({last}.op)")
        for stage in self.read():
            axis, factor = rng.randrange(len(stage.shape)), rng.choice((2, 4, 8))
            how = rng.choice(("vectorize", "unroll", "parallel", "none"))
            if how != "none":
                inner = int(how != "parallel")
                loop = f"s[{stage.name}].split({stage.name}.op.axis[{axis}], {factor})[{inner}]"
                self.calls.append(f"s[{stage.name}].{how}({loop})")
                source.run(self.calls[-1])
            elif stage.name != last and not self.stages[-1].summed:
                self.calls.append(f"s[{stage.name}].compute_at(s[{last}], {last}.op.axis[0])")
                source.run(self.calls[-1])
        names = [*[name for name, _ in self.inputs], last]
        source.run(f"mod = tvmagic.lower(s, [{', '.join(names)}])")
        source.run(f"mod = tir.transform.FP8ComputeLegalize('{self.wide}')(mod)")
        source.run("mod = tir.transform.FP8StorageLegalize()(mod)")

    def read(self) -> list[Stage]:
        """The stages that the last one is computed from, and itself."""
        needed = {len(self.inputs) + len(self.stages) - 1}
        for n in reversed(range(len(self.stages))):
            if len(self.inputs) + n in needed:
                needed |= set(_places(self.stages[n].body))
        return [stage for n, stage in enumerate(self.stages, len(self.inputs)) if n in needed]

    def text(self) -> str:
        return self.source.text()

    # ------------------------------------------------------------------ the meaning

    def value_of(self, e: Any, dtype: str, env: list[Any]) -> Any:
        kind = np.dtype(self.wide) if dtype in SMALL else np.dtype(dtype)
        if isinstance(e, float):
            return np.asarray(e, kind)
        if isinstance(e, int):
            return env[e].astype(kind)
        return MEANINGS[e[0]](*[self.value_of(part, dtype, env) for part in e[1:]])

    def meaning(self, arrays: list[Any]) -> Any:
        env = list(arrays)
        for stage in self.stages:
            kind = kind_of(stage.dtype)
            value = np.broadcast_to(self.value_of(stage.body, stage.dtype, env), self.shape)
            if stage.summed:
                total = np.zeros(self.shape[0], kind)
                for k in range(self.shape[1]):
                    total = (total.astype(value.dtype) + value[:, k]).astype(kind)
                value = total
            env.append(value.astype(kind))
        return env[-1]

    def check(self) -> None:
        """Raise `Wrong` unless the compiled function does what it means."""
        guarded_call("program", self.make)
        line = f"f = tvmagic.build(mod, target={self.target!r}, check_bounds={self.bounds})"
        guarded_call("build", lambda: self.source.run(line))
        numbers = np.random.default_rng(self.seed)
        arrays = [
            numbers.integers(-4, 5, self.shape).astype("float32").astype(kind_of(dtype)) for _, dtype in self.inputs
        ]
        with np.errstate(all="ignore"):
            wanted = self.meaning(arrays)
        given = [Argument(bits_of(a), False) for a in arrays] + [Argument(bits_of(wanted), True)]
        built = self.source.names["f"]

        def call(*arrays: Any) -> None:
            built(*arrays)
            if wanted.dtype in SMALL.values():
                arrays[-1][:] = bits_of(arrays[-1].view(wanted.dtype))

        check_call(call, given, random.Random(self.seed))


def bits_of(array: Any) -> Any:
    """Floats of 8 bits as what a legalized function takes; zeros and NaNs without a sign.

    Either zero may be the extremum of both, and the sign of a NaN is not said.
    """
    if array.dtype not in SMALL.values():
        return array
    bits = array.view("uint8").copy()
    bits[bits == NEGATIVE_ZERO] = 0
    bits[np.isnan(array)] = NAN
    return bits
