"""What a worker has to know of a program to try schedules of it: the program, inputs, and what is expected of them.

A problem travels as one file, so that a worker that is started again, or one on another machine, needs nothing else:
JSON of the program, arrays of the inputs, and the expected values with their rounding bounds at a sample of places.
"""

from __future__ import annotations

import hashlib
import io
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np

from tvmagic.errors import TVMagicError
from tvmagic.ir import IRModule, PrimFunc, load_json, save_json, structural_hash
from tvmagic.lazy import cached_property
from tvmagic.operators.arrays import array_dtype, laid_out, size_values
from tvmagic.operators.comparison import CheckResult, compare, expected_values
from tvmagic.operators.inputs import make_inputs
from tvmagic.operators.operator import Operator
from tvmagic.target import Target, resolved
from tvmagic.te.error_bound import Approximate, Value, parts

_PLACES = 1 << 17  # of an output at which a worker compares; the version that is kept is compared everywhere
_COARSE_BYTES = 1 << 26  # of inputs up to which a second set of them travels
_COARSE_SECONDS = 2.0  # that the first one may have taken
_VERSION = 1


def program_key(func: PrimFunc) -> str:
    """The structural hash of a program whatever its name, as a database finds it."""
    attrs = {name: value for name, value in (func.attrs or {}).items() if name != "global_symbol"}
    nameless = PrimFunc(func.params, func.body, func.ret_type, func.buffer_map, attrs or None)
    return f"{structural_hash(nameless) & (1 << 64) - 1:016x}"


@dataclass(frozen=True)
class Case:
    """One set of inputs, and for each output the places that are compared with the values expected there."""

    inputs: list[np.ndarray]
    places: list[np.ndarray]
    expected: list[Value]


@dataclass(frozen=True)
class Problem:
    """A program with inputs. `target` and `threads` are those that its schedules are for (0: as many as a worker has);
    `whole`, in the process that made it, has each set of inputs with all expected values.
    """

    func: PrimFunc
    name: str
    cases: list[Case]
    target: str
    threads: int
    check_bounds: bool
    whole: list[tuple[list[np.ndarray], Any]] = field(default_factory=list, repr=False)

    @staticmethod
    def of(
        op: Operator, seed: int, sizes: Mapping[str, int] | int, threads: int, target: Any = None, inputs: Any = None
    ) -> Problem:
        """The problem of an operator on `inputs`, its example inputs or random ones (`make_inputs`); symbolic sizes become `sizes`.

        Raises `TVMagicError` if the target is another machine's.
        """
        chosen = resolved(target)
        if not chosen.is_host:
            raise TVMagicError(
                f"code for `{chosen}` cannot be measured on this machine",
                hint="tune for a CPU of its kind",
                code="tune.other_machine",
            )
        cases, whole = [], []
        start = time.perf_counter()
        for coarse in (False, True):
            arrays = _aligned(op, make_inputs(op, seed, sizes, inputs, coarse))
            late = time.perf_counter() - start > _COARSE_SECONDS
            if coarse and (late or sum(a.nbytes for a in arrays) > _COARSE_BYTES):
                break
            expected = expected_values(op, arrays)
            whole.append((arrays, expected))
            cases.append(_sampled(arrays, expected.values, seed))
        return Problem(op.to_prim_func(), op.name, cases, str(chosen), threads, op.checks_accesses, whole)

    # ------------------------------------------------------------------ the program

    @cached_property
    def operator(self) -> Operator:
        """The program as an operator that arrays can be given to."""
        op = Operator.from_prim_func(self.name, self.func)
        op.check_bounds = self.check_bounds
        return op

    @cached_property
    def key(self) -> str:
        """The program's structural hash."""
        return program_key(self.func)

    @property
    def code_target(self) -> Target:
        """What schedules are compiled for."""
        return Target(self.target)

    def module(self) -> IRModule:
        """The program as schedules begin with it."""
        return IRModule({"main": self.func})

    # ------------------------------------------------------------------ judging results

    def compare(self, case: Case, outputs: Sequence[np.ndarray]) -> CheckResult:
        """How far outputs are from what is expected of a set of inputs, at the places sampled."""
        names = [t.name for t in self.operator.outputs]
        got = [output.reshape(-1)[places] for output, places in zip(outputs, case.places)]
        return compare(got, case.expected, names)

    # ------------------------------------------------------------------ as a file

    def to_bytes(self) -> bytes:
        """The problem as the contents of a file."""
        about = {
            "version": _VERSION,
            "program": save_json(self.func),
            "name": self.name,
            "target": self.target,
            "threads": self.threads,
            "check_bounds": self.check_bounds,
            "cases": [[len(case.inputs), len(case.places)] for case in self.cases],
        }
        arrays: dict[str, Any] = {"about": np.array(json.dumps(about))}
        for n, case in enumerate(self.cases):
            arrays |= {f"input{n}.{i}": a for i, a in enumerate(case.inputs)}
            arrays |= {f"place{n}.{i}": a for i, a in enumerate(case.places)}
            for i, value in enumerate(case.expected):
                wanted, bound = parts(value)
                arrays[f"value{n}.{i}"] = wanted
                if bound is not None:
                    arrays[f"bound{n}.{i}"] = bound
        file = io.BytesIO()
        np.savez(file, **{name: _as_storable(a) for name, a in arrays.items()})  # pyright: ignore[reportArgumentType]
        return file.getvalue()

    @staticmethod
    def load(path: str | Path | IO[bytes]) -> Problem:
        """The problem that a file, or the file of a path, holds; `TVMagicError` if it is another version's."""
        with np.load(path, allow_pickle=False) as arrays:
            about = json.loads(str(arrays["about"]))
            if about["version"] != _VERSION:
                raise TVMagicError(
                    "the worker has another version of tvmagic",
                    hint="install the same one everywhere",
                    code="tune.worker_version",
                )
            func = load_json(about["program"])
            probe = Operator.from_prim_func(about["name"], func)
            cases = [_load_case(arrays, n, counts, probe) for n, counts in enumerate(about["cases"])]
        return Problem(func, about["name"], cases, about["target"], about["threads"], about["check_bounds"])


def digest(contents: bytes) -> str:
    """A name for a problem's file that no other problem has."""
    return hashlib.sha256(contents).hexdigest()[:24]


def _sampled(inputs: list[np.ndarray], values: Sequence[Value], seed: int) -> Case:
    """The values at some places of each output: all of a small one, else evenly spread ones with both ends."""
    random = np.random.default_rng(seed)
    places, expected = [], []
    for value in values:
        wanted, bound = parts(value)
        size = int(np.size(wanted))
        if size <= _PLACES:
            chosen = np.arange(size)
        else:  # one place of each stretch, so that no row or column is left out
            starts = np.linspace(0, size, _PLACES, endpoint=False, dtype=np.int64)
            chosen = np.unique(np.minimum(starts + random.integers(0, size // _PLACES + 1, _PLACES), size - 1))
            chosen[0], chosen[-1] = 0, size - 1
        places.append(chosen)
        picked = np.asarray(wanted).reshape(-1)[chosen]
        limits = None if bound is None else np.broadcast_to(bound, np.shape(wanted)).reshape(-1)[chosen]
        expected.append(picked if limits is None else Approximate(picked, limits))
    return Case(inputs, places, expected)


def _as_storable(array: Any) -> np.ndarray:
    """An array of a dtype that a file can hold: those that NumPy does not have itself as their bytes."""
    array = np.ascontiguousarray(array) if np.ndim(array) else np.asarray(array)
    return array.view(f"u{array.dtype.itemsize}") if array.dtype.kind == "V" else array


def _load_case(arrays: Any, n: int, counts: Sequence[int], op: Operator) -> Case:
    inputs = [arrays[f"input{n}.{i}"] for i in range(counts[0])]
    inputs = _aligned(op, [_as_dtype(a, array_dtype(t)) for a, t in zip(inputs, op.inputs)])
    places = [arrays[f"place{n}.{i}"] for i in range(counts[1])]
    expected: list[Value] = []
    for i in range(counts[1]):
        value = arrays[f"value{n}.{i}"]
        expected.append(Approximate(value, arrays[f"bound{n}.{i}"]) if f"bound{n}.{i}" in arrays else value)
    return Case(inputs, places, expected)


def _as_dtype(array: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    return array if array.dtype == dtype else array.view(dtype)


def _aligned(op: Operator, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Copies that begin at a cache line, as outputs do: where an array begins changes times by more than schedules do."""
    sizes = size_values(op.inputs, inputs)
    copies = [laid_out(tensor, array.shape, sizes, array.dtype) for tensor, array in zip(op.inputs, inputs)]
    for copy, array in zip(copies, inputs):
        copy[...] = array
    return copies
